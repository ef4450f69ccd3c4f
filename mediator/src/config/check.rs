//! What values may be, and what must fit together.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    str::FromStr,
};

use shared::{Duration, contract, domain::Settings};

use super::{ByteSize, ClientAuth, Config, ConfigError, KEYS, Limits, Log, TlsFiles, layers::Values};

/// Parses and judges key by key; a problem with one key does not hide those of others.
struct Checker<'a> {
    values: &'a Values,
    problems: &'a mut Vec<ConfigError>,
}

impl Checker<'_> {
    fn wrong(&mut self, key: &str, message: impl Into<String>) {
        let origin = self.values.where_to_mend(key);
        self.problems.push(ConfigError { origin, key: key.to_owned(), message: message.into() });
    }

    fn parse<T: FromStr>(&mut self, key: &str) -> Option<T>
    where
        T::Err: std::fmt::Display,
    {
        self.parse_or(key, |e: T::Err| e.to_string())
    }

    fn parse_or<T: FromStr>(&mut self, key: &str, say: impl FnOnce(T::Err) -> String) -> Option<T> {
        let default = KEYS.iter().find(|it| it.name == key).map_or("", |it| it.default);
        let text = self.values.get(key).map_or(default, |(value, _)| value);
        match text.parse() {
            Ok(value) => Some(value),
            Err(e) => {
                let message = say(e);
                self.wrong(key, message);
                None
            }
        }
    }

    fn duration(&mut self, key: &str, least: Duration, most: Duration, why: &str) -> Option<Duration> {
        let value: Duration = self.parse(key)?;
        if value < least || value > most {
            self.wrong(key, format!("{value} is out of range; write {least} to {most}: {why}"));
            return None;
        }
        Some(value)
    }

    fn number(&mut self, key: &str, least: u32, most: u32, why: &str) -> Option<u32> {
        let value: u32 = self.parse_or(key, |_| format!("is not a number; write {least} to {most}"))?;
        if value < least || value > most {
            self.wrong(key, format!("{value} is out of range; write {least} to {most}: {why}"));
            return None;
        }
        Some(value)
    }

    fn size(&mut self, key: &str, least: u64, most: u64, why: &str) -> Option<u64> {
        let ByteSize(value) = self.parse(key)?;
        if value < least || value > most {
            let (least, most) = (ByteSize(least), ByteSize(most));
            self.wrong(key, format!("{} is out of range; write {least} to {most}: {why}", ByteSize(value)));
            return None;
        }
        Some(value)
    }

    fn path(&mut self, key: &str) -> Option<PathBuf> {
        self.values.get(key).map(|(value, _)| value).filter(|value| !value.is_empty()).map(PathBuf::from)
    }

    fn lease(&mut self) -> Option<Settings> {
        let renew = self.duration(
            "lease.renew",
            Duration::from_millis(100),
            Duration::from_secs(600),
            "shorter floods the mediator, longer notices a lost node too late",
        );
        let factor = self.number(
            "lease.factor",
            3,
            1_000,
            "a lease must survive two adverts that are lost on the way, so it lives at least 3 intervals",
        );
        let max_per_run = self
            .parse_or("lease.max_per_run", |_| "is not a number; write 0 for no limit, or the most nodes".to_owned());
        let reserve_after = self.duration(
            "queue.reserve_after",
            Duration::from_secs(1),
            Duration::from_secs(30 * 86_400),
            "shorter lets wide runs hold back everybody, longer lets them starve",
        );
        let settings = Settings {
            renew: renew?,
            factor: factor?,
            max_per_run: max_per_run?,
            reserve_after: reserve_after?,
            restart_grace: None,
        };
        let day = Duration::from_secs(86_400);
        if settings.horizon() > day {
            let message = format!(
                "{} intervals of {} make a lease of {}; a lost node would be noticed after more than a day: write less",
                settings.factor,
                settings.renew,
                settings.horizon()
            );
            self.wrong("lease.factor", message);
            return None;
        }
        Some(settings)
    }

    fn database(&mut self, state_dir: Option<&Path>) -> Option<String> {
        let Some((given, _)) = self.values.get("database") else {
            return Some(format!("sqlite:{}", state_dir?.join("mediator.db").display()));
        };
        let path = given.strip_prefix("sqlite:");
        let good = path.is_some_and(|path| !path.is_empty())
            || given.starts_with("postgres://")
            || given.starts_with("postgresql://");
        if !good {
            // The value is not repeated: it may hold a password.
            self.wrong("database", "is neither; write sqlite:PATH or postgres://USER@HOST/NAME");
            return None;
        }
        Some(given.to_owned())
    }

    fn tls(&mut self) -> Option<Option<TlsFiles>> {
        let client_auth: ClientAuth = self.parse("tls.client_auth")?;
        let client_ca = self.path("tls.client_ca");
        match (client_auth, &client_ca) {
            (ClientAuth::None, Some(_)) => {
                self.wrong("tls.client_ca", "does nothing without tls.client_auth; set that to optional or required");
                return None;
            }
            (ClientAuth::Optional | ClientAuth::Required, None) => {
                let message = "needs tls.client_ca, the ca.crt that `mediator pki init` wrote";
                self.wrong("tls.client_auth", format!("{client_auth} {message}"));
                return None;
            }
            (ClientAuth::None, None) | (ClientAuth::Optional | ClientAuth::Required, Some(_)) => {}
        }
        match (self.path("tls.cert"), self.path("tls.key")) {
            (None, None) if client_ca.is_none() => Some(None),
            (None, None) => {
                self.wrong(
                    "tls.client_ca",
                    "is given without tls.cert and tls.key; without TLS nobody can show a certificate",
                );
                None
            }
            (Some(cert), Some(key)) => {
                let mut all = true;
                let files = [("tls.cert", Some(&cert)), ("tls.key", Some(&key)), ("tls.client_ca", client_ca.as_ref())];
                for (name, path) in files {
                    let Some(path) = path else { continue };
                    if let Err(e) = crate::file::open_small(path, crate::file::SMALL) {
                        self.wrong(name, format!("cannot read {}: {e}", path.display()));
                        all = false;
                    }
                }
                all.then_some(Some(TlsFiles { cert, key, client_ca, client_auth }))
            }
            (Some(_), None) => {
                self.wrong("tls.cert", "is given without tls.key; give both, or neither");
                None
            }
            (None, Some(_)) => {
                self.wrong("tls.key", "is given without tls.cert; give both, or neither");
                None
            }
        }
    }

    fn limits(&mut self) -> Option<Limits> {
        let (second, hour) = (Duration::from_secs(1), Duration::from_secs(3_600));
        let log_bytes = self.size("limits.log_bytes", 1 << 10, 16 << 30, "per attempt");
        let artifact_bytes = self.size("limits.artifact_bytes", 1 << 10, 1 << 40, "per file");
        let message_bytes = self.size(
            "limits.message_bytes",
            contract::MAX_BYTES as u64 + (64 << 10),
            64 << 20,
            "a contract of the greatest size must fit, with some room",
        );
        let mut count = |key, least, why| self.number(key, least, 1_000_000, why);
        let held = "every agent holds two";
        let connections = count("limits.connections", 8, held);
        let connections_per_peer = count("limits.connections_per_peer", 4, held);
        let nodes = "an agent holds a stream for each of its nodes, and its calls besides";
        let streams_per_connection = count("limits.streams_per_connection", 16, nodes);
        let calls_per_principal =
            count("limits.calls_per_principal", 2, "an agent has several calls under way at once");
        let streams_per_principal = count("limits.streams_per_principal", 1, "following a Run takes one");
        let node_streams_per_principal = count("limits.node_streams_per_principal", 4, nodes);
        let calls_per_stranger = count("limits.calls_per_stranger", 1, "a supervisor asks for health");
        let mut span = |key, why| self.duration(key, second, hour, why);
        let slow = "shorter drops clients on slow lines, longer keeps those that hold their place only";
        let handshake_timeout = span("limits.handshake_timeout", slow);
        let header_timeout = span("limits.header_timeout", slow);
        let idle_timeout = span("limits.idle_timeout", slow);
        let stall_timeout = span("limits.stall_timeout", slow);
        let keepalive = span("limits.keepalive", "shorter floods, longer notices a lost client too late");
        Some(Limits {
            log_bytes: log_bytes?,
            artifact_bytes: artifact_bytes?,
            message_bytes: message_bytes?,
            connections: connections?,
            connections_per_peer: connections_per_peer?,
            streams_per_connection: streams_per_connection?,
            calls_per_principal: calls_per_principal?,
            streams_per_principal: streams_per_principal?,
            node_streams_per_principal: node_streams_per_principal?,
            calls_per_stranger: calls_per_stranger?,
            handshake_timeout: handshake_timeout?,
            header_timeout: header_timeout?,
            idle_timeout: idle_timeout?,
            stall_timeout: stall_timeout?,
            keepalive: keepalive?,
        })
    }

    fn listen(&mut self) -> Option<SocketAddr> {
        self.parse_or("listen", |_| {
            "is not an address; write IP:PORT, such as 127.0.0.1:7070, 0.0.0.0:7070 or [::]:7070".to_owned()
        })
    }

    fn filter(&mut self) -> Option<String> {
        let parsed: Option<tracing_subscriber::filter::Targets> =
            self.parse_or("log.filter", |e| format!("{e}; write levels such as info or info,mediator=debug"));
        parsed?;
        Some(self.values.get("log.filter").map_or("info", |(value, _)| value).to_owned())
    }
}

