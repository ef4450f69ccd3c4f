//! From a merged value to a typed one. Text is accepted wherever it can be read as the type, because that is
//! all that environment and flags can give.

use std::{net::SocketAddr, path::PathBuf};

use figment::value::{Dict, Value};
use shared::{Duration, contract::AttrValue, domain::Capability};

/// What a value must be, and what to write instead.
pub(super) type Parsed<T> = Result<T, String>;

pub(super) fn text(value: &Value) -> Parsed<String> {
    match value {
        Value::String(_, text) => Ok(text.trim().to_owned()),
        other => Err(format!("must be text in quotes, not {}", kind(other))),
    }
}

pub(super) fn whole(value: &Value) -> Parsed<u64> {
    let number = match value {
        Value::String(_, text) => text.trim().parse().ok(),
        Value::Num(_, number) => number.to_i128().and_then(|number| u64::try_from(number).ok()),
        _ => None,
    };
    number.ok_or_else(|| format!("must be a whole number from 0, not {}", shown(value)))
}

/// A number of things.
pub(super) fn count(value: &Value) -> Parsed<u32> {
    u32::try_from(whole(value)?).map_err(|_| format!("must be at most {}, not {}", u32::MAX, shown(value)))
}

pub(super) fn flag(value: &Value) -> Parsed<bool> {
    match value {
        Value::Bool(_, flag) => Ok(*flag),
        Value::String(_, text) if text.trim() == "true" => Ok(true),
        Value::String(_, text) if text.trim() == "false" => Ok(false),
        other => Err(format!("must be true or false, not {}", shown(other))),
    }
}

pub(super) fn duration(value: &Value) -> Parsed<Duration> {
    text(value)
        .map_err(|_| format!("must be a duration in quotes, such as \"10s\" or \"5m\", not {}", shown(value)))?
        .parse()
        .map_err(|error: shared::BadDuration| error.to_string())
}

/// Where to listen.
pub(super) fn address(value: &Value) -> Parsed<SocketAddr> {
    let bad = || format!("must be IP:PORT in quotes, such as \"127.0.0.1:7071\", not {}", shown(value));
    text(value).map_err(|_| bad())?.parse().map_err(|_| bad())
}

/// Bytes: a number, or a number with KiB, MiB, GiB or TiB.
pub(super) fn size(value: &Value) -> Parsed<u64> {
    let bad = || format!("must be bytes, such as 1048576 or \"2GiB\", not {}", shown(value));
    let Value::String(_, text) = value else { return whole(value).map_err(|_| bad()) };
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim() {
        "" | "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        "TiB" => 40,
        _ => return Err(bad()),
    };
    number.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift)).ok_or_else(bad)
}

/// A list of texts; text alone is split at commas.
pub(super) fn list(value: &Value) -> Parsed<Vec<String>> {
    match value {
        Value::Array(_, items) => items.iter().map(text).collect::<Parsed<_>>(),
        Value::String(_, text) => {
            Ok(text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect())
        }
        other => Err(format!("must be a list of texts, such as [\"PATH\", \"HOME\"], not {}", kind(other))),
    }
}

/// A path as it was written; the caller knows what it is relative to.
pub(super) fn path(value: &Value) -> Parsed<PathBuf> {
    match text(value)? {
        empty if empty.is_empty() => Err("must not be empty".to_owned()),
        written => Ok(PathBuf::from(written)),
    }
}

/// `[[capability]]` tables. From the environment: names, separated by commas.
pub(super) fn capabilities(value: &Value) -> Parsed<Vec<Capability>> {
    let items = match value {
        Value::Array(_, items) => items,
        Value::String(..) => {
            return list(value)?
                .into_iter()
                .map(|name| capability_name(&name).map(|name| Capability { name, attrs: Default::default() }))
                .collect();
        }
        other => return Err(format!("must be [[capability]] tables, not {}", kind(other))),
    };
    let mut read: Vec<Capability> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let at = |why: String| format!("entry {}: {why}", index + 1);
        let Value::Dict(_, table) = item else {
            return Err(at("must be a table: [[capability]] with `name = \"…\"`".to_owned()));
        };
        let capability = capability(table).map_err(at)?;
        if read.iter().any(|known| known.name == capability.name) {
            return Err(at(format!("{:?} is there already; put all its attrs in one entry", capability.name)));
        }
        read.push(capability);
    }
    Ok(read)
}

fn capability(table: &Dict) -> Parsed<Capability> {
    if let Some(unknown) = table.keys().find(|key| !["name", "attrs"].contains(&key.as_str())) {
        return Err(format!("unknown key `{unknown}`: an entry has `name` and `attrs`"));
    }
    let name = table.get("name").ok_or("has no `name`")?;
    let name = capability_name(&text(name).map_err(|why| format!("name {why}"))?)?;
    let attrs = match table.get("attrs") {
        None => Default::default(),
        Some(Value::Dict(_, attrs)) => {
            attrs.iter().map(|(key, value)| Ok((key.clone(), attr_value(value)?))).collect::<Parsed<_>>()?
        }
        Some(other) => {
            return Err(format!("attrs must be a table, such as {{ board = \"stm32\" }}, not {}", kind(other)));
        }
    };
    Ok(Capability { name, attrs })
}

fn capability_name(name: &str) -> Parsed<String> {
    let fits = (1..=128).contains(&name.len()) && !name.chars().any(|c| c.is_control() || c.is_whitespace());
    if fits { Ok(name.to_owned()) } else { Err(format!("name {name:?} must have 1 to 128 characters and no blanks")) }
}

fn attr_value(value: &Value) -> Parsed<AttrValue> {
    match value {
        Value::Bool(_, flag) => Ok(AttrValue::Flag(*flag)),
        Value::String(_, text) => Ok(AttrValue::Text(text.clone())),
        Value::Num(_, number) => {
            number.to_i128().and_then(|number| i64::try_from(number).ok()).map(AttrValue::Number).ok_or_else(|| {
                format!("an attribute must be text, a whole number, true or false, not {}", shown(value))
            })
        }
        other => Err(format!("an attribute must be text, a whole number, true or false, not {}", kind(other))),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::String(..) | Value::Char(..) => "text",
        Value::Bool(..) => "true or false",
        Value::Num(..) => "a number",
        Value::Empty(..) => "nothing",
        Value::Dict(..) => "a table",
        Value::Array(..) => "a list",
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(_, text) => format!("{:?}", text.chars().take(40).collect::<String>()),
        Value::Num(_, number) => number.to_i128().map_or_else(|| "a fraction".to_owned(), |number| number.to_string()),
        other => kind(other).to_owned(),
    }
}
