//! The mediator, asked by the owner's commands. Reads only.

use std::{collections::BTreeMap, time::Duration};

use anyhow::Context as _;
use proto::v1::{
    GetRunRequest, ListNodesRequest, RunDetail, fleet_service_client::FleetServiceClient,
    run_service_client::RunServiceClient,
};
use shared::{NodeId, domain::Drain};
use tonic::{
    Code, Status,
    transport::{Certificate, ClientTlsConfig, Endpoint, Identity},
};

use crate::{config::Config, files, mediators::Mediators, session::retry::with_advice};

const PATIENCE: Duration = Duration::from_secs(5);

/// Why the mediator gave no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RemoteError {
    /// It may answer later.
    Unreachable(String),
    /// It will not answer this token or this program.
    Refused(String),
}

/// One node as the mediator sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// Its advert still counts.
    pub(super) live: bool,
    /// The acknowledged drain.
    pub(super) drain: Drain,
    /// Who holds it.
    pub(super) run_id: Option<String>,
}

/// The nodes of the fleet in one snapshot.
pub(super) type View = BTreeMap<NodeId, Seen>;

/// How far a Run is, for the progress line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// Steps that have ended, and all of them.
    pub(super) steps: Option<(usize, usize)>,
    /// A step waits for a person's answer.
    pub(super) asked: bool,
}

/// Connections that are opened when they are needed: one for each mediator of the fleet.
pub(super) struct Remote {
    mediators: Mediators,
    /// For people.
    urls: String,
}

impl Remote {
    pub(super) fn new(config: &Config) -> anyhow::Result<Self> {
        let identity = match &config.certificate {
            None => None,
            Some((cert, key)) => Some(Identity::from_pem(files::read_small(cert)?, files::read_small(key)?)),
        };
        let channel = |url: &String| {
            let mut endpoint = Endpoint::from_shared(url.clone())?.connect_timeout(PATIENCE).timeout(PATIENCE);
            if let Some(ca_file) = &config.ca_file {
                let authority = Certificate::from_pem(files::read_small(ca_file)?);
                let mut tls = ClientTlsConfig::new().ca_certificate(authority);
                if let Some(identity) = &identity {
                    tls = tls.identity(identity.clone());
                }
                endpoint = endpoint.tls_config(tls)?;
            }
            anyhow::Ok(endpoint.connect_lazy())
        };
        let channels = config.mediator.iter().map(channel).collect::<anyhow::Result<Vec<_>>>()?;
        let token = config.token.as_ref().map(|token| token.reveal());
        let mediators = Mediators::new(channels, token)?.context("no mediator is configured")?;
        Ok(Self { mediators, urls: config.mediator.join(", ") })
    }

    /// Asks one mediator after the other until one answers.
    pub(super) async fn nodes(&self) -> Result<View, RemoteError> {
        let mut answer = self.nodes_of_one().await;
        for _ in 1..self.mediators.count() {
            if !matches!(answer, Err(RemoteError::Unreachable(_))) {
                break;
            }
            self.mediators.leave();
            answer = self.nodes_of_one().await;
        }
        answer.map_err(|error| match error {
            RemoteError::Unreachable(why) => RemoteError::Unreachable(format!("{}: {why}", self.urls)),
            refused @ RemoteError::Refused(_) => refused,
        })
    }

    async fn nodes_of_one(&self) -> Result<View, RemoteError> {
        let mut client = FleetServiceClient::new(self.mediators.channel()).max_decoding_message_size(256 << 20);
        let reply =
            client.list_nodes(self.mediators.request(ListNodesRequest {})).await.map_err(|status| failed(&status))?;
        let reply = reply.into_inner();
        let mut view = View::new();
        for node in reply.nodes {
            // A node id that is none cannot be one of ours.
            let Ok(id) = NodeId::new(&node.node_id) else { continue };
            let drain = node.draining.as_deref().unwrap_or_default().parse().map_err(|why| {
                RemoteError::Refused(format!("the mediator says of {id}: {why}; is it newer than this enode?"))
            })?;
            let live = node.expires_at > reply.observed_at;
            view.insert(id, Seen { live, drain, run_id: node.lease.map(|lease| lease.run_id) });
        }
        Ok(view)
    }

    /// Only for show, so that not knowing is fine.
    pub(super) async fn progress(&self, run_id: &str) -> Progress {
        let mut client = RunServiceClient::new(self.mediators.channel());
        let asked = client.get_run(self.mediators.request(GetRunRequest { run_id: run_id.to_owned() })).await;
        asked.map(|reply| progress(&reply.into_inner())).unwrap_or_default()
    }
}

fn progress(detail: &RunDetail) -> Progress {
    let ended = detail.steps.iter().filter(|step| matches!(step.state.as_str(), "DONE" | "FAILED" | "SKIPPED")).count();
    Progress { steps: Some((ended, detail.steps.len())), asked: detail.steps.iter().any(|step| step.state == "ASKED") }
}

/// The innermost cause of a connection that failed.
fn said_last(status: &Status) -> Option<String> {
    let mut at: &dyn std::error::Error = std::error::Error::source(status)?;
    while let Some(next) = at.source() {
        at = next;
    }
    Some(at.to_string())
}

fn failed(status: &Status) -> RemoteError {
    let said = if status.message().is_empty() { status.code().description() } else { status.message() };
    match status.code() {
        Code::Unauthenticated | Code::PermissionDenied | Code::Unimplemented | Code::InvalidArgument => {
            RemoteError::Refused(said.to_owned())
        }
        _ => RemoteError::Unreachable(with_advice(said, &said_last(status).unwrap_or_else(|| said.to_owned()))),
    }
}
