//! A queue in a temporary folder, and a mediator that is a table.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use shared::{
    RunId,
    ticket::{Suffixes, question::Origin},
};

use super::{
    Folder,
    links::Links,
    runs::{Answered, Ask, End, OpenRun, Question, Queued, RunNow, RunOf, Runs, Trouble},
};

/// A queue.
pub(super) struct Fake {
    dir: tempfile::TempDir,
    pub(super) folder: Arc<Folder>,
}

impl Fake {
    pub(super) fn new(files: &[(&str, &str)]) -> Self {
        Self::with(files, Links::Kernel)
    }

    pub(super) fn with(files: &[(&str, &str)], links: Links) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let folder = Arc::new(Folder::with(dir.path(), Suffixes::default(), links).unwrap());
        for (name, text) in files {
            std::fs::write(folder.at(name), text).unwrap();
        }
        Self { dir, folder }
    }

    /// Every file but the lock.
    pub(super) fn files(&self) -> BTreeMap<String, String> {
        let names = std::fs::read_dir(self.dir.path()).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let names = names.filter(|name| name != ".tickets.lock");
        names.map(|name| (name.clone(), std::fs::read_to_string(self.folder.at(&name)).unwrap())).collect()
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.files().into_keys().collect()
    }

    pub(super) fn text(&self, name: &str) -> String {
        self.files().remove(name).unwrap_or_else(|| panic!("no {name} in {:?}", self.names()))
    }
}

/// What somebody else does at a certain moment.
pub(super) type Happens = Box<dyn Fn() + Send + Sync>;

/// A mediator that knows what it is told.
#[derive(Default)]
pub(super) struct Table {
    pub(super) runs: BTreeMap<String, RunNow>,
    pub(super) silent: bool,
    /// So many questions are not answered.
    pub(super) silent_for: Mutex<usize>,
    pub(super) form: Option<String>,
    /// The contracts let others answer, and not us.
    pub(super) is_answered_by_others: bool,
    /// Who has answered whatever was asked.
    pub(super) answered: Option<Answered>,
    /// What it refuses.
    pub(super) refuses: Option<&'static str>,
    /// Runs whose contract has this word in it wait for a machine that is not there.
    pub(super) unserved: Option<&'static str>,
    /// Those of them that were submitted.
    pub(super) waiting: Mutex<Vec<RunId>>,
    /// Nothing ever changes.
    pub(super) is_quiet: bool,
    /// Every Run ends well as soon as it is asked what begins with this word.
    pub(super) ends_at: Option<&'static str>,
    /// What it does not let us do.
    pub(super) denies: Option<&'static str>,
    /// Under which work a Run was submitted; one that is not named here is of every work.
    pub(super) works: BTreeMap<String, String>,
    /// What happens while a question is asked that begins with this word.
    pub(super) meanwhile: Option<(&'static str, Happens)>,
    /// What was asked of it, in order.
    pub(super) heard: Mutex<Vec<String>>,
}

impl Table {
    /// How often it was asked what begins so.
    pub(super) fn count(&self, word: &str) -> usize {
        self.heard.lock().unwrap().iter().filter(|it| it.starts_with(word)).count()
    }

    pub(super) fn of(runs: &[(&str, RunNow)]) -> Self {
        let runs = runs.iter().map(|(id, now)| ((*id).to_owned(), now.clone())).collect();
        Self { runs, ..Self::default() }
    }

