//! The contract language: what is taken, and what exactly is said of what is not.

use proptest::prelude::*;
use shared::contract::{Contract, MAX_BYTES, canonical_json, contract_hash, example, parse, resolve, schema};

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
        (format!("{}---\nx: 1\n", keys("")), "4:1: a second document starts here; a contract is one document"),
        (bomb, "4:38: nested too deeply, or grows beyond 1048576 bytes through its aliases"),
        ("[".repeat(5_000), "1:33: recursion limit exceeded"),
        (
            format!("steps: {}", "{a: ".repeat(40)),
            "1:132: nested too deeply, or grows beyond 1048576 bytes through its aliases",
        ),
        (keys("env: {A: !mine x}"), "3:16: unsupported tag `!mine`"),
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
            steps(
                "- {id: a, uses: b, runn: [x], run: [x], in: {form: [a], from: []}}\n- {id: c, uses: b, run: [x], env: {A: x, A: y}}",
            ),
            "3:20: steps[0].runn: unknown key; did you mean `run`?\n\
             3:46: steps[0].in.form: unknown key; did you mean `from`?\n\
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
            "3:10: env.A: must be text, but yes is YAML for a truth value; write \"yes\" in quotes to mean the text\n\
             3:18: env.B: must be text, but null is YAML for nothing; write \"null\" in quotes to mean the text\n\
             3:27: env.C: must be text, but 1.50 is YAML for a number; write \"1.50\" in quotes to mean the text\n\
             3:36: env.D: must be text, but 010 is YAML for a number; write \"010\" in quotes to mean the text\n\
             3:42: env.E: must be text, but it is empty here; write \"\" in quotes to mean the text\n\
             3:49: env.F: must be text, but it is a list here\n\
             3:57: env.G: must be text, but ~ is YAML for nothing; write \"~\" in quotes to mean the text\n\
             3:63: env.H: must be text, but 0x1F is YAML for a number; write \"0x1F\" in quotes to mean the text\n\
             3:72: env.I: must be text, but 1_000 is YAML for a number; write \"1_000\" in quotes to mean the text",
        ),
        (steps("- {id: a, uses: b, run: [true, on]}"), "3:26: steps[0].run[0]: must be text, but true is YAML for a truth value; write \"true\" in quotes to mean the text\n\
             3:32: steps[0].run[1]: must be text, but on is YAML for a truth value; write \"on\" in quotes to mean the text"),
        (
            "requires:\n- {as: b, capability: c, attrs: {v: 1.10, w: {min: x}, y: {}, z: yes, n: {min: 1, any: [1]}}, count: two}\nsteps: []".to_owned(),
            "2:37: requires[0].attrs.v: must be text, a whole number, true or false, but 1.10 is YAML for a number; write \"1.10\" in quotes to mean the text\n\
             2:52: requires[0].attrs.w.min: must be a whole number, but x is text\n\
             2:59: requires[0].attrs.y: write a value, {min: NUMBER} or {any: [VALUE, ...]}\n\
             2:66: requires[0].attrs.z: must be text, a whole number, true or false, but yes is YAML for a truth value; write \"yes\" in quotes to mean the text\n\
             2:74: requires[0].attrs.n: write a value, {min: NUMBER} or {any: [VALUE, ...]}\n\
             2:102: requires[0].count: must be a whole number, but two is text\n\
             3:8: steps: a contract has at least one step",
        ),
        (keys("on_lost: {retry: -1}\non_drain: [x]\nwhen_unmatched: wait\nrun_id: a/b"), "3:18: on_lost.retry: -1 is out of range\n\
             4:11: on_drain: must be text, but it is a list here\n\
             5:17: when_unmatched: \"wait\" is not known here; write reject or queue\n\
             6:9: run_id: run id \"a/b\" must have 1 to 128 characters of a-z, A-Z, 0-9, '.', '_', '-' and start with a letter or digit"),
        (steps("- {id: a b, uses: 'b[x]', run: make, timeout: 10, needs: a}"), "3:8: steps[0].id: step id \"a b\" must have 1 to 128 characters of a-z, A-Z, 0-9, '.', '_', '-' and start with a letter or digit\n\
             3:19: steps[0].uses: role \"b[x]\" must have 1 to 128 characters of a-z, A-Z, 0-9, '.', '_', '-' and start with a letter or digit\n\
             3:32: steps[0].run: must be a list, but make is text; write [make]\n\
             3:47: steps[0].timeout: \"10\" is not a duration: write a number with its unit, such as 250ms, 10s, 5m, 2h or 1h30m\n\
             3:58: steps[0].needs: must be a list, but a is text; write [a]"),
        (steps("- {id: a, uses: b, run: ls -l}\n- {id: c, uses: b, run: \"ls -l\"}\n- {id: d, uses: b, run: 'cp $IN/a - 1.5 no $OUT/b'}\n- {id: e, uses: b, run: 'make | tee \"log\"'}\n- {id: f, uses: b, run: A=1 make}\n- {id: g, uses: b, run: ''}\n- id: h\n  uses: b\n  run: |\n    make\n    make test\n"),
            "3:25: steps[0].run: must be a list, but ls -l is text; write [ls, -l]\n\
             4:25: steps[1].run: must be a list, but \"ls -l\" is text; write [ls, -l]\n\
             5:25: steps[2].run: must be a list, but 'cp $IN/a - 1.5 no $OUT/b' is text; write [cp, $IN/a, \"-\", \"1.5\", \"no\", $OUT/b]\n\
             6:25: steps[3].run: must be a list, but 'make | tee \"log\"' is text; write [\"sh\", \"-c\", \"make | tee \\\"log\\\"\"]\n\
             7:25: steps[4].run: must be a list, but A=1 make is text; write [\"sh\", \"-c\", \"A=1 make\"]\n\
             8:25: steps[5].run: must be a list, but '' is text; write [PROGRAM, ARGUMENT, ...]\n\
             12:5: steps[6].run: must be a list, but make\n    make test is text; write [\"sh\", \"-c\", TEXT] with this text as TEXT"),
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
            "2:23: requires[0].capability: must be a word of 1 to 128 printable characters without blanks\n\
             2:34: requires[0].count: must be 1 to 1000, but is 0\n\
             2:48: requires[0].attrs.x: `any` names no value, so that no node could ever do\n\
             2:63: requires[0].attrs[\"\"]: an attribute's name has 1 to 128 printable characters and no blanks\n\
             3:8: requires[1].as: role b is there twice; roles are told apart by their names\n\
             3:23: requires[1].capability: must be a word of 1 to 128 printable characters without blanks\n\
             3:35: requires[1].count: must be 1 to 1000, but is 1001",
        ),
        (
            steps("- {id: a, uses: 'b[2]', run: [x], release: [k]}\n- {id: c, run: [x]}\n- {id: d, uses: q, run: [x]}"),
            "3:17: steps[0].uses: role b has 2 nodes, b[0] to b[1]\n\
             3:45: steps[0].release[0]: there is no role k; known here: b, j\n\
             4:3: steps[1]: `uses` is missing; name the role whose node runs step c\n\
             5:17: steps[2].uses: there is no role q; known here: b, j",
        ),
        (
            format!("requires:\n{}steps: [{{id: a, uses: r0, run: [x]}}]", (0..65).map(|i| format!("- {{as: r{i}, capability: c}}\n")).collect::<String>()),
            "2:3: requires: a contract has at most 64 roles; this one has 65",
        ),
    ]);
}

