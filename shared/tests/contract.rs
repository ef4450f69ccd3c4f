//! The contract language: what is taken, and what exactly is said of what is not.

use proptest::prelude::*;
use shared::contract::{
    Contract, MAX_BYTES, canonical_json, contract_hash, example, parse, resolve, schema,
};

/// Everything that is said about a text, one problem a line.
fn said(text: &str) -> String {
    match parse(text.as_bytes()) {
        Ok(_) => "accepted".to_owned(),
        Err(error) => error.to_string(),
    }
}

/// A contract with these steps.
fn steps(steps: &str) -> String {
    format!("requires: [{{as: b, capability: build, count: 2}}, {{as: j, capability: judge}}]\nsteps:\n{steps}\n")
}

/// A contract with these keys beside one good step.
fn keys(keys: &str) -> String {
    format!("requires: [{{as: b, capability: build}}]\nsteps: [{{id: s, uses: b, run: [make], out: [f]}}]\n{keys}\n")
}

fn refused(table: &[(String, &str)]) {
    for (text, wanted) in table {
        assert_eq!(said(text), *wanted, "\n--- for ---\n{text}");
    }
}

fn accepted(table: &[String]) {
    for text in table {
        assert_eq!(said(text), "accepted", "\n--- for ---\n{text}");
    }
}

#[test]
fn the_example_is_a_contract_and_uses_two_roles_and_a_fork() {
    let contract = parse(example().as_bytes()).unwrap();
    assert_eq!(contract.requires.len(), 2);
    assert!(contract.steps.iter().any(|step| step.dispatch.is_some()));
    assert_eq!(contract.work_id().unwrap().as_str(), "gerrit:I5c9");
    // Shell words with a doubled dollar arrive with one.
    let (argv, env) = resolve(&contract, &contract.steps[1], |name| Some(format!("<{name}>"))).unwrap();
    assert_eq!(argv[2], "make -C src test > \"$OUT/report.txt\"");
    assert_eq!(env["MAKEFLAGS"], "-j8");
    let (argv, _) = resolve(&contract, &contract.steps[2], |name| Some(format!("<{name}>"))).unwrap();
    assert_eq!(argv, ["assess", "--report", "<IN>/report.txt", "--verdict", "<OUT>/verdict.json"]);
}

#[test]
fn json_is_a_contract_too_with_tabs_and_escapes() {
    let text = "{\r\n\t\"requires\": [{\"as\": \"b\", \"capability\": \"build\"}],\r\n\t\"steps\": [{\"id\": \"s\", \"uses\": \"b\", \"run\": [\"echo\", \"\\u00e4\\/\\\"\"]}]\r\n}";
    let contract = parse(text.as_bytes()).unwrap();
    assert_eq!(contract.steps[0].run.as_ref().unwrap()[1], "ä/\"");
}

#[test]
fn a_mark_at_the_beginning_and_dos_line_ends_are_tolerated() {
    let text = format!("\u{feff}{}", example().replace('\n', "\r\n"));
    assert_eq!(parse(text.as_bytes()).unwrap(), parse(example().as_bytes()).unwrap());
}

#[test]
fn texts_that_are_no_document_are_refused_with_their_position() {
    let big = format!("{}\n# {}", example(), "x".repeat(MAX_BYTES));
    let bomb = (1..9).fold("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned(), |text, i| {
        let alias = format!("*a{},", i - 1).repeat(10);
        format!("{text}a{i}: &a{i} [{alias}]\n")
    });
    refused(&[
        (String::new(), "it is empty; `mediator contract example` shows one"),
        ("# nothing\n---\n".to_owned(), "it is empty; `mediator contract example` shows one"),
        ("{}".to_owned(), "1:1: `requires` is missing\n1:1: `steps` is missing"),
        ("[]".to_owned(), "1:1: must be a map, but it is a list here"),
        ("hello".to_owned(), "1:1: must be a map, but hello is text"),
        ("requires: [\n".to_owned(), "1:11: unclosed bracket '['"),
        ("requires: *b\n".to_owned(), "1:11: alias references unknown anchor"),
        ("requires: &b [*b]\n".to_owned(), "1:15: an anchor holds an alias of itself"),
        ("null: 1\n".to_owned(), "1:1: an empty key or null cannot be a key; write it in quotes"),
        (
            format!("{}---\nx: 1\n", keys("")),
            "4:1: a second document starts here; a contract is one document",
        ),
        (bomb, "7:5: nested too deeply, or grows beyond 1048576 bytes through its aliases"),
        ("[".repeat(5_000), "?"),
        (format!("steps: {}", "{a: ".repeat(40)), "?"),
        (keys("env: {A: !mine x}"), "?"),
        (big.clone(), &format!("has {} bytes; a contract has at most 1048576", big.len())),
    ]);
    let latin = parse(b"requires: 1\nsteps: \xe4").unwrap_err();
    assert_eq!(latin.to_string(), "2:8: is not UTF-8 here; save the file as UTF-8");
}

