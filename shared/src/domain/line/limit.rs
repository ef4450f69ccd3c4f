//! The most nodes that one Run may hold.

use super::{Place, Queued};
use crate::domain::{Fleet, Settings};

/// Above `lease.max_per_run`. For an acquire what its Run holds already counts, too.
pub(super) fn is_too_wide(fleet: &Fleet, settings: &Settings, place: Place, queued: &Queued) -> bool {
    let most = settings.max_per_run;
    // Without a limit, which is the default, nobody is counted.
    let held = || if place.acquire.is_some() { fleet.held_by(&queued.run) } else { 0 };
    most != 0 && queued.shape.width().saturating_add(held()) > most
}
