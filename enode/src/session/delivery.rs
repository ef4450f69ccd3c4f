//! Delivers results to the mediator: log, then output files, then the report, until it is acknowledged.
//!
//! A result that is not acknowledged within a moment is made to outlive a loss of power meanwhile. Until then it is
//! as if the power had failed that moment earlier: nobody was told that the step has ended.
//!
//! Nothing is sent before the mediator has accepted who speaks for the node. A result whose lease ends is
//! dropped, except that a report that was sent already without an answer is tried once more: it may have been
//! the very report that ended the lease.

use std::{path::PathBuf, pin::pin, sync::Arc};

use proto::v1;
use shared::domain::FailReason;
use tokio::sync::watch;

use super::{
    link::Link,
    outbox::{Entry, Outbox},
    retry::{Backoff, CallError, Kind},
    upload::{Caller, Written},
    wire,
};
use crate::{
    spool::{Outcome, Record, Spool},
    work::tree,
};

/// How long a result may be on its way before it is synced to the disk.
const KEEP_AFTER: std::time::Duration = std::time::Duration::from_secs(1);

/// How a delivery ended.
enum Delivery {
    Acknowledged(v1::ReportResponse),
    Refused(String),
}

/// Delivers the results of one node, one after the other. Never ends by itself.
pub async fn run(caller: Caller, spool: Spool) {
    loop {
        let entry = caller.node.outbox.first().await;
        let record = &entry.record;
        let key = record.key();
        let delivery = {
            let mut delivering = pin!(deliver(&caller, &spool, &entry));
            loop {
                match tokio::time::timeout(KEEP_AFTER, delivering.as_mut()).await {
                    Ok(delivery) => break delivery,
                    Err(_) => keep(&spool, &caller.node.outbox),
                }
            }
        };
        // The upload may still hold the log's file; it has no reader any more.
        if let Some(log) = entry.take_log() {
            log.abort();
        }
        let over = match delivery {
            Delivery::Acknowledged(answer) => {
                tracing::info!(node = %caller.node.id, result = %key, step = answer.step_state, run = answer.run_state, "acknowledged");
                spool.remove(&key);
                matches!(answer.run_state.as_str(), "SUCCEEDED" | "FAILED")
            }
            Delivery::Refused(why) => {
                tracing::warn!(node = %caller.node.id, result = %key, why, "the result is not wanted; it is kept with the refused ones");
                spool.refuse(record, &why);
                false
            }
        };
        caller.node.settled(&key);
        if !record.artifacts.is_empty() {
            remove_outputs(record.out.clone()).await;
        }
        if over {
            caller.node.run_over(&(record.run_id.clone(), record.nonce));
        }
        caller.node.outbox.done();
    }
}

/// Syncs what waits, and has not been synced yet.
fn keep(spool: &Spool, outbox: &Outbox) {
    let waiting = outbox.to_keep();
    if waiting.is_empty() {
        return;
    }
    let spool = spool.clone();
    tokio::task::spawn_blocking(move || {
        for key in waiting {
            if let Err(e) = spool.keep(&key) {
                tracing::error!(result = %key, error = %e, "cannot sync the spool: a loss of power would lose this result");
            }
        }
    });
}

async fn remove_outputs(out: PathBuf) {
    let removed = tokio::task::spawn_blocking(move || tree::remove_tree(&out).map_err(|e| (out, e))).await;
    if let Ok(Err((out, e))) = removed {
        tracing::warn!(path = %out.display(), error = %e, "cannot remove the output files");
    }
}

