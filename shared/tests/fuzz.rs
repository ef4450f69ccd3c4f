//! Contracts of any bytes. `FUZZ_INPUTS` says how many for each target: `make test` takes a few, `make soak` many.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::{path::Path, time::Instant};

use proptest::prelude::*;
use shared::contract::{Contract, canonical_json, example, parse};

fn inputs() -> ProptestConfig {
    let cases = std::env::var("FUZZ_INPUTS").ok().and_then(|it| it.parse().ok()).unwrap_or(2_000);
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// Good contracts to begin with.
fn seeds() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/contracts");
    let mut seeds: Vec<String> =
        std::fs::read_dir(folder).unwrap().map(|it| std::fs::read_to_string(it.unwrap().path()).unwrap()).collect();
    seeds.push(example().to_owned());
    seeds.extend(seeds.clone().iter().map(|it| canonical_json(&parse(it.as_bytes()).unwrap())));
    seeds
}

/// What may come of one input: the contract, which reads back from its stored form, or problems with their place.
fn taken_or_told(bytes: &[u8]) -> Result<(), TestCaseError> {
    #[expect(clippy::disallowed_methods, reason = "a test may look at its own watch")]
    let started = Instant::now();
    match parse(bytes) {
        Ok(contract) => {
            let stored = canonical_json(&contract);
            prop_assert_eq!(&Contract::from_stored_json(&stored).unwrap(), &contract);
            // YAML has no word for some JSON (keys above 1,024 characters, a raw DEL): told, or the very same.
            if let Ok(again) = parse(stored.as_bytes()) {
                prop_assert_eq!(&again, &contract);
            }
        }
        Err(error) => {
            prop_assert!(!error.problems.is_empty());
            prop_assert!(error.problems.iter().all(|it| !it.message.is_empty()));
            let said = error.to_string();
            let placed = said.starts_with(|first: char| first.is_ascii_digit());
            prop_assert!(placed || said.starts_with("it is empty"), "no place: {}", said);
        }
    }
    // Only what never ends, or costs more than its length, is this slow on any machine.
    prop_assert!(started.elapsed().as_secs() < 20, "it took {:?}", started.elapsed());
    Ok(())
}

/// A piece that means something to the language, to YAML or to JSON.
fn piece() -> impl Strategy<Value = String> {
    let words = [
        "requires",
        "steps",
        "as",
        "capability",
        "count",
        "attrs",
        "min",
        "id",
        "uses",
        "run",
        "needs",
        "out",
        "in",
        "from",
        "dispatch",
        "to",
        "loop",
        "back_to",
        "max",
        "ask",
        "agent",
        "acquire",
        "release",
        "apart",
        "keep",
        "on_lost",
        "retry",
        "success_when",
        "exit_code",
        "timeout",
        "max_attempts",
        "- ",
        ": ",
        "{",
        "}",
        "[",
        "]",
        "&a ",
        "*a",
        "<<: *a",
        "!!int ",
        "!!binary ",
        "? ",
        "|\n",
        ">\n",
        "\n  ",
        "\t",
        "#",
        "---\n",
        "...\n",
        "%YAML 9\n",
        "'",
        "\"",
        "\\u0000",
        "\\ud800",
        "\0",
        "\u{feff}",
        "\u{202e}",
        "~",
        "null",
        "NaN",
        ".inf",
        "-1",
        "1e999",
        "18446744073709551616",
        "0x7f",
        "2026-01-01",
        "9999999999h",
        "$",
        "${RUN_ID}",
        "../..",
        "a#/b/~2",
    ];
    prop_oneof![
        4 => proptest::sample::select(words.to_vec()).prop_map(str::to_owned),
        1 => ".{0,5}",
        1 => (proptest::sample::select(vec!["[", "{a: ", "- ", "? ", "{\"a\":[", "&a [*a,", "!t "]), 1usize..3_000)
            .prop_map(|(text, times)| text.repeat(times)),
    ]
}

proptest! {
    #![proptest_config(inputs())]

    #[test]
    fn any_bytes_are_a_contract_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        taken_or_told(&bytes)?;
    }

    #[test]
    fn words_in_any_order_are_a_contract_or_refused(pieces in proptest::collection::vec(piece(), 0..20)) {
        taken_or_told(pieces.concat().as_bytes())?;
    }

    #[test]
    fn a_good_contract_that_was_changed_is_taken_or_refused(
        which in any::<prop::sample::Index>(),
        cuts in proptest::collection::vec((any::<prop::sample::Index>(), 0usize..20, piece()), 1..5),
        flip in proptest::option::of((any::<prop::sample::Index>(), any::<u8>())),
    ) {
        thread_local!(static SEEDS: Vec<String> = seeds());
        let mut bytes = SEEDS.with(|seeds| which.get(seeds).clone().into_bytes());
        for (at, len, with) in cuts {
            if bytes.is_empty() { break; }
            let at = at.index(bytes.len());
            let end = (at + len).min(bytes.len());
            bytes.splice(at..end, with.bytes());
        }
        if let Some((at, byte)) = flip.filter(|_| !bytes.is_empty()) {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        taken_or_told(&bytes)?;
        // The same bytes in a row of the store.
        if let Ok(text) = std::str::from_utf8(&bytes) {
            match Contract::from_stored_json(text) {
                Ok(contract) => prop_assert_eq!(Contract::from_stored_json(&canonical_json(&contract)).unwrap(), contract),
                Err(error) => prop_assert!(!error.problems.is_empty()),
            }
        }
    }
}
