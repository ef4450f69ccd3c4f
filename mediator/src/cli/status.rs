//! `status`: is the mediator well, and what does the fleet do right now?

use proto::v1::{ListNodesRequest, ListRunsRequest, NodeView};
use serde::Serialize;
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus};

use super::{
    age::length,
    args::RUN_STATES,
    client::Client,
    exit::{Exit, Outcome},
    output::{Format, Io},
};

/// Pages of a thousand counted per state before it is "more than".
const PAGES: usize = 20;
/// Ended Runs pile up for ever, so only those of the last day are counted.
const DAY_MS: i64 = 86_400_000;

#[derive(Debug, Serialize)]
struct Status {
    mediator: String,
    health: &'static str,
    /// Version of this program; on the same host it is the mediator's too, unless that one still runs an older one.
    client_version: &'static str,
    observed_at: shared::Timestamp,
    runs: Vec<Count>,
    nodes: Nodes,
    /// How long adverts and leases live, as the adverts show it.
    #[serde(skip_serializing_if = "Option::is_none")]
    horizon: Option<shared::Duration>,
}

#[derive(Debug, Serialize)]
struct Count {
    state: &'static str,
    count: usize,
    /// There are more.
    at_least: bool,
    /// Only Runs submitted within the last day.
    last_day: bool,
}

/// Every node counts once, so that `live = lendable + leased + draining + stopping`; a node that is leased and held back
/// counts as leased.
#[derive(Debug, Default, Serialize, PartialEq, Eq)]
struct Nodes {
    live: usize,
    lendable: usize,
    leased: usize,
    draining: usize,
    stopping: usize,
    expired: usize,
    policy_errors: usize,
}

pub(crate) async fn status(client: &Client, io: &mut Io, format: Format) -> Outcome {
    let check = HealthCheckRequest { service: String::new() };
    let health = client.call("cannot ask for the mediator's health", client.health().check(check)).await?;
    let page = client.call("cannot list the nodes", client.fleet().list_nodes(ListNodesRequest {})).await?;
    let mut runs = Vec::new();
    for state in RUN_STATES {
        runs.push(count(client, state, page.observed_at).await?);
    }
    let status = Status {
        mediator: client.url().to_owned(),
        health: match health.status() {
            ServingStatus::Serving => "serving",
            ServingStatus::NotServing => "not serving",
            ServingStatus::Unknown | ServingStatus::ServiceUnknown => "unknown",
        },
        client_version: env!("CARGO_PKG_VERSION"),
        observed_at: shared::Timestamp::from_millis(page.observed_at),
        runs,
        nodes: tally(page.observed_at, &page.nodes),
        horizon: horizon(&page.nodes),
    };
    match format {
        Format::Json => io.json(&status)?,
        Format::Jsonl => io.json_line(&status)?,
        Format::Table => lines(&status).iter().try_for_each(|line| io.line(line))?,
    }
    Ok(if status.health == "serving" { Exit::Ok } else { Exit::Unreachable })
}

async fn count(client: &Client, state: &'static str, now: i64) -> Outcome<Count> {
    let last_day = matches!(state, "SUCCEEDED" | "FAILED");
    let since_at = if last_day { now - DAY_MS } else { 0 };
    let mut request = ListRunsRequest {
        state: state.into(),
        work: String::new(),
        since_at,
        limit: 1_000,
        ..ListRunsRequest::default()
    };
    let mut count = 0;
    for _ in 0..PAGES {
        let page = client.call("cannot count the Runs", client.runs().list_runs(request.clone())).await?;
        count += page.runs.len();
        match page.next {
            Some(next) => request.after = next,
            None => return Ok(Count { state, count, at_least: false, last_day }),
        }
    }
    Ok(Count { state, count, at_least: true, last_day })
}

fn tally(now: i64, nodes: &[NodeView]) -> Nodes {
    let mut tally = Nodes::default();
    for node in nodes {
        let live = node.expires_at > now;
        tally.live += usize::from(live);
        tally.policy_errors += usize::from(node.policy_error.is_some());
        *if !live {
            &mut tally.expired
        } else if node.lease.is_some() {
            &mut tally.leased
        } else if node.draining.is_some() {
            &mut tally.draining
        } else if node.stopping {
            &mut tally.stopping
        } else {
            &mut tally.lendable
        } += 1;
    }
    tally
}

/// An advert lives for the horizon from when it was seen; a node that said goodbye has none.
fn horizon(nodes: &[NodeView]) -> Option<shared::Duration> {
    let longest = nodes.iter().map(|node| node.expires_at - node.seen_at).max()?;
    u64::try_from(longest).ok().filter(|ms| *ms > 0).map(shared::Duration::from_millis)
}

fn lines(status: &Status) -> Vec<String> {
    let runs = status.runs.iter().map(|count| {
        let more = if count.at_least { "more than " } else { "" };
        let day = if count.last_day { " (last day)" } else { "" };
        format!("{} {more}{}{day}", count.state, count.count)
    });
    let nodes = &status.nodes;
    let mut lines = vec![
        format!("Mediator  {}, {}", status.mediator, status.health),
        format!("Client    version {}", status.client_version),
        format!("Runs      {}", runs.collect::<Vec<_>>().join(", ")),
        format!(
            "Nodes     live {}: lendable {}, leased {}, draining {}, stopping {}; expired {}",
            nodes.live, nodes.lendable, nodes.leased, nodes.draining, nodes.stopping, nodes.expired
        ),
    ];
    if nodes.policy_errors > 0 {
        lines.push(format!("          {} with a policy error, see `mediator nodes`", nodes.policy_errors));
    }
    if let Some(horizon) = status.horizon {
        lines.push(format!("Horizon   {}", length(horizon)));
    }
    lines
}