#[test]
fn every_unknown_and_every_double_key_is_named_with_its_path() {
    refused(&[
        (
            keys("wrok: {}\nfoobar: 1\nenv: {A: x, A: y}\nenv: {}"),
            "3:1: wrok: unknown key; did you mean `work`?\n\
             4:1: foobar: unknown key; known here: run_id, work, env, requires, steps, success_when, on_lost, on_drain, when_unmatched\n\
             6:1: env: this key is there twice, first at 5:1",
        ),
        (
            steps("- {id: a, uses: b, runn: [x], run: [x], in: {form: [a], from: []}}\n- {id: c, uses: b, run: [x], env: {A: x, A: y}}"),
            "3:20: steps[0].runn: unknown key; did you mean `run`?\n\
             3:50: steps[0].in.form: unknown key; did you mean `from`?\n\
             4:42: steps[1].env.A: this key is there twice, first at 4:36",
        ),
        (keys("work: {system: a}"), "3:7: work: `change_id` is missing"),
    ]);
}

#[test]
fn what_yaml_takes_for_something_else_is_not_guessed() {
    refused(&[
        (
            keys("env: {A: yes, B: null, C: 1.50, D: 010, E: , F: [a], G: ~, H: 0x1F, I: 1_000}"),
            "?",
        ),
        (steps("- {id: a, uses: b, run: [true, on]}"), "?"),
        (
            "requires:\n- {as: b, capability: c, attrs: {v: 1.10, w: {min: x}, y: {}, z: yes, n: {min: 1, any: [1]}}, count: two}\nsteps: []".to_owned(),
            "?",
        ),
        (keys("on_lost: {retry: -1}\non_drain: [x]\nwhen_unmatched: wait\nrun_id: a/b"), "?"),
        (steps("- {id: a b, uses: 'b[x]', run: make, timeout: 10, needs: a}"), "?"),
    ]);
    // Whole numbers are spelled as they are meant, and `y` is a letter.
    let contract = parse(steps("- {id: y, uses: b, run: [sleep, 5, -1, n, '1.10']}").as_bytes()).unwrap();
    assert_eq!(contract.steps[0].run.as_ref().unwrap(), &["sleep", "5", "-1", "n", "1.10"]);
}

#[test]
fn an_anchor_saves_writing() {
    let text = steps("- &base {id: a, uses: b, run: [x], timeout: 5s}\n- {<<: *base, id: c}");
    let contract = parse(text.as_bytes()).unwrap();
    assert_eq!((contract.steps[1].id.as_str(), &contract.steps[1].timeout), ("c", &contract.steps[0].timeout));
}

#[test]
fn roles_are_checked() {
    refused(&[
        ("requires: []\nsteps: []".to_owned(), "1:11: requires: a contract requires at least one role\n2:8: steps: a contract has at least one step"),
        (
            "requires:\n- {as: b, capability: '', count: 0, attrs: {x: {any: []}, '': 1}}\n- {as: b, capability: x y, count: 1001}\nsteps: [{id: a, uses: b, run: ['true']}]".to_owned(),
            "?",
        ),
        (
            steps("- {id: a, uses: 'b[2]', run: [x], release: [k]}\n- {id: c, run: [x]}\n- {id: d, uses: q, run: [x]}"),
            "?",
        ),
        (
            format!("requires:\n{}steps: [{{id: a, uses: r0, run: [x]}}]", (0..65).map(|i| format!("- {{as: r{i}, capability: c}}\n")).collect::<String>()),
            "?",
        ),
    ]);
}

#[test]
fn a_step_does_exactly_one_thing() {
    refused(&[(
        steps("- {id: a, uses: b}\n- {id: c, uses: b, run: []}\n- {id: d, uses: b, run: ['', x]}\n- {id: e, uses: b, run: [x], ask: {}}\n- {id: f, uses: b, run: [x], timeout: 0s}\n- {id: f, uses: b, run: [\"a\\0b\"], max_attempts: 0}"),
        "?",
    )]);
}

