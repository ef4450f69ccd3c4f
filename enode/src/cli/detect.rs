//! `enode detect`: what this machine would advertise. Works without any configuration.

use serde_json::{Value, json};
use shared::domain::Capability;

use super::{Exit, Outcome, out, out::Out};
use crate::{
    config::{Config, ConfigErrors},
    detect,
};

pub(super) fn run(config: Result<Config, ConfigErrors>, out: &Out) -> Outcome {
    let found = detect::probe().attributes();
    let capabilities = match config {
        Ok(config) => config.capabilities,
        Err(error) => {
            out.warn(format!("{error}\nonly what was detected is shown"));
            Vec::new()
        }
    };
    let document = json!({"detected": found, "capabilities": capabilities});
    out.data(&document, || {
        let detected = Capability { name: "(detected)".to_owned(), attrs: found.clone() };
        let shown = if capabilities.is_empty() { std::slice::from_ref(&detected) } else { &capabilities };
        let rows = shown.iter().flat_map(|capability| {
            let mut name = Some(capability.name.clone());
            let mut attrs: Vec<_> =
                capability.attrs.iter().map(|(key, value)| format!("{key}={}", plain(&json!(value)))).collect();
            if attrs.is_empty() {
                attrs.push("-".to_owned());
            }
            attrs.into_iter().map(move |attr| vec![name.take().unwrap_or_default(), attr]).collect::<Vec<_>>()
        });
        out::table(&["CAPABILITY", "ATTRIBUTE"], rows)
    })?;
    Ok(Exit::Done)
}

/// Text without its quotes.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
