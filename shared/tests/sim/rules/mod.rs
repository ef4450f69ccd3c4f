//! What must hold whatever happens. Beside the domain's own invariants (I1 to I7) these are promises to people,
//! seen from outside: each looks at what was committed before a command and at what it left behind, at what the
//! agents were told and at what they do.

mod course;
mod ends;
mod grants;
mod leases;
mod work;

use std::collections::{BTreeMap, BTreeSet};

use shared::{
    InstanceId, Nonce, RunId, Seq, StreamId, Timestamp,
    domain::{
        Advert, Answer, AnswerAsk, Cancel, Changes, EventKind, Fleet, Refusal, Report, Run, Settings, Speaker, Submit,
        Wake, invariant,
    },
};

use crate::{agent::Proc, event::Ms, store::Rows, world::World};

/// Which command it was.
#[derive(Debug, Clone, Copy)]
pub(crate) enum What<'a> {
    Advert(&'a Advert),
    Open(&'a Speaker),
    Claim(&'a Speaker),
    Report(&'a Report),
    Submit(&'a Submit),
    Cancel(&'a Cancel),
    Answer(&'a AnswerAsk),
    Reap,
    Sweep,
    Startup,
}

impl What<'_> {
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Advert(it) => format!(
                "advert {} of {} {} {}{}{}",
                it.advert_no,
                it.who.node,
                it.who.instance,
                it.policy.drain,
                if it.stopping { " stopping" } else { "" },
                if it.goodbye { " goodbye" } else { "" }
            ),
            Self::Open(who) => format!("open {} {} {:?}", who.node, who.instance, who.streams),
            Self::Claim(who) => format!("claim {} {}", who.node, who.instance),
            Self::Report(it) => {
                format!("report {}/{}/{} by {} {}", it.run, it.seq, it.attempt, it.who.node, it.who.instance)
            }
            Self::Submit(it) => format!("submit {}", it.run),
            Self::Cancel(it) => format!("cancel {}", it.run),
            Self::Answer(it) => format!("answer {}/{} {}", it.run, it.step, it.attempt),
            Self::Reap => "reap".to_owned(),
            Self::Sweep => "sweep".to_owned(),
            Self::Startup => "startup".to_owned(),
        }
    }

    /// Whether this command may promote under this name. What serves one Run can end another, so that most may
    /// bring about several.
    const fn may_wake(&self, wake: Wake) -> bool {
        match wake {
            Wake::RunSettled | Wake::RunCancelled | Wake::PartialRelease => {
                !matches!(self, Self::Open(_) | Self::Sweep)
            }
            Wake::LeaseExpired => matches!(self, Self::Reap),
            Wake::NodeRestarted => matches!(self, Self::Advert(_)),
            Wake::AdvertOpened => matches!(self, Self::Advert(_)),
            Wake::Submitted => !matches!(self, Self::Open(_) | Self::Sweep | Self::Startup),
            Wake::Startup => matches!(self, Self::Startup),
            Wake::Sweep => false,
        }
    }
}

/// What a rule sees of a command: the rows before it, the fleet after it.
pub(crate) struct Look<'a> {
    pub(crate) before: &'a Rows,
    pub(crate) after: &'a Fleet,
    pub(crate) changes: &'a Changes,
    pub(crate) now: Timestamp,
    pub(crate) settings: &'a Settings,
    pub(crate) agents: &'a [Proc],
    /// The process that sent it.
    pub(crate) from: Option<usize>,
}

#[derive(Debug, Default)]
pub(crate) struct Rules {
    /// The first rule that was broken, and how.
    pub(crate) broken: Option<String>,
    /// Leases that were seen to have run out.
    lapsed: BTreeSet<Nonce>,
    /// Every answer that was ever given to a report.
    answers: BTreeMap<(RunId, Seq, u32), Answer>,
    /// The process that opened the last stream of an instance, while that is not copied again.
    pub(crate) heard: BTreeMap<InstanceId, usize>,
    /// Every attempt that an agent began to execute.
    started: BTreeSet<(RunId, Seq, u32)>,
    /// Streams that two copies know of.
    pub(crate) copied: BTreeSet<StreamId>,
    /// Words of the audit log, counted.
    events: BTreeMap<&'static str, usize>,
}

impl Rules {
    pub(crate) fn fail(&mut self, rule: &'static str, why: impl FnOnce() -> String) {
        if self.broken.is_none() {
            self.broken = Some(format!("rule {rule}: {}", why()));
        }
    }

    fn must(&mut self, rule: &'static str, holds: bool, why: impl FnOnce() -> String) {
        if !holds {
            self.fail(rule, why);
        }
    }

    /// After every command.
    pub(crate) fn after(&mut self, what: &What<'_>, look: &Look<'_>, refused: Option<&Refusal>, true_now: Ms) {
        if let Some(why) = invariant::check(look.after, look.settings, look.now) {
            let id = why.split(':').next().unwrap_or_default().to_owned();
            return self.fail("invariant", || format!("{id}: {why}, after {}", what.name()));
        }
        if let Some(refusal) = refused {
            let nothing = *look.changes == Changes::default();
            self.must("refusal", nothing, || format!("{} is refused ({refusal}) and changes rows", what.name()));
        }
        for promotion in &look.changes.promotions {
            let named = what.may_wake(promotion.wake);
            self.must("wake", named, || format!("{} promotes {} as {}", what.name(), promotion.run, promotion.wake));
        }
        self.count_events(look);
        self.grants(what, look, true_now);
        self.leases(what, look);
        self.ends(what, look);
        self.course(what, look, refused.is_some());
        self.copies(what, look, refused);
        self.results(what, look, refused);
    }

    fn count_events(&mut self, look: &Look<'_>) {
        for event in &look.changes.events {
            *self.events.entry(event.kind.as_str()).or_default() += 1;
        }
        let of = |kind: EventKind| self.events.get(kind.as_str()).copied().unwrap_or(0);
        let leases = of(EventKind::LeaseGranted) - of(EventKind::LeaseReleased);
        let counted = leases == look.after.leases().count();
        self.must("counts", counted, || format!("{leases} leases were granted and not released"));
    }
}

impl World {
    /// When everything has come to its end: nothing was lost on the way.
    pub(crate) fn last_look(&mut self) {
        let rows = &self.mediator.rows;
        if let Some(difference) = rows.differs(&self.mediator.fleet) {
            self.rules.fail("rows", || difference);
        }
        let of = |kind: EventKind| self.rules.events.get(kind.as_str()).copied().unwrap_or(0);
        let came = rows.runs.values().map(|run| run.place).collect::<BTreeSet<_>>().len();
        let went = of(EventKind::RunClosed) + of(EventKind::RunRejected);
        let wait = self.mediator.fleet.queue.len();
        let (runs, clients) = (rows.runs.len(), self.clients.len());
        let even = came == clients && runs == clients && went + wait == clients;
        self.rules.must("counts", even, || {
            format!("{clients} runs were submitted: {came} came, {went} ended, {wait} wait, {runs} are stored")
        });
        let open = rows.runs.values().find(|run| run.state.is_terminal() && run.steps.iter().any(|it| it.is_open()));
        if let Some(run) = open {
            self.rules.fail("counts", || format!("it has ended with open steps: {}", show(run)));
        }
        for ((run, seq, attempt), answer) in std::mem::take(&mut self.rules.answers) {
            let step = &self.mediator.rows.runs[&run].steps[seq as usize];
            let stored = step.attempt(attempt).and_then(|it| it.answer.as_ref());
            let kept = stored == Some(&answer);
            self.rules.must("result", kept, || format!("the answer to {run}/{seq}/{attempt} is gone: {stored:?}"));
        }
    }
}

/// `r001 FAILED drain: s0=DONE s1=SKIPPED on n00`
pub(crate) fn show(run: &Run) -> String {
    let cause = run.cause().map_or("", |cause| cause.as_str());
    let steps: Vec<String> = run.steps.iter().map(|it| format!("{}={}", it.name, it.state.as_str())).collect();
    let nodes: Vec<String> = run.nodes().iter().map(ToString::to_string).collect();
    format!("{} {} {cause}: {} on {}", run.id, run.state.as_str(), steps.join(" "), nodes.join(" "))
}
