//! Merging, checking, and collecting every fault before giving up.

use std::path::{Path, PathBuf};

use figment::{Figment, value::Value};
use shared::NodeId;

use super::{
    Config, ConfigErrors, Fault, Need, Panel, Secret, defaults, fields, harness,
    layers::{self, From, Layer, Layers},
};
use crate::{detect, files, policy::quarantine::Rule};

/// Every key, nested ones with a dot.
const KEYS: &[&str] = &[
    "name",
    "label",
    "mediator",
    "token",
    "token_file",
    "ca_file",
    "cert_file",
    "key_file",
    "state_dir",
    "slots",
    "capability",
    "harness",
    "detect",
    "pass_env",
    "grace",
    "stop_timeout",
    "start_timeout",
    "keep_workspace",
    "artifact_bytes",
    "log_bytes",
    "disk",
    "disk.min_free",
    "quarantine",
    "quarantine.after",
    "quarantine.within",
    "panel",
    "panel.listen",
    "panel.queue",
    "panel.templates",
    "panel.mediator",
    "panel.token_file",
    "panel.ca_file",
];

struct Loader {
    merged: Figment,
    layers: Vec<Layer>,
    faults: Vec<Fault>,
    /// A file could not be read.
    unread: bool,
    warnings: Vec<String>,
    origins: Vec<(&'static str, String)>,
}

pub(super) fn load(sources: &Layers, need: Need) -> Result<Config, ConfigErrors> {
    let mut faults = Vec::new();
    let mut warnings = Vec::new();
    let layers = layers::read(sources, &mut faults, &mut warnings);
    let merged = layers.iter().fold(Figment::new(), |merged, layer| merged.merge(layer));
    let unread = !faults.is_empty();
    let mut l = Loader { merged, layers, faults, unread, warnings, origins: Vec::new() };
    l.refuse_unknown();

    let name = l.name();
    let host = detect::hostname();
    let label = l.take("label", fields::text).unwrap_or_else(|| host.unwrap_or_else(|| name.clone()));
    let mediator = l.urls("mediator").unwrap_or_else(|| vec![defaults::MEDIATOR.to_owned()]);
    let ca_file = l.path("ca_file", sources);
    let certificate = l.certificate(&mediator, sources, need);
    let state_dir = l.path("state_dir", sources).unwrap_or_else(|| default_state_dir(sources).join(&name));
    let slots = l.slots();
    let detect = l.take("detect", fields::flag).unwrap_or(true);
    let mut capabilities = l.take("capability", fields::capabilities).unwrap_or_default();
    let harnesses = l.take("harness", harness::harnesses).unwrap_or_default();
    harness::advertise(&harnesses, &mut capabilities);
    for (name, program) in harnesses.iter().filter_map(|(name, it)| Some((name, it.program()?))) {
        if !detect::is_there(program) {
            l.warnings.push(format!("harness {name}: {program} is not on this machine; its steps will not start"));
        }
    }
    if capabilities.is_empty() {
        l.warnings.push("no [[capability]] is configured, so no Run can be matched to this machine".to_owned());
    }
    if detect {
        detect::probe().complete(&mut capabilities);
    }
    let pass_env = l.pass_env();
    let grace = l.take("grace", fields::duration).unwrap_or(defaults::GRACE);
    let stop_timeout = l.take("stop_timeout", fields::duration).unwrap_or(defaults::STOP_TIMEOUT);
    let start_timeout = l.take("start_timeout", fields::duration).unwrap_or(defaults::START_TIMEOUT);
    let keep_workspace = l.take("keep_workspace", fields::duration).unwrap_or_default();
    let artifact_bytes = l.take("artifact_bytes", fields::size).unwrap_or(defaults::ARTIFACT_BYTES);
    let log_bytes = l.take("log_bytes", fields::size).unwrap_or(defaults::LOG_BYTES);
    let min_free = l.take("disk.min_free", fields::size).unwrap_or(defaults::MIN_FREE);
    let min_free = Some(min_free).filter(|bytes| *bytes > 0);
    let quarantine = Rule {
        after: l.take("quarantine.after", fields::count).unwrap_or(defaults::QUARANTINE.after),
        within: l.take("quarantine.within", fields::duration).unwrap_or(defaults::QUARANTINE.within),
    };
    let panel = Panel {
        listen: l.take("panel.listen", fields::address),
        queue: l.path("panel.queue", sources),
        templates: l.path("panel.templates", sources),
        mediator: l.urls("panel.mediator"),
        token_file: l.path("panel.token_file", sources),
        ca_file: l.path("panel.ca_file", sources),
    };
    let token = l.token(sources, need, certificate.is_some());
    l.check_transport(&mediator, ca_file.as_deref(), need);

    if !l.faults.is_empty() {
        return Err(ConfigErrors(l.faults));
    }
    let policy_file = policy_file(&l.layers, sources, &state_dir, &name);
    Ok(Config {
        name,
        label,
        mediator,
        token,
        ca_file,
        certificate,
        state_dir,
        slots,
        capabilities,
        harnesses,
        detect,
        pass_env,
        grace,
        stop_timeout,
        start_timeout,
        keep_workspace,
        artifact_bytes,
        log_bytes,
        min_free,
        quarantine,
        panel,
        policy_file,
        warnings: l.warnings,
        origins: l.origins,
    })
}

/// What [`Config::mediator`] may hold.
pub(crate) fn is_mediator_url(url: &str) -> bool {
    url.parse::<http::Uri>().is_ok_and(|uri| {
        let authority = uri.authority().map_or("", |it| it.as_str());
        // What is no port would be passed over, and the scheme's own taken.
        let port = uri.host().and_then(|host| authority.strip_prefix(host));
        let is_port = port.is_some_and(|port| port.is_empty() || uri.port_u16().is_some_and(|it| it > 0));
        matches!(uri.scheme_str(), Some("http" | "https")) && is_port && uri.path() == "/" && uri.query().is_none()
    })
}

impl Loader {
    /// The value of a key, if any layer has it; a fault if it is not what it must be.
    fn take<T>(&mut self, key: &'static str, parse: fn(&Value) -> fields::Parsed<T>) -> Option<T> {
        let value = self.merged.find_value(key).ok()?;
        match parse(&value) {
            Ok(parsed) => {
                self.origins.push((key, self.with_beaten(key, self.place(key))));
                Some(parsed)
            }
            Err(why) => {
                self.fault(key, why);
                None
            }
        }
    }

