//! JSON that a person wrote: read without passing over anything.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Reads a value in which no object has a key twice: which of the two was meant is not ours to choose.
///
/// # Errors
/// It is not JSON, or a key is there twice; where.
pub(crate) fn read(text: &[u8]) -> serde_json::Result<Value> {
    serde_json::from_slice::<Unique>(text).map(|it| it.0)
}

struct Unique(Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Reader).map(Self)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, it: bool) -> Result<Value, E> {
        Ok(Value::Bool(it))
    }

    fn visit_i64<E>(self, it: i64) -> Result<Value, E> {
        Ok(it.into())
    }

    fn visit_u64<E>(self, it: u64) -> Result<Value, E> {
        Ok(it.into())
    }

    fn visit_f64<E>(self, it: f64) -> Result<Value, E> {
        Ok(Number::from_f64(it).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, it: &str) -> Result<Value, E> {
        Ok(it.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(Unique(item)) = from.next_element()? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some((key, Unique(value))) = from.next_entry::<String, Unique>()? {
            if object.contains_key(&key) {
                return Err(A::Error::custom(format!("key {key:?} is given twice")));
            }
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_given_twice_is_refused_wherever_it_is() {
        for text in [r#"{"go":"yes","go":"no"}"#, r#"[{"a":{"b":1,"b":1}}]"#] {
            assert!(read(text.as_bytes()).unwrap_err().to_string().contains("is given twice"), "{text}");
        }
    }

    #[test]
    fn everything_else_is_what_it_is() {
        let text = r#"{"a":[null,true,-1,18446744073709551615,1.5,"x\u00e9"],"b":{"a":{}},"c":[]}"#;
        assert_eq!(read(text.as_bytes()).unwrap(), serde_json::from_str::<Value>(text).unwrap());
        assert!(read(b"{} {}").is_err());
        let deep = "[".repeat(1_000);
        assert!(read(deep.as_bytes()).is_err(), "no deeper than anything else that is read");
    }
}