#[test]
fn a_step_does_exactly_one_thing() {
    refused(&[(
        steps(
            "- {id: a, uses: b}\n- {id: c, uses: b, run: []}\n- {id: d, uses: b, run: ['', x]}\n- {id: e, uses: b, run: [x], ask: {question: x}}\n- {id: f, uses: b, run: [x], timeout: 0s}\n- {id: f, uses: b, run: [\"a\\0b\"], max_attempts: 0}",
        ),
        "3:3: steps[0]: a step does one thing; write `run: [PROGRAM, ARGUMENT, ...]`\n\
             4:25: steps[1].run: names no program; write `run: [PROGRAM, ARGUMENT, ...]`\n\
             5:25: steps[2].run: the program's name is empty\n\
             6:3: steps[3]: a step does exactly one thing, but this one has run and ask\n\
             7:39: steps[4].timeout: must be longer than nothing; leave it out for no limit\n\
             8:8: steps[5].id: step f is there twice, first as steps[4]\n\
             8:26: steps[5].run[0]: holds a NUL byte, which no program can be given\n\
             8:49: steps[5].max_attempts: 0 attempts would never run; write 1 or leave the key out",
    )]);
}

#[test]
fn needs_point_back() {
    refused(&[(
        steps(
            "- {id: a, uses: b, run: [x], needs: [c, a, z]}\n- {id: c, uses: b, run: [x], needs: [d]}\n- {id: d, uses: b, run: [x], needs: [a, a]}\n- {id: e, uses: b, run: [x], needs: [f]}\n- {id: f, uses: b, run: [x], needs: []}",
        ),
        "3:38: steps[0].needs[0]: step a would wait for itself: a needs c, which needs d, which needs a\n\
             3:41: steps[0].needs[1]: step a needs itself\n\
             3:44: steps[0].needs[2]: there is no step z\n\
             4:38: steps[1].needs[0]: step c would wait for itself: c needs d, which needs a, which needs c\n\
             5:41: steps[2].needs[1]: step a is named twice\n\
             6:38: steps[3].needs[0]: step e needs f, which comes later; move f before e",
    )]);
}

