//! How wire fields look in JSON output: instants in RFC 3339, attributes and event data as plain values.

use std::collections::BTreeMap;

use serde::{Serializer, ser::SerializeMap};

use crate::v1::{AttrValue, attr_value::Kind};

pub(crate) fn instant<S: Serializer>(ms: &i64, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&shared::Timestamp::from_millis(*ms))
}

#[expect(clippy::ref_option, reason = "the signature is serde's")]
pub(crate) fn optional_instant<S: Serializer>(ms: &Option<i64>, to: S) -> Result<S::Ok, S::Error> {
    match ms {
        Some(ms) => instant(ms, to),
        None => to.serialize_none(),
    }
}

pub(crate) fn attrs<S: Serializer>(attrs: &BTreeMap<String, AttrValue>, to: S) -> Result<S::Ok, S::Error> {
    let mut map = to.serialize_map(Some(attrs.len()))?;
    for (name, value) in attrs {
        match &value.kind {
            Some(Kind::Text(text)) => map.serialize_entry(name, text)?,
            Some(Kind::Number(number)) => map.serialize_entry(name, number)?,
            Some(Kind::Flag(flag)) => map.serialize_entry(name, flag)?,
            None => map.serialize_entry(name, &())?,
        }
    }
    map.end()
}

pub(crate) fn raw<S: Serializer>(text: &str, to: S) -> Result<S::Ok, S::Error> {
    use serde::Serialize;
    match serde_json::from_str::<serde_json::Value>(text) {
        Ok(value) => value.serialize(to),
        Err(_) => to.serialize_str(text),
    }
}
