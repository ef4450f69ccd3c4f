//! Messages that are lost, late or never come, between an agent and its mediator.

use tests::{
    Agent, AgentOptions, Engine, Flow, Mediator, Proxy, Which, mediator::step_of, on_both_engines, wait_until,
};

use crate::gate::{Gate, on_builder, quick};

fn through_proxy(engine: Engine, extra: &[(&str, &str)]) -> (Mediator, Proxy, Agent) {
    let mediator = Mediator::start_with(engine, extra);
    let proxy = Proxy::start(&mediator.address);
    let options = AgentOptions { mediator: Some(proxy.url()), ..AgentOptions::builder("n1") };
    let agent = Agent::start_with(&mediator, &options);
    mediator.wait_node("n1", "is listed", |_| true);
    (mediator, proxy, agent)
}

/// A contract whose one step writes a line to `file` each time it is run, and then waits for its gate.
fn counted(gate: &Gate, id: &str, file: &std::path::Path) -> String {
    let gate = gate.path(id).display().to_string();
    on_builder(
        id,
        &format!(
            "  - {{id: hold, uses: builder, run: [sh, -c, 'echo $$$$ >> {}; while [ ! -e {gate} ]; do sleep 0.05; done']}}\n",
            file.display()
        ),
    )
}

fn lines(file: &std::path::Path) -> Vec<String> {
    std::fs::read_to_string(file).unwrap_or_default().lines().map(str::to_owned).collect()
}

fn is_alive(pid: &str) -> bool {
    std::path::Path::new(&format!("/proc/{pid}")).exists()
}

