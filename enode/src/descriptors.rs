//! How many files the agent may have open: raised as far as its slots need it, and said where that is not enough.
//!
//! Only as far as needed, because steps inherit it, and some programs get slow with a limit that is very high.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The agent's own, and what a slot has open while it works: pipes, log, upload, note, inputs.
const OWN: u64 = 64;
const OF_A_SLOT: u64 = 12;

/// What is to be done about a limit.
#[derive(Debug, PartialEq, Eq)]
enum Plan {
    Enough,
    Raise { to: u64, is_enough: bool },
}

fn plan(slots: u32, soft: Option<u64>, hard: Option<u64>) -> Plan {
    let needed = OWN + OF_A_SLOT * u64::from(slots);
    match soft {
        None => Plan::Enough,
        Some(soft) if soft >= needed => Plan::Enough,
        Some(_) => {
            let to = hard.map_or(needed, |hard| hard.min(needed));
            Plan::Raise { to, is_enough: to == needed }
        }
    }
}

/// Raises the limit if so many slots need more.
pub fn make_room(slots: u32) {
    let limit = getrlimit(Resource::Nofile);
    let Plan::Raise { to, is_enough } = plan(slots, limit.current, limit.maximum) else { return };
    let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(to), maximum: limit.maximum });
    if let Err(error) = raised {
        tracing::warn!(%error, "cannot raise the limit on open files");
    }
    if !is_enough || raised.is_err() {
        tracing::warn!(
            slots,
            open_files = getrlimit(Resource::Nofile).current,
            needed = OWN + OF_A_SLOT * u64::from(slots),
            "this many slots need more open files than this process may have: steps may not start. Raise the limit \
             (LimitNOFILE= of the unit, ulimit -n), or lower `slots`"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_raised_as_far_as_needed_and_possible() {
        assert_eq!(plan(1, Some(1_024), Some(4_096)), Plan::Enough);
        assert_eq!(plan(1_000, None, None), Plan::Enough);
        assert_eq!(plan(100, Some(1_024), Some(4_096)), Plan::Raise { to: 1_264, is_enough: true });
        assert_eq!(plan(100, Some(1_024), None), Plan::Raise { to: 1_264, is_enough: true });
        assert_eq!(plan(1_000, Some(1_024), Some(4_096)), Plan::Raise { to: 4_096, is_enough: false });
        assert_eq!(plan(100, Some(1_024), Some(1_024)), Plan::Raise { to: 1_024, is_enough: false });
    }
}
