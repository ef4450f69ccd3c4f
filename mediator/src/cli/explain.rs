//! `explain`: why a Run waits, why a node is or is not lendable, in sentences.

use proto::v1::{
    ExplainRequest, ExplainResponse, RoleExplanation, explain_request::Subject, run_service_client::RunServiceClient,
};
use shared::{NodeId, RunId};

use super::{
    client::Client,
    exit::{Exit, Failure, Outcome},
    output::{Format, Io, clean},
};

pub(crate) async fn explain(
    client: &Client,
    io: &mut Io,
    format: Format,
    run: Option<RunId>,
    node: Option<NodeId>,
) -> Outcome {
    let request = |subject| ExplainRequest { subject: Some(subject) };
    let answer = match (run, node) {
        (Some(run), None) => {
            let ask =
                |mut runs: RunServiceClient<_>, id| async move { runs.explain(request(Subject::RunId(id))).await };
            client.call_of("cannot explain Run", &run, ask).await?.1
        }
        (None, Some(node)) => {
            let what = format!("cannot explain node {node}");
            client.call(&what, client.runs().explain(request(Subject::NodeId(node.to_string())))).await?
        }
        (Some(_), Some(_)) | (None, None) => return Err(Failure::refused("give either RUN or --node NODE")),
    };
    match format {
        Format::Json => io.json(&answer)?,
        Format::Jsonl => io.json_line(&answer)?,
        Format::Table => sentences(&answer).iter().try_for_each(|sentence| io.line(sentence))?,
    }
    Ok(Exit::Ok)
}

fn sentences(answer: &ExplainResponse) -> Vec<String> {
    let mut text = vec![clean(&answer.summary)];
    // The summary may have said it already.
    match answer.place.filter(|_| !answer.summary.contains("in line")) {
        Some(1) => text.push("It is next in line.".into()),
        Some(place) => text.push(format!("It is number {place} in line.")),
        None => {}
    }
    for role in &answer.roles {
        text.extend(about(role));
    }
    if !answer.wakes.is_empty() {
        text.push("It is looked at again when".into());
        text.extend(answer.wakes.iter().map(|wake| format!("  - {}", clean(wake_up(wake)))));
    }
    let new = answer.reasons.iter().filter(|reason| !answer.summary.contains(*reason));
    text.extend(new.map(|reason| format!("  - {}", clean(reason))));
    text
}

fn about(role: &RoleExplanation) -> Vec<String> {
    let mut text = vec![format!(
        "Role {} wants {}. {}: {} busy{}, {} draining, {} free.",
        clean(&role.r#as),
        nodes(role.wanted),
        match role.live {
            0 => "No live node satisfies it".to_owned(),
            1 => "1 live node satisfies it".to_owned(),
            live => format!("{live} live nodes satisfy it"),
        },
        role.busy,
        // One that is both counts once.
        match role.busy_draining {
            0 => String::new(),
            both => format!(" ({both} of them draining as well)"),
        },
        role.draining,
        role.free
    )];
    if role.live == 0 {
        text = vec![format!("Role {} wants {}. No live node satisfies it.", clean(&role.r#as), nodes(role.wanted))];
    }
    text.extend(role.lacking.iter().map(|lack| format!("  - {}", clean(lack))));
    text.extend(role.held.iter().map(|held| format!("  - {}", clean(held))));
    let held = role.holders.iter();
    text.extend(held.map(|holder| format!("  - {} is held by Run {}", clean(&holder.node), clean(&holder.run_id))));
    text
}

fn nodes(count: u32) -> String {
    if count == 1 { "1 node".into() } else { format!("{count} nodes") }
}

/// The wake points by their names on the wire, as what happens.
fn wake_up(name: &str) -> &str {
    match name {
        "RunSettled" => "a Run that holds a node ends (RunSettled)",
        "RunCancelled" => "a Run that holds a node is cancelled or closed at a boundary (RunCancelled)",
        "LeaseExpired" => "the lease of a silent node expires (LeaseExpired)",
        "NodeRestarted" => "a node restarts (NodeRestarted)",
        "PartialRelease" => "a running Run gives a node back (PartialRelease)",
        "AdvertOpened" => {
            "a node opens: its drain is lifted, or a further one comes (back) with what is wanted (AdvertOpened)"
        }
        other => other,
    }
}
