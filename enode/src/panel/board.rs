//! The board: the node in a line, the filter, and three lanes. It draws what the file names say and makes no state.

use askama::Template;
use axum::{Extension, extract::State, http::Uri, response::Response};
use shared::ticket::{Choice, Lane as OfFile, Status};

use super::{
    Shared,
    card::Card,
    door::Visit,
    fault::{self, Fault},
    filter::{DONE_STEP, Filter},
    node::Node,
    search::Words,
    shell::{Shell, here},
    sight::Sight,
    words::{self, Few},
};
use crate::tickets::{check::Fault as Odd, view};

#[derive(Template)]
#[template(path = "board.html")]
struct Board<'a> {
    shell: Shell,
    node: Node,
    filter: Filter,
    choices: Vec<Chip>,
    /// The queue's folder, whole: several panels may be open.
    folder: String,
    /// The address of everything but what is done.
    unfinished: String,
    lanes: Vec<Lane>,
    /// How many tickets exist, how many of them no lane shows, and how many the filter lets through.
    total: usize,
    surplus: usize,
    shown: usize,
    /// Files that are no tickets, files that do not count, and circles.
    odd: &'a Few<Odd>,
    /// Tickets that no template is for.
    untaken: Few<Odd>,
}

/// One word of the filter.
struct Chip {
    choice: Choice,
    words: &'static str,
    is_chosen: bool,
    count: usize,
}

/// One column.
struct Lane {
    id: &'static str,
    name: &'static str,
    cards: Vec<Card>,
    /// How many it has with this filter, drawn or not.
    total: usize,
    /// Where more of them are drawn.
    more: Option<String>,
}

impl Lane {
    fn new(lane: OfFile, mut cards: Vec<Card>, filter: &Filter) -> Self {
        let total = cards.len();
        let mut more = None;
        if lane == OfFile::Done && total > filter.done {
            cards.truncate(filter.done);
            more = Some(filter.with_more().address());
        }
        Self { id: lane.as_str(), name: words::lane(lane), cards, total, more }
    }

    /// How many come with the next page.
    fn next(&self) -> usize {
        DONE_STEP.min(self.total.saturating_sub(self.cards.len()))
    }
}

pub(super) async fn page(
    State(panel): State<Shared>,
    Extension(visit): Extension<Visit>,
    uri: Uri,
) -> Result<Response, Fault> {
    let (sight, node) = tokio::join!(panel.look(), Node::look(&panel));
    let sight = sight?;
    let untaken = panel.untaken(&sight).await?;
    fault::page(&draw(&panel, &visit, &uri, &sight, node, untaken))
}

fn draw<'a>(panel: &Shared, visit: &Visit, uri: &Uri, sight: &'a Sight, node: Node, untaken: Few<Odd>) -> Board<'a> {
    let Sight { queue, page, odd } = sight;
    let filter = Filter::read(uri.query().unwrap_or_default());
    let mut shell = Shell::new(visit, here(uri), "board", sight);
    shell.reloads = true;
    let folder = panel.folder.path();
    let words = Words::new(&filter.words);
    let fits = |it: &&view::View| {
        filter.shows(it.state) && (filter.words.is_empty() || queue.find(&it.stem).is_some_and(|it| words.fit(it)))
    };
    let shown: Vec<&view::View> = page.tickets.iter().filter(fits).collect();
    let lane = |lane: OfFile| {
        let cards = shown.iter().filter(|it| it.state.lane() == Some(lane)).map(|it| Card::new(it)).collect();
        Lane::new(lane, cards, &filter)
    };
    let chip = |choice: Choice| Chip {
        choice,
        words: words::status(choice),
        is_chosen: filter.has(choice),
        count: page.tickets.iter().filter(|it| it.state == choice).count(),
    };
    Board {
        lanes: [OfFile::Waiting, OfFile::InProgress, OfFile::Done].map(lane).into(),
        choices: Choice::ALL.map(chip).into(),
        unfinished: filter.with(Choice::ALL.into_iter().filter(|it| *it != Status::Done)).address(),
        folder: std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned()).display().to_string(),
        shown: shown.len(),
        total: page.total,
        surplus: page.surplus,
        odd,
        untaken,
        shell,
        node,
        filter,
    }
}
