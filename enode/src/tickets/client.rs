//! The mediator over gRPC, as any other client of it: the only file here that knows the wire (`docs/adr/0021`).

use std::{error::Error as _, path::PathBuf, time::Duration};

use anyhow::Context as _;
use proto::v1::{
    AnswerRequest, CancelRequest, ExplainRequest, GetRunRequest, ListAsksRequest, ListRunsRequest, RunDetail, RunView,
    SubmitRequest, explain_request, run_service_client::RunServiceClient,
};
use shared::{RunId, Timestamp, ticket::question::Origin};
use tonic::{
    Code, Status,
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint},
};

use super::runs::{self, Answered, Ask, End, OpenRun, Question, Queued, RunNow, RunOf, Runs, Trouble};
use crate::{mediators::Mediators, session::retry::with_advice};

const PATIENCE: Duration = Duration::from_secs(10);
/// A stream that says nothing is looked at again after this.
const QUIET: Duration = Duration::from_secs(15);
const LARGEST: usize = 64 << 20;

/// Where the mediator is and who asks.
#[derive(Debug, Clone, Default)]
pub struct Address {
    /// One URL, or several of one fleet with commas between.
    pub urls: String,
    /// File that holds the token of a submitter.
    pub token_file: Option<PathBuf>,
    /// The token itself, where there is no file.
    pub token: Option<String>,
    /// PEM file of the authority that signed the mediator's certificate.
    pub ca_file: Option<PathBuf>,
}

/// A connection that is made when it is needed. After silence the next mediator is asked.
#[expect(missing_debug_implementations, reason = "it would show the token")]
pub struct Client {
    mediators: Mediators,
    /// For people.
    urls: String,
    has_token: bool,
}

impl Client {
    /// Prepares it; nothing is sent yet.
    ///
    /// # Errors
    /// What is wrong with the address, and what instead.
    pub fn new(address: &Address) -> anyhow::Result<Self> {
        let (mut channels, mut urls) = (Vec::new(), Vec::new());
        for url in address.urls.split(',').map(str::trim).filter(|url| !url.is_empty()) {
            anyhow::ensure!(
                crate::config::is_mediator_url(url),
                "--mediator {url:?} is not http://HOST:PORT or https://HOST:PORT"
            );
            anyhow::ensure!(
                !url.starts_with("https:") || address.ca_file.is_some(),
                "--mediator {url}: give --ca-file FILE or MEDIATOR_CA, the ca.crt that `mediator pki init` wrote on the mediator's host"
            );
            let endpoint = Endpoint::from_shared(url.to_owned())?.connect_timeout(PATIENCE).tcp_nodelay(true);
            let mut endpoint = endpoint.http2_keep_alive_interval(PATIENCE).keep_alive_timeout(PATIENCE);
            if let Some(file) = &address.ca_file {
                let pem = crate::files::read_small(file).with_context(|| format!("--ca-file {}", file.display()))?;
                endpoint = endpoint.tls_config(ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem)))?;
            }
            channels.push(endpoint.connect_lazy());
            urls.push(url);
        }
        let token = match (&address.token_file, &address.token) {
            (Some(file), _) => {
                let text =
                    crate::files::read_small(file).with_context(|| format!("--token-file {}", file.display()))?;
                let text = String::from_utf8(text).with_context(|| format!("--token-file {}", file.display()))?;
                anyhow::ensure!(!text.trim().is_empty(), "--token-file {}: there is no token in it", file.display());
                Some(text)
            }
            (None, token) => token.clone().filter(|token| !token.trim().is_empty()),
        };
        let mediators = Mediators::new(channels, token.as_deref())?;
        let mediators = mediators.context("--mediator: there is no address in it: write http://HOST:PORT")?;
        Ok(Self { mediators, urls: urls.join(", "), has_token: token.is_some() })
    }

    fn runs(&self) -> RunServiceClient<Channel> {
        let runs = RunServiceClient::new(self.mediators.channel());
        runs.max_decoding_message_size(LARGEST).max_encoding_message_size(LARGEST)
    }

    async fn ask<T>(&self, answer: impl Future<Output = Result<tonic::Response<T>, Status>>) -> Result<T, Status> {
        let answer = match tokio::time::timeout(PATIENCE, answer).await {
            Ok(answer) => answer.map(tonic::Response::into_inner),
            Err(_) => Err(Status::unavailable(format!("no answer within {} seconds", PATIENCE.as_secs()))),
        };
        if answer.as_ref().is_err_and(is_silence) {
            self.mediators.leave();
        }
        answer
    }

    /// The same in the words of a worker.
    async fn call<T>(&self, answer: impl Future<Output = Result<tonic::Response<T>, Status>>) -> Result<T, Trouble> {
        self.ask(answer).await.map_err(|status| self.trouble(&status))
    }

    /// The same of what may not be there.
    async fn find<T>(
        &self,
        answer: impl Future<Output = Result<tonic::Response<T>, Status>>,
    ) -> Result<Option<T>, Trouble> {
        match self.ask(answer).await {
            Ok(found) => Ok(Some(found)),
            Err(status) if status.code() == Code::NotFound => Ok(None),
            Err(status) => Err(self.trouble(&status)),
        }
    }

    async fn detail(&self, run: &RunId) -> Result<Option<RunDetail>, Trouble> {
        let request = self.mediators.request(GetRunRequest { run_id: run.to_string() });
        self.find(self.runs().get_run(request)).await
    }

    /// Reads a Run's stream until it is something else than `seen`.
    async fn watch(&self, run: &RunId, seen: &RunNow) -> Result<RunNow, Trouble> {
        let request = self.mediators.request(GetRunRequest { run_id: run.to_string() });
        let Some(mut stream) = self.find(self.runs().watch_run(request)).await? else { return Ok(RunNow::Unknown) };
        loop {
            match stream.message().await {
                Ok(Some(detail)) => {
                    let now = now(run, &detail);
                    if now != *seen {
                        return Ok(now);
                    }
                }
                // Its end means nothing by itself: what counts is what the Run says.
                Ok(None) => return self.get(run).await,
                Err(status) => return Err(self.trouble(&status)),
            }
        }
    }

    fn trouble(&self, status: &Status) -> Trouble {
        use tonic_types::StatusExt as _;
        let mut root: Option<&(dyn std::error::Error + 'static)> = status.source();
        while let Some(deeper) = root.and_then(std::error::Error::source) {
            root = Some(deeper);
        }
        let refused = root.and_then(|root| root.downcast_ref::<std::io::Error>());
        let unsent = refused.is_some_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused);
        let said = if status.message().is_empty() { status.code().description() } else { status.message() };
        let problems = status.get_details_bad_request().map(|bad| bad.field_violations).unwrap_or_default();
        let problems: Vec<String> = problems.iter().map(|it| format!("{}: {}", it.field, it.description)).collect();
        let why = match (root, problems.is_empty()) {
            (Some(root), _) => with_advice(said, &root.to_string()),
            (None, true) => said.to_owned(),
            (None, false) => problems.join("; "),
        };
        let is_busy = status.get_details_error_info().is_some_and(|info| info.reason == "BUSY");
        match status.code() {
            _ if is_silence(status) || is_busy => {
                Trouble::Silent { why: format!("the mediator at {} does not answer: {why}", self.urls), unsent }
            }
            // What it says is meant for programs: there is a header to be sent.
            Code::Unauthenticated if !self.has_token => Trouble::Denied("no token".to_owned()),
            Code::Unauthenticated | Code::PermissionDenied => Trouble::Denied(why),
            _ => Trouble::Refused(why),
        }
    }
}

