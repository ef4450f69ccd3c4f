//! Wiring: what is started in which order, and stopped in which. The only place that spawns.
//!
//! Start: store, files, first admin token, writer, the outage rule and the Startup scan, then the reaper, the
//! sweep and the sealer, and the listener last: nobody is served by half a mediator.
//! Stop: agents are asked for an advert (their leases then last over a restart), the listener stops taking
//! calls and ends its streams, the periodic tasks end, and the writer last, when nobody can call it any more.

use std::{sync::Arc, time::Duration};

use shared::domain::{Reap, Rescan};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    sync::{Notify, watch},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    auth::{self, Auth},
    clock::Clock,
    config::Config,
    grpc, metrics,
    record::RecordStore,
    service::{Notifier, Services, hub::Hub, seal},
    store::Store,
    tls,
    writer::Writer,
};

/// How long open calls may take to end at shutdown.
const DRAIN_CALLS: Duration = Duration::from_secs(5);

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// Whatever keeps the mediator from starting, with what to do about it.
pub async fn serve(config: Config) -> anyhow::Result<()> {
    use anyhow::Context;
    let metrics = metrics::install().context("cannot set up metrics")?;
    let clock = Clock::system();
    let store = Store::open(&config.database_url(), clock).await?;
    let records = RecordStore::open(&config.state_dir, config.record_limits())?;
    auth::ensure_admin_token(&store, &config.state_dir).await?;
    let tls = config.tls.as_ref().map(tls::server_config).transpose()?;
    let listener = TcpListener::bind(config.listen)
        .await
        .with_context(|| format!("cannot listen on {}; choose another address with --listen", config.listen))?;

    let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
    let (hub, wake_sealer) = (Hub::default(), Arc::new(Notify::new()));
    let (commits, watched) = watch::channel(0);
    let notifier = Notifier { hub: hub.clone(), seal: wake_sealer.clone(), commits };
    let (writer, writing) = Writer::new(store.clone(), config.lease.settings(), notifier);
    let writing = tokio::spawn(writing);
    writer.apply(Rescan::Startup).await?;

    let services = Services {
        auth: Auth::new(store.clone()),
        store,
        records,
        settings: config.lease.settings(),
        writer,
        hub: hub.clone(),
        commits: watched,
    };
    tasks.spawn(every(config.reap_interval.std(), stop.clone(), services.clone(), reap));
    tasks.spawn(every(config.sweep_interval.std(), stop.clone(), services.clone(), sweep));
    tasks.spawn(seal::run(services.clone(), wake_sealer, stop.clone()));

    tracing::info!(listen = %config.listen, tls = tls.is_some(), state = %config.state_dir.display(), "serving");
    let serving = grpc::serve(listener, tls, services, &config, metrics, stop.clone());
    // Without a supervisor that listens there is nobody to tell.
    drop(sd_notify::notify(&[sd_notify::NotifyState::Ready]));
    tokio::pin!(serving);
    tokio::select! {
        ended = &mut serving => return Ok(ended?),
        () = asked_to_stop() => {}
    }

    tracing::info!("stopping");
    drop(sd_notify::notify(&[sd_notify::NotifyState::Stopping]));
    hub.ask_all_for_adverts();
    stop.cancel();
    hub.close_all();
    if tokio::time::timeout(DRAIN_CALLS, &mut serving).await.is_err() {
        tracing::warn!("some calls did not end in time");
    }
    tasks.close();
    tasks.wait().await;
    // The last handle to the writer went with the last service; what it had taken in is committed.
    drop(tokio::time::timeout(DRAIN_CALLS, writing).await);
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

async fn every<F>(period: Duration, stop: CancellationToken, services: Services, work: impl Fn(Services) -> F)
where
    F: Future<Output = ()>,
{
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(period) => work(services.clone()).await,
        }
    }
}

async fn reap(services: Services) {
    match services.writer.apply(Reap).await {
        Ok(0) => {}
        Ok(expired) => tracing::warn!(expired, "leases ran out: their nodes went silent"),
        Err(error) => tracing::warn!(error = &error as &dyn std::error::Error, "the reaper could not work"),
    }
}

async fn sweep(services: Services) {
    if let Err(error) = services.writer.apply(Rescan::Sweep).await {
        tracing::warn!(error = &error as &dyn std::error::Error, "the sweep could not work");
    }
}