#[test]
fn a_fork_leads_on_to_steps_that_wait_for_it() {
    refused(&[(
        steps(
            "- {id: f, uses: b, run: [x], out: [v], dispatch: {from: v#/o, to: [p]}}\n- {id: p, uses: b, run: [x], needs: [], dispatch: {from: v, to: [f, p, z, q, q]}}\n- {id: q, uses: b, run: [x], out: [v], dispatch: {from: 'v#o', to: [r, s]}}\n- {id: r, uses: b, run: [x], needs: [q], out: [w], dispatch: {from: 'v#/~2', to: [s, t]}}\n- {id: s, uses: b, run: [x], needs: [r]}\n- {id: t, uses: b, run: [x], out: [w], dispatch: {from: 'v#/o', to: [u, w]}}\n- {id: u, uses: b, run: [x]}\n- {id: w, uses: b, run: [x]}",
        ),
        "3:67: steps[0].dispatch.to: a fork leads to at least two different steps\n\
             4:37: steps[1].needs: step p must need f, which dispatches to it, or it could run before f has decided\n\
             4:58: steps[1].dispatch.from: \"v\" names no place in a file; write FILE#/POINTER, such as verdict.json#/outcome\n\
             4:66: steps[1].dispatch.to[0]: step f comes before p and cannot be reached from it; a fork leads on\n\
             4:69: steps[1].dispatch.to[1]: step p dispatches to itself\n\
             4:72: steps[1].dispatch.to[2]: there is no step z\n\
             4:78: steps[1].dispatch.to[4]: step q is named twice\n\
             5:57: steps[2].dispatch.from: \"o\" is not a JSON pointer; it starts with '/', and '~' is written ~0\n\
             5:72: steps[2].dispatch.to[1]: step s cannot be reached: picking it skips every step that it needs\n\
             6:69: steps[3].dispatch.from: \"/~2\" is not a JSON pointer; it starts with '/', and '~' is written ~0\n\
             6:83: steps[3].dispatch.to[0]: step s is a target of step q already; one fork decides on a step\n\
             8:57: steps[5].dispatch.from: \"v\" is not in this step's `out`; add it there",
    )]);
    accepted(&[
        // Through another step, and by default.
        steps(
            "- {id: f, uses: b, run: [x], out: [v], dispatch: {from: v#/o, to: [p, q]}}\n- {id: m, uses: b, run: [x], needs: [f]}\n- {id: p, uses: b, run: [x], needs: [m]}\n- {id: q, uses: b, run: [x]}\n- {id: j, uses: b, run: [x], needs: [p, q]}",
        ),
    ]);
}

