//! What kind of story a seed tells: how large the fleet is, and how bad its luck.

use crate::rng::Rng;

/// Faults, each per thousand of its occasions.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Luck {
    pub(crate) lose: u64,
    pub(crate) double: u64,
    pub(crate) late: u64,
    /// A group of commands ends in a crash before its commit, or after it and before its answers.
    pub(crate) crash: u64,
    pub(crate) kill: u64,
    pub(crate) lose_disk: u64,
    pub(crate) suspend: u64,
    pub(crate) part: u64,
    pub(crate) stop: u64,
    pub(crate) flip: u64,
    pub(crate) learn: u64,
    pub(crate) clone: u64,
    pub(crate) cancel: u64,
    pub(crate) break_stream: u64,
    /// A person does not answer yet.
    pub(crate) think: u64,
    /// A step that does not complete, or ends with another exit code.
    pub(crate) bad_end: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) nodes: usize,
    pub(crate) runs: usize,
    pub(crate) contracts: usize,
    /// How long faults go on, in virtual milliseconds.
    pub(crate) trouble: u64,
    /// How long one step takes at most.
    pub(crate) longest: u64,
    /// Everybody submits at the beginning.
    pub(crate) rush: bool,
    pub(crate) max_per_run: u32,
    /// In seconds.
    pub(crate) reserve_after: u64,
    pub(crate) luck: Luck,
}

impl Plan {
    pub(crate) fn draw(seed: u64, rng: &mut Rng) -> Self {
        // One seed in a hundred is a large fleet, one in twenty a middling one; most are small, and quick.
        let (nodes, runs) = match seed % 100 {
            50 => (50, 200),
            n if n % 20 == 7 => (rng.between(8, 16), rng.between(20, 40)),
            _ => (rng.between(1, 5), rng.between(3, 20)),
        };
        let mut rate = |often: u64, most: u64| if rng.chance(often) { rng.between(1, most) } else { 0 };
        let luck = Luck {
            lose: rate(600, 150),
            double: rate(600, 150),
            late: rate(700, 200),
            crash: rate(500, 30),
            kill: rate(500, 900),
            lose_disk: rate(300, 600),
            suspend: rate(400, 800),
            part: rate(500, 800),
            stop: rate(400, 600),
            flip: rate(700, 800),
            learn: rate(300, 600),
            clone: rate(300, 500),
            cancel: rate(400, 120),
            break_stream: rate(500, 400),
            think: 300,
            bad_end: rate(600, 150),
        };
        // One in ten is about owners who take their nodes back, and steps that end badly meanwhile.
        let luck = if seed % 10 == 9 {
            Luck { flip: 1_000, bad_end: 400, kill: 0, suspend: 0, part: 0, stop: 0, ..luck }
        } else if seed % 10 == 8 {
            // And one about people who take their time or change their minds, and machines that fall silent meanwhile.
            Luck { think: 950, part: 900, cancel: 400, ..luck }
        } else {
            luck
        };
        Self {
            nodes: usize::try_from(nodes).unwrap(),
            runs: usize::try_from(runs).unwrap(),
            contracts: usize::try_from(rng.between(1, 6)).unwrap(),
            trouble: if seed % 10 == 8 {
                240_000
            } else if nodes > 20 {
                60_000
            } else {
                rng.between(60_000, 240_000)
            },
            longest: if nodes > 20 { 2_000 } else { *rng.pick(&[2_000, 20_000, 90_000]) },
            rush: rng.chance(500),
            reserve_after: if seed % 10 == 8 { 10 } else { *rng.pick(&[10, 60, 300]) },
            max_per_run: if rng.chance(100) { 2 } else { 0 },
            luck,
        }
    }
}
