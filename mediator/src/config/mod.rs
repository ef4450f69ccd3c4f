//! The mediator's configuration: one table of keys, layers over each other, every mistake told at once.
//!
//! Defaults < `/etc/mediator/config.toml` < the user's file < `--config FILE` < environment `MEDIATOR_…`
//! (nested with `__`) < flags. [`load`] never stops at the first problem, and each problem names the file, the
//! variable or the flag it comes from. Must not know: what the numbers are used for.

mod check;
mod layers;
mod show;
mod value;

use std::{net::SocketAddr, path::PathBuf};

use shared::{Duration, domain::Settings};

pub use layers::Layers;
pub use show::{Shown, redact};
pub use value::{ByteSize, ClientAuth, LogFormat};

/// Everything that can be configured, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Where to listen, gRPC and HTTP alike.
    pub listen: SocketAddr,
    /// Where logs, artifacts, Records, the admin token and by default the database are.
    pub state_dir: PathBuf,
    /// Where logs, artifacts and Records are.
    pub records_dir: PathBuf,
    /// `sqlite:PATH` or `postgres://…`. May hold a password: show it through [`redact`] only.
    pub database: String,
    /// Certificate and key; none means plain text.
    pub tls: Option<TlsFiles>,
    /// Allows plain text beyond loopback.
    pub insecure: bool,
    /// Numbers that decisions depend on.
    pub lease: Settings,
    /// How long leases and adverts live across a planned stop.
    pub restart_grace: Duration,
    /// How often the safety net scans the queue.
    pub sweep_interval: Duration,
    /// How often expired leases are looked for.
    pub reap_interval: Duration,
    /// Sizes.
    pub limits: Limits,
    /// What is logged and how.
    pub log: Log,
}

/// PEM files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate chain.
    pub cert: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// The authority that signs the certificates of clients.
    pub client_ca: Option<PathBuf>,
    /// Whether clients show certificates.
    pub client_auth: ClientAuth,
}

/// Most of things that others send or hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Log of one attempt.
    pub log_bytes: u64,
    /// One output file.
    pub artifact_bytes: u64,
    /// One message.
    pub message_bytes: u64,
    /// Connections.
    pub connections: u32,
    /// Connections of one peer.
    pub connections_per_peer: u32,
    /// Calls under way on one connection.
    pub streams_per_connection: u32,
    /// Calls under way of one principal.
    pub calls_per_principal: u32,
    /// Streams of one principal that is not an agent.
    pub streams_per_principal: u32,
    /// Streams of one principal's agents.
    pub node_streams_per_principal: u32,
    /// Requests without a credential from one peer.
    pub calls_per_stranger: u32,
    /// For a TLS handshake.
    pub handshake_timeout: Duration,
    /// For the first request of a connection, and for the message of a call.
    pub header_timeout: Duration,
    /// For a connection without requests.
    pub idle_timeout: Duration,
    /// For a client that does not take what it is sent.
    pub stall_timeout: Duration,
    /// Between the pings of a silent connection.
    pub keepalive: Duration,
}

const fn count(number: u32) -> usize {
    number as usize
}

impl Limits {
    /// Those of the listener.
    #[must_use]
    pub const fn connections(&self) -> crate::tls::Limits {
        crate::tls::Limits {
            connections: count(self.connections),
            per_peer: count(self.connections_per_peer),
            handshake: self.handshake_timeout.std(),
        }
    }

    /// Those of calls and streams.
    #[must_use]
    pub fn grpc(&self) -> crate::grpc::Limits {
        crate::grpc::Limits {
            message_bytes: usize::try_from(self.message_bytes).unwrap_or(usize::MAX),
            streams_per_connection: self.streams_per_connection,
            header: self.header_timeout.std(),
            idle: self.idle_timeout.std(),
            stall: self.stall_timeout.std(),
            keepalive: self.keepalive.std(),
            quota: crate::grpc::Quota {
                calls: count(self.calls_per_principal),
                streams: count(self.streams_per_principal),
                node_streams: count(self.node_streams_per_principal),
                strangers: count(self.calls_per_stranger),
                ..crate::grpc::Quota::default()
            },
        }
    }
}

/// The mediator's own log, on stderr.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// For people or for programs.
    pub format: LogFormat,
    /// Levels by module, as in `info,mediator=debug`.
    pub filter: String,
}