#[test]
fn files_stay_below_their_folder_and_inputs_are_made_before() {
    refused(&[
        (
            steps(
                "- {id: a, uses: b, run: [x], out: [a, a, /b, ../c, '', d/, ./e, \"x\\ny\", f/../g], in: {from: [q]}}\n- {id: c, uses: b, run: [x], needs: [], out: [c], in: {from: [a, a/a, a/q, c/c, a/a]}}",
            ),
            "3:39: steps[0].out[1]: \"a\" is named twice\n\
             3:42: steps[0].out[2]: \"/b\" is absolute; name a file or folder below $OUT\n\
             3:46: steps[0].out[3]: \"../c\" leads out of $OUT; leave out '..'\n\
             3:52: steps[0].out[4]: \"\" is empty; name a file or folder below $OUT\n\
             3:56: steps[0].out[5]: \"d/\" has an empty part; write one '/' between names and none at the end\n\
             3:60: steps[0].out[6]: \"./e\" has a part '.'; leave it out\n\
             3:65: steps[0].out[7]: \"x\\ny\" holds a control character\n\
             3:73: steps[0].out[8]: \"f/../g\" leads out of $OUT; leave out '..'\n\
             3:94: steps[0].in.from[0]: no step has \"q\" in its `out`; write FILE or STEP/FILE\n\
             4:63: steps[1].in.from[0]: \"a\" is made by step a, for which c does not wait; let c need a\n\
             4:66: steps[1].in.from[1]: \"a/a\" is made by step a, for which c does not wait; let c need a\n\
             4:71: steps[1].in.from[2]: step a has no \"q\" in its `out`\n\
             4:76: steps[1].in.from[3]: \"c/c\" is made by this step itself; inputs come from steps that it needs\n\
             4:81: steps[1].in.from[4]: \"a/a\" is named twice",
        ),
        (
            steps(&format!(
                "- {{id: a, uses: b, run: [x], out: [{}]}}",
                (0..1001).map(|i| format!("f{i},")).collect::<String>()
            )),
            "3:35: steps[0].out: a step has at most 1000 outputs; name their folder instead",
        ),
    ]);
    accepted(&[steps(
        "- {id: a, uses: b, run: [x], out: [d/f, g]}\n- {id: c, uses: b, run: [x], out: [g]}\n- {id: e, uses: b, run: [x], in: {from: [d/f, a/d/f, g, c/g]}}",
    )]);
}

#[test]
fn a_role_is_given_back_when_nothing_can_use_it() {
    refused(&[(
        steps(
            "- {id: a, uses: b, run: [x], release: [j, b]}\n- {id: c, uses: j, run: [x]}\n- {id: d, uses: 'b[1]', run: [x], needs: []}",
        ),
        "3:40: steps[0].release[0]: step c uses role j and can still run when a ends; release it in a step that needs c\n\
             3:43: steps[0].release[1]: step d uses role b and can still run when a ends; release it in a step that needs d",
    )]);
    accepted(&[
        // The other branch never runs beside this one.
        steps(
            "- {id: a, uses: b, run: [x], out: [v], dispatch: {from: v#/o, to: [s, r]}}\n- {id: s, uses: b, run: [x], release: [b]}\n- {id: r, uses: b, run: [x], needs: [a]}",
        ),
        steps("- {id: a, uses: j, run: [x]}\n- {id: c, uses: b, run: [x], release: [j, b]}"),
    ]);
}

#[test]
fn conditions_can_be_evaluated() {
    refused(&[(
        keys(
            "success_when: [{step: s}, {step: t, exit_code: 1}, {step: s, produced: [x, f]}, {step: s, produced: []}, {step: s, within_attempts: 0}]",
        ),
        "3:16: success_when[0]: says nothing; write exit_code, produced, within_attempts or required: true\n\
             3:34: success_when[1].step: there is no step t\n\
             3:73: success_when[2].produced[0]: \"x\" is not in the `out` of step s\n\
             3:101: success_when[3].produced: names no file\n\
             3:133: success_when[4].within_attempts: must be at least 1",
    )]);
    accepted(&[keys("success_when: [{step: s, exit_code: -1, produced: [f], within_attempts: 1, required: true}]")]);
}

