//! A mediator that is stopped on purpose takes no work with it.

use std::{thread::sleep, time::Duration};

use tests::{Agent, Engine, Mediator, mediator::step_of, on_both_engines, wait_until};

use crate::gate::{Gate, on_builder, quick};

/// The horizon of these mediators is three seconds; this is longer.
const LONGER_THAN_THE_HORIZON: Duration = Duration::from_millis(4_500);

/// A step that notes its process, so that it can be told from one that was started again.
fn noted(gate: &Gate, id: &str) -> String {
    let (pids, go) = (gate.path("pids"), gate.path(id));
    on_builder(
        id,
        &format!(
            "  - {{id: hold, uses: builder, run: [sh, -c, 'echo $$$$ >> {}; while [ ! -e {} ]; do sleep 0.05; done']}}\n",
            pids.display(),
            go.display()
        ),
    )
}

on_both_engines! {
    // C10: the mediator is away for longer than the horizon, and nothing is killed, lost or counted.
    fn c10_a_planned_stop_longer_than_the_horizon_kills_nothing(engine: Engine) {
        let mut mediator = Mediator::start(engine);
        let agent = Agent::start(&mediator, "n1");
        let gate = Gate::new();
        mediator.submit(&noted(&gate, "held"));
        mediator.wait_step("held", "hold", "CLAIMED");
        mediator.submit(&quick("next"));
        let pids = || std::fs::read_to_string(gate.path("pids")).unwrap_or_default();
        wait_until("the step runs", || pids().ends_with('\n'));
        assert_eq!(mediator.stop(), 0);
        sleep(LONGER_THAN_THE_HORIZON);
        let alive = |pid: &str| std::path::Path::new(&format!("/proc/{pid}")).exists();
        assert!(alive(pids().trim()), "the agent has stopped the step:\n{}", agent.log());
        mediator.restart();
        assert_eq!(mediator.leases().len(), 1, "{}", mediator.log());
        assert_eq!(mediator.state("held"), "RUNNING");
        gate.open("held");
        let page = mediator.wait_state("held", "SUCCEEDED");
        assert_eq!(step_of(&page, "hold")["attempt"], 1);
        assert_eq!(pids().lines().count(), 1, "it was started once");
        mediator.wait_state("next", "SUCCEEDED");
        assert!(mediator.log().contains("agents have time until the next start"), "{}", mediator.log());
        mediator.assert_no_wake_was_missed();
    }

    // C10: what was promised for the stop does not hide a machine that is lost after it.
    fn c10_a_node_lost_during_a_planned_stop_is_noticed_after_the_grace(engine: Engine) {
        let mut mediator = Mediator::start_with(engine, &[("MEDIATOR_LEASE__RESTART_GRACE", "6s")]);
        let mut agent = Agent::start(&mediator, "n1");
        let gate = Gate::new();
        mediator.submit(&noted(&gate, "held"));
        mediator.wait_step("held", "hold", "CLAIMED");
        assert_eq!(mediator.stop(), 0);
        agent.kill();
        mediator.restart();
        let page = mediator.wait_state("held", "FAILED");
        assert_eq!(page["run"]["verdict"]["cause"], "lease_expired");
        gate.open("held");
    }
}
