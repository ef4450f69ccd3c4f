//! Contracts with several faults: all of them are told at once, and nothing that only follows from another.

use shared::contract::parse;

fn refused(table: &[(String, &str)]) {
    for (text, wanted) in table {
        let said = parse(text.as_bytes()).map_or_else(|error| error.to_string(), |_| "accepted".to_owned());
        assert_eq!(said, *wanted, "\n--- for ---\n{text}");
    }
}

/// A contract with these steps.
fn steps(steps: &str) -> String {
    format!("requires: [{{as: b, capability: build, count: 2}}, {{as: j, capability: judge}}]\nsteps:\n{steps}\n")
}

/// A fault in one place hides none in another, and none is told that only follows from it.
#[test]
fn what_cannot_be_read_hides_nothing_else() {
    refused(&[
        (
            steps(
                "- {id: a, uses: b, run: make, timeout: 5, env: {X: $Y}}\n- {id: c, uses: k, run: [x], needs: a, in: {from: [q]}}",
            ),
            "3:25: steps[0].run: must be a list, but make is text; write [make]\n\
             3:40: steps[0].timeout: \"5\" is not a duration: write a number with its unit, such as 250ms, 10s, 5m, 2h or 1h30m\n\
             3:52: steps[0].env.X: $Y is not known here; set it in `env`, or write $$Y to pass a dollar on to the program\n\
             4:17: steps[1].uses: there is no role k; known here: b, j\n\
             4:37: steps[1].needs: must be a list, but a is text; write [a]\n\
             4:52: steps[1].in.from[0]: no step has \"q\" in its `out`; write FILE or STEP/FILE",
        ),
        // Whether there is a step, a role or a name is not known where one could not be read.
        (
            steps(
                "- {id: a b, uses: b, run: [x], out: [f]}\n- {id: c, uses: b, run: [x], needs: [a], in: {from: [f, a/f]}}\n- {id: c, uses: b, rum: [x]}",
            ),
            "3:8: steps[0].id: step id \"a b\" must have 1 to 128 characters of a-z, A-Z, 0-9, '.', '_', '-' and start with a letter or digit\n\
             5:20: steps[2].rum: unknown key; did you mean `run`?",
        ),
        (
            "requires: build\nenv: {A: yes, B: ~}\nsteps: [{id: a, uses: b, run: [x, $A], needs: [q]}]\n".to_owned(),
            "1:11: requires: must be a list, but build is text; write [build]\n\
             2:10: env.A: must be text, but yes is YAML for a truth value; write \"yes\" in quotes to mean the text\n\
             2:18: env.B: must be text, but ~ is YAML for nothing; write \"~\" in quotes to mean the text\n\
             3:48: steps[0].needs[0]: there is no step q",
        ),
    ]);
}

#[test]
fn a_step_asks_for_a_harness_that_its_role_lets_it_have() {
    let agents = |attrs: &str, agent: &str| {
        format!(
            "requires: [{{as: coder, capability: agent{attrs}}}]\nsteps:\n- {{id: s, uses: coder, agent: {{prompt: x{agent}}}}}\n"
        )
    };
    refused(&[
        (
            agents(", attrs: {harness: fast}", ""),
            "3:31: steps[0].agent.harness: this step asks for harness \"default\", but its role coder asks for a node with fast; write `harness: fast`, or change the role",
        ),
        (
            agents(", attrs: {harness: {any: [fast, 7]}}", ", harness: slow"),
            "3:52: steps[0].agent.harness: this step asks for harness \"slow\", but its role coder asks for a node with fast or 7; write `harness: fast`, or change the role",
        ),
    ]);
    for text in [
        agents(", attrs: {harness: fast}", ", harness: fast"),
        agents(", attrs: {harness: {any: [fast, 7]}}", ", harness: '7'"),
        agents("", ", harness: slow"),
        agents(", attrs: {harness: default}", ""),
    ] {
        assert!(parse(text.as_bytes()).is_ok(), "{text}");
    }
}