#[test]
fn names_of_environments_and_dollars_are_checked() {
    refused(&[
        (
            keys("env: {IN: x, 1A: x, A: $B, C: $OUT, D: '$(ls)', E: a-b}\nwork: {system: 'a:b', change_id: ''}"),
            "3:11: env.IN: the agent sets this name itself; choose another\n\
             3:18: env.1A: an environment name has letters, digits and '_', and no digit first\n\
             3:24: env.A: $B is not known here; set it in `env`, or write $$B to pass a dollar on to the program\n\
             3:31: env.C: $OUT exists only within a step; use it in the step's own `env` or `run`\n\
             3:40: env.D: \"$(\" is not a name; write $NAME or ${NAME}, or $$ for a dollar\n\
             4:16: work.system: must not hold ':', which ends it in the work id SYSTEM:CHANGE_ID\n\
             4:34: work.change_id: must not be empty",
        ),
        (
            steps("- {id: a, uses: b, run: [x, $HOME, '${A', $A], env: {A: $IN, B: $A, STEP_ID: x}}"),
            "3:29: steps[0].run[1]: $HOME is not known here; set it in `env`, or write $$HOME to pass a dollar on to the program\n\
             3:36: steps[0].run[2]: \"${A\" is not a name; write $NAME or ${NAME}, or $$ for a dollar\n\
             3:65: steps[0].env.B: $A is not known here; set it in `env`, or write $$A to pass a dollar on to the program\n\
             3:78: steps[0].env.STEP_ID: the agent sets this name itself; choose another",
        ),
        (keys("work: {system: '', change_id: x}"), "3:16: work.system: must not be empty"),
    ]);
    accepted(&[
        keys("env: {A: $RUN_ID-$WORK_ID, B: $$HOME}"),
        steps("- {id: a, uses: b, run: [x, $A, '${IN}/f', $OUT, $CACHE, $ATTEMPT, '100$$'], env: {A: $IN/x}}"),
    ]);
}

#[test]
fn names_that_a_harness_is_given_are_the_agents_own_where_there_is_one() {
    let agent = "uses: b, agent: {harness: h, prompt: p}";
    refused(&[
        (
            steps(&format!("- {{id: a, {agent}, env: {{MAX_TURNS: '3', A: x, PROMPT_FILE: x}}}}")),
            "3:69: steps[0].env.MAX_TURNS: the agent sets this name itself for an `agent` step; choose another\n\
             3:93: steps[0].env.PROMPT_FILE: the agent sets this name itself for an `agent` step; choose another",
        ),
        (
            format!("{}env: {{ANSWER_FILE: x, SCHEMA_FILE: y}}\n", steps(&format!("- {{id: a, {agent}}}"))),
            "4:20: env.ANSWER_FILE: the agent sets this name itself for an `agent` step; choose another, or set it in the \
             `env` of those steps that need it\n\
             4:36: env.SCHEMA_FILE: the agent sets this name itself for an `agent` step; choose another, or set it in the \
             `env` of those steps that need it",
        ),
    ]);
    accepted(&[
        keys("env: {MAX_TURNS: x}"),
        steps("- {id: a, uses: b, run: [x], env: {PROMPT_FILE: x, SCHEMA_FILE: y, ANSWER_FILE: z, MAX_TURNS: '3'}}"),
    ]);
}

#[test]
fn what_would_grow_without_end_is_refused() {
    let ends = |text: &str, wanted: &str| {
        let said = said(text);
        assert!(said.ends_with(wanted), "{said}");
    };
    let (big, half) = ("x".repeat(300_000), "x".repeat(600_000));
    let step = |rest: &str| steps(&format!("- {{id: a, uses: b, {rest}}}"));
    let with = |value: &str, rest: &str| format!("env: {{A: {value}}}\n{}", step(rest));
    ends(&with(&big, "run: [x], env: {B: $A$A$A$A}"), "steps[0].env.B: it expands to more than 1048576 bytes");
    ends(&with(&big, "run: [x], env: {A: $A$A$A$A}"), "steps[0].env.A: it expands to more than 1048576 bytes");
    ends(
        &with(&half, "run: [x], env: {B: $A}"),
        "steps[0].env.B: it expands to more than 1048576 bytes, with what stands before it",
    );
    ends(
        &with(&half, "run: [x, $A, $A]"),
        "steps[0].run[2]: it expands to more than 1048576 bytes, with what stands before it",
    );
    ends(
        &with(&half, "agent: {harness: h, prompt: $A$A}"),
        "steps[0].agent.prompt: it expands to more than 1048576 bytes",
    );
    accepted(&[with(&half, "run: [x, $A], env: {A: $A}"), with(&big, "run: [x, $A$A$A]")]);
}

