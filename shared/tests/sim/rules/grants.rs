//! Who may be given what: only what is live and lent, in the order of the line, and nothing after the owner's word
//! was acknowledged.

use shared::{
    NodeId, RunId,
    domain::{Drain, EventKind, Node, StepState, match_roles},
};

use super::{Look, Rules, What};
use crate::{agent::Proc, event::Ms};

impl Rules {
    pub(super) fn grants(&mut self, what: &What<'_>, look: &Look<'_>, true_now: Ms) {
        for event in look.changes.events.iter().filter(|it| it.kind == EventKind::LeaseGranted) {
            let Some(node) = event.node.as_ref().and_then(|id| look.after.node(id)) else { continue };
            self.must("fresh", node.is_live(look.now), || format!("{} is granted and its advert has expired", node.id));
            let lent = node.policy.drain == Drain::None && !node.stopping;
            self.must("drain", lent, || format!("{} is granted and held back", node.id));
            if let Some(proc) = speaker(look, node) {
                let acked = proc.acked.drain == Drain::None && !proc.acked.stopping;
                self.must("drain", acked, || {
                    format!("{} is granted in {} after its drain was acknowledged", node.id, what.name())
                });
            }
            let nonce = look.after.lease(&node.id).map(|lease| lease.nonce);
            for proc in look.agents.iter().filter(|it| it.node == node.id && it.frozen.is_none()) {
                let Some(exec) = proc.exec.as_ref().filter(|it| Some(it.nonce) != nonce) else { continue };
                let over = proc.core.deadline().is_some_and(|(end, _)| end.millis() < true_now);
                self.must("ttl", !over, || {
                    format!("{} is granted while {} runs there beyond its time to live", node.id, exec.key)
                });
            }
        }
        self.order(what, look);
        self.claims(what, look);
    }

    /// Nobody overtakes an older Run that could have had the same nodes.
    fn order(&mut self, what: &What<'_>, look: &Look<'_>) {
        // What an acquire sets free in the course of a scan comes too late for whom it has passed.
        let several = look.changes.events.iter().any(|it| matches!(it.kind, EventKind::StepWaiting))
            || look.changes.promotions.iter().any(|it| !promoted(look, &it.run));
        for promotion in look.changes.promotions.iter().filter(|_| !several) {
            let nodes_of = |id| {
                let granted = look.changes.events.iter().filter(|it| it.kind == EventKind::LeaseGranted);
                granted.filter(move |it| it.run.as_ref() == Some(id)).filter_map(|it| it.node.as_ref())
            };
            let mut could: Vec<&Node> = look.after.free(look.now).collect();
            could.extend(nodes_of(&promotion.run).filter_map(|id| look.after.node(id)));
            let place = look.after.runs.get(&promotion.run).or_else(|| look.before.runs.get(&promotion.run));
            let Some(place) = place.map(|run| run.place) else { continue };
            for (older, queued) in look.after.queue.iter().take_while(|(older, _)| older.run < place) {
                let held = if older.acquire.is_some() { look.after.held_by(&queued.run) } else { 0 };
                let width = queued.shape.width() + held;
                let wide = look.settings.max_per_run != 0 && width > look.settings.max_per_run;
                let kept = look.after.reservation.as_ref();
                let kept = kept.filter(|it| older.acquire.is_none() && it.place < older.run);
                let his = could.iter().copied().filter(|node| kept.is_none_or(|it| !it.nodes.contains(&node.id)));
                let overtaken = !wide && match_roles(&queued.shape.requires, his, |_| false).is_ok();
                self.must("order", !overtaken, || {
                    let events: Vec<_> =
                        look.changes.events.iter().map(|it| (it.kind.as_str(), &it.run, &it.node)).collect();
                    let wants = &queued.shape.requires;
                    format!(
                        "in {} {} overtakes {} at {older:?}: it wants {wants:?}, could have {:?}; {events:?}",
                        what.name(),
                        promotion.run,
                        queued.run,
                        could.iter().map(|it| &it.id).collect::<Vec<_>>()
                    )
                });
            }
        }
    }

    /// A step is claimed where its Run holds a lease, once its needs are over, and never against the owner.
    fn claims(&mut self, what: &What<'_>, look: &Look<'_>) {
        let claimed = look.changes.events.iter().filter(|it| it.kind == EventKind::StepClaimed);
        for (run, id) in claimed.filter_map(|it| it.run.as_ref().zip(it.node.as_ref())) {
            let Some(node) = look.after.node(id) else { continue };
            let may = node.is_live(look.now) && !node.stopping && node.policy.drain < Drain::AtBoundary;
            self.must("claim", may, || {
                format!("{} claims a step of {run} on {id} against the node's word", what.name())
            });
            if let Some(proc) = speaker(look, node) {
                let acked = proc.acked.drain < Drain::AtBoundary && !proc.acked.stopping;
                self.must("claim", acked, || format!("a step of {run} is claimed on {id} after it was told to stop"));
            }
            let lease = look.before.leases.get(id).filter(|it| it.run == *run && it.holds(look.now));
            self.must("claim", lease.is_some(), || format!("a step of {run} is claimed on {id} without a lease"));
            let Some(after) = look.after.runs.get(run) else { continue };
            let here = |state: &StepState| matches!(state, StepState::Claimed { node, .. } if node == id);
            let second = after.steps.iter().filter(|it| here(&it.state)).count() > 1;
            self.must("claim", !second, || format!("two steps of {run} are claimed on {id}"));
            for step in after.steps.iter().filter(|it| here(&it.state)) {
                let needs = step.needs.iter().filter_map(|need| after.step(*need));
                let over = needs.clone().all(|need| !need.is_open())
                    && (step.needs.is_empty() || needs.clone().any(|it| matches!(it.state, StepState::Done { .. })));
                let aside = step.picked == Some(false);
                self.must("fork", !aside, || format!("{run}/{} is claimed and its fork went elsewhere", step.name));
                self.must("claim", over, || format!("{run}/{} is claimed before its needs are over", step.name));
            }
        }
    }
}

fn promoted(look: &Look<'_>, run: &RunId) -> bool {
    look.changes.events.iter().any(|it| it.kind == EventKind::RunPromoted && it.run.as_ref() == Some(run))
}

/// The process that speaks for the node now, if there is one and it is the only one of this instance.
fn speaker<'a>(look: &Look<'a>, node: &Node) -> Option<&'a Proc> {
    let alive = |proc: &&Proc| is_of(proc, &node.id) && proc.instance == node.instance;
    let mut found = look.agents.iter().filter(alive);
    let one = found.next()?;
    found.next().is_none().then_some(one)
}

fn is_of(proc: &Proc, node: &NodeId) -> bool {
    proc.up && proc.node == *node
}
