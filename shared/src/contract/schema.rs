//! What authors are shown: an example, and a JSON Schema for their editor.

use serde_json::{Value, json};

use super::{Contract, MAX_COUNT, MAX_FILES, MAX_ROLES, MAX_STEPS};

/// A commented contract to start from.
#[must_use]
pub const fn example() -> &'static str {
    include_str!("example.yaml")
}

/// The JSON Schema of the grammar. It says less than [`super::parse()`] checks, and nothing else.
#[must_use]
pub fn schema() -> Value {
    let mut schema = schemars::schema_for!(Contract).to_value();
    let kinds: Vec<Value> = ["run", "agent", "acquire", "ask"].map(|kind| json!({"required": [kind]})).into();
    for (place, key, value) in [
        ("", "title", json!("Contract of one Run")),
        ("/properties/requires", "minItems", json!(1)),
        ("/properties/requires", "maxItems", json!(MAX_ROLES)),
        ("/properties/steps", "minItems", json!(1)),
        ("/properties/steps", "maxItems", json!(MAX_STEPS)),
        ("/properties/success_when", "maxItems", json!(MAX_STEPS)),
        ("/$defs/Require/properties/count", "minimum", json!(1)),
        ("/$defs/Require/properties/count", "maximum", json!(MAX_COUNT)),
        ("/$defs/Step", "oneOf", json!(kinds)),
        ("/$defs/Step/properties/out", "maxItems", json!(MAX_FILES)),
        ("/$defs/Input/properties/from", "maxItems", json!(MAX_FILES)),
        ("/$defs/Targets/anyOf/0", "minItems", json!(2)),
        ("/$defs/Dispatch/properties/from", "pattern", json!("^([^#]+#/|outcome$)")),
    ] {
        if let Some(Value::Object(place)) = schema.pointer_mut(place) {
            place.insert(key.to_owned(), value);
        }
    }
    schema
}
