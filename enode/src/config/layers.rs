//! Where values come from, and how each place is named in a message.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use figment::{
    Error, Metadata, Profile, Provider, Source,
    value::{Dict, Map, Value},
};

use super::Fault;
use crate::files;

/// Values given on the command line.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Flags {
    /// Name of this machine in the fleet
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Text for people beside the name
    #[arg(long, value_name = "TEXT")]
    pub label: Option<String>,
    /// Where the mediator listens, http://HOST:PORT or https://HOST:PORT
    #[arg(long, value_name = "URL")]
    pub mediator: Option<String>,
    /// File that holds the token of this node
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<String>,
    /// PEM file of the authority that signed the mediator's certificate
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<String>,
    /// PEM file of the client certificate to show instead of a token
    #[arg(long, value_name = "FILE")]
    pub cert_file: Option<String>,
    /// PEM file of its key
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<String>,
    /// Folder for spool, workspaces and identity
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<String>,
    /// How many nodes this machine is
    #[arg(long, value_name = "N")]
    pub slots: Option<String>,
}

/// All places that configuration is read from. No `Debug`: the environment may hold the token.
#[derive(Clone, Default)]
#[expect(missing_debug_implementations, reason = "it would show secrets")]
pub struct Layers {
    /// Files in rising order; those that do not exist are skipped.
    pub files: Vec<PathBuf>,
    /// The file of `--config`: it must exist.
    pub config: Option<PathBuf>,
    /// Environment variables.
    pub env: Vec<(String, String)>,
    /// The command line.
    pub flags: Flags,
}

/// Environment variables of enode that are no configuration keys.
const NOT_KEYS: [&str; 3] = ["ENODE_CONFIG", "ENODE_LOG", "ENODE_OUTPUT"];
const LIMIT: u64 = 1 << 20;

impl Layers {
    /// The places of this machine and user.
    #[must_use]
    pub fn of_system(config: Option<PathBuf>, flags: Flags) -> Self {
        let env: Vec<_> =
            std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?))).collect();
        let mut files = vec![PathBuf::from("/etc/enode/enode.toml")];
        files.extend(user_config_dir(&env).map(|dir| dir.join("enode/enode.toml")));
        Self { files, config, env, flags }
    }

    pub(super) fn var(&self, name: &str) -> Option<&str> {
        self.env.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }
}

fn user_config_dir(env: &[(String, String)]) -> Option<PathBuf> {
    let var = |name: &str| env.iter().find(|(key, value)| key == name && value.starts_with('/')).map(|(_, v)| v);
    var("XDG_CONFIG_HOME").map(PathBuf::from).or_else(|| Some(PathBuf::from(var("HOME")?).join(".config")))
}

/// One layer, read.
pub(super) struct Layer {
    pub(super) from: From,
    pub(super) values: Dict,
}

/// Which layer.
#[derive(Clone)]
pub(super) enum From {
    File { path: PathBuf, lines: HashMap<String, usize> },
    Env,
    Flags,
}

impl From {
    /// How a person finds `key` there.
    pub(super) fn place(&self, key: &str) -> String {
        match self {
            Self::File { path, lines } => match lines.get(key) {
                Some(line) => format!("{}:{line}: {key}", path.display()),
                None => format!("{}: {key}", path.display()),
            },
            Self::Env => format!("environment: ENODE_{}", key.replace('.', "__").to_uppercase()),
            Self::Flags => format!("command line: --{}", key.replace('_', "-")),
        }
    }
}

impl Provider for &Layer {
    fn metadata(&self) -> Metadata {
        match &self.from {
            From::File { path, .. } => Metadata::from("file", Source::File(path.clone())),
            From::Env => Metadata::named("env"),
            From::Flags => Metadata::named("flags"),
        }
    }

    fn data(&self) -> Result<Map<Profile, Dict>, Error> {
        Ok(Profile::Default.collect(self.values.clone()))
    }
}

