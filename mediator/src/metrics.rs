//! Names of all metrics, what they mean, and the text that `/metrics` answers.
//!
//! No label ever holds a nonce, a principal, a Run or a node: labels are closed sets of words.

use metrics::{describe_counter, describe_gauge, describe_histogram};
use metrics_exporter_prometheus::{BuildError, PrometheusBuilder, PrometheusHandle};
use shared::domain::Wake;

use crate::store::Counts;

/// Counter, label `wake`: queued Runs that got their nodes.
pub const PROMOTIONS: &str = "mediator_promotions_total";
/// Gauge, label `state`: Runs that are not over.
pub const RUNS: &str = "mediator_runs";
/// Gauge: Runs that have ended and have no Record yet.
pub const UNSEALED: &str = "mediator_unsealed_runs";
/// Gauge: leases.
pub const LEASES: &str = "mediator_leases";
/// Gauge, label `state`: nodes.
pub const NODES: &str = "mediator_nodes";
/// Counter, label `reason`: failures told to peers, by the stable reason.
pub const REFUSALS: &str = "mediator_refusals_total";
/// Counter: adverts.
pub const ADVERTS: &str = "mediator_adverts_total";
/// Counter, label `why`: connections that were closed because of a limit.
pub const CONNECTIONS_REFUSED: &str = "mediator_connections_refused_total";
/// Gauge: 1 when the TLS files on disk are in force, 0 when they have changed and cannot be used.
pub const TLS_OK: &str = "mediator_tls_files_ok";
/// Gauge, seconds since 1970: when the server's certificate in force runs out.
pub const TLS_EXPIRES: &str = "mediator_tls_certificate_expires_seconds";
/// Counter, label `what`: notices of other mediators of the same database, and gaps in them.
pub const NOTICES: &str = "mediator_notices_total";
/// Histogram: requests in one commit of the fleet writer.
pub const GROUP_SIZE: &str = "mediator_writer_group_size";
/// Histogram, seconds: one commit group of the fleet writer, from lock to commit.
pub const GROUP_SECONDS: &str = "mediator_writer_group_seconds";

/// Installs the recorder of this process and describes every metric. Counters that must be seen at 0 start
/// there.
///
/// # Errors
/// When a recorder is installed already or a bucket list is empty.
pub fn install() -> Result<PrometheusHandle, BuildError> {
    let handle = builder()?.install_recorder()?;
    describe();
    Ok(handle)
}

fn builder() -> Result<PrometheusBuilder, BuildError> {
    use metrics_exporter_prometheus::Matcher;
    PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Full(GROUP_SIZE.to_owned()), &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0])?
        .set_buckets_for_metric(
            Matcher::Full(GROUP_SECONDS.to_owned()),
            &[0.000_5, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1.0, 5.0],
        )
}

fn describe() {
    describe_counter!(PROMOTIONS, "Queued runs that got their nodes, by wake point. Sweep must stay 0.");
    describe_gauge!(RUNS, "Runs that have not ended, by state.");
    describe_gauge!(UNSEALED, "Runs that have ended and have no Record yet. Above 0 for long: see the log.");
    describe_gauge!(LEASES, "Leases now.");
    describe_gauge!(NODES, "Nodes by state: free, busy, draining, expired.");
    describe_counter!(REFUSALS, "Failures told to peers, by reason.");
    describe_counter!(ADVERTS, "Adverts that came in.");
    describe_counter!(
        CONNECTIONS_REFUSED,
        "Connections closed by a limit: all and peer (too many), handshake, header, idle and stalled (too slow)."
    );
    describe_gauge!(
        TLS_OK,
        "1: the TLS files are in force. 0: they have changed and cannot be used; the old ones are."
    );
    describe_gauge!(TLS_EXPIRES, "When the server's certificate in force runs out, in seconds since 1970.");
    describe_counter!(NOTICES, "Notices of other mediators: heard, and gap where the line was cut.");
    describe_histogram!(GROUP_SIZE, "Requests in one commit of the fleet writer.");
    describe_histogram!(GROUP_SECONDS, metrics::Unit::Seconds, "One commit group of the fleet writer.");
    for wake in Wake::ALL {
        metrics::counter!(PROMOTIONS, "wake" => wake.as_str()).absolute(0);
    }
    metrics::counter!(REFUSALS, "reason" => "STALE").absolute(0);
}

/// A Run was promoted at this wake point.
pub fn promoted(wake: Wake) {
    metrics::counter!(PROMOTIONS, "wake" => wake.as_str()).increment(1);
}

/// A peer was told that something failed, for this stable reason. Called where the answer is made, and nowhere
/// else. `STALE` counts the late writes of nodes.
pub fn refused(reason: &'static str) {
    metrics::counter!(REFUSALS, "reason" => reason).increment(1);
}

/// A connection was closed because of a limit.
pub fn connection_refused(why: &'static str) {
    metrics::counter!(CONNECTIONS_REFUSED, "why" => why).increment(1);
}

/// Whether the TLS files are in force, and until when their certificate is good.
pub fn certificate(ok: bool, expires_at: Option<shared::Timestamp>) {
    metrics::gauge!(TLS_OK).set(if ok { 1.0 } else { 0.0 });
    if let Some(at) = expires_at {
        let seconds = u32::try_from(at.millis() / 1_000).unwrap_or(u32::MAX);
        metrics::gauge!(TLS_EXPIRES).set(f64::from(seconds));
    }
}

/// An advert came in.
pub fn advert() {
    metrics::counter!(ADVERTS).increment(1);
}

/// Another mediator was heard, or its line was cut.
pub fn notice(what: &'static str) {
    metrics::counter!(NOTICES, "what" => what).increment(1);
}

/// The fleet writer committed a group.
pub fn group(size: usize, took: std::time::Duration) {
    metrics::histogram!(GROUP_SIZE).record(u32::try_from(size).unwrap_or(u32::MAX));
    metrics::histogram!(GROUP_SECONDS).record(took.as_secs_f64());
}

/// Sets the gauges. Called before each scrape, so that they cannot drift.
pub fn counted(counts: Counts) {
    for (state, count) in
        [("free", counts.free), ("busy", counts.busy), ("draining", counts.draining), ("expired", counts.expired)]
    {
        metrics::gauge!(NODES, "state" => state).set(count);
    }
    metrics::gauge!(UNSEALED).set(counts.unsealed);
    metrics::gauge!(LEASES).set(counts.leases);
    metrics::gauge!(RUNS, "state" => "QUEUED").set(counts.queued);
    metrics::gauge!(RUNS, "state" => "RUNNING").set(counts.running);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b02_every_wake_point_is_seen_from_the_start() {
        let recorder = builder().unwrap().build_recorder();
        let text = metrics::with_local_recorder(&recorder, || {
            describe();
            promoted(Wake::RunSettled);
            refused("STALE");
            refused("NOT_FOUND");
            group(3, std::time::Duration::from_millis(4));
            recorder.handle().render()
        });
        for wake in Wake::ALL {
            let count = u8::from(wake == Wake::RunSettled);
            assert!(text.contains(&format!("{PROMOTIONS}{{wake=\"{wake}\"}} {count}")), "{text}");
        }
        assert!(text.contains("mediator_refusals_total{reason=\"NOT_FOUND\"} 1"), "{text}");
        assert!(text.contains("mediator_refusals_total{reason=\"STALE\"} 1"), "{text}");
        assert!(text.contains("mediator_writer_group_size_bucket{le=\"4\"} 1"), "{text}");
    }
}
