//! From facts to attributes. Pure.

use std::collections::BTreeMap;

use shared::{contract::AttrValue, domain::Capability};

/// What was found on this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// `linux`, `macos`, …
    pub os: String,
    /// `x86_64`, `aarch64`, …
    pub arch: String,
    /// Processors this process may use; 0 = unknown.
    pub cores: u64,
    /// Memory in whole GiB, rounded down; 0 = unknown or less than one.
    pub memory_gib: u64,
    /// The host's name.
    pub hostname: Option<String>,
    /// Tools found on `PATH`.
    pub tools: Vec<String>,
}

impl Facts {
    /// The attributes: `os`, `arch`, `cores`, `memory_gib`, `hostname`, and every tool as `NAME = true`.
    #[must_use]
    pub fn attributes(&self) -> BTreeMap<String, AttrValue> {
        let mut attrs = BTreeMap::from([
            ("os".to_owned(), AttrValue::Text(self.os.clone())),
            ("arch".to_owned(), AttrValue::Text(self.arch.clone())),
        ]);
        // Unknown is left out: a wrong number would be matched.
        for (key, number) in [("cores", self.cores), ("memory_gib", self.memory_gib)] {
            if let Some(number) = i64::try_from(number).ok().filter(|number| *number > 0) {
                attrs.insert(key.to_owned(), AttrValue::Number(number));
            }
        }
        if let Some(host) = &self.hostname {
            attrs.insert("hostname".to_owned(), AttrValue::Text(host.clone()));
        }
        attrs.extend(self.tools.iter().map(|tool| (tool.clone(), AttrValue::Flag(true))));
        attrs
    }

    /// Adds the attributes to every capability; what was set by hand stays.
    pub fn complete(&self, capabilities: &mut [Capability]) {
        let found = self.attributes();
        for capability in capabilities {
            for (key, value) in &found {
                capability.attrs.entry(key.clone()).or_insert_with(|| value.clone());
            }
        }
    }
}

/// `MemTotal` of `/proc/meminfo` in whole GiB.
#[must_use]
pub(super) fn memory_gib(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_rounded_down_and_garbage_is_unknown() {
        assert_eq!(memory_gib("MemFree: 1 kB\nMemTotal:       16303868 kB\n"), Some(15));
        for garbage in ["", "MemTotal:", "MemTotal: x kB", "MemTotal: 5 MB", "MemTotal: -1 kB"] {
            assert_eq!(memory_gib(garbage), None, "{garbage}");
        }
    }

    #[test]
    fn what_was_set_by_hand_stays() {
        let facts = Facts {
            os: "linux".into(),
            arch: "x86_64".into(),
            cores: 8,
            tools: vec!["git".into()],
            ..Facts::default()
        };
        let by_hand =
            BTreeMap::from([("cores".to_owned(), AttrValue::Number(2)), ("git".to_owned(), AttrValue::Flag(false))]);
        let mut capabilities = [Capability { name: "build".into(), attrs: by_hand }];
        facts.complete(&mut capabilities);
        let attrs = &capabilities[0].attrs;
        assert_eq!(attrs["cores"], AttrValue::Number(2));
        assert_eq!(attrs["git"], AttrValue::Flag(false));
        assert_eq!(attrs["os"], AttrValue::Text("linux".into()));
        assert!(!attrs.contains_key("memory_gib"), "unknown is left out");
    }
}