#[test]
fn what_to_do_about_losses_drains_and_missing_nodes_is_a_word() {
    refused(&[(
        keys("on_lost: {retry: -1}\non_drain: later\nwhen_unmatched: wait"),
        "3:18: on_lost.retry: -1 is out of range\n\
             4:11: on_drain: \"later\" is not known here; write close or requeue\n\
             5:17: when_unmatched: \"wait\" is not known here; write reject or queue",
    )]);
    accepted(&[
        keys("on_lost: {retry: 0}\non_drain: close\nwhen_unmatched: reject"),
        keys("on_lost: {retry: 3}\non_drain: requeue\nwhen_unmatched: queue"),
        "requires: [{as: b, capability: c, apart: true}]\nsteps: [{id: a, uses: b, run: [x]}]".to_owned(),
    ]);
}

#[test]
fn a_loop_leads_back_to_a_range_that_is_over_when_its_last_step_ends() {
    refused(&[
        (
            steps(
                "- {id: a, uses: b, run: [x], loop: {back_to: c, max: 0, until: {}}}\n- {id: c, uses: b, run: [x], needs: [], loop: {back_to: a, max: 2, until: {produced: [f]}}}\n- {id: d, uses: b, run: [x], loop: {back_to: z, max: 2}}",
            ),
            "3:46: steps[0].loop.back_to: step c comes after a; a loop leads back\n\
             3:54: steps[0].loop.max: must be 1 to 1000, but is 0\n\
             3:64: steps[0].loop.until: says nothing; write exit_code or produced\n\
             4:57: steps[1].loop.back_to: step c does not wait for a, so that a pass would not end with c\n\
             4:57: steps[1].loop.back_to: step a is in the range and can still run when c ends; let c need it, or move it out\n\
             4:75: steps[1].loop.until: \"f\" is not in this step's `out`\n\
             5:46: steps[2].loop.back_to: there is no step z",
        ),
        (
            "requires: [{as: b, capability: c}, {as: k, capability: c}]\nsteps:\n- {id: a, uses: b, run: [x]}\n- {id: s, uses: k, run: [x], release: [k]}\n- {id: c, uses: b, run: [x], loop: {back_to: a, max: 2}}\n- {id: d, uses: b, run: [x], loop: {back_to: s, max: 2}}".to_owned(),
            "4:40: steps[1].release[0]: role k would be gone in the next pass of the loop of step c; release it behind the range\n\
             4:40: steps[1].release[0]: role k would be gone in the next pass of the loop of step d; release it behind the range\n\
             6:46: steps[3].loop.back_to: its range begins inside that of step c and ends behind it; put one inside the other",
        ),
    ]);
    accepted(&[
        steps("- {id: a, uses: b, run: [x], loop: {back_to: a, max: 3, until: {exit_code: 0}}}"),
        // Two branches of one fork never both run, so that one may lie in the range of the other.
        steps(
            "- {id: t, uses: b, run: [x]}\n- {id: j, uses: b, run: [x], out: [v], dispatch: {from: v#/o, to: [s, r]}}\n- {id: s, uses: b, run: [x], needs: [j]}\n- {id: r, uses: b, run: [x], needs: [j], loop: {back_to: t, max: 2}}",
        ),
    ]);
}