    fn from(&self, key: &str) -> Option<&From> {
        // The merged value knows its provider; the last layer that has the key is that very one.
        self.layers.iter().rev().find(|layer| find(&layer.values, key).is_some()).map(|layer| &layer.from)
    }

    fn place(&self, key: &str) -> String {
        self.from(key).map_or_else(|| key.to_owned(), |from| from.place(key))
    }

    /// The place that won, and those that say something else and are not heard.
    fn with_beaten(&self, key: &str, place: String) -> String {
        let layers = self.layers.iter().rev().filter(|layer| find(&layer.values, key).is_some());
        let beaten: Vec<String> = layers.skip(1).map(|layer| layer.from.place(key)).collect();
        if beaten.is_empty() { place } else { format!("{place}, over {}", beaten.join(" and ")) }
    }

    fn fault(&mut self, key: &str, why: impl Into<String>) {
        let fault = Fault::of(key, self.from(key), why);
        self.faults.push(fault);
    }

    fn refuse_unknown(&mut self) {
        for layer in &self.layers {
            for (key, value) in &layer.values {
                if !KEYS.contains(&key.as_str()) {
                    self.faults.push(unknown(&layer.from, key));
                } else if key == "harness" {
                    // Its keys are names that the owner gives; what is in them is looked at when it is read.
                } else if let Value::Dict(_, inner) = value {
                    let paths = inner.keys().map(|name| format!("{key}.{name}"));
                    let strange = paths.filter(|path| !KEYS.contains(&path.as_str()));
                    self.faults.extend(strange.map(|path| unknown(&layer.from, &path)));
                } else if key == "disk" {
                    self.faults.push(Fault::of(key, Some(&layer.from), "must be a table: [disk] with `min_free`"));
                } else if key == "panel" {
                    self.faults.push(Fault::of(key, Some(&layer.from), "must be a table: [panel] with `listen`"));
                }
            }
        }
    }

    fn name(&mut self) -> String {
        let Some(name) = self.take("name", fields::text) else {
            // A file that could not be read may well say it.
            if self.from("name").is_none() && !self.unread {
                self.fault(
                    "name",
                    "is not set: give the agent's file with --config FILE (`enode init` makes one) and write name = \"…\" \
                     into it, or give --name or ENODE_NAME",
                );
            }
            return "unnamed".to_owned();
        };
        match NodeId::new(&name) {
            Ok(_) if name.contains('/') => {
                self.fault("name", "must not have a slot: enode adds /0, /1, … itself when slots > 1");
            }
            Ok(_) => return name,
            Err(error) => self.fault("name", format!("is not usable: {error}")),
        }
        "unnamed".to_owned()
    }