/// Reads every layer; what cannot be read becomes a fault and the others are still looked at.
///
/// A file that nobody has named, in a folder that may not be entered, is another user's (`HOME` stays when the user
/// changes): it is passed over with a warning.
pub(super) fn read(layers: &Layers, faults: &mut Vec<Fault>, warnings: &mut Vec<String>) -> Vec<Layer> {
    let mut read = Vec::new();
    let files = layers.files.iter().map(|path| (path, false)).chain(layers.config.iter().map(|path| (path, true)));
    for (path, required) in files {
        match read_file(path) {
            Ok(Some(layer)) => read.push(layer),
            Ok(None) if required => faults.push(Fault::of_file(path, None, "no such file; `enode init` writes one")),
            Ok(None) => {}
            Err(_) if !required && is_out_of_sight(path) => {
                warnings.push(format!("{} may not be looked for by this user, and is passed over", path.display()));
            }
            Err(fault) => faults.push(fault),
        }
    }
    let mut env = Layer { from: From::Env, values: Dict::new() };
    for (name, value) in &layers.env {
        if let Some(key) = name.strip_prefix("ENODE_").filter(|_| !NOT_KEYS.contains(&name.as_str())) {
            insert(&mut env.values, &key.to_lowercase().replace("__", "."), value);
        }
    }
    read.push(env);
    let mut flags = Layer { from: From::Flags, values: Dict::new() };
    let f = &layers.flags;
    let given = [
        ("name", &f.name),
        ("label", &f.label),
        ("mediator", &f.mediator),
        ("token_file", &f.token_file),
        ("ca_file", &f.ca_file),
        ("cert_file", &f.cert_file),
        ("key_file", &f.key_file),
        ("state_dir", &f.state_dir),
        ("slots", &f.slots),
    ];
    for (key, value) in given {
        if let Some(value) = value {
            insert(&mut flags.values, key, value);
        }
    }
    read.push(flags);
    read
}

/// Whether there is such a file at all is not for this user to know.
fn is_out_of_sight(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied)
}

/// Environment and flags give text only; the fields know what to make of it.
fn insert(into: &mut Dict, key: &str, value: &str) {
    match key.split_once('.') {
        None => drop(into.insert(key.to_owned(), Value::from(value))),
        Some((table, rest)) => {
            let entry = into.entry(table.to_owned()).or_insert_with(|| Value::from(Dict::new()));
            if let Value::Dict(_, inner) = entry {
                insert(inner, rest, value);
            }
        }
    }
}

fn read_file(path: &Path) -> Result<Option<Layer>, Fault> {
    let Some(file) = files::read_regular(path, LIMIT).map_err(|why| Fault::of_file(path, None, why.to_string()))?
    else {
        return Ok(None);
    };
    let text = String::from_utf8(file.bytes).map_err(|error| {
        let line = 1 + error.as_bytes()[..error.utf8_error().valid_up_to()].iter().filter(|b| **b == b'\n').count();
        Fault::of_file(path, Some(line), "is not UTF-8 text; save it as UTF-8")
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let document = toml_edit::ImDocument::parse(text).map_err(|error| {
        let (line, why) = not_toml(text, &error);
        Fault::of_file(path, Some(line), why)
    })?;
    let mut lines = HashMap::new();
    note_lines(document.as_table(), "", text, &mut lines);
    let values = toml::from_str(text).map_err(|error| Fault::of_file(path, None, error.message()))?;
    Ok(Some(Layer { from: From::File { path: path.to_owned(), lines }, values }))
}

fn note_lines(table: &dyn toml_edit::TableLike, prefix: &str, text: &str, lines: &mut HashMap<String, usize>) {
    for (key, item) in table.iter() {
        let path = if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") };
        if let Some(span) = item.span() {
            lines.insert(path.clone(), line_of(text, span.start));
        }
        if let Some(inner) = item.as_table_like() {
            note_lines(inner, &path, text, lines);
        }
    }
}

/// Where a text is not TOML, and why: the parser itself says of a value that is not there only which ones it could be.
pub(crate) fn not_toml(text: &str, error: &toml_edit::TomlError) -> (usize, String) {
    let at = error.span().map_or(0, |span| span.start);
    let (before, after) = text.split_at_checked(at).unwrap_or((text, ""));
    let line =
        |text: &str| text.lines().next().unwrap_or_default().split('#').next().unwrap_or_default().trim().to_owned();
    let key = before.rsplit('\n').next().unwrap_or_default();
    let why = match (key.trim_end().strip_suffix('='), error.message().trim()) {
        (Some(key), _) if line(after).is_empty() => format!("there is no value behind {} =", key.trim()),
        (_, "") => "this line cannot be understood".to_owned(),
        (_, message) => message.replace('\n', "; "),
    };
    (line_of(text, at), why)
}

/// Line of a byte offset, from 1.
pub(crate) fn line_of(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count()
}