/// What a key is, for `config show` and for the sample file.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// `lease.renew`
    pub name: &'static str,
    /// As one would write it; empty where it depends on other keys or is absent.
    pub default: &'static str,
    /// One line.
    pub about: &'static str,
}

/// Every key there is. What is not here is refused.
pub const KEYS: &[Key] = &[
    key("listen", "127.0.0.1:7070", "address and port of gRPC and HTTP"),
    key("state_dir", "", "directory of admin token and database, of one mediator"),
    key(
        "records_dir",
        "",
        "directory of logs, artifacts and Records, of all mediators of one database; default: STATE_DIR",
    ),
    key("database", "", "sqlite:PATH or postgres://…; default: sqlite:STATE_DIR/mediator.db"),
    key("tls.cert", "", "PEM file of the server's certificate chain"),
    key("tls.key", "", "PEM file of the server's private key"),
    key("tls.client_ca", "", "PEM file of the authority that signs the certificates of clients"),
    key("tls.client_auth", "none", "whether clients show certificates: none, optional or required"),
    key("insecure", "false", "allow plain text beyond loopback"),
    key("lease.renew", "10s", "how often an agent adverts"),
    key("lease.factor", "6", "leases and adverts live this many intervals; at least 3"),
    key("lease.max_per_run", "0", "most nodes of one run; 0 = no limit"),
    key("queue.reserve_after", "5m", "a run that needs several nodes and has waited this long gets them reserved"),
    key("lease.restart_grace", "5m", "how long leases and adverts live across a planned stop of the mediator"),
    key("sweep_interval", "1m", "how often the safety net scans the queue"),
    key("reap_interval", "1s", "how often expired leases are looked for"),
    key("limits.log_bytes", "64MiB", "most log of one attempt"),
    key("limits.artifact_bytes", "1GiB", "largest output file"),
    key("limits.message_bytes", "4MiB", "largest message"),
    key("limits.connections", "20000", "most connections"),
    key("limits.connections_per_peer", "4096", "most connections of one address"),
    key("limits.streams_per_connection", "4096", "most calls and streams under way on one connection"),
    key("limits.calls_per_principal", "512", "most calls under way of one principal"),
    key("limits.streams_per_principal", "1024", "most open streams of one principal, agents not counted"),
    key("limits.node_streams_per_principal", "32768", "most open streams of the agents of one principal"),
    key("limits.calls_per_stranger", "64", "most requests under way that need no token, by address"),
    key("limits.handshake_timeout", "10s", "a TLS handshake must end within this"),
    key(
        "limits.header_timeout",
        "10s",
        "the first request of a connection, and the message of a call, must come within this",
    ),
    key("limits.idle_timeout", "5m", "a connection without any request is closed after this"),
    key("limits.stall_timeout", "5m", "a client that takes nothing of what it is sent for so long is dropped"),
    key(
        "limits.keepalive",
        "20s",
        "a silent connection is asked this often whether it is alive, and has as long to answer",
    ),
    key("log.format", "text", "text or json"),
    key("log.filter", "info", "levels by module, such as info,mediator=debug"),
];

const fn key(name: &'static str, default: &'static str, about: &'static str) -> Key {
    Key { name, default, about }
}

/// Everything that is wrong with a configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct ConfigErrors(pub Vec<ConfigError>);

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{origin}: {}{message}", if key.is_empty() { String::new() } else { format!("{key}: ") })]
pub struct ConfigError {
    /// The file with its line, the variable or the flag.
    pub origin: String,
    /// The key; empty when the whole file is meant.
    pub key: String,
    /// What is wrong and what to write instead.
    pub message: String,
}

/// Reads all layers, checks everything, and tells every problem at once.
///
/// # Errors
/// [`ConfigErrors`], at least one.
pub fn load(layers: &Layers) -> Result<(Config, Vec<Shown>), ConfigErrors> {
    let mut problems = Vec::new();
    let values = layers.read(&mut problems);
    let config = check::check(&values, &mut problems);
    match config {
        Some(config) if problems.is_empty() => {
            let shown = show::shown(&config, &values);
            Ok((config, shown))
        }
        _ => Err(ConfigErrors(problems)),
    }
}

#[cfg(test)]
mod tests;