#[test]
fn an_acquired_role_is_there_only_from_then_on() {
    refused(&[
        (
            steps(
                "- {id: a, uses: k, run: [x]}\n- {id: g, acquire: {as: k, capability: board}}\n- {id: c, uses: 'k[1]', run: [x]}\n- {id: d, uses: k, run: [x], needs: [a]}\n- {id: h, acquire: {as: b, capability: x, count: 0}}",
            ),
            "3:17: steps[0].uses: role k is there only when step g has acquired it; let a need it\n\
             5:17: steps[2].uses: role k has one node: write k\n\
             6:17: steps[3].uses: role k is there only when step g has acquired it; let d need it\n\
             7:25: steps[4].acquire.as: role b is there twice; roles are told apart by their names\n\
             7:50: steps[4].acquire.count: must be 1 to 1000, but is 0",
        ),
        (
            steps(
                "- {id: g, uses: b, acquire: {as: k, capability: board, apart: true}, out: [f], keep: true}\n- {id: h, acquire: {as: l, capability: x}, dispatch: {from: v#/o, to: [i, j]}}\n- {id: i, uses: b, run: [x], needs: [h]}\n- {id: j, uses: b, run: [x], needs: [h]}",
            ),
            "3:17: steps[0].uses: an acquire is the mediator's own doing and runs no program; leave `uses` out\n\
             3:56: steps[0].acquire.apart: unknown key; known here: as, capability, count, attrs, wait\n\
             3:75: steps[0].out: an acquire is the mediator's own doing and runs no program; its `outcome` can be dispatched on\n\
             3:86: steps[0].keep: an acquired node is given back when the Run starts over; nothing can be kept of it\n\
             4:61: steps[1].dispatch.from: an acquire leaves no file; write `from: outcome`\n\
             4:71: steps[1].dispatch.to: \"i\" is no outcome of an acquire; write `to: {acquired: STEP, unavailable: STEP, deadlock: STEP}`\n\
             4:71: steps[1].dispatch.to: says nothing of acquired, so that the step would fail when it gets what it wants",
        ),
    ]);
    accepted(&[steps(
        "- {id: g, acquire: {as: k, capability: board, wait: false}, dispatch: {from: outcome, to: {acquired: i, unavailable: j, deadlock: j}}}\n- {id: i, uses: k, run: [x], needs: [g], release: [k]}\n- {id: j, uses: b, run: [x], needs: [g]}",
    )]);
}

#[test]
fn what_a_loop_may_take_back_is_relied_on_only_behind_it() {
    let acquired = "- {id: get, acquire: {as: k, capability: board}}\n- {id: use, uses: k, run: [x], needs: [get]}\n- {id: again, uses: b, run: [x], needs: [use], loop: {back_to: get, max: 2}}\n";
    let decided = "- {id: f, uses: b, run: [x], out: [v], dispatch: {from: v#/o, to: [u, t]}}\n- {id: again, uses: b, run: [x], needs: [f], loop: {back_to: f, max: 2}}\n- {id: t, uses: b, run: [x], needs: [f, again]}\n";
    refused(&[
        (
            steps(&format!("{acquired}- {{id: long, uses: k, run: [x], needs: [get]}}")),
            "6:20: steps[3].uses: role k is given back when the loop of step again goes back; let long need again",
        ),
        (
            steps(&format!("{decided}- {{id: u, uses: b, run: [x], needs: [f]}}")),
            "6:37: steps[3].needs: step f decides anew when the loop of step again goes back; let u need again",
        ),
    ]);
    accepted(&[
        steps(&format!("{acquired}- {{id: long, uses: k, run: [x], needs: [get, again]}}")),
        steps(&format!("{decided}- {{id: u, uses: b, run: [x], needs: [f, again]}}")),
    ]);
}

