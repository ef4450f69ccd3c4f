//! `RunService`: submit, look at, follow, explain, cancel.

use proto::v1::{self, run_service_server::RunService};
use shared::{NodeId, RunId, StepName, Timestamp, WorkId};
use tonic::{Request, Response, Status};

use super::{
    access::identity,
    convert::{
        from_wire::{Problems, run_id},
        to_wire,
    },
    files,
    stream::Outgoing,
    watch,
};
use crate::{
    auth::Role,
    error::Error,
    service::{
        Services, SubmitCommand,
        ask::AnswerCommand,
        observe::{RUN_STATES, RunFilter, RunView, parse_page_key},
    },
};

/// The service.
#[derive(Clone)]
pub(super) struct Runs(pub(super) Services);

#[tonic::async_trait]
impl RunService for Runs {
    async fn submit(&self, request: Request<v1::SubmitRequest>) -> Result<Response<v1::SubmitResponse>, Status> {
        let principal = identity(&request)?.principal;
        let request = request.into_inner();
        let run_id = Some(request.run_id).filter(|id| !id.is_empty());
        let command = SubmitCommand { contract_text: request.contract, run_id, principal };
        let submitted = self.0.submit(command).await?;
        let run = Some(to_wire::run(&RunView::from(&submitted.run)));
        Ok(Response::new(v1::SubmitResponse { run, existing: submitted.existing }))
    }

    async fn dry_run(&self, request: Request<v1::SubmitRequest>) -> Result<Response<v1::DryRunResponse>, Status> {
        let preview = self.0.dry_run(request.into_inner().contract).await?;
        Ok(Response::new(v1::DryRunResponse {
            state: preview.state.to_owned(),
            assigned: to_wire::assigned(&preview.assigned),
            reject: preview.reject.as_ref().map(to_wire::reject),
        }))
    }

    async fn get_run(&self, request: Request<v1::GetRunRequest>) -> Result<Response<v1::RunDetail>, Status> {
        let id = run_id("run_id", &request.into_inner().run_id)?;
        Ok(Response::new(to_wire::detail(&self.0.run(&id).await?)))
    }

    async fn list_runs(&self, request: Request<v1::ListRunsRequest>) -> Result<Response<v1::ListRunsResponse>, Status> {
        let page = self.0.runs(filter(&request.into_inner())?).await?;
        Ok(Response::new(to_wire::runs(&page)))
    }

    type WatchRunStream = Outgoing<v1::RunDetail>;

    async fn watch_run(&self, request: Request<v1::GetRunRequest>) -> Result<Response<Self::WatchRunStream>, Status> {
        let id = run_id("run_id", &request.into_inner().run_id)?;
        Ok(Response::new(watch::run(self.0.clone(), id).await?))
    }

    async fn cancel(&self, request: Request<v1::CancelRequest>) -> Result<Response<v1::RunView>, Status> {
        let who = identity(&request)?;
        let id = run_id("run_id", &request.into_inner().run_id)?;
        if who.role != Role::Admin {
            let (run, _) = self.0.run_row(&id).await?;
            who.may_cancel(&run.principal)?;
        }
        let run = self.0.cancel(id, who.principal).await?;
        Ok(Response::new(to_wire::run(&RunView::from(&run))))
    }

    async fn explain(&self, request: Request<v1::ExplainRequest>) -> Result<Response<v1::ExplainResponse>, Status> {
        use v1::explain_request::Subject;
        let explanation = match request.into_inner().subject {
            Some(Subject::RunId(id)) => self.0.explain_run(&run_id("run_id", &id)?).await?,
            Some(Subject::NodeId(id)) => {
                let id = NodeId::new(&id).map_err(|e| Error::invalid("node_id", e.to_string()))?;
                self.0.explain_node(&id).await?
            }
            None => return Err(Error::invalid("subject", "is missing: name a run or a node").into()),
        };
        Ok(Response::new(to_wire::explanation(&explanation)))
    }

    async fn list_asks(&self, request: Request<v1::ListAsksRequest>) -> Result<Response<v1::ListAsksResponse>, Status> {
        let principal = identity(&request)?.principal;
        let (observed_at, asks) = self.0.asks(&principal).await?;
        Ok(Response::new(to_wire::asks(observed_at, &asks)))
    }

    async fn answer(&self, request: Request<v1::AnswerRequest>) -> Result<Response<v1::RunView>, Status> {
        let by = identity(&request)?.principal;
        let request = request.into_inner();
        let run = run_id("run_id", &request.run_id)?;
        let step = step_name(&request.step)?;
        let attempt = Some(request.attempt).filter(|attempt| *attempt != 0);
        let command = AnswerCommand { run, step, attempt, answer: request.answer.into_bytes(), by };
        let run = self.0.answer(command).await?;
        Ok(Response::new(to_wire::run(&RunView::from(&run))))
    }

    type GetLogStream = Outgoing<v1::LogChunk>;

    async fn get_log(&self, request: Request<v1::GetLogRequest>) -> Result<Response<Self::GetLogStream>, Status> {
        let request = request.into_inner();
        let id = run_id("run_id", &request.run_id)?;
        let step = step_name(&request.step)?;
        Ok(Response::new(files::log(self.0.clone(), id, step, request.follow).await?))
    }

    type GetRecordStream = Outgoing<v1::Chunk>;

    async fn get_record(&self, request: Request<v1::GetRunRequest>) -> Result<Response<Self::GetRecordStream>, Status> {
        let id = run_id("run_id", &request.into_inner().run_id)?;
        Ok(Response::new(files::record(self.0.clone(), id).await?))
    }
}

/// A step's name; empty is none.
fn step_name(name: &str) -> Result<Option<StepName>, Error> {
    let parse = |name| StepName::new(name).map_err(|e| Error::invalid("step", e.to_string()));
    Some(name).filter(|name| !name.is_empty()).map(parse).transpose()
}

/// What a list of Runs is to hold.
fn filter(request: &v1::ListRunsRequest) -> Result<RunFilter, Error> {
    let mut problems = Problems::default();
    let mut filter = RunFilter { limit: request.limit, ..RunFilter::default() };
    if !request.state.is_empty() {
        if RUN_STATES.contains(&request.state.as_str()) {
            filter.state = Some(request.state.clone());
        } else {
            problems.push("state", format!("is not a state; write one of {}", RUN_STATES.join(", ")));
        }
    }
    if !request.work.is_empty() {
        filter.work = problems.parse::<WorkId>("work", &request.work);
    }
    if !request.begins.is_empty() {
        filter.begins = problems.parse::<RunId>("begins", &request.begins);
    }
    match request.since_at {
        0 => {}
        ms @ 1.. => filter.since = Some(Timestamp::from_millis(ms)),
        _ => problems.push("since_at", "must be milliseconds since 1970, or 0"),
    }
    if !request.after.is_empty() {
        match parse_page_key(&request.after) {
            Ok(key) => filter.after = Some(key),
            Err(e) => problems.push("after", e),
        }
    }
    problems.finish(Some(filter))
}
