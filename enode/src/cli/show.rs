//! `enode config show`.

use serde_json::{Map, json};

use super::{Exit, Outcome, detect::plain, out, out::Out};
use crate::config::Config;

pub(super) fn run(config: &Config, out: &Out) -> Outcome {
    for warning in &config.warnings {
        out.warn(warning);
    }
    let shown = config.shown();
    let document: Map<_, _> =
        shown.iter().map(|(key, value, from)| ((*key).to_owned(), json!({"value": value, "from": from}))).collect();
    out.data(&document.into(), || {
        let rows = shown.iter().map(|(key, value, from)| vec![(*key).to_owned(), plain(value), from.clone()]);
        out::table(&["KEY", "VALUE", "FROM"], rows)
    })?;
    Ok(Exit::Done)
}
