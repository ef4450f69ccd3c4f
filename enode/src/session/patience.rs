//! How long a complete log may wait for a mediator that answers and does not store it.
//!
//! Pure. A mediator that is away uses up no patience: a report could not be made to it either.

use shared::Duration;
use tonic::Code;

use super::retry::CallError;
use crate::clock::BootTime;

/// So long, and the report goes without the rest of the log.
pub const LOG_PATIENCE: Duration = Duration::from_secs(30);

/// Patience with one log.
#[derive(Debug, Default)]
pub struct Patience {
    fruitless_since: Option<BootTime>,
}

impl Patience {
    /// More of the log is stored.
    pub const fn progress(&mut self) {
        self.fruitless_since = None;
    }

    /// An upload failed while the log was complete already. True: that has been so for too long.
    pub fn is_over(&mut self, why: &CallError, now: BootTime) -> bool {
        if !matches!(why.code, Some(Code::Internal | Code::DeadlineExceeded | Code::Aborted)) {
            self.fruitless_since = None;
            return false;
        }
        self.fruitless_since.get_or_insert(now).until(now) >= LOG_PATIENCE
    }
}

#[cfg(test)]
mod tests {
    use tonic::Status;

    use super::*;

    const fn at(seconds: u64) -> BootTime {
        BootTime::from_millis(seconds * 1_000)
    }

    #[test]
    fn a_mediator_that_fails_to_store_is_given_up_and_one_that_is_away_is_not() {
        let failing = CallError::from(Status::internal("the disk is full"));
        let away = CallError::retry("connection refused");
        let mut patience = Patience::default();
        for second in 0..1_000 {
            assert!(!patience.is_over(&away, at(second)));
        }
        assert!(!patience.is_over(&failing, at(1_000)));
        assert!(!patience.is_over(&failing, at(1_029)));
        patience.progress();
        assert!(!patience.is_over(&failing, at(1_030)));
        assert!(!patience.is_over(&failing, at(1_059)));
        assert!(patience.is_over(&failing, at(1_060)));
    }
}
