//! What the grammar has and the fleet cannot execute yet. Never ignored: refused.

use super::{Problems, Seg};
use crate::contract::{Contract, OnDrain, WhenUnmatched};

const YET: &str = "is not supported yet";

pub(super) fn check(contract: &Contract, problems: &mut Problems<'_>) {
    for (at, require) in contract.requires.iter().enumerate() {
        if require.apart {
            problems.add(&[Seg::Key("requires"), Seg::At(at), Seg::Key("apart")], format!("`apart: true` {YET}"));
        }
    }
    for (at, step) in contract.steps.iter().enumerate() {
        let parts = [
            ("agent", step.agent.is_some(), "`agent`"),
            ("acquire", step.acquire.is_some(), "`acquire`"),
            ("ask", step.ask.is_some(), "`ask`"),
            ("loop", step.repeat.is_some(), "`loop`"),
            ("max_attempts", step.max_attempts > 1, "`max_attempts` above 1"),
            ("keep", step.keep, "`keep: true`"),
        ];
        for (key, _, what) in parts.iter().filter(|(_, used, _)| *used) {
            problems.add(&[Seg::Key("steps"), Seg::At(at), Seg::Key(key)], format!("{what} {YET}"));
        }
        if step.max_attempts == 0 {
            let path = [Seg::Key("steps"), Seg::At(at), Seg::Key("max_attempts")];
            problems.add(&path, "0 attempts would never run; write 1 or leave the key out");
        }
    }
    if contract.on_lost.retry > 0 {
        problems.add(&[Seg::Key("on_lost"), Seg::Key("retry")], format!("`on_lost.retry` above 0 {YET}"));
    }
    if contract.on_drain == OnDrain::Requeue {
        problems.add(&[Seg::Key("on_drain")], format!("`on_drain: requeue` {YET}"));
    }
    if contract.when_unmatched == WhenUnmatched::Queue {
        problems.add(&[Seg::Key("when_unmatched")], format!("`when_unmatched: queue` {YET}"));
    }
}
