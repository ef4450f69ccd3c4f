//! A lease that has run out stays so, is taken from nobody before, and from nobody who still works.

use shared::domain::EventKind;

use super::{Look, Rules, What};

impl Rules {
    pub(super) fn leases(&mut self, what: &What<'_>, look: &Look<'_>) {
        if matches!(what, What::Startup) {
            // The one moment that gives back what ran out: the silence was the mediator's own.
            self.lapsed.clear();
        }
        for lease in look.before.leases.values().filter(|it| !matches!(what, What::Startup) && !it.holds(look.now)) {
            self.lapsed.insert(lease.nonce);
        }
        for lease in look.after.leases().filter(|it| it.holds(look.now)) {
            let revived = self.lapsed.contains(&lease.nonce);
            self.must("revived", !revived, || {
                format!("{} revives the lease of {} on {}", what.name(), lease.run, lease.node)
            });
        }
        if matches!(what, What::Reap) {
            self.reaped(look);
        }
    }

    fn reaped(&mut self, look: &Look<'_>) {
        for event in look.changes.events.iter().filter(|it| it.kind == EventKind::LeaseReleased) {
            let Some(lease) = event.node.as_ref().and_then(|id| look.before.leases.get(id)) else { continue };
            if lease.holds(look.now) {
                // On another node of a Run that ended for the one that was lost.
                let lost = look.before.leases.values().any(|it| it.run == lease.run && !it.holds(look.now));
                self.must("reaped", lost, || format!("the lease of {} on {} had not run out", lease.run, lease.node));
                continue;
            }
            for proc in look.agents.iter().filter(|it| it.up && it.frozen.is_none() && it.node == lease.node) {
                let exec = proc.exec.as_ref().filter(|it| it.nonce == lease.nonce && !proc.copied.contains(&it.key));
                self.must("ttl", exec.is_none(), || {
                    format!("the lease of {} on {} ran out and its step still runs", lease.run, lease.node)
                });
            }
        }
    }
}