    fn hear(&self, text: String) -> Result<(), Trouble> {
        if let Some((_, happens)) = self.meanwhile.as_ref().filter(|(word, _)| text.starts_with(word)) {
            happens();
        }
        if self.refuses.is_some_and(|word| text.starts_with(word)) {
            return Err(Trouble::Refused("not so".to_owned()));
        }
        if self.denies.is_some_and(|word| text.starts_with(word)) {
            return Err(Trouble::Denied("not yours".to_owned()));
        }
        self.heard.lock().unwrap().push(text);
        let mut silent_for = self.silent_for.lock().unwrap();
        let is_silent = self.silent || *silent_for > 0;
        *silent_for = silent_for.saturating_sub(1);
        if is_silent { Err(Trouble::Silent { why: "nobody is there".to_owned(), unsent: true }) } else { Ok(()) }
    }
}

impl Runs for Table {
    async fn reach(&self) -> Result<(), Trouble> {
        self.hear("reach".to_owned())
    }
    async fn get(&self, run: &RunId) -> Result<RunNow, Trouble> {
        self.hear(format!("get {run}"))?;
        if self.ends_at.is_some_and(|word| self.count(word) > 0) {
            return Ok(RunNow::Succeeded);
        }
        Ok(self.runs.get(run.as_str()).cloned().unwrap_or(RunNow::Unknown))
    }
    async fn changed(&self, run: &RunId, _: &RunNow) -> Result<RunNow, Trouble> {
        if self.is_quiet {
            self.hear(format!("changed {run}"))?;
            std::future::pending::<()>().await;
        }
        self.get(run).await
    }
    async fn queued(&self, run: &RunId) -> Result<Option<Queued>, Trouble> {
        let is_unserved = self.waiting.lock().unwrap().contains(run);
        Ok(is_unserved.then(|| Queued { why: "no machine".to_owned(), is_unserved }))
    }
    async fn runs_of(&self, work: &str) -> Result<Vec<RunOf>, Trouble> {
        self.hear(format!("open {work}"))?;
        let is_of = |run: &String| self.works.get(run).is_none_or(|its| its == work);
        let end = |now: &RunNow| match now {
            RunNow::Unknown | RunNow::Open { .. } => None,
            RunNow::Succeeded => Some(End::Succeeded),
            RunNow::Failed(_) | RunNow::Stopped(_) => Some(End::Failed),
        };
        let runs = self.runs.iter().filter(|(run, _)| is_of(run));
        Ok(runs.map(|(id, now)| RunOf { run: RunId::new(id).unwrap(), end: end(now) }).collect())
    }
    async fn open_runs(&self, tag: &str) -> Result<Vec<OpenRun>, Trouble> {
        self.hear(format!("list {tag}"))?;
        let is_open = |now: &RunNow| matches!(now, RunNow::Open { .. });
        let of = |run: &String| OpenRun { run: RunId::new(run).unwrap(), work: self.works.get(run).cloned() };
        Ok(self.runs.iter().filter(|it| is_open(it.1)).map(|(run, _)| of(run)).collect())
    }
    async fn submit(&self, run: &RunId, contract: &[u8]) -> Result<(), Trouble> {
        if self.unserved.is_some_and(|word| String::from_utf8_lossy(contract).contains(word)) {
            self.waiting.lock().unwrap().push(run.clone());
        }
        self.hear(format!("submit {run}"))
    }
    async fn asks(&self) -> Result<Vec<Ask>, Trouble> {
        self.hear("asks".to_owned())?;
        let asking = self.runs.values().flat_map(|now| match now {
            RunNow::Open { asking } => asking.as_slice(),
            RunNow::Unknown | RunNow::Succeeded | RunNow::Failed(_) | RunNow::Stopped(_) => &[],
        });
        let ask = |it: &Question| Ask {
            origin: it.origin.clone(),
            work: self.works.get(&it.origin.run).cloned(),
            may_answer: !self.is_answered_by_others,
            form: self.form.clone(),
        };
        Ok(asking.map(ask).collect())
    }
    async fn answered(&self, origin: &Origin) -> Result<Option<Answered>, Trouble> {
        self.hear(format!("answered {} {}", origin.run, origin.step))?;
        Ok(self.answered.clone())
    }
    async fn answer(&self, origin: &Origin, json: &str) -> Result<(), Trouble> {
        self.hear(format!("answer {} {} {json}", origin.run, origin.step))
    }
    async fn cancel(&self, run: &RunId) -> Result<(), Trouble> {
        self.hear(format!("cancel {run}"))
    }
}
