//! The effective configuration for people and programs, secrets redacted.

use serde_json::{Map, Value, json};

use super::Config;

impl Config {
    /// Key, value and where it comes from, in the order of the file.
    #[must_use]
    pub fn shown(&self) -> Vec<(&'static str, Value, String)> {
        let capabilities: Vec<Value> = self
            .capabilities
            .iter()
            .map(|capability| {
                let attrs: Map<String, Value> =
                    capability.attrs.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
                json!({"name": capability.name, "attrs": attrs})
            })
            .collect();
        let harnesses: Map<String, Value> =
            self.harnesses.iter().map(|(name, harness)| (name.clone(), harness.shown().clone())).collect();
        let rows = [
            ("name", json!(self.name)),
            ("label", json!(self.label)),
            ("mediator", json!(self.mediator)),
            ("token", json!(self.token.as_ref().map(|_| "(set, not shown)"))),
            ("ca_file", json!(self.ca_file)),
            ("cert_file", json!(self.certificate.as_ref().map(|(cert, _)| cert))),
            ("key_file", json!(self.certificate.as_ref().map(|(_, key)| key))),
            ("state_dir", json!(self.state_dir)),
            ("slots", json!(self.slots)),
            ("capability", json!(capabilities)),
            ("harness", json!(harnesses)),
            ("detect", json!(self.detect)),
            ("pass_env", json!(self.pass_env)),
            ("grace", json!(self.grace)),
            ("stop_timeout", json!(self.stop_timeout)),
            ("start_timeout", json!(self.start_timeout)),
            ("keep_workspace", json!(self.keep_workspace)),
            ("artifact_bytes", json!(self.artifact_bytes)),
            ("log_bytes", json!(self.log_bytes)),
            ("disk.min_free", json!(self.min_free.unwrap_or(0))),
            ("quarantine.after", json!(self.quarantine.after)),
            ("quarantine.within", json!(self.quarantine.within)),
            ("panel.listen", json!(self.panel.listen)),
            ("panel.queue", json!(self.panel.queue)),
            ("panel.templates", json!(self.panel.templates)),
            ("panel.mediator", json!(self.panel.mediator)),
            ("panel.token_file", json!(self.panel.token_file)),
            ("panel.ca_file", json!(self.panel.ca_file)),
            ("policy_file", json!(self.policy_file)),
        ];
        rows.into_iter().map(|(key, value)| (key, value, self.origin(key))).collect()
    }

    /// Where a value comes from.
    pub(crate) fn origin(&self, key: &str) -> String {
        let of = |key: &str| self.origins.iter().rev().find(|(known, _)| *known == key).map(|(_, place)| place.clone());
        let found = if key == "token" { of("token").or_else(|| of("token_file")) } else { of(key) };
        found.unwrap_or_else(|| if key == "policy_file" { "beside the config file" } else { "default" }.to_owned())
    }
}
