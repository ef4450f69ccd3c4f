//! What was committed: rows, written only where a command named them, and read again after a crash. A row that
//! a command changed and did not name is lost here as it would be lost in a database.

use std::collections::BTreeMap;

use shared::{
    NodeId, RunId, Timestamp,
    domain::{Changes, Fleet, Lease, Node, Place, Reservation, Run, RunState, Shape, Touches},
};

#[derive(Debug, Default)]
pub(crate) struct Rows {
    rev: i64,
    next_place: i64,
    pub(crate) reaped_at: Option<Timestamp>,
    pub(crate) reservation: Option<Reservation>,
    pub(crate) nodes: BTreeMap<NodeId, Node>,
    pub(crate) leases: BTreeMap<NodeId, Lease>,
    pub(crate) runs: BTreeMap<RunId, Run>,
}

impl Rows {
    /// Writes the named rows.
    pub(crate) fn write(&mut self, fleet: &Fleet, changes: &Changes) {
        if changes.fleet {
            (self.rev, self.next_place) = (fleet.rev, fleet.next_place);
            self.reservation.clone_from(&fleet.reservation);
        }
        if changes.reaped {
            self.reaped_at = fleet.reaped_at;
        }
        for id in &changes.renewed {
            let (Some(row), Some(node)) = (self.nodes.get_mut(id), fleet.node(id)) else { continue };
            (row.seen_at, row.expires_at, row.advert_no) = (node.seen_at, node.expires_at, node.advert_no);
        }
        for id in &changes.touched {
            // A new node's row comes whole, below.
            let (Some(row), Some(node)) = (self.nodes.get_mut(id), fleet.node(id)) else { continue };
            (row.rev, row.stream) = (node.rev, node.stream.clone());
        }
        for id in &changes.nodes {
            self.nodes.insert(id.clone(), fleet.node(id).unwrap().clone());
        }
        for id in &changes.leases {
            match fleet.lease(id) {
                Some(lease) => self.leases.insert(id.clone(), lease.clone()),
                None => self.leases.remove(id),
            };
        }
        for id in &changes.new_runs {
            self.runs.insert(id.clone(), fleet.runs[id].clone());
        }
        for (id, (assigned, _)) in &changes.promoted_unloaded {
            let row = self.runs.get_mut(id).unwrap();
            row.state = RunState::Running;
            row.assigned.clone_from(assigned);
        }
        for id in &changes.runs {
            let (row, run) = (self.runs.get_mut(id).unwrap(), &fleet.runs[id]);
            let steps = std::mem::take(&mut row.steps);
            *row = Run { steps, ..without_steps(run) };
        }
        for (id, seq) in &changes.steps {
            let (row, run) = (self.runs.get_mut(id).unwrap(), &fleet.runs[id]);
            let row = &mut row.steps[*seq as usize];
            let attempts = std::mem::take(&mut row.attempts);
            *row = run.steps[*seq as usize].clone();
            row.attempts = attempts;
        }
        for (id, seq, number) in &changes.attempts {
            let attempt = fleet.runs[id].steps[*seq as usize].attempt(*number).unwrap().clone();
            let rows = &mut self.runs.get_mut(id).unwrap().steps[*seq as usize].attempts;
            match rows.iter_mut().find(|row| row.number == *number) {
                Some(row) => *row = attempt,
                None => rows.push(attempt),
            }
        }
    }

    /// What a mediator knows that has just started. Runs that are under way and
    /// wait for nobody else are read when a command touches them.
    pub(crate) fn load(&self) -> Fleet {
        let mut fleet = Fleet::default();
        (fleet.rev, fleet.next_place, fleet.reaped_at) = (self.rev, self.next_place, self.reaped_at);
        fleet.reservation.clone_from(&self.reservation);
        for node in self.nodes.values() {
            fleet.load_node(node.clone());
        }
        for (id, lease) in &self.leases {
            fleet.load_lease(id, Some(lease.clone()));
        }
        for run in self.runs.values() {
            if run.state == RunState::Queued {
                let shape = Shape::new(&run.contract.requires);
                fleet.queue.insert(Place::of_run(run.place), run.id.clone(), shape, run.created_at);
            } else if run.state == RunState::Running && run.is_waiting() {
                fleet.load_run(run.clone());
            }
        }
        fleet
    }

    /// What differs between memory and rows, if anything: a row that was changed and not named.
    pub(crate) fn differs(&self, fleet: &Fleet) -> Option<String> {
        for (id, run) in &fleet.runs {
            if self.runs.get(id) != Some(run) {
                return Some(format!("run {id}: {:?}\nis stored as {:?}", run, self.runs.get(id)));
            }
        }
        let mut stored = self.load();
        stored.runs.clone_from(&fleet.runs);
        (stored != *fleet).then(|| format!("{fleet:?}\nis stored as {stored:?}"))
    }

    /// Reads the Runs that a command touches.
    pub(crate) fn fetch(&self, fleet: &mut Fleet, touches: &Touches) {
        for id in touches {
            if let Some(run) = self.runs.get(id).filter(|_| !fleet.runs.contains_key(id)) {
                fleet.runs.insert(id.clone(), run.clone());
            }
        }
    }
}

fn without_steps(run: &Run) -> Run {
    Run {
        id: run.id.clone(),
        principal: run.principal.clone(),
        contract: run.contract.clone(),
        contract_hash: run.contract_hash.clone(),
        state: run.state.clone(),
        place: run.place,
        assigned: run.assigned.clone(),
        reject: run.reject.clone(),
        work_id: run.work_id.clone(),
        starts: run.starts,
        losses: run.losses,
        created_at: run.created_at,
        ended_at: run.ended_at,
        steps: Vec::new(),
    }
}
