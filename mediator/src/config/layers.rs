//! Where values come from, and which one wins.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use figment::{
    Figment, Metadata, Profile, Provider,
    providers::{Format, Toml},
    value::{Dict, Map, Value},
};

use super::{ConfigError, KEYS};
use crate::file;

/// Variables that are the command line client's, not the server's.
const CLIENT_VARIABLES: [&str; 5] =
    ["MEDIATOR_URL", "MEDIATOR_TOKEN", "MEDIATOR_CA", "MEDIATOR_CLIENT_CERT", "MEDIATOR_CLIENT_KEY"];

/// The layers above the defaults, weakest first.
#[derive(Debug, Clone, Default)]
pub struct Layers {
    /// The machine's file; may be absent.
    pub system: Option<PathBuf>,
    /// The user's file; may be absent.
    pub user: Option<PathBuf>,
    /// `--config`; must be there.
    pub file: Option<PathBuf>,
    /// Environment variables; those that do not begin with `MEDIATOR_` are ignored.
    pub env: Vec<(String, String)>,
    /// Flags as `(key, value)`; each is shown as the flag `--KEY` with dashes.
    pub flags: Vec<(&'static str, String)>,
}

impl Layers {
    /// The layers of this process.
    #[must_use]
    pub fn of_process(file: Option<PathBuf>, flags: Vec<(&'static str, String)>) -> Self {
        let home = |name: &str| std::env::var_os(name).filter(|dir| !dir.is_empty()).map(PathBuf::from);
        let user = home("XDG_CONFIG_HOME").or_else(|| home("HOME").map(|home| home.join(".config")));
        Self {
            system: Some("/etc/mediator/config.toml".into()),
            user: user.map(|dir| dir.join("mediator/config.toml")),
            file,
            // A variable that is no text cannot be one of ours.
            env: std::env::vars_os()
                .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
                .collect(),
            flags,
        }
    }

    /// The winning value of every key that was given, with where it came from.
    pub(super) fn read(&self, problems: &mut Vec<ConfigError>) -> Values {
        let mut figment = Figment::new();
        let mut given: Vec<(String, String)> = Vec::new();
        let mut lines = BTreeMap::new();
        let optional = [&self.system, &self.user].into_iter().flatten().filter(|path| path.exists());
        for path in optional.chain(&self.file) {
            if let Some(file) = read_file(path, problems) {
                let mut leaves = Vec::new();
                file.data.values().for_each(|dict| flatten("", dict, &mut leaves));
                given.extend(leaves.into_iter().map(|(key, _)| (key, file.origin.clone())));
                lines.extend(file.lines.iter().map(|(key, line)| ((file.origin.clone(), key.clone()), *line)));
                figment = figment.merge(file);
            }
        }
        for (name, value) in &self.env {
            let other = CLIENT_VARIABLES.contains(&name.as_str()) || crate::fail::VARIABLE == Some(name);
            let ours = name.strip_prefix("MEDIATOR_").filter(|_| !other);
            if let Some(key) = ours {
                let key = key.to_lowercase().replace("__", ".");
                let origin = format!("environment variable {name}");
                given.push((key.clone(), origin.clone()));
                figment = figment.merge(One { origin, key, value: value.clone() });
            }
        }
        for (key, value) in &self.flags {
            let flag = key.replace(['.', '_'], "-");
            figment =
                figment.merge(One { origin: format!("flag --{flag}"), key: (*key).to_owned(), value: value.clone() });
        }
        let mut values = Values::of(&figment, self, lines, problems);
        values.beaten = given;
        values
    }
}

fn read_file(path: &Path, problems: &mut Vec<ConfigError>) -> Option<FileLayer> {
    let origin = path.display().to_string();
    let mut wrong =
        |message: String| problems.push(ConfigError { origin: origin.clone(), key: String::new(), message });
    let text = match file::text_given(path, file::SMALL) {
        Ok(text) => text,
        Err(e) => {
            wrong(format!("cannot be read: {e}"));
            return None;
        }
    };
    match Toml::string(&text).data() {
        Ok(data) => Some(FileLayer { origin, data, lines: lines(&text) }),
        Err(e) => {
            wrong(format!("is not TOML: {}", e.to_string().replace('\n', " ").trim()));
            None
        }
    }
}

/// Where each key stands, from 1.
fn lines(text: &str) -> Vec<(String, usize)> {
    fn walk(table: &dyn toml_edit::TableLike, prefix: &str, text: &str, lines: &mut Vec<(String, usize)>) {
        for (key, item) in table.iter() {
            let path = if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") };
            if let Some(span) = item.span() {
                let before = text.bytes().take(span.start);
                lines.push((path.clone(), 1 + before.filter(|byte| *byte == b'\n').count()));
            }
            if let Some(inner) = item.as_table_like() {
                walk(inner, &path, text, lines);
            }
        }
    }
    let mut lines = Vec::new();
    if let Ok(document) = toml_edit::ImDocument::parse(text) {
        walk(document.as_table(), "", text, &mut lines);
    }
    lines
}

/// A file that was read.
struct FileLayer {
    origin: String,
    lines: Vec<(String, usize)>,
    data: Map<Profile, Dict>,
}

impl Provider for FileLayer {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.origin.clone())
    }
    fn data(&self) -> figment::Result<Map<Profile, Dict>> {
        Ok(self.data.clone())
    }
}

