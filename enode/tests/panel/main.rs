//! The host panel over real HTTP, and in a real browser: Debian's `chromium`.
#![expect(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "tests")]

mod audit;
mod axe;
mod board;
mod browser;
mod chromium;
mod connections;
mod forms;
mod guard;
mod http;
mod large;
mod node;
mod refusals;

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use enode::{
    config::Config,
    panel::serve::{Limits, Setup},
    tickets::{
        Folder,
        client::{Address, Client},
        template::Templates,
    },
};
use http::Got;
use tokio::sync::oneshot;

/// A panel over a folder of its own, on a thread of its own.
struct Served {
    place: tempfile::TempDir,
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// In front of the name of a file that is no ticket but a template.
const TEMPLATE: &str = "templates/";

/// `FILE` with `TEXT`.
type Files<'a> = &'a [(&'a str, &'a str)];

impl Served {
    fn new(files: Files<'_>) -> Self {
        Self::with(files, "127.0.0.1:0", "")
    }

    /// With a policy file, where that says something.
    fn with(files: Files<'_>, listen: &str, policy: &str) -> Self {
        Self::try_with(files, listen, policy).unwrap_or_else(|error| panic!("{error:#}"))
    }

    /// With limits that a test reaches.
    fn limited(files: Files<'_>, limits: Limits) -> Self {
        Self::start(files, "127.0.0.1:0", "", limits).unwrap_or_else(|error| panic!("{error:#}"))
    }

    fn try_with(files: Files<'_>, listen: &str, policy: &str) -> anyhow::Result<Self> {
        Self::start(files, listen, policy, Limits::default())
    }

    fn start(files: Files<'_>, listen: &str, policy: &str, limits: Limits) -> anyhow::Result<Self> {
        let place = tempfile::tempdir().unwrap();
        for folder in ["tickets", "state"] {
            std::fs::create_dir(place.path().join(folder)).unwrap();
        }
        let templates = place.path().join("templates");
        for (name, text) in files {
            let path = match name.strip_prefix(TEMPLATE) {
                Some(name) => templates.join(name),
                None => place.path().join("tickets").join(name),
            };
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let templates = Templates { folder: Some(templates).filter(|it| it.exists()), ..Templates::default() };
        let config = Config::with_defaults("yard", &place.path().join("state"));
        if !policy.is_empty() {
            std::fs::write(&config.policy_file, policy).unwrap();
        }
        let (queue, listen) = (place.path().join("tickets"), listen.parse().unwrap());
        let (stop, stopped) = oneshot::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            runtime.block_on(async {
                // Nobody listens there.
                let nowhere = Address { urls: "http://127.0.0.1:9".to_owned(), ..Address::default() };
                let folder = Arc::new(Folder::open(&queue).unwrap());
                let runs = Client::new(&nowhere).unwrap();
                let setup = Setup { listen, folder, templates, runs, node: Ok(config), limits };
                match setup.bind().await {
                    Err(error) => tell.send(Err(error)).unwrap(),
                    Ok(bound) => {
                        tell.send(Ok(bound.address())).unwrap();
                        bound.run(async { drop(stopped.await) }).await;
                    }
                }
            });
        });
        let address = told.recv().unwrap()?;
        Ok(Self { place, address, stop: Some(stop), thread: Some(thread) })
    }

    /// Tells it to stop, and does not wait.
    fn stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            stop.send(()).ok();
        }
    }

    fn is_over(&self) -> bool {
        self.thread.as_ref().is_none_or(std::thread::JoinHandle::is_finished)
    }

    fn port(&self) -> u16 {
        self.address.port()
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port())
    }

    fn queue(&self) -> PathBuf {
        self.place.path().join("tickets")
    }

    fn policy(&self) -> String {
        std::fs::read_to_string(self.place.path().join("state/yard.policy.toml")).unwrap_or_default()
    }

    fn write(&self, name: &str, text: &str) {
        // As an editor does it: never half a file.
        let draft = self.queue().join(".draft");
        std::fs::write(&draft, text).unwrap();
        std::fs::rename(draft, self.queue().join(name)).unwrap();
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.queue().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// All files but the hidden ones.
    fn files(&self) -> BTreeMap<String, String> {
        let entries = std::fs::read_dir(self.queue()).unwrap().map(|it| it.unwrap());
        let names = entries.map(|it| it.file_name().into_string().unwrap()).filter(|it| !it.starts_with('.'));
        names.map(|name| (name.clone(), self.read(&name))).collect()
    }

    fn get(&self, path: &str) -> Got {
        http::get(self.port(), path)
    }

    /// A page that is there.
    fn page(&self, path: &str) -> String {
        let got = self.get(path);
        assert_eq!(got.status, 200, "{path}: {}", got.body);
        got.body
    }

    /// Sends a form as a browser would.
    fn post(&self, path: &str, fields: &[(&str, &str)]) -> Got {
        let csrf = csrf(&self.page("/new"));
        let fields: Vec<_> = std::iter::once(("csrf", csrf.as_str())).chain(fields.iter().copied()).collect();
        http::post(self.port(), path, &fields)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

/// The token in the forms of a page.
fn csrf(page: &str) -> String {
    between(page, "name=\"csrf\" value=\"", "\"").first().unwrap_or_else(|| panic!("no form in {page}")).clone()
}

/// Every text between two others.
fn between(text: &str, from: &str, to: &str) -> Vec<String> {
    text.split(from).skip(1).map(|rest| rest.split(to).next().unwrap().to_owned()).collect()
}

/// The stems of the cards of a lane, in their order.
fn lane(page: &str, id: &str) -> Vec<String> {
    let lane = page.split(&format!("<section class=\"lane {id}\"")).nth(1).unwrap().split("</section>").next().unwrap();
    between(lane, "id=\"card-", "\"")
}

/// Waits for what must come.
fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what} did not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A ticket's text.
fn ticket(title: &str, keys: &str) -> String {
    format!("---\ntitle: {title}\n{keys}---\nThe body of {title}.\n")
}

/// One ticket in each of the six states, and one that is held by the gate.
fn six() -> Vec<(&'static str, String)> {
    let asked = "## 질문 1\n\nWhich colour?\n";
    vec![
        ("open.md", ticket("An open one", "priority: 4\ncreated_at: 2026-01-01T00:00:00Z\n")),
        ("low.md", ticket("The least urgent", "priority: 1\nkind: work\ncreated_at: 2026-01-02T00:00:00Z\n")),
        ("waits.md", ticket("One with deps", "deps: [open, nowhere]\ncreated_at: 2026-01-03T00:00:00Z\n")),
        (
            "asks.md",
            format!(
                "{}\n{asked}",
                ticket(
                    "One that asks",
                    "deps: [asks-answer-1]\nawaiting: asks-answer-1\nasked_at: 2026-01-01T00:00:00Z\n"
                )
            ),
        ),
        ("stray.md", ticket("Nobody picks it up", "session_id: s1\nowner: x\n")),
        ("busy.wip.md", ticket("In hand", "session_id: s2\nowner: me / 1\nassigned_at: 2026-01-01T00:00:00Z\n")),
        ("old.done.md", ticket("Long done", "")),
    ]
}

fn served_six() -> Served {
    let six = six();
    let files: Vec<(&str, &str)> = six.iter().map(|(name, text)| (*name, text.as_str())).collect();
    Served::new(&files)
}

/// Where screenshots go.
fn screenshots() -> Option<PathBuf> {
    std::env::var_os("PANEL_SCREENSHOTS").map(|folder| Path::new(&folder).to_owned())
}