async fn deliver(caller: &Caller, spool: &Spool, entry: &Entry) -> Delivery {
    let mut outcome = entry.record.outcome.clone();
    let (mut uploaded, mut unanswered, mut replaced) = (false, false, false);
    let mut backoff = Backoff::new();
    loop {
        tokio::select! {
            biased;
            () = entry.dropped.cancelled(), if !unanswered => return dropped(),
            () = caller.accepted() => {}
        }
        if !uploaded {
            let stopped = tokio::select! {
                stopped = upload(caller, spool, entry, &outcome) => stopped,
                () = entry.dropped.cancelled() => return dropped(),
            };
            match stopped {
                Ok(()) => uploaded = true,
                Err(Trouble::Again) => continue,
                Err(Trouble::Output(message)) => {
                    uploaded = true;
                    outcome = not_completed(FailReason::OutputRefused, message);
                }
            }
        }
        // Not cut short by the end of the lease: this report may be what ends it.
        let last_try = entry.dropped.is_cancelled();
        let message = report(&entry.record, &outcome);
        let send = |link: Arc<Link>, who| async move {
            link.report(v1::ReportRequest { node: Some(wire::speaker(&who)), ..message }).await
        };
        match caller.speak(send).await {
            Ok(answer) => return Delivery::Acknowledged(answer),
            Err(e) if last_try => return Delivery::Refused(format!("the lease has ended: {e}")),
            Err(e) => match e.kind {
                // The step must not stay claimed for ever because its result cannot be said.
                Kind::Refused if e.is_about_the_message() => {
                    if replaced {
                        return Delivery::Refused(e.message);
                    }
                    replaced = true;
                    outcome = not_completed(FailReason::Killed, format!("the mediator refused its result: {e}"));
                }
                // Anything else says nothing about this result: somebody mends credentials, a proxy, a version.
                Kind::Retry | Kind::Denied | Kind::Checksum | Kind::Refused => {
                    tracing::info!(node = %caller.node.id, result = %entry.record.key(), error = %e, "the report will be sent again");
                    unanswered = true;
                    pause(caller, &mut backoff, entry).await;
                }
                // The node is idle until it is accepted again.
                Kind::Superseded => {}
                Kind::Stale => return Delivery::Refused(e.message),
            },
        }
    }
}

fn dropped() -> Delivery {
    Delivery::Refused("the lease had ended before the result was sent".to_owned())
}

async fn pause(caller: &Caller, backoff: &mut Backoff, entry: &Entry) {
    tokio::select! {
        () = backoff.pause(caller.node.interval()) => {}
        () = entry.dropped.cancelled() => {}
    }
}

fn not_completed(reason: FailReason, message: String) -> Outcome {
    Outcome::NotCompleted { reason: reason.as_str().to_owned(), message }
}

fn report(record: &Record, outcome: &Outcome) -> v1::ReportRequest {
    use v1::report_request::Outcome as Wire;
    v1::ReportRequest {
        node: None,
        step: Some(wire::step_ref(&record.key())),
        nonce: record.nonce.reveal(),
        log_bytes: i64::try_from(record.log_bytes).unwrap_or(i64::MAX),
        outcome: Some(match outcome.clone() {
            Outcome::Completed { exit_code } => Wire::Completed(v1::Completed { exit_code }),
            Outcome::NotCompleted { reason, message } => Wire::NotCompleted(v1::NotCompleted { reason, message }),
        }),
    }
}

/// Why an upload is not complete.
enum Trouble {
    /// Start again.
    Again,
    /// This output cannot be stored.
    Output(String),
}

async fn upload(caller: &Caller, spool: &Spool, entry: &Entry, outcome: &Outcome) -> Result<(), Trouble> {
    let record = &entry.record;
    let key = record.key();
    // A log that is not wanted is no reason to keep back the report: its answer says what is the matter.
    if let Err(e) = finish_log(caller, spool, entry).await {
        tracing::warn!(node = %caller.node.id, result = %key, error = %e, "the log is incomplete");
    }
    if !matches!(outcome, Outcome::Completed { .. }) {
        return Ok(());
    }
    if record.artifacts.is_empty() {
        return Ok(());
    }
    let mut backoff = Backoff::new();
    loop {
        let Err(e) = caller.put_artifacts(&key, record.nonce, &record.out, &record.artifacts).await else {
            return Ok(());
        };
        match e.kind {
            Kind::Retry | Kind::Denied => backoff.pause(caller.node.interval()).await,
            Kind::Superseded => return Err(Trouble::Again),
            // Late: the report will be told so, or gets the answer that it had before.
            Kind::Stale => return Ok(()),
            Kind::Checksum => {
                return Err(Trouble::Output(format!("an output file changed while it was stored: {}", e.message)));
            }
            Kind::Refused => return Err(Trouble::Output(format!("the output files: {e}"))),
        }
    }
}

async fn finish_log(caller: &Caller, spool: &Spool, entry: &Entry) -> Result<(), CallError> {
    let record = &entry.record;
    match entry.take_log() {
        Some(log) => match log.await {
            Ok(sent) => return sent,
            Err(e) => tracing::error!(result = %record.key(), error = %e, "the log upload broke down"),
        },
        None if record.log_bytes == 0 => return Ok(()),
        None => {}
    }
    let path = spool.log_path(&record.key());
    let bytes = match tokio::fs::metadata(&path).await {
        Ok(metadata) => metadata.len(),
        Err(e) => return Err(CallError::refused(format!("{}: {e}", path.display()))),
    };
    let (_writer, written) = watch::channel(Written { bytes, closed: true });
    caller.put_log(&record.key(), record.nonce, &path, written).await
}