    fn slots(&mut self) -> u32 {
        let slots = self.take("slots", fields::whole).unwrap_or(1);
        if !(1..=defaults::MAX_SLOTS).contains(&slots) {
            self.fault("slots", format!("must be from 1 to {}, not {slots}", defaults::MAX_SLOTS));
        }
        u32::try_from(slots).unwrap_or(1)
    }

    fn urls(&mut self, key: &'static str) -> Option<Vec<String>> {
        let urls = self.take(key, fields::list)?;
        if urls.is_empty() {
            self.fault(key, "must be a URL, or a list of them");
        }
        for url in &urls {
            if !is_mediator_url(url) {
                self.fault(key, format!("{url:?} is not http://HOST:PORT or https://HOST:PORT"));
            }
        }
        Some(urls)
    }

    /// Says what would only show when the first connection fails.
    fn check_transport(&mut self, mediator: &[String], ca_file: Option<&Path>, need: Need) {
        for url in mediator {
            let https = url.starts_with("https:");
            match ca_file {
                Some(_) if !https => {
                    self.fault("ca_file", "is set, but the mediator's URL is not https://: use https, or leave it out");
                }
                Some(path) => {
                    if let Err(why) = read_text(path, 1 << 20) {
                        let why = format!(
                            "{why}; copy the ca.crt there that `mediator pki init` wrote on the mediator's host"
                        );
                        match need {
                            Need::All => self.fault("ca_file", why),
                            Need::Owner => self.warnings.push(format!("{} {why}", self.place("ca_file"))),
                        }
                    }
                }
                None if https => {
                    self.fault("mediator", "is https:// and needs ca_file, the ca.crt that `mediator pki init` wrote");
                }
                None => {}
            }
            let host = url.parse::<http::Uri>().ok().and_then(|uri| uri.host().map(str::to_owned)).unwrap_or_default();
            let here = host == "localhost" || host.starts_with("127.") || host == "[::1]";
            if !https && !here {
                self.warnings
                    .push(format!("{url} is not encrypted: anyone on the way can read the token; use https://"));
            }
        }
    }

    fn pass_env(&mut self) -> Vec<String> {
        let default = || defaults::PASS_ENV.iter().map(ToString::to_string).collect();
        let names = self.take("pass_env", fields::list).unwrap_or_else(default);
        for name in &names {
            if name == "ENODE_TOKEN" {
                self.fault("pass_env", "must not hold ENODE_TOKEN: a step would learn the token of the node");
            } else if name.is_empty() || name.contains(['=', '\0']) {
                self.fault("pass_env", format!("{name:?} is not the name of an environment variable"));
            }
        }
        names
    }

    /// A path, relative to the file that names it.
    fn path(&mut self, key: &'static str, sources: &Layers) -> Option<PathBuf> {
        let written = self.take(key, fields::path)?;
        if let Ok(rest) = written.strip_prefix("~") {
            let home = sources.var("HOME").map(|home| Path::new(home).join(rest));
            if home.is_none() {
                self.fault(key, "starts with ~, but HOME is not set: write the whole path");
            }
            return home;
        }
        let folder = match self.from(key) {
            Some(From::File { path, .. }) => path.parent().map(Path::to_owned),
            _ => None,
        };
        let path = folder.map_or_else(|| written.clone(), |folder| folder.join(&written));
        Some(std::path::absolute(&path).unwrap_or(path))
    }

    /// The client certificate and its key.
    fn certificate(&mut self, mediator: &[String], sources: &Layers, need: Need) -> Option<(PathBuf, PathBuf)> {
        let (cert, key) = match (self.path("cert_file", sources), self.path("key_file", sources)) {
            (None, None) => return None,
            (Some(cert), Some(key)) => (cert, key),
            (Some(_), None) => {
                self.fault("cert_file", "is set without key_file: set both, or neither");
                return None;
            }
            (None, Some(_)) => {
                self.fault("key_file", "is set without cert_file: set both, or neither");
                return None;
            }
        };
        if mediator.iter().any(|url| !url.starts_with("https:")) {
            self.fault("cert_file", "is set, but the mediator's URL is not https://: use https, or leave it out");
        }
        for (name, path) in [("cert_file", &cert), ("key_file", &key)] {
            match read_text(path, 1 << 20) {
                Ok((_, mode)) if name == "key_file" && mode & 0o077 != 0 => {
                    self.warnings.push(format!("{} can be read by others: chmod 600 it", path.display()));
                }
                Ok(_) => {}
                Err(why) if need == Need::Owner => self.warnings.push(format!("{} {why}", self.place(name))),
                Err(why) => self.fault(name, format!("{why}; `mediator pki issue --role node` makes both files")),
            }
        }
        Some((cert, key))
    }

