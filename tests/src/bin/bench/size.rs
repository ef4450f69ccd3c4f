//! How much is measured: the real thing, or as little as shows that it works.

use std::time::Duration;

/// Numbers of everything.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    /// How often each figure is measured.
    pub(crate) rounds: usize,
    /// Real Runs of one round.
    pub(crate) real_runs: usize,
    /// Runs without a process of one round.
    pub(crate) noop_runs: usize,
    /// Nodes that share the Runs without a process.
    pub(crate) noop_nodes: usize,
    /// Samples behind each percentile.
    pub(crate) samples: usize,
    /// Agents of the large fleet, of [`NODES_EACH`] nodes each.
    pub(crate) agents: usize,
    /// How long adverts are counted in one round.
    pub(crate) adverts_for: Duration,
    /// How long the line is, step by step.
    pub(crate) line: [usize; 3],
    /// Different requirements in it.
    pub(crate) shapes: [usize; 3],
    /// Wakes behind each figure of the line.
    pub(crate) wakes: usize,
    /// How long filling one line may take; what is not in it by then is not measured.
    pub(crate) fill_for: Duration,
    /// Runs that are stored.
    pub(crate) stored: usize,
    /// Agents that come back.
    pub(crate) returning: usize,
    /// How long the mediator is away.
    pub(crate) away: Duration,
}

/// Nodes of one agent of the large fleet.
pub(crate) const NODES_EACH: usize = 10;

/// What `docs/performance.md` is about.
pub(crate) const FULL: Size = Size {
    rounds: 3,
    real_runs: 3_000,
    noop_runs: 6_000,
    noop_nodes: 256,
    samples: 200,
    agents: 1_000,
    adverts_for: Duration::from_secs(8),
    line: [1_000, 10_000, 100_000],
    shapes: [1_000, 100, 10],
    wakes: 60,
    fill_for: Duration::from_secs(100),
    stored: 1_000_000,
    returning: 1_000,
    away: Duration::from_secs(5),
};

/// Done within a minute, by a debug build as well.
pub(crate) const SMOKE: Size = Size {
    rounds: 1,
    real_runs: 40,
    noop_runs: 100,
    noop_nodes: 16,
    samples: 5,
    agents: 4,
    adverts_for: Duration::from_secs(1),
    line: [10, 20, 50],
    shapes: [10, 5, 2],
    wakes: 5,
    fill_for: Duration::from_secs(20),
    stored: 3_000,
    returning: 10,
    away: Duration::from_secs(1),
};
