//! A client as users have it: submits and looks, over one connection.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use proto::v1::{self, run_service_client::RunServiceClient};
use tests::{
    Engine, Mediator,
    postgres::{Database, Server},
};
use tokio::runtime::Runtime;
use tonic::{
    metadata::{Ascii, MetadataValue},
    service::interceptor::InterceptedService,
    transport::{Channel, Endpoint},
};

/// Says who calls.
#[derive(Debug, Clone)]
pub(crate) struct Bearer(MetadataValue<Ascii>);

impl Bearer {
    pub(crate) fn new(token: &str) -> Result<Self> {
        Ok(Self(format!("Bearer {token}").parse()?))
    }
}

impl tonic::service::Interceptor for Bearer {
    fn call(&mut self, mut request: tonic::Request<()>) -> Result<tonic::Request<()>, tonic::Status> {
        request.metadata_mut().insert("authorization", self.0.clone());
        Ok(request)
    }
}

/// A mediator as it is without any configuration, and whatever else a measurement needs.
pub(crate) fn mediator(engine: Engine, extra: &[(&str, &str)]) -> Mediator {
    // The tests' own times are much shorter.
    let shipped =
        [("MEDIATOR_LEASE__RENEW", "10s"), ("MEDIATOR_REAP_INTERVAL", "1s"), ("MEDIATOR_SWEEP_INTERVAL", "1m")];
    let extra = [&shipped, extra].concat();
    let mut mediator = match engine {
        Engine::Sqlite => Mediator::start_with(engine, &extra),
        Engine::Postgres => Mediator::start_on(durable().expect("PostgreSQL"), &extra),
    };
    mediator.home.disable_cleanup(true);
    mediator
}

/// A database of a server that syncs.
fn durable() -> Result<Database> {
    Database::on(&Arc::new(Server::start_durable()?))
}

/// What the benchmark's own side runs on.
pub(crate) fn runtime() -> Result<Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?)
}

/// Milliseconds since 1970.
pub(crate) fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64() * 1_000.0
}

/// Calls under way at a time.
const AT_A_TIME: usize = 128;

/// A client. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Caller(RunServiceClient<InterceptedService<Channel, Bearer>>);

impl Caller {
    /// Needs a runtime to be entered.
    pub(crate) fn new(mediator: &Mediator) -> Result<Self> {
        let channel = Endpoint::from_shared(mediator.url())?.connect_lazy();
        Ok(Self(RunServiceClient::with_interceptor(channel, Bearer::new(&mediator.token("admin", "bench"))?)))
    }

    /// Returns the state.
    pub(crate) async fn submit(&self, id: &str, contract: &str) -> Result<String> {
        let request = v1::SubmitRequest { contract: contract.into(), run_id: id.to_owned() };
        let answer = self.0.clone().submit(request).await.with_context(|| format!("submit {id}"))?.into_inner();
        Ok(answer.run.map(|run| run.state).unwrap_or_default())
    }

    /// Submits all of them, many at a time.
    pub(crate) async fn submit_all(&self, runs: impl IntoIterator<Item = (String, String)>) -> Result<()> {
        let one = |(id, contract): (String, String)| async move { self.submit(&id, &contract).await.map(drop) };
        stream::iter(runs).map(one).buffer_unordered(AT_A_TIME).try_collect().await
    }

    /// Waits until the Record is sealed. Returns when that was by the mediator's word, in milliseconds since 1970.
    pub(crate) async fn sealed(&self, id: &str) -> Result<f64> {
        let mut pause = Duration::from_millis(2);
        loop {
            let request = v1::GetRunRequest { run_id: id.to_owned() };
            let page = self.0.clone().get_run(request).await?.into_inner();
            let state = page.run.map(|run| run.state).unwrap_or_default();
            ensure!(state != "FAILED", "{id} failed");
            if let Some(at) = page.sealed_at {
                return Ok(at as f64);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(100));
        }
    }

    /// Submits all of them and waits until the last is sealed. Returns how many that were per second.
    ///
    /// The end is the latest `sealed_at` that the mediator tells, on the clock of this machine. So nobody needs to
    /// look often meanwhile, and looking at each of them afterwards costs nothing that is measured.
    pub(crate) async fn runs_per_second(&self, ids: &[String], contract: &str) -> Result<f64> {
        let started = now();
        self.submit_all(ids.iter().map(|id| (id.clone(), contract.to_owned()))).await?;
        if let Some(last) = ids.last() {
            self.sealed(last).await?;
        }
        let ends: Vec<f64> = stream::iter(ids).map(|id| self.sealed(id)).buffered(32).try_collect().await?;
        let ended = ends.into_iter().fold(f64::MIN, f64::max);
        Ok(ids.len() as f64 * 1_000.0 / (ended - started))
    }
}

/// One step on a node with this capability.
pub(crate) fn contract(capability: &str, argv: &[&str]) -> String {
    let argv: Vec<String> = argv.iter().map(|it| format!("{it:?}")).collect();
    format!(
        "requires: [{{as: b, capability: {capability}}}]\nsteps: [{{id: t, uses: b, run: [{}]}}]\n",
        argv.join(", ")
    )
}
