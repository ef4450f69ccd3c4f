//! `enode drain` and `enode undrain`: write the owner's word, then say or wait for what follows.

mod verdict;
#[cfg(test)]
mod verdict_tests;
mod wait;

use std::path::Path;

use serde_json::json;
use shared::domain::Drain;

use super::{
    Exit, Failure, Outcome,
    args::{DrainArgs, UndrainArgs},
    out::Out,
};
use crate::{
    clock,
    config::Config,
    local::{self, AskError},
    policy::{
        Source,
        file::{self, Seen},
        writer::{self, Done, Edit},
    },
    said::{self, word},
    state::{AgentStatus, NodeStatus},
};

/// `file` is the configuration that was named, for the commands that are suggested.
pub(super) async fn drain(config: &Config, file: Option<&Path>, args: &DrainArgs, out: &Out) -> Outcome {
    let want = args.mode.map_or_else(|| no_weaker(config, out), Drain::from);
    let done = write(
        config,
        Edit { drain: Some(want), reason: args.reason.clone(), quarantine_cleared: None, force: args.force },
        out,
    )?;
    if !args.wait {
        follow(config, file, want, out).await;
        report(&done, want, None, out)?;
        return Ok(Exit::Done);
    }
    for warning in &config.warnings {
        out.warn(warning);
    }
    wait::until_drained(config, want, args.timeout, out).await?;
    report(&done, want, Some(true), out)?;
    Ok(Exit::Done)
}

/// Without `--mode` nothing that the owner wrote is weakened: to wait for a drain is not to change it.
fn no_weaker(config: &Config, out: &Out) -> Drain {
    let there = match file::look(&config.policy_file) {
        Seen::Written(written) => written.drain.unwrap_or_default(),
        Seen::Missing | Seen::Unsteady | Seen::Broken(_) => Drain::None,
    };
    if there > Drain::Graceful {
        out.note(format!("the policy file says {there}, which stays; --mode graceful would weaken it"));
    }
    there.max(Drain::Graceful)
}

/// `file` as in [`drain`].
pub(super) async fn undrain(config: &Config, file: Option<&Path>, args: &UndrainArgs, out: &Out) -> Outcome {
    if args.quarantine {
        return end_quarantine(config, file, out).await;
    }
    let done = write(
        config,
        Edit { drain: Some(Drain::None), reason: Some(String::new()), quarantine_cleared: None, force: args.force },
        out,
    )?;
    follow(config, file, Drain::None, out).await;
    report(&done, Drain::None, None, out)?;
    Ok(Exit::Done)
}

/// One word for all nodes of the machine: what each has suffered is for its owner to know.
async fn end_quarantine(config: &Config, file: Option<&Path>, out: &Out) -> Outcome {
    let now = clock::now().to_string();
    let edit = Edit { drain: None, reason: None, quarantine_cleared: Some(now.clone()), force: false };
    let done = write(config, edit, out)?;
    let mut lifted = true;
    match local::ask(&config.state_dir).await {
        Ok(agent) => {
            let held = |node: &&NodeStatus| node.reasons.iter().any(|it| it.source == Source::Quarantine.as_str());
            agent.nodes.iter().filter(held).for_each(|node| out.note(format!("{}: its quarantine ends", node.node_id)));
            lifted = agent.nodes.iter().any(|node| held(&node));
        }
        Err(AskError::NotRunning(_)) => out.note("no agent runs here now; a quarantine that it kept has ended"),
        Err(other) => out.warn(other.to_string()),
    }
    if let Some(drain) = done.before.filter(|drain| *drain != Drain::None) {
        out.note(format!("the owner's own drain ({drain}) stays; to lend again: {}", command(file)));
    }
    let document = json!({"policy_file": done.path, "before": done.before, "quarantine_cleared": now});
    let path = done.path.display();
    out.data(&document, || {
        if lifted {
            format!("quarantine ended: written to {path}")
        } else {
            format!(
                "there was nothing to lift: no node here is in quarantine; what failed so far counts no more ({path})"
            )
        }
    })?;
    Ok(Exit::Done)
}

fn write(config: &Config, edit: Edit, out: &Out) -> Result<Done, Failure> {
    let done = writer::edit(&config.policy_file, &config.state_dir, &edit)
        .map_err(|error| Failure::new(Exit::PolicyRefused, error))?;
    if let Some(why) = &done.was_broken {
        out.warn(format!("the policy file was broken before: {why}"));
    }
    if let Some(kept) = &done.kept {
        out.warn(format!("the old file was kept as {}; a panel_token in it must be copied by hand", kept.display()));
    }
    if let Seen::Written(written) = file::look(&config.policy_file) {
        written.for_owner().iter().for_each(|warning| out.warn(warning));
    }
    Ok(done)
}

/// What lends this machine again, as it can be typed.
fn command(file: Option<&Path>) -> String {
    let Some(file) = file else { return "enode undrain".to_owned() };
    let shown = file.display().to_string();
    let plain = |c: char| c.is_alphanumeric() || "/._-+=:@%,".contains(c);
    let quoted = if shown.chars().all(plain) { shown } else { format!("'{}'", shown.replace('\'', r"'\''")) };
    format!("enode undrain --config {quoted}")
}

fn report(done: &Done, drain: Drain, drained: Option<bool>, out: &Out) -> Result<(), Failure> {
    let document = json!({"policy_file": done.path, "before": done.before, "drain": drain, "drained": drained});
    out.data(&document, || {
        let path = done.path.display();
        match drained {
            Some(true) => format!(
                "drained ({drain}): nothing of a Run is on this machine and nothing will be granted; safe to power off ({path})"
            ),
            _ => format!("{}: written to {path}", word(drain)),
        }
    })
}

/// Says what happens next; nothing of it is an error.
async fn follow(config: &Config, file: Option<&Path>, want: Drain, out: &Out) {
    match local::ask(&config.state_dir).await {
        Ok(agent) => next_steps(&agent, file, want).iter().for_each(|line| out.note(line)),
        Err(AskError::NotRunning(_)) => {
            let then = if want == Drain::None { "lends this machine" } else { "starts with this drain" };
            out.note(format!("no agent runs here now; the next one {then}"));
        }
        Err(other) => out.warn(other.to_string()),
    }
}

fn next_steps(agent: &AgentStatus, file: Option<&Path>, want: Drain) -> Vec<String> {
    let mut lines = vec![format!(
        "the agent (pid {}) advertises it within a second{}",
        agent.pid,
        if agent.connected { "" } else { ", as soon as it reaches the mediator again" }
    )];
    lines.extend(said::follows(agent, want));
    if want != Drain::None {
        lines.push(format!("to wait until nothing runs here: add --wait; to lend again: {}", command(file)));
    }
    lines
}