/// The configuration, if every key is good.
pub(super) fn check(values: &Values, problems: &mut Vec<ConfigError>) -> Option<Config> {
    let mut it = Checker { values, problems };
    let listen = it.listen();
    let state_dir = match it.values.get("state_dir") {
        Some(("", _)) => {
            it.wrong("state_dir", "is empty; write a directory, or leave the key out");
            None
        }
        Some((dir, _)) => Some(PathBuf::from(dir)),
        None => default_state_dir().or_else(|| {
            it.wrong("state_dir", "has no default without HOME; write a directory");
            None
        }),
    };
    let records_dir = it.path("records_dir").or_else(|| state_dir.clone());
    let database = it.database(state_dir.as_deref());
    let tls = it.tls();
    let insecure: Option<bool> = it.parse_or("insecure", |_| "is neither true nor false".to_owned());
    let lease = it.lease();
    let restart_grace = it.duration(
        "lease.restart_grace",
        Duration::default(),
        Duration::from_secs(86_400),
        "a node that is lost during a planned stop is noticed only after it; 0s asks for nothing",
    );
    let (tick, hour) = (Duration::from_millis(100), Duration::from_secs(3_600));
    let sweep_interval = it.duration("sweep_interval", tick, hour, "the sweep is a safety net, not the way to work");
    let reap_interval = it.duration(
        "reap_interval",
        Duration::from_millis(50),
        Duration::from_secs(60),
        "expired leases must not stay for long",
    );
    let limits = it.limits();
    let format = it.parse("log.format");
    let filter = it.filter();
    if let (Some(listen), Some(None), Some(false)) = (listen, &tls, insecure)
        && !listen.ip().is_loopback()
    {
        let message = format!(
            "{listen} can be reached from other machines, and without TLS every token could be read on the way; \
             set tls.cert and tls.key (`mediator pki init` makes them), listen on 127.0.0.1, or set insecure = true"
        );
        it.wrong("listen", message);
    }
    Some(Config {
        listen: listen?,
        records_dir: records_dir?,
        state_dir: state_dir?,
        database: database?,
        tls: tls?,
        insecure: insecure?,
        lease: lease?,
        restart_grace: restart_grace?,
        sweep_interval: sweep_interval?,
        reap_interval: reap_interval?,
        limits: limits?,
        log: Log { format: format?, filter: filter? },
    })
}

/// `/var/lib/mediator` for a system service, else the user's state directory.
fn default_state_dir() -> Option<PathBuf> {
    if rustix::process::geteuid().is_root() && Path::new("/run/systemd/system").is_dir() {
        return Some("/var/lib/mediator".into());
    }
    let dir = |name: &str| std::env::var_os(name).filter(|dir| !dir.is_empty()).map(PathBuf::from);
    let base = dir("XDG_STATE_HOME").or_else(|| Some(dir("HOME")?.join(".local/state")))?;
    Some(base.join("mediator"))
}
