//! The mediator is killed at every commit boundary, from inside, and started again: every Run ends as it would
//! have, once, and is sealed once.

use std::{collections::BTreeSet, path::Path};

use tests::{Agent, AgentOptions, Client, Engine, Mediator, on_both_engines, wait_until};

use crate::gate::Gate;

/// What the Runs of one round are called after their prefix, and how they end.
const ENDS: [(&str, &str); 4] = [("bad", "FAILED"), ("fork", "SUCCEEDED"), ("one", "SUCCEEDED"), ("two", "SUCCEEDED")];
/// Each step that is executed, once.
const STEPS: [&str; 5] = ["bad", "check", "one", "ship", "two"];

/// Four Runs: the first takes both nodes and comes to a fork, so that the others wait for its end.
fn contracts(gate: &Gate, round: &str) -> [String; 4] {
    let runs = gate.path(&format!("{round}.runs")).display().to_string();
    let open = gate.path(round).display().to_string();
    let says = |word: &str| format!("echo {word}; echo {word} >> {runs}");
    let small = |id: &str, code: u8| {
        format!(
            "run_id: {round}{id}\nrequires:\n  - {{as: one, capability: build}}\nsteps:\n  \
             - {{id: {id}, uses: one, run: [sh, -c, '{}; exit {code}']}}\n",
            says(id)
        )
    };
    let fork = format!(
        "run_id: {round}fork\nrequires:\n  - {{as: builder, capability: build}}\n  - {{as: tester, capability: test}}\nsteps:\n  \
         - {{id: check, uses: builder, out: [v.json], dispatch: {{from: 'v.json#/go', to: [ship, mend]}}, run: [sh, -c, \
         '{}; while [ ! -e {open} ]; do sleep 0.05; done; echo \"{{\\\"go\\\": \\\"ship\\\"}}\" > $OUT/v.json']}}\n  \
         - {{id: ship, uses: tester, run: [sh, -c, '{}']}}\n  \
         - {{id: mend, uses: tester, run: [sh, -c, '{}']}}\n",
        says("check"),
        says("ship"),
        says("mend")
    );
    [fork, small("one", 0), small("bad", 3), small("two", 0)]
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// One life that ends at `point`, with four Runs under way.
fn round(mediator: &mut Mediator, number: usize, point: &str) {
    let (gate, prefix) = (Gate::new(), format!("r{number}-"));
    let mut client = Client::connect(mediator);
    mediator.kill();
    mediator.restart_to_die_at(point);
    let mut died = false;
    let mut revived = |mediator: &mut Mediator| {
        if mediator.has_died() {
            assert!(!std::mem::replace(&mut died, true), "{point}: it died twice");
            mediator.restart();
        }
        died
    };
    for contract in contracts(&gate, &prefix) {
        // Whoever got no answer sends the same again.
        wait_until(&format!("{point}: a submit is answered"), || {
            let answer = client.submit(&contract);
            if let Err(status) = &answer {
                // What broke off in the middle is of no known kind.
                let lost = [tonic::Code::Unavailable, tonic::Code::Unknown, tonic::Code::Internal];
                assert!(lost.contains(&status.code()), "{point}: {status}");
                revived(mediator);
            }
            answer.is_ok()
        });
    }
    gate.open(&prefix);
    wait_until(&format!("{point}: it has died"), || revived(mediator));
    let mine = format!("run_id LIKE '{prefix}%'");
    wait_until(&format!("{point}: all are sealed"), || {
        mediator.sql(&format!("SELECT count(*) FROM runs WHERE {mine} AND sealed_at IS NOT NULL")) == "4"
    });

    let states = mediator.sql(&format!("SELECT run_id || ' ' || state FROM runs WHERE {mine} ORDER BY run_id"));
    let expected: Vec<String> = ENDS.iter().map(|(id, state)| format!("{prefix}{id} {state}")).collect();
    assert_eq!(states.lines().collect::<Vec<_>>(), expected, "{point}");
    let page = mediator.show(&format!("{prefix}bad"));
    assert_eq!(page["run"]["verdict"]["cause"], "judged", "{point}: {page}");
    let count = |what: &str| mediator.sql(&format!("SELECT count(*) FROM {what} AND {mine}"));
    assert_eq!(count("events WHERE kind = 'run.queued'"), "4", "{point}: each came once");
    assert_eq!(count("events WHERE kind = 'run.promoted'"), "4", "{point}: each was placed once");
    assert_eq!(count("events WHERE kind = 'run.closed'"), "4", "{point}: each ended once");
    assert_eq!(count("events WHERE kind = 'run.promoted' AND data LIKE '%Sweep%'"), "0", "{point}: a wake was missed");
    assert_eq!(count("attempts WHERE attempt = 1"), "5", "{point}");
    assert_eq!(count("attempts WHERE attempt > 1"), "0", "{point}");
    assert_eq!(count("leases WHERE 1 = 1"), "0", "{point}");
    let executed = std::fs::read_to_string(gate.path(&format!("{prefix}.runs"))).unwrap();
    let mut executed: Vec<&str> = executed.lines().collect();
    executed.sort_unstable();
    assert_eq!(executed, STEPS, "{point}: each step was executed once");
    let sealed: BTreeSet<String> = ENDS.iter().map(|(id, _)| format!("{prefix}{id}")).collect();
    let records = mediator.home.path().join("records");
    let of_this_round: BTreeSet<String> = names(&records).into_iter().filter(|name| name.contains(&prefix)).collect();
    assert_eq!(of_this_round, sealed, "{point}: a Record each, and nothing half done");
    let open = names(&mediator.home.path().join("runs"));
    assert!(!open.iter().any(|name| name.starts_with(&prefix)), "{point}: {open:?}");
    for id in &sealed {
        let tar = mediator.home.path().join("record.tar");
        mediator.cli(&["record", id, "--out", tar.to_str().unwrap()]).ok();
        std::fs::remove_file(tar).unwrap();
    }
}

fn walk(engine: Engine, points: &[&str]) {
    // Longer than a new start takes: what runs goes on.
    let mut mediator = Mediator::start_with(engine, &[("MEDIATOR_LEASE__RENEW", "2s")]);
    let capabilities = "[[capability]]\nname = \"build\"\n[[capability]]\nname = \"test\"\n";
    let _agent = Agent::start_with(&mediator, &AgentOptions { slots: 2, capabilities, ..AgentOptions::builder("n1") });
    for node in ["n1/0", "n1/1"] {
        mediator.wait_node(node, "is listed", |_| true);
    }
    for (number, point) in points.iter().enumerate() {
        round(&mut mediator, number, point);
    }
}

on_both_engines! {
    fn killed_around_the_commit_of_a_submit_every_run_ends_as_it_would_have(engine: Engine) {
        walk(engine, &["submit.before_commit", "submit.after_commit", "submit.before_commit:3", "submit.after_commit:3"]);
    }

    fn killed_around_the_commit_of_a_promotion_every_run_ends_as_it_would_have(engine: Engine) {
        walk(engine, &["promote.before_commit", "promote.after_commit"]);
    }

    fn killed_around_the_commit_of_a_claim_every_run_ends_as_it_would_have(engine: Engine) {
        walk(engine, &["claim.before_commit", "claim.after_commit", "claim.before_commit:2", "claim.after_commit:2"]);
    }

    fn killed_around_the_commit_that_notes_files_every_run_ends_as_it_would_have(engine: Engine) {
        walk(engine, &["files.before_commit", "files.after_commit"]);
    }

    // The first report takes the fork, the second ends its Run.
    fn killed_around_the_commit_of_a_report_every_run_ends_as_it_would_have(engine: Engine) {
        walk(engine, &["report.before_commit", "report.after_commit", "report.before_commit:2", "report.after_commit:2"]);
    }

    fn killed_around_the_commit_that_settles_a_run_every_run_ends_as_it_would_have(engine: Engine) {
        walk(engine, &["settle.before_commit", "settle.after_commit", "settle.before_commit:2", "settle.after_commit:2"]);
    }

    fn killed_between_any_two_steps_of_sealing_every_run_is_sealed_once(engine: Engine) {
        walk(engine, &[
            "seal.claimed", "seal.logs", "seal.blobs", "seal.steps", "seal.manifest", "seal.read_only", "seal.synced",
            "seal.published", "seal.before_commit", "seal.after_commit",
        ]);
    }
}
