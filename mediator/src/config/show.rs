//! `mediator config show`: the values in force, where each comes from, and no secret.

use serde::Serialize;

use super::{ByteSize, Config, KEYS, layers::Values};

/// One key as it is in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Shown {
    /// `lease.renew`
    pub key: &'static str,
    /// As one would write it; empty when there is none.
    pub value: String,
    /// The file, variable or flag, or `default`.
    pub source: String,
    /// What it is.
    pub about: &'static str,
}

pub(super) fn shown(config: &Config, values: &Values) -> Vec<Shown> {
    KEYS.iter()
        .map(|key| Shown {
            key: key.name,
            value: value(config, key.name),
            source: values.origins(key.name),
            about: key.about,
        })
        .collect()
}

fn value(config: &Config, key: &str) -> String {
    let path = |path: &std::path::Path| path.display().to_string();
    let tls = config.tls.as_ref();
    match key {
        "listen" => config.listen.to_string(),
        "state_dir" => path(&config.state_dir),
        "records_dir" => path(&config.records_dir),
        "database" => redact(&config.database),
        "tls.cert" => tls.map(|tls| path(&tls.cert)).unwrap_or_default(),
        "tls.key" => tls.map(|tls| path(&tls.key)).unwrap_or_default(),
        "tls.client_ca" => tls.and_then(|tls| tls.client_ca.as_deref()).map(path).unwrap_or_default(),
        "tls.client_auth" => tls.map(|tls| tls.client_auth).unwrap_or_default().to_string(),
        "insecure" => config.insecure.to_string(),
        "lease.renew" => config.lease.renew.to_string(),
        "lease.factor" => config.lease.factor.to_string(),
        "lease.max_per_run" => config.lease.max_per_run.to_string(),
        "queue.reserve_after" => config.lease.reserve_after.to_string(),
        "lease.restart_grace" => config.restart_grace.to_string(),
        "sweep_interval" => config.sweep_interval.to_string(),
        "reap_interval" => config.reap_interval.to_string(),
        "limits.log_bytes" => ByteSize(config.limits.log_bytes).to_string(),
        "limits.artifact_bytes" => ByteSize(config.limits.artifact_bytes).to_string(),
        "limits.message_bytes" => ByteSize(config.limits.message_bytes).to_string(),
        "limits.connections" => config.limits.connections.to_string(),
        "limits.connections_per_peer" => config.limits.connections_per_peer.to_string(),
        "limits.streams_per_connection" => config.limits.streams_per_connection.to_string(),
        "limits.calls_per_principal" => config.limits.calls_per_principal.to_string(),
        "limits.streams_per_principal" => config.limits.streams_per_principal.to_string(),
        "limits.node_streams_per_principal" => config.limits.node_streams_per_principal.to_string(),
        "limits.calls_per_stranger" => config.limits.calls_per_stranger.to_string(),
        "limits.handshake_timeout" => config.limits.handshake_timeout.to_string(),
        "limits.header_timeout" => config.limits.header_timeout.to_string(),
        "limits.idle_timeout" => config.limits.idle_timeout.to_string(),
        "limits.stall_timeout" => config.limits.stall_timeout.to_string(),
        "limits.keepalive" => config.limits.keepalive.to_string(),
        "log.format" => config.log.format.to_string(),
        "log.filter" => config.log.filter.clone(),
        // The test walks every key, so this is never seen.
        _ => String::new(),
    }
}

/// A database URL without its password, in the user part or as a parameter.
#[must_use]
pub fn redact(url: &str) -> String {
    const HIDDEN: &str = "REDACTED";
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (rest, query) = match rest.split_once('?') {
        Some((rest, query)) => (rest, Some(query)),
        None => (rest, None),
    };
    // The last `@` ends the user part: a password may hold one.
    let rest = match rest.rsplit_once('@') {
        Some((user, host)) => match user.split_once(':') {
            Some((name, _)) => format!("{name}:{HIDDEN}@{host}"),
            None => format!("{user}@{host}"),
        },
        None => rest.to_owned(),
    };
    let query = query.map(|query| {
        let parts = query.split('&').map(|part| match part.split_once('=') {
            Some((name, _)) if name.eq_ignore_ascii_case("password") => format!("{name}={HIDDEN}"),
            _ => part.to_owned(),
        });
        format!("?{}", parts.collect::<Vec<_>>().join("&"))
    });
    format!("{scheme}://{rest}{}", query.unwrap_or_default())
}
