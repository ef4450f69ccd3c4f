//! Random commands on small fleets: whatever comes in whatever order, the invariants hold (the world looks
//! after every command), and once every node is there and lent, every Run ends.

use proptest::prelude::*;
use shared::domain::{ClaimedStep, Drain, RunState};

use crate::world::World;

const NODES: [&str; 3] = ["a", "b", "c"];

/// One to three steps, one or two nodes, a fork, a release, a condition.
const CONTRACTS: [&str; 6] = [
    "{requires: [{as: b, capability: build}], steps: [{id: s, uses: b, run: [x]}]}",
    "{requires: [{as: b, capability: build}], steps: [{id: s, uses: b, run: [x]}, {id: t, uses: b, run: [x]}]}",
    "{requires: [{as: b, capability: build, count: 2}],
      steps: [{id: s, uses: b, run: [x], needs: []}, {id: t, uses: 'b[1]', run: [x], needs: []}]}",
    "{requires: [{as: b, capability: build}, {as: f, capability: flash}],
      steps: [{id: s, uses: b, run: [x], release: [b]}, {id: t, uses: f, run: [x]}]}",
    "{requires: [{as: b, capability: build}],
      steps: [{id: s, uses: b, run: [x], out: [v], dispatch: {from: v#/o, to: [t, u]}}, {id: t, uses: b, run: [x]}, {id: u, uses: b, run: [x]}]}",
    "{requires: [{as: b, capability: build, count: 2}],
      steps: [{id: s, uses: 'b[1]', run: [x], out: [v], dispatch: {from: v#/o, to: [t, u]}}, {id: t, uses: b, run: [x]}, {id: u, uses: 'b[1]', run: [x]}],
      success_when: [{step: t, exit_code: 0}]}",
];

#[derive(Debug, Clone)]
enum Act {
    Submit(usize),
    Advert(usize),
    Drain(usize, Drain),
    Stopping(usize, bool),
    Learn(usize, bool),
    Goodbye(usize),
    Restart(usize, bool),
    Open(usize),
    Claim(usize),
    Report(prop::sample::Index, u8),
    Cancel(prop::sample::Index),
    Wait(u64),
    Reap,
    Limit(u32),
}

fn act() -> impl Strategy<Value = Act> {
    let node = 0..NODES.len();
    let drain = prop_oneof![Just(Drain::None), Just(Drain::Graceful), Just(Drain::AtBoundary)];
    prop_oneof![
        6 => (0..CONTRACTS.len()).prop_map(Act::Submit),
        4 => node.clone().prop_map(Act::Advert),
        3 => (node.clone(), drain).prop_map(|(node, drain)| Act::Drain(node, drain)),
        1 => (node.clone(), any::<bool>()).prop_map(|(node, on)| Act::Stopping(node, on)),
        1 => (node.clone(), any::<bool>()).prop_map(|(node, on)| Act::Learn(node, on)),
        1 => node.clone().prop_map(Act::Goodbye),
        2 => (node.clone(), any::<bool>()).prop_map(|(node, finished)| Act::Restart(node, finished)),
        1 => node.clone().prop_map(Act::Open),
        8 => node.prop_map(Act::Claim),
        8 => (any::<prop::sample::Index>(), 0u8..8).prop_map(|(of, how)| Act::Report(of, how)),
        1 => any::<prop::sample::Index>().prop_map(Act::Cancel),
        2 => (1u64..70).prop_map(Act::Wait),
        2 => Just(Act::Reap),
        1 => (0u32..3).prop_map(Act::Limit),
    ]
}

struct Play {
    world: World,
    submitted: usize,
    /// Everything that was ever claimed, with its node: reported once, twice or never.
    claimed: Vec<(String, ClaimedStep)>,
}

impl Play {
    fn new() -> Self {
        let mut world = World::new();
        world.join("a", &["build", "flash"]);
        world.join("b", &["build"]);
        world.join("c", &["build", "flash"]);
        Self { world, submitted: 0, claimed: Vec::new() }
    }

    fn claim(&mut self, node: &str) -> bool {
        let Ok(Some(step)) = self.world.try_claim(node) else { return false };
        let key = (step.run.clone(), step.seq, step.attempt);
        let running = &mut self.world.agent(node).running;
        if !running.contains(&key) {
            running.push(key);
        }
        self.claimed.push((node.to_owned(), step));
        true
    }

    /// A refusal is an answer, too: the world has looked that it changed nothing.
    fn report(&mut self, at: usize, how: u8) {
        let (node, step) = self.claimed[at].clone();
        let _answer = match how {
            0 => self.world.report_lost(&node, &step).map(|_| ()),
            1 => self.world.report(&node, &step, 1).map(|_| ()),
            _ => self.world.report_pick(&node, &step, if how < 5 { "t" } else { "u" }).map(|_| ()),
        };
        let key = (step.run.clone(), step.seq, step.attempt);
        self.world.agent(&node).running.retain(|it| *it != key);
        self.world.agent(&node).finished.retain(|it| *it != key);
    }

    fn act(&mut self, act: &Act) {
        let _answer = match act {
            Act::Submit(which) => {
                self.submitted += 1;
                self.world.submit(&format!("r{}", self.submitted), CONTRACTS[*which]);
                Ok(())
            }
            Act::Advert(node) => self.world.advert(NODES[*node]).map(|_| ()),
            Act::Drain(node, drain) => self.world.drain(NODES[*node], *drain).map(|_| ()),
            Act::Stopping(node, on) => {
                self.world.agent(NODES[*node]).stopping = *on;
                self.world.advert(NODES[*node]).map(|_| ())
            }
            Act::Learn(node, on) => {
                let words: &[&str] = if *on { &["build", "flash"] } else { &["build"] };
                self.world.agent(NODES[*node]).capabilities = crate::world::capabilities(words);
                self.world.advert(NODES[*node]).map(|_| ())
            }
            Act::Goodbye(node) => {
                self.world.agent(NODES[*node]).goodbye = true;
                let answer = self.world.advert(NODES[*node]).map(|_| ());
                self.world.agent(NODES[*node]).goodbye = false;
                answer
            }
            Act::Restart(node, finished) => {
                let node = NODES[*node];
                let last = self.claimed.iter().rev().find(|(on, _)| on == node).map(|(_, step)| step.clone());
                let finished: Vec<&ClaimedStep> = last.iter().filter(|_| *finished).collect();
                let answer = self.world.restart(node, &finished).map(|_| ());
                self.world.open(node).map(|_| ()).and(answer)
            }
            Act::Open(node) => self.world.open(NODES[*node]).map(|_| ()),
            Act::Claim(node) => {
                self.claim(NODES[*node]);
                Ok(())
            }
            Act::Report(of, how) => {
                if !self.claimed.is_empty() {
                    self.report(of.index(self.claimed.len()), *how);
                }
                Ok(())
            }
            Act::Cancel(of) => {
                let run = format!("r{}", of.index(self.submitted + 1));
                self.world.cancel(&run).map(|_| ())
            }
            Act::Wait(seconds) => {
                self.world.wait(*seconds);
                Ok(())
            }
            Act::Reap => {
                self.world.reap();
                Ok(())
            }
            Act::Limit(most) => {
                // Only before the first Run: the limit is configuration and does not change under a queue.
                if self.submitted == 0 {
                    self.world.settings.max_per_run = *most;
                }
                Ok(())
            }
        };
    }

    /// Everybody is there, nobody is drained, everything is reported.
    fn finish(&mut self) {
        for node in NODES {
            self.world.agent(node).capabilities = crate::world::capabilities(&["build", "flash"]);
            self.world.agent(node).policy.drain = Drain::None;
            self.world.agent(node).stopping = false;
            self.world.advert(node).unwrap();
        }
        self.world.reap();
        // Whatever is claimed is delivered again to the same instance; each round ends at least one step.
        for _ in 0..4 * (self.submitted + 1) * NODES.len() {
            let mut idle = true;
            for node in NODES {
                if self.claim(node) {
                    idle = false;
                    self.report(self.claimed.len() - 1, 2);
                }
            }
            if idle {
                break;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_comes_the_invariants_hold_and_every_run_ends(acts in proptest::collection::vec(act(), 1..60)) {
        let mut play = Play::new();
        for act in &acts {
            play.act(act);
        }
        play.finish();
        for run in play.world.fleet.runs.values() {
            prop_assert!(run.state.is_terminal(), "{} is {}", run.id, play.world.show(run.id.as_str()));
            // Every step has ended with its Run, and every answer is written.
            prop_assert!(run.steps.iter().all(|step| !step.is_open()), "{}", play.world.show(run.id.as_str()));
            prop_assert_eq!(run.ended_at.is_some(), matches!(run.state, RunState::Succeeded(_) | RunState::Failed(_)));
        }
        prop_assert_eq!(play.world.fleet.leases().count(), 0);
        prop_assert!(play.world.fleet.queue.is_empty());
    }
}
