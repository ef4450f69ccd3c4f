//! `enode status`: what the agent on this machine does, and what its owner's file says.

use super::{Exit, Outcome, out, out::Out};
use crate::{
    config::Config,
    local::{self, AskError},
    policy::file::{self, Seen},
    said::word,
    state::{AgentStatus, NodeStatus},
};
use serde_json::{Value, json};

pub(super) async fn run(config: &Config, out: &Out) -> Outcome {
    let asked = local::ask(&config.state_dir).await;
    let seen = file::look(&config.policy_file);
    let policy = policy(config, &seen);
    let agent = asked.as_ref().ok();
    let document = json!({
        "name": config.name,
        "mediator": config.mediator,
        "state_dir": config.state_dir,
        "policy_file": policy,
        "agent": agent,
    });
    out.data(&document, || shown(config, &policy, agent))?;
    match asked {
        Ok(_) => Ok(Exit::Done),
        Err(error) => {
            let exit = if matches!(error, AskError::Denied(_)) { Exit::Refused } else { Exit::Failed };
            Err(super::Failure::new(exit, error))
        }
    }
}

fn policy(config: &Config, seen: &Seen) -> Value {
    let path = &config.policy_file;
    match seen {
        Seen::Missing => json!({"path": path, "state": "missing", "drain": ""}),
        Seen::Unsteady => json!({"path": path, "state": "being written"}),
        Seen::Written(written) => json!({
            "path": path, "state": "read", "drain": written.drain.unwrap_or_default(), "reason": written.reason,
            "warnings": written.for_owner(),
        }),
        Seen::Broken(why) => json!({"path": path, "state": "broken", "error": why}),
    }
}

fn shown(config: &Config, policy: &Value, agent: Option<&AgentStatus>) -> String {
    let mut lines = vec![
        format!("name      {}", config.name),
        format!("mediator  {}{}", config.mediator.join(", "), agent.map_or("", |agent| connection(agent))),
        format!("policy    {}", policy_line(policy)),
    ];
    match agent {
        None => lines.push("agent     not running".to_owned()),
        Some(agent) => {
            let stopping = if agent.stopping { ", stopping" } else { "" };
            lines.push(format!("agent     pid {}, version {}{stopping}", agent.pid, agent.version));
            lines.push(String::new());
            let header = ["NODE", "DRAIN", "RUN", "STEP", "RUNNING FOR", "PROCESSES", "SPOOLED", "ADVERT"];
            lines.push(out::table(&header, agent.nodes.iter().map(row)));
            for node in &agent.nodes {
                let mut remark = |what: &str, text: &str| lines.push(format!("{}: {what}: {text}", node.node_id));
                for it in &node.reasons {
                    let since = it.since.map(|since| format!(" for {}", out::age(since))).unwrap_or_default();
                    let why = if it.reason.is_empty() { "no reason given" } else { &it.reason };
                    remark("not lent", &format!("{} ({}{since}): {why}", it.source, it.drain));
                }
                if let Some(why) = &node.superseded {
                    remark("idle, another agent speaks for this node", why);
                }
                if !node.policy_error.is_empty() {
                    remark("policy file", &node.policy_error);
                }
            }
        }
    }
    lines.join("\n")
}

const fn connection(agent: &AgentStatus) -> &'static str {
    if agent.connected { " (connected)" } else { " (not connected)" }
}

fn policy_line(policy: &Value) -> String {
    let text = |key: &str| policy[key].as_str().unwrap_or_default();
    let path = text("path");
    let said = match text("state") {
        "missing" => "there is none: lending".to_owned(),
        "broken" => format!("BROKEN, nothing is lent: {}", text("error")),
        "being written" => "is being written".to_owned(),
        _ => {
            let warnings: Vec<_> =
                policy["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            let drain = word(text("drain").parse().unwrap_or_default());
            let warned =
                if warnings.is_empty() { String::new() } else { format!(" (warning: {})", warnings.join("; ")) };
            format!("{drain}{warned}")
        }
    };
    format!("{said}  [{path}]")
}

fn row(node: &NodeStatus) -> Vec<String> {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let run = node.lease.as_ref().map(|lease| lease.run_id.to_string());
    let run = run.or_else(|| node.step.as_ref().map(|step| step.run_id.to_string()));
    vec![
        node.node_id.to_string(),
        if node.superseded.is_some() { "superseded".to_owned() } else { word(node.drain).to_owned() },
        or_dash(run),
        or_dash(node.step.as_ref().map(|step| format!("{} (attempt {})", step.step_id, step.attempt))),
        or_dash(node.step.as_ref().map(|step| out::age(step.started_at))),
        if node.live_processes { "alive" } else { "none" }.to_owned(),
        node.spooled.to_string(),
        or_dash(node.last_advert_at.map(|at| format!("{} ago", out::age(at)))),
    ]
}