/// One value from a variable or a flag. Always text: what it means is the key's to say.
struct One {
    origin: String,
    key: String,
    value: String,
}

impl Provider for One {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.origin.clone())
    }
    fn data(&self) -> figment::Result<Map<Profile, Dict>> {
        let value = Value::from(self.value.clone());
        let nested =
            self.key.rsplit('.').fold(value, |value, part| Value::from(Dict::from([(part.to_owned(), value)])));
        let dict = nested.into_dict().unwrap_or_default();
        Ok(Map::from([(Profile::Default, dict)]))
    }
}

/// Values by key, as text, with their origin.
#[derive(Debug, Default)]
pub(super) struct Values {
    values: BTreeMap<&'static str, (String, String)>,
    /// Key and origin of what files and variables say, weakest first, whether it won or not.
    beaten: Vec<(String, String)>,
    /// The line of a key in a file, by the file's name and the key.
    lines: BTreeMap<(String, String), usize>,
}

impl Values {
    fn of(
        figment: &Figment,
        layers: &Layers,
        lines: BTreeMap<(String, String), usize>,
        problems: &mut Vec<ConfigError>,
    ) -> Self {
        let mut values = Self { lines, ..Self::default() };
        let mut leaves = Vec::new();
        if let Ok(Value::Dict(_, dict)) = figment.find_value("") {
            flatten("", &dict, &mut leaves);
        }
        for (name, value) in leaves {
            let metadata = figment.get_metadata(value.tag());
            let origin = metadata.map_or_else(|| "configuration".to_owned(), |metadata| metadata.name.to_string());
            let place = values.place(&origin, &name);
            let mut wrong =
                |message: String| problems.push(ConfigError { origin: place.clone(), key: name.clone(), message });
            match (KEYS.iter().find(|key| key.name == name), scalar(&value)) {
                (None, _) => wrong(unknown(&name)),
                (Some(_), None) => wrong(format!("is {}; write one value", value.to_actual())),
                (Some(key), Some(text)) => {
                    values.values.insert(key.name, (text, origin));
                }
            }
        }
        values.keep_relative_to_file(layers);
        values
    }

    /// A relative path in a file is relative to that file, so that it means the same wherever one starts.
    fn keep_relative_to_file(&mut self, layers: &Layers) {
        let files: Vec<&PathBuf> = [&layers.system, &layers.user, &layers.file].into_iter().flatten().collect();
        for name in ["state_dir", "records_dir", "tls.cert", "tls.key", "tls.client_ca"] {
            let Some((value, origin)) = self.values.get_mut(name) else { continue };
            let file = files.iter().find(|file| file.display().to_string() == *origin);
            if let Some(dir) = file.and_then(|file| file.parent())
                && !value.is_empty()
            {
                *value = dir.join(&*value).display().to_string();
            }
        }
    }

    /// Value and origin of a key that was given.
    pub(super) fn get(&self, key: &str) -> Option<(&str, &str)> {
        self.values.get(key).map(|(value, origin)| (value.as_str(), origin.as_str()))
    }

    /// How a person finds the key there: a file with the line.
    fn place(&self, origin: &str, key: &str) -> String {
        let line = self.lines.get(&(origin.to_owned(), key.to_owned()));
        line.map_or_else(|| origin.to_owned(), |line| format!("{origin}:{line}"))
    }

    /// Where what is wrong with a key is to be mended.
    pub(super) fn where_to_mend(&self, key: &str) -> String {
        self.place(self.origin(key), key)
    }

    /// Where the value in force comes from.
    pub(super) fn origin(&self, key: &str) -> &str {
        self.get(key).map_or("default", |(_, origin)| origin)
    }

    /// The same with what also names the key and is not heard.
    pub(super) fn origins(&self, key: &str) -> String {
        let winner = self.origin(key);
        let beaten = self.beaten.iter().rev().filter(|(name, origin)| name == key && origin != winner);
        let beaten: Vec<&str> = beaten.map(|(_, origin)| origin.as_str()).collect();
        if beaten.is_empty() { winner.to_owned() } else { format!("{winner}, over {}", beaten.join(" and ")) }
    }
}

fn flatten(path: &str, dict: &Dict, leaves: &mut Vec<(String, Value)>) {
    for (name, value) in dict {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        match value {
            Value::Dict(_, dict) if !KEYS.iter().any(|key| key.name == path) => flatten(&path, dict, leaves),
            _ => leaves.push((path, value.clone())),
        }
    }
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(_, text) => Some(text.clone()),
        Value::Bool(_, flag) => Some(flag.to_string()),
        Value::Num(_, number) => {
            let whole = number.to_u128().map(|n| n.to_string()).or_else(|| number.to_i128().map(|n| n.to_string()));
            whole.or_else(|| number.to_f64().map(|n| n.to_string()))
        }
        Value::Char(_, c) => Some(c.to_string()),
        Value::Empty(..) | Value::Dict(..) | Value::Array(..) => None,
    }
}

fn unknown(name: &str) -> String {
    let near = KEYS.iter().map(|key| (shared::distance(key.name, name), key.name)).min();
    match near {
        Some((misses, near)) if misses <= 3 => format!("is not a key; did you mean {near}?"),
        _ => format!("is not a key; there are {}", KEYS.iter().map(|key| key.name).collect::<Vec<_>>().join(", ")),
    }
}
