//! Cancel: ends a queued or running Run. One that has ended stays as it is.

use super::{Cause, Cx, Decide, Fleet, Refusal, Run, Touches, Wake, line, settle};
use crate::{Principal, RunId, Timestamp};

/// Who wants which Run ended.
#[derive(Debug, Clone)]
pub struct Cancel {
    /// The Run.
    pub run: RunId,
    /// Who.
    pub by: Principal,
}

impl Decide for Cancel {
    type Answer = Run;

    fn touches(&self, _: &Fleet, _: Timestamp) -> Touches {
        [self.run.clone()].into()
    }

    fn decide(&self, fleet: &mut Fleet, cx: &mut Cx<'_>) -> Result<Run, Refusal> {
        settle::close(fleet, cx, &self.run, Cause::Cancelled(self.by.clone()), false);
        line::reservation::review(fleet, cx, Wake::RunCancelled);
        line::promotion::scan(fleet, cx);
        fleet.runs.get(&self.run).cloned().ok_or_else(|| Refusal::NotFound(format!("run {}", self.run)))
    }
}