on_both_engines! {
    // A15: the advert is applied and its reply lost; the next one brings both sides together.
    fn a15_a_lost_reply_is_made_good_by_the_next_advert(engine: Engine) {
        let (mediator, proxy, agent) = through_proxy(engine, &[]);
        let acknowledged = || agent.status()["agent"]["nodes"][0]["drain"].as_str().unwrap_or_default().to_owned();
        for (file, shown) in [("graceful", "graceful"), ("", "")] {
            let before = acknowledged();
            proxy.set(Flow::HoldReplies);
            agent.set_drain(file);
            mediator.wait_node("n1", "shows the new word", |node| node["draining"].as_str().unwrap_or_default() == shown);
            assert_eq!(acknowledged(), before, "a word that nobody confirmed does not count");
            proxy.cut(Which::All);
            proxy.set(Flow::Pass);
            wait_until("the agent knows what the mediator knows", || acknowledged() != before);
        }
        mediator.submit(&quick("after"));
        mediator.wait_state("after", "SUCCEEDED");
    }

    // A19: the stream is cut between the commit of a claim and its delivery; the step is delivered again, and
    // runs once.
    fn a19_a_claim_whose_delivery_was_lost_is_delivered_again(engine: Engine) {
        let (mediator, proxy, agent) = through_proxy(engine, &[]);
        let gate = Gate::new();
        for round in 0..4 {
            let id = format!("cut-{round}");
            let runs = gate.path(&format!("{id}.runs"));
            proxy.set(Flow::HoldWorkReplies);
            mediator.submit(&counted(&gate, &id, &runs));
            mediator.wait_step(&id, "hold", "CLAIMED");
            assert_eq!(lines(&runs).len(), 0, "nothing has been delivered");
            proxy.cut(Which::Work);
            proxy.set(Flow::Pass);
            wait_until("the step runs", || lines(&runs).len() == 1);
            gate.open(&id);
            let page = mediator.wait_state(&id, "SUCCEEDED");
            assert_eq!(step_of(&page, "hold")["attempt"], 1);
            assert_eq!(lines(&runs).len(), 1, "it ran once");
        }
        drop(agent);
    }

    // The report is committed and its reply lost: the agent says it again, and nothing is done twice.
    fn a_report_whose_reply_was_lost_is_said_again_and_counts_once(engine: Engine) {
        let (mediator, proxy, agent) = through_proxy(engine, &[]);
        let gate = Gate::new();
        let runs = gate.path("runs");
        mediator.submit(&counted(&gate, "held", &runs));
        wait_until("the step runs", || lines(&runs).len() == 1);
        // The log and the report go out; what the mediator says to them does not come back.
        proxy.set(Flow::HoldWorkReplies);
        gate.open("held");
        let page = mediator.wait_state("held", "SUCCEEDED");
        assert_eq!(agent.status()["agent"]["nodes"][0]["spooled"], 1, "nobody has confirmed it");
        proxy.cut(Which::Work);
        proxy.set(Flow::Pass);
        wait_until("it is off the agent's hands", || agent.status()["agent"]["nodes"][0]["spooled"] == 0);
        mediator.submit(&quick("next"));
        mediator.wait_state("next", "SUCCEEDED");
        let after = mediator.show("held");
        assert_eq!((&after["run"], step_of(&after, "hold")), (&page["run"], step_of(&page, "hold")), "once, for good");
        assert_eq!(lines(&runs).len(), 1, "it ran once");
    }

    // The Run is stored and the reply to its client lost: the client asks again under the id that it drew, so that
    // one submission never becomes two Runs.
    fn a_submission_whose_reply_was_lost_is_one_run(engine: Engine) {
        let mediator = Mediator::start(engine);
        let _agent = Agent::start(&mediator, "n1");
        let proxy = Proxy::start(&mediator.address);
        proxy.set(Flow::HoldReplies);
        let file = mediator.home.path().join("once.yaml");
        std::fs::write(&file, quick("x").replace("run_id: x\n", "")).unwrap();
        let client = mediator.spawn_cli(&["submit", file.to_str().unwrap(), "--mediator", &proxy.url()]);
        let ids = || {
            let page = mediator.json(&["runs"]);
            page["runs"].as_array().unwrap().iter().map(|run| run["run_id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        wait_until("it is stored", || !ids().is_empty());
        proxy.cut(Which::All);
        proxy.set(Flow::Pass);
        let ran = client.wait_with_output().unwrap();
        assert!(ran.status.success(), "{ran:?}");
        assert_eq!(ids(), [String::from_utf8(ran.stdout).unwrap().trim()]);
        assert_eq!(proxy.accepted(), 2, "over a second connection");
    }

    // A36, A14: a lease of which nothing was claimed yet, when its node turns to drain.
    fn a36_a14_an_unclaimed_lease_on_a_draining_node_goes_on_or_is_closed(engine: Engine) {
        let (mediator, proxy, agent) = through_proxy(engine, &[]);
        for (mode, state) in [("graceful", "SUCCEEDED"), ("at-boundary", "FAILED")] {
            proxy.set(Flow::HoldWork);
            proxy.cut(Which::Work);
            // The mediator claims for a node as soon as a stream is open: until it has seen the end of this one.
            let mut round = 0;
            let id = loop {
                round += 1;
                let id = format!("{mode}-{round}");
                mediator.submit(&quick(&id));
                if step_of(&mediator.show(&id), "quick")["state"] != "CLAIMED" && mediator.state(&id) == "RUNNING" {
                    break id;
                }
                mediator.cli(&["cancel", &id]).ok();
            };
            agent.set_drain(mode);
            mediator.wait_node("n1", "drains", |node| node["draining"] == mode);
            if mode == "graceful" {
                assert_eq!(mediator.state(&id), "RUNNING", "a lease from before the drain is good");
                proxy.set(Flow::Pass);
            }
            let page = mediator.wait_state(&id, state);
            let cause = if mode == "graceful" { "judged" } else { "drain" };
            assert_eq!(page["run"]["verdict"]["cause"], cause, "{page}");
            assert_eq!(mediator.leases().len(), 0);
            proxy.set(Flow::Pass);
            agent.set_drain("");
            mediator.wait_node("n1", "lends", |node| node["draining"].is_null());
        }
    }

    // B23, B24, C25: the work stream is dead and says nothing, adverts go on. The agent finds out by itself, and
    // the step that was waiting is delivered.
    fn b23_b24_c25_a_dead_work_stream_is_noticed_while_adverts_go_on(engine: Engine) {
        let (mediator, proxy, agent) = through_proxy(engine, &[]);
        mediator.submit(&quick("first"));
        mediator.wait_state("first", "SUCCEEDED");
        let before = proxy.accepted();
        proxy.freeze(Which::Work);
        mediator.submit(&quick("second"));
        let page = mediator.wait_state("second", "SUCCEEDED");
        assert_eq!(step_of(&page, "quick")["attempt"], 1);
        assert!(proxy.accepted() > before, "over a new connection");
        drop(agent);
    }

    // C05: a partition that is shorter than the horizon changes nothing.
    fn c05_a_partition_shorter_than_the_horizon_changes_nothing(engine: Engine) {
        let (mediator, proxy, agent) = through_proxy(engine, &[("MEDIATOR_LEASE__RENEW", "2s")]);
        let gate = Gate::new();
        let runs = gate.path("runs");
        mediator.submit(&counted(&gate, "held", &runs));
        wait_until("the step runs", || lines(&runs).len() == 1);
        assert_eq!(mediator.submit(&quick("next"))["run"]["state"], "QUEUED");
        proxy.set(Flow::HoldAll);
        // The length of the partition is what is tested: a renewal is missed, the horizon of 12 s is not.
        std::thread::sleep(std::time::Duration::from_secs(3));
        proxy.set(Flow::Pass);
        assert_eq!(mediator.state("held"), "RUNNING");
        gate.open("held");
        let page = mediator.wait_state("held", "SUCCEEDED");
        assert_eq!(step_of(&page, "hold")["attempt"], 1);
        mediator.wait_state("next", "SUCCEEDED");
        assert_eq!(lines(&runs).len(), 1, "it ran once");
        drop(agent);
    }

    // C05: one that is longer: the process is gone before the lease is, nothing runs twice, and what comes late
    // is refused.
    fn c05_c15_after_a_longer_partition_the_step_is_gone_before_its_lease(engine: Engine) {
        let (mediator, proxy, agent) = through_proxy(engine, &[]);
        let gate = Gate::new();
        let runs = gate.path("runs");
        mediator.submit(&counted(&gate, "held", &runs));
        wait_until("the step runs", || lines(&runs).len() == 1);
        assert_eq!(mediator.submit(&quick("next"))["run"]["state"], "QUEUED");
        proxy.set(Flow::HoldAll);
        let pid = lines(&runs)[0].clone();
        let page = mediator.wait_state("held", "FAILED");
        assert!(!is_alive(&pid), "the mediator gave the lease up while the step still ran");
        assert_eq!(page["run"]["verdict"]["cause"], "lease_expired");
        assert_eq!(page["run"]["verdict"]["node"], "n1");
        assert_eq!(mediator.state("next"), "QUEUED", "a silent node is given to nobody");
        gate.open("held");
        proxy.set(Flow::Pass);
        mediator.wait_state("next", "SUCCEEDED");
        wait_until("the late result is off the agent's hands", || agent.status()["agent"]["nodes"][0]["spooled"] == 0);
        let after = mediator.show("held");
        assert_eq!(after["run"]["verdict"], page["run"]["verdict"], "one verdict, for good");
        assert_eq!(step_of(&after, "hold")["reason"], "lease_expired");
        assert_eq!(lines(&runs).len(), 1, "it ran once");
    }

    // C13: a cancelled Run's process is gone within its grace, and no file that it still makes is taken.
    fn c13_what_a_cancelled_step_still_makes_is_refused(engine: Engine) {
        let mediator = Mediator::start(engine);
        let _agent = Agent::start(&mediator, "n1");
        let gate = Gate::new();
        let pid_file = gate.path("pid");
        mediator.submit(&on_builder("held", &format!(
            "  - {{id: hold, uses: builder, out: [late], run: [sh, -c, 'trap \"echo too late; echo x > $OUT/late; exit 0\" TERM; \
             echo early; echo $$$$ > {}; while :; do sleep 0.05; done']}}\n", pid_file.display()
        )));
        wait_until("the step runs", || lines(&pid_file).len() == 1);
        wait_until("its first line is stored", || mediator.cli(&["logs", "held", "hold"]).stdout == "early\n");
        mediator.cli(&["cancel", "held"]).ok();
        let cancelled = std::time::Instant::now();
        let pid = lines(&pid_file)[0].clone();
        wait_until("the process is gone", || !is_alive(&pid));
        assert!(cancelled.elapsed() < std::time::Duration::from_secs(10), "grace is 1 s: {:?}", cancelled.elapsed());
        mediator.submit(&quick("next"));
        mediator.wait_state("next", "SUCCEEDED");
        let page = mediator.show("held");
        assert_eq!(page["run"]["verdict"]["cause"], "cancelled");
        assert_eq!(step_of(&page, "hold")["produced"].as_array().map_or(0, Vec::len), 0, "{page}");
        // What the process said until the Record was sealed may stand in it; from then on it never changes.
        wait_until("the record is sealed", || mediator.show("held")["sealed_at"].is_string());
        let (out, again) = (mediator.home.path().join("one.tar"), mediator.home.path().join("two.tar"));
        mediator.cli(&["record", "held", "--out", out.to_str().unwrap()]).ok();
        mediator.submit(&quick("later"));
        mediator.wait_state("later", "SUCCEEDED");
        mediator.cli(&["record", "held", "--out", again.to_str().unwrap()]).ok();
        assert_eq!(std::fs::read(&out).unwrap(), std::fs::read(&again).unwrap());
    }
}
