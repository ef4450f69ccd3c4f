//! Wiring: what is started in which order, and stopped in which. The only place that spawns.
//!
//! Start: certificate and address, so that what is wrong with them is told before anything is made; then store,
//! files, first admin token, writer, the outage rule and the Startup scan, then the reaper, the sweep and the
//! sealer, and listening last: nobody is served by half a mediator.
//! Stop: the agents are heard once more and given time, the listener stops taking calls and streams end, the
//! periodic tasks end, and the writer last, when nobody can call it any more. Leases last for what their agents
//! were promised.
//! A part that ends by itself ends the mediator: half of one serves nobody, and a supervisor starts it again.

use std::{io::IsTerminal, net::SocketAddr, sync::Arc};

use anyhow::{Context, bail};
use shared::{
    Duration,
    domain::{Reap, Rescan},
};
use tokio::{
    net::TcpSocket,
    signal::unix::{SignalKind, signal},
    sync::{Notify, watch},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use crate::{
    auth::{self, Auth},
    clock::Clock,
    config::{Config, LogFormat, redact},
    error::Error,
    grpc,
    http::Pages,
    metrics,
    record::{self, RecordStore},
    service::{
        Services, contracts::Contracts, gc, hub::Hub, leave::Leave, notify::Notifier, relay, seal, texts::Texts,
    },
    state,
    store::Store,
    tls::{self, ServerTls},
    writer::Writer,
};

/// How long open calls may take to end at shutdown.
const DRAIN_CALLS: std::time::Duration = std::time::Duration::from_secs(5);

/// Connections that wait to be accepted.
const BACKLOG: u32 = 1_024;

/// Takes the address; nobody can connect to it yet.
fn bind(address: SocketAddr) -> std::io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // What an earlier life left in TIME_WAIT is no reason not to start.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// Whatever keeps the mediator from starting, with what to do about it.
pub async fn serve(config: Config, new_database: bool) -> anyhow::Result<()> {
    let metrics = metrics::install().context("cannot set up metrics")?;
    let clock = Clock::system();
    // What can be wrong with the configuration is found before anything is made.
    let tls = config.tls.clone().map(ServerTls::new).transpose()?;
    let cannot_listen = || format!("cannot listen on {}; choose another address with --listen", config.listen);
    let socket = bind(config.listen).with_context(cannot_listen)?;
    let _state = state::claim(&config.state_dir)?;
    state::check_database(&config, new_database).await?;
    let store = Store::open(&config.database, clock.clone())
        .await
        .with_context(|| format!("cannot open the database {}", redact(&config.database)))?;
    let limits = record::Limits {
        log_bytes: config.limits.log_bytes,
        blob_bytes: config.limits.artifact_bytes,
        ..record::Limits::default()
    };
    state::belongs_together(&store, &config.records_dir).await?;
    gc::repair_at_start(&store, &config.records_dir).await?;
    let owner = state::own_name(&config.state_dir)?;
    let place = record::Place { dir: &config.records_dir, owner: &owner, shared: store.is_shared() };
    let records = RecordStore::at(place, limits)?;
    auth::admin_token(&store, &clock, &config.state_dir).await?;

    let (stop, mut parts) = (CancellationToken::new(), JoinSet::new());
    let (hub, wake_sealer) = (Hub::default(), Arc::new(Notify::new()));
    // Before the last event is read, so that nothing falls in between.
    let line = store.listen().await.context("cannot listen to the other mediators of this database")?;
    let last_event = store.read().await?.last_event().await?;
    let (events, watched) = watch::channel(last_event);
    let notifier = Notifier { hub: hub.clone(), seal: wake_sealer.clone(), events: events.clone() };
    let leave = Leave::new(config.lease);
    let (writer, writing) = Writer::new(store.clone(), leave.follow(), notifier);
    let mut writing = tokio::spawn(writing);
    writer.apply(Rescan::Startup).await?;

    let services = Services {
        store: store.clone(),
        records,
        settings: config.lease,
        writer,
        contracts: Contracts::default(),
        texts: Texts::default(),
        hub: hub.clone(),
        leave: leave.clone(),
        events: watched,
        stop: stop.clone(),
    };
    parts.spawn(every(config.reap_interval, stop.clone(), services.clone(), reap));
    parts.spawn(every(config.sweep_interval, stop.clone(), services.clone(), sweep));
    if let Some(line) = line {
        parts.spawn(relay::run(services.clone(), line, events, stop.clone()));
    }
    parts.spawn(seal::run(services.clone(), wake_sealer, stop.clone()));

    if let Some(tls) = &tls {
        parts.spawn(tls.clone().follow(stop.clone()));
    }
    let (health, _) = tonic_health::server::health_reporter();
    let routes = grpc::routes(&services, Pages::new(services.clone(), metrics), &health, &config.limits.grpc())?;
    drop(services);
    tracing::info!(listen = %config.listen, tls = tls.is_some(), state_dir = %config.state_dir.display(), "serving");
    // Only now: whoever called earlier was refused at once, rather than kept waiting.
    let listener = socket.listen(BACKLOG).with_context(cannot_listen)?;
    let incoming = tls::incoming(listener, tls, config.limits.connections());
    let serving = grpc::serve(routes, Auth::new(store, clock), config.limits.grpc(), incoming, stop.clone());
    tokio::pin!(serving);
    grpc::set_serving(&health, true).await;
    // Without a supervisor that listens there is nobody to tell.
    drop(sd_notify::notify(&[sd_notify::NotifyState::Ready]));
    tokio::select! {
        ended = &mut serving => return Ok(ended?),
        ended = &mut writing => bail!("the fleet's writer ended by itself: {ended:?}"),
        Some(ended) = parts.join_next() => bail!("a part of the mediator ended by itself: {ended:?}"),
        () = asked_to_stop() => {}
    }

    tracing::info!("stopping");
    drop(sd_notify::notify(&[sd_notify::NotifyState::Stopping]));
    grpc::set_serving(&health, false).await;
    if config.restart_grace > Duration::default() {
        let (asked, silent) = leave.say(&hub, config.restart_grace).await;
        tracing::info!(asked, silent, grace = %config.restart_grace, "agents have time until the next start");
    }
    hub.close_all();
    stop.cancel();
    if tokio::time::timeout(DRAIN_CALLS, &mut serving).await.is_err() {
        tracing::warn!("some calls did not end in time");
    }
    let ended = tokio::time::timeout(DRAIN_CALLS, async { while parts.join_next().await.is_some() {} }).await;
    if ended.is_err() {
        tracing::warn!("some work did not end in time; it is taken up again at the next start");
    }
    drop(parts);
    // Whatever the writer had taken in is committed; a handle that a stuck call still holds is not waited for.
    drop(tokio::time::timeout(DRAIN_CALLS, writing).await);
    Ok(())
}

/// Sets up the mediator's own log, on stderr.
///
/// # Errors
/// A filter that does not parse.
pub fn init_logging(config: &Config) -> anyhow::Result<()> {
    let filter = tracing_subscriber::EnvFilter::try_new(&config.log.filter).with_context(|| {
        format!("log.filter {:?} is not a filter; write for example info,mediator=debug", config.log.filter)
    })?;
    let coloured = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(coloured).with_writer(std::io::stderr);
    match config.log.format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().init(),
    }
    Ok(())
}

async fn asked_to_stop() {
    let (Ok(mut term), Ok(mut int)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) else {
        // Without handlers the default applies: the process ends.
        return std::future::pending().await;
    };
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
}

async fn every<F>(period: Duration, stop: CancellationToken, services: Services, work: impl Fn(Services) -> F + Send)
where
    F: Future<Output = ()> + Send,
{
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(period.std()) => work(services.clone()).await,
        }
    }
}

async fn reap(services: Services) {
    match services.writer.apply(Reap).await {
        Ok(0) => {}
        Ok(expired) => tracing::warn!(expired, "leases ran out: their nodes went silent"),
        Err(error) => unavailable("the reaper could not work", &error),
    }
}

async fn sweep(services: Services) {
    if let Err(error) = services.writer.apply(Rescan::Sweep).await {
        unavailable("the sweep could not work", &error);
    }
}

fn unavailable(what: &str, error: &Error) {
    tracing::warn!(reason = error.kind().reason(), "{what}");
    error.log();
}