impl Runs for Client {
    async fn reach(&self) -> Result<(), Trouble> {
        let request = self.mediators.request(ListRunsRequest { limit: 1, ..ListRunsRequest::default() });
        self.call(self.runs().list_runs(request)).await.map(drop)
    }

    async fn get(&self, run: &RunId) -> Result<RunNow, Trouble> {
        Ok(self.detail(run).await?.map_or(RunNow::Unknown, |detail| now(run, &detail)))
    }

    async fn changed(&self, run: &RunId, seen: &RunNow) -> Result<RunNow, Trouble> {
        match tokio::time::timeout(QUIET, self.watch(run, seen)).await {
            Ok(now) => now,
            Err(_) => self.get(run).await,
        }
    }

    async fn queued(&self, run: &RunId) -> Result<Option<Queued>, Trouble> {
        let subject = Some(explain_request::Subject::RunId(run.to_string()));
        let said = self.find(self.runs().explain(self.mediators.request(ExplainRequest { subject }))).await?;
        Ok(said.filter(|said| said.place.is_some()).map(|said| Queued {
            // A role that the mediator does not tell of is none that is missing.
            is_unserved: said.roles.iter().any(|it| it.live.saturating_sub(it.draining + it.busy_draining) < it.wanted),
            why: said.summary,
        }))
    }

    async fn runs_of(&self, work: &str) -> Result<Vec<RunOf>, Trouble> {
        let request = ListRunsRequest { work: work.to_owned(), limit: 1_000, ..ListRunsRequest::default() };
        let page = self.call(self.runs().list_runs(self.mediators.request(request))).await?;
        let of = |run: &RunView| {
            // A state of a newer mediator is not an end.
            let end = match run.state.as_str() {
                "SUCCEEDED" => Some(End::Succeeded),
                "FAILED" => Some(End::Failed),
                _ => None,
            };
            Some(RunOf { run: RunId::new(&run.run_id).ok()?, end })
        };
        Ok(page.runs.iter().filter_map(of).collect())
    }

    async fn open_runs(&self, tag: &str) -> Result<Vec<OpenRun>, Trouble> {
        let mut open = Vec::new();
        for state in ["QUEUED", "RUNNING"] {
            let (state, begins) = (state.to_owned(), runs::begin_of(tag));
            let request = ListRunsRequest { state, begins, limit: 1_000, ..ListRunsRequest::default() };
            let page = self.call(self.runs().list_runs(self.mediators.request(request))).await?;
            let of = |run: RunView| Some(OpenRun { run: RunId::new(&run.run_id).ok()?, work: run.work_id });
            open.extend(page.runs.into_iter().filter_map(of));
        }
        // One that started between the two is in both.
        open.sort_by(|a, b| a.run.cmp(&b.run));
        open.dedup_by(|a, b| a.run == b.run);
        Ok(open)
    }