#[test]
fn needs_point_back() {
    refused(&[
        (
            steps("- {id: a, uses: b, run: [x], needs: [c, a, z]}\n- {id: c, uses: b, run: [x], needs: [d]}\n- {id: d, uses: b, run: [x], needs: [a, a]}\n- {id: e, uses: b, run: [x], needs: [f]}\n- {id: f, uses: b, run: [x], needs: []}"),
            "?",
        ),
    ]);
}

#[test]
fn a_fork_leads_on_to_steps_that_wait_for_it() {
    refused(&[
        (
            steps("- {id: f, uses: b, run: [x], out: [v], dispatch: {from: v#/o, to: [p]}}\n- {id: p, uses: b, run: [x], needs: [], dispatch: {from: v, to: [f, p, z, q, q]}}\n- {id: q, uses: b, run: [x], out: [v], dispatch: {from: 'v#o', to: [r, s]}}\n- {id: r, uses: b, run: [x], needs: [q], out: [w], dispatch: {from: 'v#/~2', to: [s, t]}}\n- {id: s, uses: b, run: [x], needs: [r]}\n- {id: t, uses: b, run: [x], out: [w], dispatch: {from: 'v#/o', to: [u, w]}}\n- {id: u, uses: b, run: [x]}\n- {id: w, uses: b, run: [x]}"),
            "?",
        ),
    ]);
    accepted(&[
        // Through another step, and by default.
        steps("- {id: f, uses: b, run: [x], out: [v], dispatch: {from: v#/o, to: [p, q]}}\n- {id: m, uses: b, run: [x], needs: [f]}\n- {id: p, uses: b, run: [x], needs: [m]}\n- {id: q, uses: b, run: [x]}\n- {id: j, uses: b, run: [x], needs: [p, q]}"),
    ]);
}

#[test]
fn files_stay_below_their_folder_and_inputs_are_made_before() {
    refused(&[(
        steps("- {id: a, uses: b, run: [x], out: [a, a, /b, ../c, '', d/, ./e, \"x\\ny\", f/../g], in: {from: [q]}}\n- {id: c, uses: b, run: [x], needs: [], out: [c], in: {from: [a, a/a, a/q, c/c, a/a]}}"),
        "?",
    ),
    (steps(&format!("- {{id: a, uses: b, run: [x], out: [{}]}}", (0..1001).map(|i| format!("f{i},")).collect::<String>())), "?"),
    ]);
    accepted(&[
        steps("- {id: a, uses: b, run: [x], out: [d/f, g]}\n- {id: c, uses: b, run: [x], out: [g]}\n- {id: e, uses: b, run: [x], in: {from: [d/f, a/d/f, g, c/g]}}"),
    ]);
}

#[test]
fn a_role_is_given_back_when_nothing_can_use_it() {
    refused(&[(
        steps("- {id: a, uses: b, run: [x], release: [j, b]}\n- {id: c, uses: j, run: [x]}\n- {id: d, uses: 'b[1]', run: [x], needs: []}"),
        "?",
    )]);
    accepted(&[
        // The other branch never runs beside this one.
        steps("- {id: a, uses: b, run: [x], out: [v], dispatch: {from: v#/o, to: [s, r]}}\n- {id: s, uses: b, run: [x], release: [b]}\n- {id: r, uses: b, run: [x], needs: [a]}"),
        steps("- {id: a, uses: j, run: [x]}\n- {id: c, uses: b, run: [x], release: [j, b]}"),
    ]);
}

#[test]
fn conditions_can_be_evaluated() {
    refused(&[(
        keys("success_when: [{step: s}, {step: t, exit_code: 1}, {step: s, produced: [x, f]}, {step: s, produced: []}, {step: s, within_attempts: 0}]"),
        "?",
    )]);
    accepted(&[keys("success_when: [{step: s, exit_code: -1, produced: [f], within_attempts: 1, required: true}]")]);
}

#[test]
fn names_of_environments_and_dollars_are_checked() {
    refused(&[
        (keys("env: {IN: x, 1A: x, A: $B, C: $OUT, D: '$(ls)', E: a-b}\nwork: {system: 'a:b', change_id: ''}"), "?"),
        (steps("- {id: a, uses: b, run: [x, $HOME, '${A', $A], env: {A: $IN, B: $A, STEP_ID: x}}"), "?"),
        (keys("work: {system: '', change_id: x}"), "?"),
    ]);
    accepted(&[
        keys("env: {A: $RUN_ID-$WORK_ID, B: $$HOME}"),
        steps("- {id: a, uses: b, run: [x, $A, '${IN}/f', $OUT, $CACHE, $ATTEMPT, '100$$'], env: {A: $IN/x}}"),
    ]);
}

