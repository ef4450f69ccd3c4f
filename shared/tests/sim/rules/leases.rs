//! A lease that has run out stays so, is taken from nobody before, and from nobody who still works.

use shared::{
    RunId,
    domain::{Advert, Drain, EventKind, Lease, Run},
};

use super::{Look, Rules, What};

impl Rules {
    pub(super) fn leases(&mut self, what: &What<'_>, look: &Look<'_>) {
        if matches!(what, What::Startup) {
            // The one moment that gives back what ran out: the silence was the mediator's own.
            self.lapsed.clear();
        }
        // While its Run waits for a person a lease does not run out.
        let waits = |run: &RunId| look.before.runs.get(run).is_some_and(Run::waits_for_a_person);
        let ran_out = |it: &&Lease| !matches!(what, What::Startup) && !it.holds(look.now) && !waits(&it.run);
        for lease in look.before.leases.values().filter(ran_out) {
            self.lapsed.insert(lease.nonce);
        }
        for lease in look.after.leases().filter(|it| it.holds(look.now)) {
            let revived = self.lapsed.contains(&lease.nonce);
            self.must("revived", !revived, || {
                format!("{} revives the lease of {} on {}", what.name(), lease.run, lease.node)
            });
        }
        for lease in look.after.leases() {
            let Some(node) = look.after.node(&lease.node).filter(|it| it.policy.drain == Drain::AtBoundary) else {
                continue;
            };
            let idle = look.after.runs.get(&lease.run).is_some_and(|run| run.claimed_on(&node.id).is_none());
            self.must("boundary", !idle, || {
                format!("after {} {} holds {} idle, against its owner's word", what.name(), lease.run, node.id)
            });
        }
        match what {
            What::Reap => self.reaped(look),
            What::Startup => self.outage(look),
            What::Advert(advert) => self.takes_over(advert, look),
            _ => {}
        }
    }

    /// The silence of a mediator that was away alone costs nobody a lease.
    fn outage(&mut self, look: &Look<'_>) {
        let Some(reaped_at) = look.before.reaped_at else { return };
        let heard = look.before.nodes.values().map(|it| it.seen_at).max().unwrap_or_default().max(reaped_at);
        if look.now.since(heard) <= look.settings.renew * 2 {
            return;
        }
        for lease in look.before.leases.values().filter(|it| it.not_after > reaped_at) {
            let holds = look.after.lease(&lease.node).is_some_and(|it| it.holds(look.now + look.settings.renew));
            self.must("outage", holds, || format!("the lease of {} ran out while nobody could renew it", lease.node));
        }
    }

    /// Another instance speaks only when it names the present one, or that one has gone silent.
    fn takes_over(&mut self, advert: &Advert, look: &Look<'_>) {
        let Some(before) = look.before.nodes.get(&advert.who.node) else { return };
        let Some(after) = look.after.node(&before.id) else { return };
        if after.instance == before.instance {
            let newer = after.advert_no >= before.advert_no;
            return self.must("stale", newer, || {
                format!("advert {} of {} undoes advert {}", after.advert_no, after.id, before.advert_no)
            });
        }
        let may = advert.replaces.contains(&before.instance) || !before.is_live(look.now);
        self.must("fence", may, || format!("{} takes {} over from {}", after.instance, after.id, before.instance));
    }

    fn reaped(&mut self, look: &Look<'_>) {
        // A question that nobody answered in time ends Runs here as well.
        let expired = |data: &serde_json::Value| data["wake"] == "LeaseExpired";
        let released = look.changes.events.iter().filter(|it| it.kind == EventKind::LeaseReleased && expired(&it.data));
        for event in released {
            let Some(lease) = event.node.as_ref().and_then(|id| look.before.leases.get(id)) else { continue };
            if lease.holds(look.now) {
                // On another node of a Run that ended for the one that was lost.
                let lost = look.before.leases.values().any(|it| it.run == lease.run && !it.holds(look.now));
                self.must("reaped", lost, || format!("the lease of {} on {} had not run out", lease.run, lease.node));
                continue;
            }
            let waits = look.before.runs.get(&lease.run).is_some_and(Run::waits_for_a_person);
            self.must("ask", !waits, || format!("{} waits for a person and loses {}", lease.run, lease.node));
            for proc in look.agents.iter().filter(|it| it.up && it.frozen.is_none() && it.node == lease.node) {
                let exec = proc.exec.as_ref().filter(|it| it.nonce == lease.nonce && !proc.copied.contains(&it.key));
                self.must("ttl", exec.is_none(), || {
                    format!("the lease of {} on {} ran out and its step still runs", lease.run, lease.node)
                });
            }
        }
    }
}