#[test]
fn asks_and_agents_say_what_they_want_and_answer_in_a_file() {
    refused(&[
        (
            steps(
                "- {id: q, ask: {question: ' ', answerers: ['a b'], form: 7}}\n- {id: a, uses: b, agent: {prompt: $NOPE, max_turns: 0}}\n- {id: c, agent: {}}",
            ),
            "3:27: steps[0].ask.question: is empty\n\
             3:44: steps[0].ask.answerers[0]: principal \"a b\" must have 1 to 128 characters of a-z, A-Z, 0-9, '.', '_', '-' and start with a letter or digit\n\
             3:58: steps[0].ask.form: must be a JSON Schema, which is a map, but 7 is YAML for a number\n\
             4:36: steps[1].agent.prompt: $NOPE is not known here; set it in `env`, or write $$NOPE to pass a dollar on to the program\n\
             4:54: steps[1].agent.max_turns: 0 turns would do nothing; leave it out for no limit\n\
             5:18: steps[2].agent: `prompt` is missing",
        ),
        (
            steps(
                "- {id: q, ask: {question: ' '}, loop: {back_to: q, max: 2}}\n- {id: a, uses: b, agent: {prompt: $NOPE, max_turns: 0}}\n- {id: c, agent: {prompt: x}}",
            ),
            "3:27: steps[0].ask.question: is empty\n\
             3:39: steps[0].loop: an ask waits for a person and runs no program; put the loop on a `run` or `agent` step\n\
             4:36: steps[1].agent.prompt: $NOPE is not known here; set it in `env`, or write $$NOPE to pass a dollar on to the program\n\
             4:54: steps[1].agent.max_turns: 0 turns would do nothing; leave it out for no limit\n\
             5:3: steps[2]: `uses` is missing; name the role whose node runs step c",
        ),
    ]);
    accepted(&[steps(
        "- {id: q, ask: {question: ship?, form: {type: object, properties: {n: {minimum: 0.5}}}}, dispatch: {from: 'answer.json#/go', to: {'yes': a, 'no': c}}}\n- {id: a, uses: b, needs: [q], agent: {prompt: do $STEP_ID}, in: {from: [answer.json]}}\n- {id: c, uses: b, needs: [q], run: [x]}",
    )]);
}

#[test]
fn what_is_kept_can_be_kept() {
    refused(&[(
        steps(
            "- {id: a, uses: b, run: [x]}\n- {id: c, uses: b, run: [x], keep: true}\n- {id: d, uses: b, run: [x], needs: [], keep: true, loop: {back_to: d, max: 2}}\n- {id: e, uses: b, run: [x], needs: [], keep: true, release: [b]}\n- {id: f, uses: b, run: [x], max_attempts: 101}",
        ),
        "4:36: steps[1].keep: step c needs a, which is not kept; keep it, too\n\
             5:47: steps[2].keep: it is in the range of the loop of step d, whose passes start over\n\
             6:47: steps[3].keep: a step with `release` is repeated, because its roles are leased again\n\
             6:63: steps[3].release[0]: step a uses role b and can still run when e ends; release it in a step that needs a\n\
             6:63: steps[3].release[0]: step c uses role b and can still run when e ends; release it in a step that needs c\n\
             6:63: steps[3].release[0]: step d uses role b and can still run when e ends; release it in a step that needs d\n\
             6:63: steps[3].release[0]: step f uses role b and can still run when e ends; release it in a step that needs f\n\
             7:44: steps[4].max_attempts: must be 1 to 100, but is 101",
    )]);
}

#[test]
fn a_thousand_steps_with_a_thousand_needs_each_cost_little() {
    let mut text = steps("");
    for at in 0..1_001 {
        text.push_str(&format!("- {{id: s{at}, uses: b, run: [x]}}\n"));
    }
    refused(&[(text, "4:3: steps: a contract has at most 1000 steps; this one has 1001")]);
    // More problems than anybody reads.
    let text = steps(&format!(
        "- {{id: a, uses: b, run: [x], needs: [{}]}}",
        (0..500).map(|i| format!("n{i},")).collect::<String>()
    ));
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
    for (place, text) in [
        ("", "zzzzzzzz: 1"),
        ("/$defs/Step", "steps: [{zzzzzzzz: 1}]"),
        ("/$defs/Require", "requires: [{zzzzzzzz: 1}]"),
    ] {
        let said = said(text);
        let known = said.split("known here: ").nth(1).unwrap().lines().next().unwrap();
        let mut known: Vec<&str> = known.split(", ").collect();
        let mut keys: Vec<&str> = schema
            .pointer(&format!("{place}/properties"))
            .unwrap()
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
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
