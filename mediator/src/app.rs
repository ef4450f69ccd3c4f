//! Wiring: what is started in which order, and stopped in which. The only place that spawns.
//!
//! Start: store, files, first admin token, writer, the outage rule and the Startup scan, then the reaper, the
//! sweep and the sealer, and the listener last: nobody is served by half a mediator.
//! Stop: the listener stops taking calls and streams end, the periodic tasks end, and the writer last, when
//! nobody can call it any more. Leases are left as they are: they last for the rest of their horizon.
//! A part that ends by itself ends the mediator: half of one serves nobody, and a supervisor starts it again.

use std::{io::IsTerminal, sync::Arc, time::Duration};

use anyhow::{Context, bail};
use shared::domain::{Reap, Rescan};
use tokio::{
    net::TcpListener,
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
    service::{Services, hub::Hub, notify::Notifier, seal},
    state,
    store::Store,
    tls::{self, ServerTls},
    writer::Writer,
};

/// How long open calls may take to end at shutdown.
const DRAIN_CALLS: Duration = Duration::from_secs(5);

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// Whatever keeps the mediator from starting, with what to do about it.
pub async fn serve(config: Config, new_database: bool) -> anyhow::Result<()> {
    let metrics = metrics::install().context("cannot set up metrics")?;
    let clock = Clock::system();
    let _state = state::claim(&config.state_dir)?;
    state::check_database(&config.state_dir, &config.database, new_database).await?;
    let store = Store::open(&config.database, clock.clone())
        .await
        .with_context(|| format!("cannot open the database {}", redact(&config.database)))?;
    let limits = record::Limits {
        log_bytes: config.limits.log_bytes,
        blob_bytes: config.limits.artifact_bytes,
        ..record::Limits::default()
    };
    let records = RecordStore::with_limits(&config.state_dir, limits)?;
    auth::admin_token(&store, &clock, &config.state_dir).await?;
    let tls = config.tls.clone().map(ServerTls::new).transpose()?;
    let listener = TcpListener::bind(config.listen)
        .await
        .with_context(|| format!("cannot listen on {}; choose another address with --listen", config.listen))?;

    let (stop, mut parts) = (CancellationToken::new(), JoinSet::new());
    let (hub, wake_sealer) = (Hub::default(), Arc::new(Notify::new()));
    let last_event = store.read().await?.last_event().await?;
    let (events, watched) = watch::channel(last_event);
    let notifier = Notifier { hub: hub.clone(), seal: wake_sealer.clone(), events };
    let (writer, writing) = Writer::new(store.clone(), config.lease, notifier);
    let mut writing = tokio::spawn(writing);
    writer.apply(Rescan::Startup).await?;

    let services = Services {
        store: store.clone(),
        records,
        settings: config.lease,
        writer,
        hub: hub.clone(),
        events: watched,
        stop: stop.clone(),
    };
    parts.spawn(every(config.reap_interval, stop.clone(), services.clone(), reap));
    parts.spawn(every(config.sweep_interval, stop.clone(), services.clone(), sweep));
    parts.spawn(seal::run(services.clone(), wake_sealer, stop.clone()));

    if let Some(tls) = &tls {
        parts.spawn(tls.clone().follow(stop.clone()));
    }
    let (health, _) = tonic_health::server::health_reporter();
    let routes = grpc::routes(&services, Pages::new(services.clone(), metrics), &health, &config.limits.grpc())?;
    drop(services);
    tracing::info!(listen = %config.listen, tls = tls.is_some(), state_dir = %config.state_dir.display(), "serving");
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

async fn every<F>(
    period: shared::Duration,
    stop: CancellationToken,
    services: Services,
    work: impl Fn(Services) -> F + Send,
) where
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
