//! Real Runs of `/bin/true` through the real binaries and the public protocol, beside bare process starts at the
//! same concurrency in the same run.
//!
//! A Run counts from its submission until its Record is sealed. Nothing is switched off for it: SQLite commits
//! with `synchronous=FULL`.

use std::{
    process::{Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use proto::v1::{self, run_service_client::RunServiceClient};
use tests::{Agent, AgentOptions, Engine, Mediator};
use tonic::{
    metadata::{Ascii, MetadataValue},
    service::interceptor::InterceptedService,
    transport::{Channel, Endpoint},
};

const SLOTS: usize = 64;
const RUNS: usize = 3_000;
const ROUNDS: usize = 3;

fn main() -> Result<()> {
    let mediator = Mediator::start_with(Engine::Sqlite, &[("MEDIATOR_LEASE__RENEW", "10s")]);
    let slots = u32::try_from(SLOTS)?;
    let options = AgentOptions { slots, ..AgentOptions::builder("bench") };
    let _agent = Agent::start_with(&mediator, &options);
    mediator.wait_node(&format!("bench/{}", SLOTS - 1), "is listed", |_| true);
    let token = mediator.token("admin", "bench");

    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let (mut bare, mut runs) = (Vec::new(), Vec::new());
    for round in 1..=ROUNDS {
        bare.push(RUNS as f64 / bare_processes().as_secs_f64());
        let took = runtime.block_on(real_runs(&mediator.url(), &token, round))?;
        runs.push(RUNS as f64 / took.as_secs_f64());
        println!("round {round}: bare {:.0}/s, Runs {:.0}/s", bare[round - 1], runs[round - 1]);
    }
    let (bare, runs) = (median(bare), median(runs));
    println!("\n{RUNS} times /bin/true, {SLOTS} at a time, median of {ROUNDS} rounds:");
    println!("bare process starts   {bare:8.0} per second");
    println!("Runs, sealed          {runs:8.0} per second");
    println!("Runs / bare           {:8.2}", runs / bare);
    ensure!(mediator.promotions("Sweep") == 0, "the sweep found a Run that a wake point had missed");
    Ok(())
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn bare_processes() -> Duration {
    let (started, left) = (Instant::now(), AtomicUsize::new(RUNS));
    let take = || left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok();
    std::thread::scope(|scope| {
        for _ in 0..SLOTS {
            scope.spawn(|| {
                while take() {
                    let status = Command::new("/bin/true").stdin(Stdio::null()).status();
                    assert!(status.is_ok_and(|status| status.success()), "/bin/true");
                }
            });
        }
    });
    started.elapsed()
}

type Client = RunServiceClient<InterceptedService<Channel, Bearer>>;

#[derive(Clone)]
struct Bearer(MetadataValue<Ascii>);

impl tonic::service::Interceptor for Bearer {
    fn call(&mut self, mut request: tonic::Request<()>) -> Result<tonic::Request<()>, tonic::Status> {
        request.metadata_mut().insert("authorization", self.0.clone());
        Ok(request)
    }
}

async fn real_runs(url: &str, token: &str, round: usize) -> Result<Duration> {
    let channel = Endpoint::from_shared(url.to_owned())?.connect().await.context("connect")?;
    let client: Client = RunServiceClient::with_interceptor(channel, Bearer(format!("Bearer {token}").parse()?));
    let ids: Vec<String> = (0..RUNS).map(|number| format!("bench-{round}-{number}")).collect();
    let started = Instant::now();
    stream::iter(&ids).map(|id| submit(client.clone(), id)).buffer_unordered(SLOTS * 2).try_collect::<()>().await?;
    stream::iter(&ids).map(|id| sealed(client.clone(), id)).buffer_unordered(8).try_collect::<()>().await?;
    Ok(started.elapsed())
}

async fn submit(mut client: Client, id: &str) -> Result<()> {
    let contract = "requires: [{as: b, capability: build}]\nsteps: [{id: t, uses: b, run: [/bin/true]}]\n";
    client.submit(v1::SubmitRequest { contract: contract.into(), run_id: id.to_owned() }).await?;
    Ok(())
}

async fn sealed(mut client: Client, id: &str) -> Result<()> {
    loop {
        let page = client.get_run(v1::GetRunRequest { run_id: id.to_owned() }).await?.into_inner();
        let state = page.run.map(|run| run.state).unwrap_or_default();
        ensure!(state != "FAILED", "{id} failed");
        if page.sealed_at.is_some() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
