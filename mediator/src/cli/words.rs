//! How a Run, its verdict, its refusal and its steps are put into a few words, the same for every command.
//!
//! Owns the wording alone: it must not know which command asks, and where the words are printed.

use proto::v1::{Assigned, CurrentStep, Reject, RunView, StepView, Verdict};

use super::output::clean;

/// How a Run stands, on one line.
pub(crate) fn sentence(run: &RunView) -> String {
    let mut text = format!("{} {}", clean(&run.run_id), clean(&run.state));
    if let Some(verdict) = &run.verdict {
        text.push_str(&format!(" ({})", clean(&cause(verdict))));
    }
    if let Some(reject) = &run.reject {
        text.push_str(&format!(": {}", clean(&reason(reject))));
    }
    text
}

/// The verdict's cause with who or what is behind it: "cancelled by ann", "drain of yard/0".
pub(crate) fn cause(verdict: &Verdict) -> String {
    let behind = [("by", &verdict.by), ("of", &verdict.node), ("in", &verdict.step)];
    let mut text = verdict.cause.clone();
    for (word, name) in behind {
        if let Some(name) = name {
            text.push_str(&format!(" {word} {name}"));
        }
    }
    text
}

/// "refused, this fleet cannot run it (422): role builder wants 1 node with …"
pub(crate) fn reason(reject: &Reject) -> String {
    let word = match reject.code {
        422 => "refused, this fleet cannot run it (422)".to_owned(),
        409 => "every candidate is taken (409)".to_owned(),
        code => format!("refused ({code})"),
    };
    match &reject.r#as {
        // The reason may name its role by itself.
        Some(role) if !reject.reason.contains(&format!("role {role} ")) => {
            format!("{word}: role {role}: {}", reject.reason)
        }
        Some(_) | None => format!("{word}: {}", reject.reason),
    }
}

/// "builder=yard/0 judge=shed"
pub(crate) fn assigned(assigned: &[Assigned]) -> String {
    assigned.iter().map(|one| format!("{}={}", one.r#as, one.node)).collect::<Vec<_>>().join(" ")
}

/// The claimed steps: "test@yard/0", with the attempt from the second on.
pub(crate) fn current(run: &RunView) -> String {
    let one = |step: &CurrentStep| match step.attempt {
        0 | 1 => format!("{}@{}", step.step, step.node),
        attempt => format!("{}@{}#{attempt}", step.step, step.node),
    };
    run.current.iter().map(one).collect::<Vec<_>>().join(" ")
}

/// What the mediator itself waits for on the Run's behalf: "step ok asks: Ship it?", "step more waits for role …".
pub(crate) fn waits(step: &StepView) -> Option<String> {
    let what = step.waits_for.as_deref()?;
    let verb = if step.state == "ASKED" { "asks:" } else { "waits for" };
    Some(format!("step {} {verb} {what}", step.id))
}

/// "exit 2", "timeout: killed after 10m"; of an open question or an acquire what it waits for.
pub(crate) fn result(step: &StepView) -> String {
    let mut parts = Vec::new();
    parts.extend(step.waits_for.clone());
    if let Some(code) = step.exit_code {
        parts.push(format!("exit {code}"));
    }
    if let Some(reason) = step.reason.as_deref().filter(|reason| !reason.is_empty()) {
        parts.push(reason.to_owned());
    }
    if let Some(message) = step.message.as_deref().filter(|message| !message.is_empty()) {
        parts.push(message.to_owned());
    }
    parts.join(": ")
}