    fn token(&mut self, sources: &Layers, need: Need, has_certificate: bool) -> Option<Secret> {
        let inline = self.take("token", fields::text);
        let file = self.path("token_file", sources);
        // The later layer wins, so that ENODE_TOKEN overrides a token_file of the config file.
        let rank = |key: &str| self.layers.iter().rposition(|layer| layer.values.contains_key(key));
        match (inline, file) {
            (Some(_), Some(_)) if rank("token") == rank("token_file") => {
                self.fault("token", "and token_file are both set in one place: keep one of them");
                None
            }
            (Some(token), file) if file.is_none() || rank("token") > rank("token_file") => {
                self.checked_token("token", token)
            }
            (_, Some(path)) => match read_text(&path, 4096) {
                Ok((text, mode)) => {
                    if mode & 0o077 != 0 {
                        self.warnings.push(format!("{} can be read by others: chmod 600 it", path.display()));
                    }
                    self.checked_token("token_file", text.trim().to_owned()).or_else(|| {
                        self.fault("token_file", format!("{} holds no token", path.display()));
                        None
                    })
                }
                Err(why) if need == Need::Owner => {
                    self.warnings.push(format!("{} {why}", self.place("token_file")));
                    None
                }
                Err(why) => {
                    self.fault("token_file", format!("{why}; `mediator token create --role node` makes a token"));
                    None
                }
            },
            _ if has_certificate => None,
            _ => {
                self.warnings.push(
                    "no token is configured (token_file): a mediator that asks for one will refuse us".to_owned(),
                );
                None
            }
        }
    }

    fn checked_token(&mut self, key: &str, token: String) -> Option<Secret> {
        if token.is_empty() {
            return None;
        }
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            self.fault(key, "must be one word of printable ASCII characters");
        }
        Some(Secret::new(token))
    }
}

fn unknown(from: &From, key: &str) -> Fault {
    let near =
        KEYS.iter().min_by_key(|known| shared::distance(known, key)).filter(|known| shared::distance(known, key) <= 3);
    let hint = near.map_or_else(|| format!("known keys: {}", KEYS.join(", ")), |near| format!("did you mean {near}?"));
    Fault::of(key, Some(from), format!("is not a known key; {hint}"))
}

fn find<'a>(values: &'a figment::value::Dict, key: &str) -> Option<&'a Value> {
    match key.split_once('.') {
        None => values.get(key),
        Some((table, rest)) => values.get(table)?.as_dict()?.get(rest),
    }
}

fn read_text(path: &Path, limit: u64) -> Result<(String, u32), String> {
    let file = files::read_regular(path, limit)
        .map_err(|why| format!("{} {why}", path.display()))?
        .ok_or_else(|| format!("{}: no such file", path.display()))?;
    let text = String::from_utf8(file.bytes).map_err(|_| format!("{}: is not text", path.display()))?;
    Ok((text, file.mode))
}

fn default_state_dir(sources: &Layers) -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return PathBuf::from("/var/lib/enode");
    }
    let state_home = sources.var("XDG_STATE_HOME").filter(|dir| dir.starts_with('/')).map(PathBuf::from);
    let home = || PathBuf::from(sources.var("HOME").unwrap_or("/var/lib")).join(".local/state");
    state_home.unwrap_or_else(home).join("enode")
}

/// Beside the file that was merged last; where there is none (a container configured by its environment), in
/// the state folder.
fn policy_file(layers: &[Layer], sources: &Layers, state_dir: &Path, name: &str) -> PathBuf {
    let read = layers.iter().rev().find_map(|layer| match &layer.from {
        From::File { path, .. } => Some(path),
        _ => None,
    });
    let path = match sources.config.as_ref().or(read) {
        Some(config) => config.with_extension("policy.toml"),
        None => state_dir.join(format!("{name}.policy.toml")),
    };
    std::path::absolute(&path).unwrap_or(path)
}
