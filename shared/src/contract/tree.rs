//! The text as a tree of values that know where they stand.
//!
//! YAML reads some plain words as something other than text (`1.10` is a number, `yes` an old truth value,
//! `010` another number). Every node therefore keeps its spelling, so that nothing is taken for what its
//! author did not write: [`super::decode`] decides, and says what to write instead.

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{DuplicateKeyPolicy, Error, Location, NonFiniteFloatPolicy, Spanned, budget::BudgetBreach};

use super::{MAX_BYTES, Problem};

/// Deepest nesting: a contract needs six levels, and recursion here must end.
const MAX_DEPTH: usize = 32;
/// A text of [`MAX_BYTES`] without aliases has no more nodes than this; with aliases it may not either.
const MAX_NODES: usize = MAX_BYTES / 2 + 16;
/// Most values that aliases may stand for: what is repeated costs as much as what is written, and a few hundred
/// bytes of aliases to aliases could otherwise cost seconds.
const MAX_REPLAYED: usize = 10_000;

/// A value, where it is used, and where it is spelled.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) value: Value,
    /// Line and column, from 1.
    pub(super) at: (u64, u64),
    spelled: std::ops::Range<usize>,
}

/// What YAML takes it for.
#[derive(Debug)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Int(i64),
    /// A fraction, or a number too large for us.
    Float,
    Text(String),
    List(Vec<Node>),
    /// In the order of the text, duplicates included.
    Map(Vec<(Spanned<String>, Node)>),
}

impl Node {
    /// As it stands in the text.
    pub(super) fn spelling<'t>(&self, text: &'t str) -> &'t str {
        text.get(self.spelled.clone()).unwrap_or_default().trim()
    }

    /// A value of a map, the last one of this key.
    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        match &self.value {
            Value::Map(entries) => entries.iter().rev().find(|(name, _)| name.value == key).map(|(_, node)| node),
            _ => None,
        }
    }
}

/// Line and column, from 1, if the parser knows them.
pub(super) fn position(at: &Location) -> Option<(u64, u64)> {
    (at.line() > 0).then(|| (at.line(), at.column()))
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let found = Spanned::<Value>::deserialize(from)?;
        let span = found.defined.span();
        let start = usize::try_from(span.byte_offset().unwrap_or(0)).unwrap_or(0);
        let len = usize::try_from(span.byte_len().unwrap_or(0)).unwrap_or(0);
        let at = position(&found.referenced).unwrap_or((1, 1));
        Ok(Self { value: found.value, at, spelled: start..start.saturating_add(len) })
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a value")
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Bool(flag))
    }
    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Int(number))
    }
    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(i64::try_from(number).map_or(Value::Float, Value::Int))
    }
    fn visit_f64<E>(self, _: f64) -> Result<Value, E> {
        Ok(Value::Float)
    }
    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(text.to_owned()))
    }
    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::Text(text))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(node) = from.next_element()? {
            list.push(node);
        }
        Ok(Value::List(list))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = from.next_entry()? {
            entries.push(entry);
        }
        Ok(Value::Map(entries))
    }
}

/// Reads one document.
pub(super) fn read(text: &str) -> Result<Node, Problem> {
    let first = parse(text);
    // YAML has no tabs for indentation, JSON does. In a JSON text a tab is only ever a blank, so that the
    // positions stay as they are.
    let is_json = || text.trim_start().starts_with('{') && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
    match first {
        Err(_) if text.contains('\t') && is_json() => parse(&text.replace('\t', " ")),
        first => first,
    }
}

fn parse(text: &str) -> Result<Node, Problem> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            flow_nesting_limit: MAX_DEPTH,
            max_nodes: MAX_NODES,
            max_events: MAX_NODES * 2,
            max_documents: 1,
            max_total_scalar_bytes: MAX_BYTES * 2,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: MAX_REPLAYED,
        },
        // Told as problems with a path, all of them, by `decode`.
        duplicate_keys: DuplicateKeyPolicy::PassThrough,
        non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
        reject_unsupported_tags: true,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(text, options)
        .map_err(|error| problem(error.without_snippet(), error.location().as_ref().and_then(position)))
}

/// The parser's words, where they speak to the author of a contract; ours, where they speak to a programmer.
fn problem(error: &Error, position: Option<(u64, u64)>) -> Problem {
    let message = match error {
        Error::AliasError { error, .. } => return problem(error, position),
        Error::NullIntoString { .. } => "an empty key or null cannot be a key; write it in quotes".to_owned(),
        Error::Budget { breach: BudgetBreach::Documents { .. }, .. } => {
            "a second document starts here; a contract is one document".to_owned()
        }
        Error::Budget { .. } | Error::AliasReplayLimitExceeded { .. } => {
            format!("nested too deeply, or grows beyond {MAX_BYTES} bytes through its aliases")
        }
        Error::RecursiveReferencesRequireWeakTypes { .. } => "an anchor holds an alias of itself".to_owned(),
        other => {
            let text = other.to_string();
            // The position has a field of its own.
            text.split(" at line ").next().map_or_else(String::new, |text| text.trim_end_matches(':').to_owned())
        }
    };
    Problem { path: String::new(), position, message }
}

impl Node {
    /// As JSON, for what is taken whole. `text` is the whole document. `None`: a number that JSON has no word for.
    pub(super) fn to_json(&self, text: &str) -> Option<serde_json::Value> {
        Some(match &self.value {
            Value::Null => serde_json::Value::Null,
            Value::Float => serde_json::Number::from_f64(self.spelling(text).parse().ok()?)?.into(),
            Value::Bool(flag) => (*flag).into(),
            Value::Int(number) => (*number).into(),
            Value::Text(text) => text.as_str().into(),
            Value::List(list) => list.iter().map(|it| it.to_json(text)).collect::<Option<_>>()?,
            Value::Map(map) => {
                map.iter().map(|(key, node)| Some((key.value.clone(), node.to_json(text)?))).collect::<Option<_>>()?
            }
        })
    }
}
