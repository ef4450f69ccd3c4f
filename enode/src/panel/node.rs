//! This machine's node: the owner's word in the policy file, what the agent says, and the buttons that write the word.
//! There is no other way to drain a node than its file, so the buttons edit that.

use std::{sync::Arc, time::Duration};

use askama::Template;
use axum::{
    Extension,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Redirect, Response},
};
use shared::{NodeId, domain::Drain, ticket::Queue};

use super::{
    Panel, Shared,
    door::Visit,
    fault::{self, Fault},
    fields::Fields,
    shell::Shell,
    sight::Sight,
    words,
};
use crate::{
    clock, local,
    policy::{
        Source,
        file::Seen,
        writer::{self, Edit, WriteError},
    },
    said,
    state::{AgentStatus, NodeStatus},
};

/// A board must not wait for an agent that hangs.
const PATIENCE: Duration = Duration::from_millis(500);

/// What is known of this machine now.
#[derive(Debug, Clone, Default)]
pub(super) struct Node {
    pub(super) name: String,
    /// Why there is no node to show.
    pub(super) missing: Option<String>,
    pub(super) file: String,
    /// The owner's word as it stands in the file.
    pub(super) word: &'static str,
    pub(super) is_held: bool,
    pub(super) is_strong: bool,
    pub(super) reason: String,
    /// The file cannot be used.
    pub(super) broken: String,
    pub(super) warnings: Vec<String>,
    /// The agent, or why it says nothing.
    pub(super) agent: Option<AgentStatus>,
    pub(super) silence: String,
    /// What becomes of what runs.
    pub(super) follows: Vec<String>,
    /// Nothing of a Run is here, and the mediator has acknowledged the drain.
    pub(super) is_drained: bool,
}

impl Node {
    /// Reads the file and asks the agent.
    pub(super) async fn look(panel: &Panel) -> Self {
        let config = match &panel.node {
            Ok(config) => config,
            Err(why) => return Self { missing: Some(why.clone()), ..Self::default() },
        };
        let seen = async {
            match &panel.policy {
                Some(policy) => policy.look().await,
                None => Seen::Missing,
            }
        };
        let (seen, asked) = tokio::join!(seen, tokio::time::timeout(PATIENCE, local::ask(&config.state_dir)));
        let mut node =
            Self { name: config.name.clone(), file: config.policy_file.display().to_string(), ..Self::default() };
        let mut drain = Drain::None;
        match seen {
            Seen::Written(written) => {
                node.reason = written.reason;
                node.warnings = written.warnings;
                drain = written.drain.unwrap_or_default();
            }
            Seen::Missing => {}
            Seen::Unsteady => "It is being written.".clone_into(&mut node.broken),
            Seen::Broken(why) => node.broken = why,
        }
        node.word = if node.broken.is_empty() { said::word(drain) } else { "nothing is lent" };
        node.is_held = drain != Drain::None || !node.broken.is_empty();
        node.is_strong = drain == Drain::AtBoundary;
        match asked {
            Ok(Ok(agent)) => {
                node.follows = said::follows(&agent, drain);
                node.is_drained = node.broken.is_empty() && is_drained(&config.nodes(), &agent, drain);
                node.agent = Some(agent);
            }
            Ok(Err(error)) => node.silence = error.to_string(),
            Err(_) => "the agent does not answer".clone_into(&mut node.silence),
        }
        node
    }

    /// What of it a page shows and does not change by time alone.
    pub(super) fn picture(&self) -> String {
        let nodes =
            self.nodes().iter().map(|it| format!("{:?} {:?} {:?} {:?}", it.drain, it.lease, it.step, it.reasons));
        let nodes = nodes.collect::<Vec<_>>().join("\n");
        format!("{}\n{}\n{}\n{}\n{nodes}", self.word, self.reason, self.broken, self.is_drained)
    }

    /// Nodes of the agent.
    fn nodes(&self) -> &[NodeStatus] {
        self.agent.as_ref().map_or(&[], |agent| &agent.nodes)
    }

    /// In half a line, what runs.
    pub(super) fn busy(&self) -> String {
        let running: Vec<String> = self.nodes().iter().filter_map(step).collect();
        match (running.as_slice(), self.agent.is_some()) {
            (_, false) => "no agent runs".to_owned(),
            ([], true) if self.nodes().iter().any(|it| it.lease.is_some()) => "leased, between two steps".to_owned(),
            ([], true) => "idle".to_owned(),
            ([one], true) => one.clone(),
            (many, true) => format!("{} steps run", many.len()),
        }
    }

    fn is_quarantined(&self) -> bool {
        self.nodes().iter().any(|it| it.reasons.iter().any(|it| it.source == Source::Quarantine.as_str()))
    }
}

/// Whether the mediator has acknowledged the owner's word for every node, and none has anything of a Run, as far as the agent
/// has heard. `enode drain --wait` asks the mediator as well.
fn is_drained(nodes: &[NodeId], agent: &AgentStatus, want: Drain) -> bool {
    let is_free = |it: &NodeStatus| {
        let is_heard = it.accepted && it.superseded.is_none() && it.drain >= want;
        is_heard && it.lease.is_none() && it.step.is_none() && !it.live_processes
    };
    let has = |id: &NodeId| agent.nodes.iter().any(|it| it.node_id == *id && is_free(it));
    want != Drain::None && agent.connected && nodes.iter().all(has)
}

