//! Query strings: every parameter is known and well formed, or the answer says which one is not.

use std::collections::BTreeMap;

use shared::{RunId, Timestamp, WorkId};

use crate::{
    error::{Error, Violation},
    service::observe::{RUN_STATES, RunFilter, page_limit, parse_page_key},
};

/// Parameters by name; each at most once, none that the page does not know.
struct Parameters {
    values: BTreeMap<String, String>,
    problems: Vec<Violation>,
}

impl Parameters {
    fn new(pairs: Vec<(String, String)>, known: &[&str]) -> Self {
        let (mut values, mut problems) = (BTreeMap::new(), Vec::new());
        for (name, value) in pairs {
            if !known.contains(&name.as_str()) {
                let shown: String = name.chars().take(40).collect();
                let instead = if known.is_empty() {
                    "this page takes none".to_owned()
                } else {
                    format!("this page takes {}", known.join(", "))
                };
                problems.push(Violation::new(shown, format!("is not a parameter; {instead}")));
            } else if value.contains(char::REPLACEMENT_CHARACTER) {
                // Bytes that are no text arrive as this one.
                problems.push(Violation::new(name, "is not UTF-8 text"));
            } else if values.insert(name.clone(), value).is_some() {
                problems.push(Violation::new(name, "is given twice; give it once"));
            }
        }
        Self { values, problems }
    }

    /// The parsed value of a parameter that is there and not empty.
    fn take<T>(&mut self, name: &str, parse: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
        let value = self.values.remove(name).filter(|value| !value.is_empty())?;
        match parse(&value) {
            Ok(value) => Some(value),
            Err(message) => {
                self.problems.push(Violation::new(name, message));
                None
            }
        }
    }

    fn finish<T>(self, value: T) -> Result<T, Error> {
        if self.problems.is_empty() { Ok(value) } else { Err(Error::Invalid(self.problems)) }
    }
}

/// A page without parameters.
pub(super) fn none(pairs: Vec<(String, String)>) -> Result<(), Error> {
    Parameters::new(pairs, &[]).finish(())
}

/// `/v1/runs?state=&work=&since=&begins=&limit=&after=`
pub(super) fn runs(pairs: Vec<(String, String)>) -> Result<RunFilter, Error> {
    let mut query = Parameters::new(pairs, &["state", "work", "since", "begins", "limit", "after"]);
    let filter = RunFilter {
        state: query.take("state", |text| {
            let known = RUN_STATES.contains(&text).then(|| text.to_owned());
            known.ok_or_else(|| format!("is not a state; write one of {}", RUN_STATES.join(", ")))
        }),
        work: query.take("work", |text| WorkId::new(text).map_err(|e| e.to_string())),
        since: query.take("since", |text| {
            let wrong = "is not an instant; write RFC 3339, such as 2026-01-31T12:00:00Z ('+' is %2B in a query)";
            text.parse::<Timestamp>().map_err(|_| wrong.to_owned())
        }),
        limit: query
            .take("limit", |text| {
                let wrong = "is not a number; write 1 to 1000, or 0 for 100";
                // More digits than a number has is too much, and too much is the most there is.
                let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
                if digits { Ok(text.parse().unwrap_or(u64::MAX)) } else { Err(wrong.to_owned()) }
            })
            .map_or(0, page_limit),
        after: query.take("after", parse_page_key),
        begins: query.take("begins", |text| RunId::new(text).map_err(|e| e.to_string())),
    };
    query.finish(filter)
}

/// `/v1/events?after=`, or the header `Last-Event-ID` of a browser that reconnects, which wins.
pub(super) fn events(pairs: Vec<(String, String)>, last_event_id: Option<&[u8]>) -> Result<Option<i64>, Error> {
    let seq = |text: &str| match text.parse::<i64>() {
        Ok(seq @ 0..) => Ok(seq),
        _ => Err("is not the id of an event; write its seq, or leave it out to start with the next".to_owned()),
    };
    let mut query = Parameters::new(pairs, &["after"]);
    let mut after = query.take("after", seq);
    if let Some(header) = last_event_id {
        match seq(std::str::from_utf8(header).unwrap_or_default()) {
            Ok(seq) => after = Some(seq),
            Err(message) => query.problems.push(Violation::new("Last-Event-ID", message)),
        }
    }
    query.finish(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(String, String)> {
        text.split('&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }

    #[test]
    fn what_is_no_text_is_refused() {
        let error = runs(vec![("work".to_owned(), String::from_utf8_lossy(b"a\xff").into_owned())]).unwrap_err();
        assert!(matches!(error, Error::Invalid(problems) if problems.len() == 1));
    }

    #[test]
    fn limits_are_clamped_and_absent_or_zero_is_the_default() {
        for (text, limit) in [
            ("", 0),
            ("limit=", 0),
            ("limit=0", 100),
            ("limit=7", 7),
            ("limit=1001", 1000),
            ("limit=99999999999999999999", 1000),
        ] {
            assert_eq!(runs(pairs(text)).unwrap().limit, limit, "{text}");
        }
    }

    #[test]
    fn every_bad_parameter_is_named_with_what_to_write_instead() {
        let error = runs(pairs("state=running&since=yesterday&limit=-1&after=x&colour=red&work=a&work=b")).unwrap_err();
        let named: Vec<&str> = error.violations().iter().map(|it| it.field.as_str()).collect();
        assert_eq!(named, ["colour", "work", "state", "since", "limit", "after"]);
        let text = error.to_string();
        for hint in ["QUEUED, RUNNING", "RFC 3339", "1 to 1000", "this page takes state", "give it once"] {
            assert!(text.contains(hint), "{hint}: {text}");
        }
        assert!(none(pairs("state=RUNNING")).is_err());
    }

    #[test]
    fn a_reconnecting_browser_goes_on_where_it_was() {
        assert_eq!(events(pairs(""), None).unwrap(), None);
        assert_eq!(events(pairs("after=3"), None).unwrap(), Some(3));
        assert_eq!(events(pairs("after=3"), Some(b"8")).unwrap(), Some(8));
        assert!(events(pairs(""), Some(b"x")).is_err());
        assert!(events(pairs("after=-1"), None).is_err());
    }

    proptest::proptest! {
        #![proptest_config(crate::service::sample::inputs())]

        #[test]
        fn any_query_is_read_or_refused_by_name(
            names in proptest::collection::vec(proptest::sample::select(vec!["state", "work", "since", "limit", "after", "", "x", "\0"]), 0..5),
            values in proptest::collection::vec("(\\PC{0,30}|[0-9]{0,25}|[-+.:TZ0-9]{0,30}|QUEUED|.{0,9})", 5),
            header in proptest::option::of(proptest::collection::vec(proptest::num::u8::ANY, 0..25)),
        ) {
            let pairs: Vec<(String, String)> = names.iter().map(|it| (*it).to_owned()).zip(values).collect();
            for error in [none(pairs.clone()).err(), runs(pairs.clone()).err(), events(pairs, header.as_deref()).err()].into_iter().flatten() {
                proptest::prop_assert!(!error.violations().is_empty());
                proptest::prop_assert!(error.violations().iter().all(|it| !it.message.is_empty()));
            }
        }
    }
}