    async fn submit(&self, run: &RunId, contract: &[u8]) -> Result<(), Trouble> {
        let request = SubmitRequest { contract: contract.to_vec(), run_id: run.to_string() };
        self.call(self.runs().submit(self.mediators.request(request))).await.map(drop)
    }

    async fn asks(&self) -> Result<Vec<Ask>, Trouble> {
        let page = self.call(self.runs().list_asks(self.mediators.request(ListAsksRequest {}))).await?;
        let ask = |it: proto::v1::AskView| Ask {
            origin: Origin { run: it.run_id, step: it.step, attempt: it.attempt },
            work: it.work_id,
            may_answer: it.may_answer,
            form: Some(it.form).filter(|form| !form.is_empty()),
        };
        Ok(page.asks.into_iter().map(ask).collect())
    }

    async fn answered(&self, origin: &Origin) -> Result<Option<Answered>, Trouble> {
        let Ok(run) = RunId::new(&origin.run) else { return Ok(None) };
        let steps = self.detail(&run).await?.map(|detail| detail.steps).unwrap_or_default();
        let step = steps.into_iter().find(|it| (&it.id, it.attempt) == (&origin.step, origin.attempt));
        let answered = step.and_then(|it| it.answered_by.zip(it.ended_at));
        Ok(answered.map(|(by, at)| Answered { by, at: Timestamp::from_millis(at) }))
    }

    async fn answer(&self, origin: &Origin, json: &str) -> Result<(), Trouble> {
        let request = AnswerRequest {
            run_id: origin.run.clone(),
            step: origin.step.clone(),
            attempt: origin.attempt,
            answer: json.to_owned(),
        };
        self.call(self.runs().answer(self.mediators.request(request))).await.map(drop)
    }

    async fn cancel(&self, run: &RunId) -> Result<(), Trouble> {
        let request = self.mediators.request(CancelRequest { run_id: run.to_string() });
        self.call(self.runs().cancel(request)).await.map(drop)
    }
}

fn now(run: &RunId, detail: &RunDetail) -> RunNow {
    let Some(view) = &detail.run else { return RunNow::Unknown };
    match view.state.as_str() {
        "SUCCEEDED" => RunNow::Succeeded,
        "FAILED" => {
            let why = why(view, detail);
            match view.verdict.as_ref().map(|it| it.cause.as_str()) {
                Some("cancelled" | "drain") => RunNow::Stopped(why),
                _ => RunNow::Failed(why),
            }
        }
        // A state of a newer mediator is not an end.
        _ => {
            let asking = detail.steps.iter().filter(|step| step.state == "ASKED").map(|step| Question {
                origin: Origin { run: run.to_string(), step: step.id.clone(), attempt: step.attempt },
                text: step.waits_for.clone().unwrap_or_default(),
            });
            RunNow::Open { asking: asking.collect() }
        }
    }
}

/// Why a Run has failed, for whoever reads the ticket.
fn why(view: &RunView, detail: &RunDetail) -> String {
    let mut text = format!("Run {} failed", view.run_id);
    if let Some(verdict) = &view.verdict {
        let by = verdict.by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
        let node = verdict.node.as_ref().map(|node| format!(", node {node}")).unwrap_or_default();
        text.push_str(&format!(" ({}{by}{node})", verdict.cause));
    }
    if let Some(reject) = &view.reject {
        text.push_str(&format!(": {}", reject.reason));
    }
    for step in &detail.steps {
        if let Some(reason) = &step.reason {
            let message = step.message.as_deref().filter(|it| !it.is_empty());
            text.push_str(&format!(
                "; step {}: {reason}{}",
                step.id,
                message.map(|it| format!(", {it}")).unwrap_or_default()
            ));
        } else if let Some(code) = step.exit_code.filter(|code| *code != 0) {
            text.push_str(&format!("; step {} ended with {code}", step.id));
        }
    }
    let failed = detail.findings.iter().filter(|it| it.outcome == "failed").map(|it| it.condition.as_str());
    let failed: Vec<&str> = failed.collect();
    if !failed.is_empty() {
        text.push_str(&format!("; {}", failed.join("; ")));
    }
    text.push_str(&format!(". `mediator show {}` has more", view.run_id));
    // One that was never taken has printed nothing.
    if view.reject.is_none() {
        text.push_str(&format!(", `mediator logs {}` what it printed", view.run_id));
    }
    text.push('.');
    text
}

fn is_silence(status: &Status) -> bool {
    status.source().is_some()
        || matches!(
            status.code(),
            Code::Unavailable
                | Code::DeadlineExceeded
                | Code::Aborted
                | Code::Cancelled
                | Code::Internal
                | Code::Unknown
        )
}
