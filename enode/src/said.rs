//! Words about this machine that the command line and the panel share.

use shared::{Duration, Timestamp, domain::Drain};

use crate::{clock, policy::Source, state::AgentStatus};

/// What else becomes of a Run at a boundary: its contract and what is left of it decide, at the mediator.
const UNLESS: &str = "unless it needs this node no more or starts over (on_drain: requeue)";

/// For people: nothing held back is "lending".
pub(crate) fn word(drain: Drain) -> &'static str {
    match drain {
        Drain::None => "lending",
        Drain::Graceful | Drain::AtBoundary => drain.as_str(),
    }
}

/// How long ago, in whole seconds.
pub(crate) fn age(since: Timestamp) -> String {
    span(clock::now().since(since))
}

/// A span in whole seconds.
pub(crate) fn span(span: Duration) -> String {
    Duration::from_secs(span.millis() / 1_000).to_string()
}

/// What the owner's word means for each node of a running agent.
pub(crate) fn follows(agent: &AgentStatus, want: Drain) -> Vec<String> {
    let mut lines = Vec::new();
    for node in &agent.nodes {
        let id = &node.node_id;
        for other in node.reasons.iter().filter(|it| want == Drain::None && it.source != Source::Owner.as_str()) {
            lines.push(format!("{id}: is not lent all the same: {}: {}", other.source, other.reason));
        }
        let Some(lease) = &node.lease else { continue };
        let run = &lease.run_id;
        let step = node.step.as_ref().map(|step| format!("step {} for {}", step.step_id, age(step.started_at)));
        lines.push(match (want, step) {
            (Drain::None, _) => format!("{id}: Run {run} goes on"),
            (Drain::Graceful, Some(step)) => format!("{id}: Run {run} goes on to its end (now: {step})"),
            (Drain::Graceful, None) => format!("{id}: Run {run} goes on to its end"),
            (Drain::AtBoundary, Some(step)) => {
                format!("{id}: Run {run} is closed when its step ends, {UNLESS} (now: {step})")
            }
            (Drain::AtBoundary, None) => format!("{id}: Run {run} is closed at once, {UNLESS}"),
        });
    }
    lines
}
