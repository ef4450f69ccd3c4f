//! How a person answers the form of a question, field by field, and what the written words mean. One rule for the command
//! line and for a ticket's answer file.

use serde_json::{Map, Value};

/// The fields that a form names, with the schema of each; `None` where it names none.
#[must_use]
pub fn fields(form: &Value) -> Option<&Map<String, Value>> {
    form.get("properties")?.as_object().filter(|fields| !fields.is_empty())
}

/// The values that a field is limited to, as a person writes them.
#[must_use]
pub fn words(field: &Value) -> Option<Vec<String>> {
    let word = |word: &Value| word.as_str().map_or_else(|| word.to_string(), str::to_owned);
    Some(field.get("enum")?.as_array()?.iter().map(word).collect())
}

/// A value as somebody wrote it for a field with this schema: text where the form wants text, otherwise JSON, and text if it
/// is none.
#[must_use]
pub fn value(field: Option<&Value>, written: &str) -> Value {
    let text = || Value::String(written.to_owned());
    let json = serde_json::from_str(written);
    let wants_text = |field: &Value| match (field.get("type"), field.get("enum").and_then(Value::as_array)) {
        (Some(one), _) => one == "string",
        (None, Some(words)) => words.contains(&text()) && !json.as_ref().is_ok_and(|json| words.contains(json)),
        (None, None) => false,
    };
    if field.is_some_and(wants_text) { text() } else { json.unwrap_or_else(|_| text()) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_decides_whether_a_word_is_text() {
        for (field, written, expected) in [
            (json!({"type": "string"}), "12", json!("12")),
            (json!({"type": "integer"}), "12", json!(12)),
            (json!({"enum": ["true", "false"]}), "true", json!("true")),
            (json!({"enum": [true, "true"]}), "true", json!(true)),
            (json!({"enum": ["yes"]}), "no", json!("no")),
            (json!({}), "{\"a\": 1}", json!({"a": 1})),
            (json!({"type": "boolean"}), "perhaps", json!("perhaps")),
        ] {
            assert_eq!(value(Some(&field), written), expected, "{field} {written}");
        }
        assert_eq!((value(None, "1"), value(None, "x y")), (json!(1), json!("x y")));
    }
}