/// What runs on a node.
fn step(node: &NodeStatus) -> Option<String> {
    let step = node.step.as_ref()?;
    Some(format!("step {} of Run {} for {}", step.step_id, step.run_id, words::age(step.started_at)))
}

#[derive(Template)]
#[template(path = "node.html")]
struct Page {
    shell: Shell,
    node: Node,
    /// Why there is nothing in the bell.
    no_queue: String,
    wrong: String,
    /// What the form of a drain says: as it stands in the file, or as it was typed.
    reason: String,
    is_strong: bool,
}

impl Page {
    fn since(&self, at: &shared::Timestamp) -> String {
        words::age(*at)
    }

    /// The page as it is. An owner has his machine back also while the queue is out of reach.
    async fn new(panel: &Shared, visit: &Visit) -> Self {
        let (sight, node) = tokio::join!(panel.look(), Node::look(panel));
        let (sight, no_queue) = match sight {
            Ok(sight) => (sight, String::new()),
            Err(fault) => (Arc::new(Sight::new(Queue::default(), panel.folder.suffixes())), fault.why().to_owned()),
        };
        let shell = Shell::new(visit, "/node", "node", &sight);
        let (reason, is_strong) = (node.reason.clone(), node.is_strong);
        Self { shell, node, no_queue, wrong: String::new(), reason, is_strong }
    }
}

pub(super) async fn page(State(panel): State<Shared>, Extension(visit): Extension<Visit>) -> Result<Response, Fault> {
    fault::page(&Page::new(&panel, &visit).await)
}

/// The page again, with what was typed and why it was not taken.
async fn refused(panel: &Shared, visit: &Visit, fields: &Fields, wrong: String) -> Result<Response, Fault> {
    let is_strong = fields.get("mode").parse() == Ok(Drain::AtBoundary);
    let reason = fields.get("reason").to_owned();
    let page = Page { wrong, reason, is_strong, ..Page::new(panel, visit).await };
    fault::page_with(StatusCode::UNPROCESSABLE_ENTITY, &page)
}

/// Takes the machine back.
pub(super) async fn drain(
    State(panel): State<Shared>,
    Extension(visit): Extension<Visit>,
    Extension(fields): Extension<Fields>,
) -> Result<Response, Fault> {
    let word: Drain = match fields.get("mode").parse() {
        Ok(word @ (Drain::Graceful | Drain::AtBoundary)) => word,
        Ok(Drain::None) | Err(_) => {
            return refused(&panel, &visit, &fields, "mode: choose graceful or at-boundary.".to_owned()).await;
        }
    };
    let reason = fields.get("reason").trim();
    if reason.chars().any(char::is_control) {
        return refused(&panel, &visit, &fields, "reason: write one line.".to_owned()).await;
    }
    let edit = Edit { drain: Some(word), reason: Some(reason.to_owned()), quarantine_cleared: None, force: false };
    write(&panel, &visit, edit, &fields, "enode drain --force").await
}

/// Lends it again.
pub(super) async fn undrain(
    State(panel): State<Shared>,
    Extension(visit): Extension<Visit>,
    Extension(fields): Extension<Fields>,
) -> Result<Response, Fault> {
    let edit = Edit { drain: Some(Drain::None), reason: Some(String::new()), quarantine_cleared: None, force: false };
    write(&panel, &visit, edit, &fields, "enode undrain --force").await
}

/// Ends the quarantines that there are; the owner's own word stays.
pub(super) async fn end_quarantine(
    State(panel): State<Shared>,
    Extension(visit): Extension<Visit>,
    Extension(fields): Extension<Fields>,
) -> Result<Response, Fault> {
    let edit = Edit { drain: None, reason: None, quarantine_cleared: Some(clock::now().to_string()), force: false };
    write(&panel, &visit, edit, &fields, "enode undrain --force").await
}

/// Writes the file; `force` is the command that replaces one that cannot be edited, which nobody should do by a slip in
/// a browser.
async fn write(panel: &Shared, visit: &Visit, edit: Edit, fields: &Fields, force: &str) -> Result<Response, Fault> {
    let config = panel.node.as_ref().map_err(|why| Fault::conflict(why.clone()))?;
    let (path, state_dir) = (config.policy_file.clone(), config.state_dir.clone());
    let done = tokio::task::spawn_blocking(move || writer::edit(&path, &state_dir, &edit)).await;
    match done.map_err(|died| Fault::broken(&died))? {
        Ok(done) => {
            tracing::info!(path = %done.path.display(), "the panel has written the owner's word");
            Ok(Redirect::to(fields.back()).into_response())
        }
        Err(WriteError::Broken(why)) => {
            let why = format!("{why}; mend it with an editor, or run `{force}` on this machine: the old one is kept");
            refused(panel, visit, fields, why).await
        }
        Err(error @ (WriteError::Foreign { .. } | WriteError::Io { .. })) => {
            refused(panel, visit, fields, error.to_string()).await
        }
    }
}
