//! One ticket as a lane or the bell draws it.

use shared::{
    Timestamp,
    ticket::{Hold, Status},
};

use super::words::{self, Few, LINE, cut};
use crate::tickets::view::View;

/// How many deps a card names; its ticket's page has all of them.
const DEPS: usize = 5;
/// How many warnings stand on it.
const WARNINGS: usize = 3;

/// The words of a card; the template adds nothing to them.
#[derive(Debug, Clone)]
pub(super) struct Card {
    pub(super) stem: String,
    pub(super) title: String,
    pub(super) kind: String,
    pub(super) status: Status,
    /// 1 = the next in line.
    pub(super) place: Option<usize>,
    pub(super) meter: Meter,
    /// Stems that are not done; the awaited answer is not among them.
    pub(super) unmet: Few<String>,
    /// Its question has no answer.
    pub(super) asks: bool,
    /// For how many days, if anybody has noted it.
    pub(super) asked: String,
    pub(super) warnings: Few<String>,
    pub(super) owner: String,
    pub(super) run: String,
    /// How long somebody has had it.
    pub(super) since: String,
}

/// Five notches.
#[derive(Debug, Clone, Copy)]
pub(super) struct Meter {
    pub(super) effective: u8,
    pub(super) own: u8,
}

impl Meter {
    pub(super) fn says(&self) -> String {
        format!("Priority {}", self.value())
    }

    /// Where it stands beside its name.
    pub(super) fn value(&self) -> String {
        if self.effective == self.own {
            format!("{} of 5", self.effective)
        } else {
            format!("{} of 5, inherited; its own is {}", self.effective, self.own)
        }
    }
}

impl Card {
    pub(super) fn new(view: &View) -> Self {
        let (awaited, unmet) = match &view.hold {
            Some(Hold::DepsWait { unmet }) => (None, unmet.as_slice()),
            Some(Hold::AnswerWait { awaiting, unmet }) => (Some(awaiting), unmet.as_slice()),
            // The meter with one notch is the whole sign of it.
            Some(Hold::LowestWaits { .. }) | None => (None, [].as_slice()),
        };
        let asks = awaited.is_some();
        let unmet = Few::new(unmet.iter().filter(|it| Some(*it) != awaited), DEPS);
        let warnings = Few::new(&view.warnings, WARNINGS);
        Self {
            stem: view.stem.to_string(),
            title: cut(&view.title, LINE),
            kind: cut(&view.kind, LINE),
            status: view.state,
            place: view.place,
            meter: Meter { effective: view.effective, own: view.priority },
            unmet: unmet.map(ToString::to_string),
            asks,
            asked: asked(view.asked_at.filter(|_| asks)),
            warnings: warnings.map(|it| cut(it, LINE)),
            owner: cut(&view.owner, LINE),
            run: cut(view.session_id.as_deref().unwrap_or_default(), LINE),
            since: view.assigned_at.map(words::age).unwrap_or_default(),
        }
    }
}

/// The earlier tool did not note when.
pub(super) fn asked(at: Option<Timestamp>) -> String {
    at.map(words::days).unwrap_or_default()
}