#[test]
fn what_is_not_supported_yet_is_refused_and_never_ignored() {
    refused(&[
        (keys("on_lost: {retry: 1}\non_drain: requeue\nwhen_unmatched: queue"), "?"),
        (
            steps("- {id: a, uses: b, run: [x], loop: {back_to: a}, max_attempts: 2, keep: true}\n- {id: c, agent: {prompt: x}}\n- {id: d, acquire: {}}\n- {id: e, ask: {}}"),
            "?",
        ),
        ("requires: [{as: b, capability: c, apart: true}]\nsteps: [{id: a, uses: b, run: [x]}]".to_owned(), "?"),
    ]);
    accepted(&[keys("on_lost: {retry: 0}\non_drain: close\nwhen_unmatched: reject")]);
}

#[test]
fn a_thousand_steps_with_a_thousand_needs_each_cost_little() {
    let mut text = steps("");
    for at in 0..1_001 {
        text.push_str(&format!("- {{id: s{at}, uses: b, run: [x]}}\n"));
    }
    assert_eq!(said(&text), "?");
    // More problems than anybody reads.
    let text = steps(&format!("- {{id: a, uses: b, run: [x], needs: [{}]}}", (0..500).map(|i| format!("n{i},")).collect::<String>()));
    let said = said(&text);
    assert_eq!(said.lines().count(), 101);
    assert_eq!(said.lines().last(), Some("and 400 more; mend these first"));
}

#[test]
fn what_is_stored_reads_back_as_the_same_contract() {
    let contract = parse(example().as_bytes()).unwrap();
    let stored = canonical_json(&contract);
    let back = Contract::from_stored_json(&stored).unwrap();
    assert_eq!(back, contract);
    assert_eq!(canonical_json(&back), stored);
    assert_eq!(parse(stored.as_bytes()).unwrap(), contract);
    assert_eq!(contract_hash(&back), contract_hash(&contract));
    assert_eq!(contract_hash(&contract).len(), 64);
    let error = Contract::from_stored_json("{\"requires\": 1}").unwrap_err();
    assert!(error.to_string().starts_with("1:14: the stored contract cannot be read: "), "{error}");
}

#[test]
fn the_schema_has_the_keys_that_are_read_and_says_exactly_one_kind() {
    let schema = schema();
    assert_eq!(schema.pointer("/$defs/Step/oneOf").unwrap().as_array().unwrap().len(), 4);
    assert_eq!(schema.pointer("/properties/steps/maxItems").unwrap(), 1_000);
    for (place, text) in [("", "zzzzzzzz: 1"), ("/$defs/Step", "steps: [{zzzzzzzz: 1}]"), ("/$defs/Require", "requires: [{zzzzzzzz: 1}]")] {
        let said = said(text);
        let known = said.split("known here: ").nth(1).unwrap().lines().next().unwrap();
        let mut known: Vec<&str> = known.split(", ").collect();
        let mut keys: Vec<&str> =
            schema.pointer(&format!("{place}/properties")).unwrap().as_object().unwrap().keys().map(String::as_str).collect();
        known.sort_unstable();
        keys.sort_unstable();
        assert_eq!(known, keys, "{place}");
    }
}

proptest! {
    #[test]
    fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _taken = parse(&bytes).is_ok();
    }

    #[test]
    fn a_mangled_example_is_taken_or_refused_with_words(
        cuts in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), "[-a-z0-9:{}#&*$\\[\\], \n\t\"']{0,6}"), 1..6)
    ) {
        let mut text: Vec<char> = example().chars().collect();
        for (at, len, with) in cuts {
            let at = at.index(text.len());
            let end = (at + len.index(12)).min(text.len());
            text.splice(at..end, with.chars());
        }
        let text: String = text.into_iter().collect();
        match parse(text.as_bytes()) {
            Ok(contract) => prop_assert_eq!(Contract::from_stored_json(&canonical_json(&contract)).unwrap(), contract),
            Err(error) => prop_assert!(!error.problems.is_empty() && error.problems.iter().all(|it| !it.message.is_empty())),
        }
    }
}
