//! The mediator around the fleet: commands in groups, one commit, then answers and notices; a crash before the
//! commit or after it; and a start from what was committed.

use std::collections::BTreeMap;

use shared::{
    NodeId, Nonce, Timestamp,
    domain::{Changes, Claim, Cx, Decide, Fleet, Ids, OpenWork, Reap, Refusal, Rescan, Speaker},
};

use crate::{
    event::{Answer, Body, Call, Conn, Event, From, Item, Ms, To},
    rules::{Look, What},
    store::Rows,
    world::World,
};

#[derive(Debug, Default)]
struct Counter(u128);

impl Ids for Counter {
    fn nonce(&mut self) -> Nonce {
        self.0 += 1;
        Nonce::from_bits(self.0)
    }
}

#[derive(Debug, Clone)]
struct Stream {
    conn: Conn,
    to: To,
    who: Speaker,
}

#[derive(Debug, Default)]
pub(crate) struct Mediator {
    /// In memory.
    pub(crate) fleet: Fleet,
    /// Committed.
    pub(crate) rows: Rows,
    up: bool,
    life: u32,
    /// Its clock beside the true one.
    offset: i64,
    inbox: Vec<Call>,
    is_group_due: bool,
    hub: BTreeMap<NodeId, Stream>,
    ids: Counter,
}

/// What is done after the commit.
#[derive(Default)]
struct Later {
    answers: Vec<(From, Answer)>,
    items: Vec<(Conn, To, Item)>,
    changes: Vec<Changes>,
}

const MOST: usize = 64;

impl World {
    pub(crate) fn mediator_now(&self) -> Timestamp {
        Timestamp::from_millis(self.now.cast_signed() + self.mediator.offset)
    }

    pub(crate) fn arrive(&mut self, call: Call) {
        if self.mediator.up {
            self.mediator.inbox.push(call);
            self.group_soon();
            return;
        }
        match (call.from, call.body) {
            (_, Body::Open(_, conn, to)) => self.item(conn, to, Item::Ended),
            (from, _) => self.answer(from, Answer::Down),
        }
    }

    fn group_soon(&mut self) {
        if !std::mem::replace(&mut self.mediator.is_group_due, true) {
            let (wait, life) = (self.rng.below(4), self.mediator.life);
            self.after(wait, Event::Group(life));
        }
    }

    pub(crate) fn group(&mut self, life: u32) {
        if life != self.mediator.life || !self.mediator.up {
            return;
        }
        self.mediator.is_group_due = false;
        let rest = self.mediator.inbox.split_off(self.mediator.inbox.len().min(MOST));
        let calls = std::mem::replace(&mut self.mediator.inbox, rest);
        if !self.mediator.inbox.is_empty() {
            self.group_soon();
        }
        let crash = self.calm.is_none() && self.rng.chance(self.luck.crash);
        if crash && self.rng.chance(500) {
            self.say(|_| format!("the mediator crashes before the commit of {} commands", calls.len()));
            return self.crash();
        }
        let mut later = Later::default();
        for call in calls {
            self.command(call, &mut later);
        }
        if crash {
            self.say(|_| "the mediator crashes after a commit".to_owned());
            // Streams that others have just replaced are the dead process's, too, and no longer in its list.
            for (conn, to, _) in later.items.into_iter().filter(|(_, _, item)| matches!(item, Item::Ended)) {
                self.break_stream(conn, to);
            }
            return self.crash();
        }
        self.commit(later);
    }

    fn commit(&mut self, later: Later) {
        for (from, answer) in later.answers {
            self.answer(from, answer);
        }
        for (conn, to, item) in later.items {
            self.item(conn, to, item);
        }
        for changes in later.changes {
            for (node, run, nonce, rev) in changes.stop {
                if let Some(Stream { conn, to, .. }) = self.mediator.hub.get(&node).cloned() {
                    self.item(conn, to, Item::Stop(run, nonce, rev));
                }
            }
            for node in changes.work {
                self.claim_for(&node);
            }
        }
    }

    fn claim_for(&mut self, node: &NodeId) {
        if let Some(Stream { conn, who, .. }) = self.mediator.hub.get(node).cloned() {
            self.mediator.inbox.push(Call { from: From::Stream(conn), body: Body::Claim(who) });
            self.group_soon();
        }
    }

    fn command(&mut self, call: Call, later: &mut Later) {
        let Call { from, body } = call;
        let at = match (&from, &body) {
            (_, Body::Open(_, _, to)) | (From::Agent(to, _), _) => Some(to.at),
            _ => None,
        };
        match body {
            Body::Advert(advert) => {
                let answer = self.apply(&*advert, What::Advert(&advert), later, at);
                later.answers.push((from, Answer::Advert(answer)));
            }
            Body::Report(report) => {
                let answer = self.apply(&*report, What::Report(&report), later, at);
                later.answers.push((from, Answer::Report(answer)));
            }
            Body::Open(who, conn, to) => {
                match self.apply(&OpenWork { who: who.clone() }, What::Open(&who), later, at) {
                    Ok(stream) => {
                        later.items.push((conn, to, Item::Opened(stream.clone())));
                        let node = who.node.clone();
                        let stream = Stream { conn, to, who: Speaker { streams: vec![stream], ..who } };
                        if let Some(old) = self.mediator.hub.insert(node.clone(), stream).filter(|old| old.conn != conn)
                        {
                            later.items.push((old.conn, old.to, Item::Ended));
                        }
                        self.claim_for(&node);
                    }
                    Err(refusal) => later.items.push((conn, to, Item::Refused(refusal))),
                }
            }
            Body::Claim(who) => {
                let From::Stream(conn) = from else { return };
                let Some(to) = self.mediator.hub.get(&who.node).filter(|it| it.conn == conn).map(|it| it.to) else {
                    return;
                };
                match self.apply(&Claim { who: who.clone() }, What::Claim(&who), later, at) {
                    Ok(Some(step)) => later.items.push((conn, to, Item::Step(Box::new(step)))),
                    Ok(None) => {}
                    Err(refusal) => {
                        self.mediator.hub.remove(&who.node);
                        later.items.push((conn, to, Item::Refused(refusal)));
                    }
                }
            }
            Body::Submit(submit) => match self.apply(&*submit, What::Submit(&submit), later, at) {
                Ok(_) => later.answers.push((from, Answer::Told)),
                Err(refusal) => self.rules.fail("submit", || format!("{} is refused: {refusal}", submit.run)),
            },
            Body::Cancel(cancel) => {
                let _gone = self.apply(&cancel, What::Cancel(&cancel), later, at);
            }
            Body::Ask(answer) => {
                let _late = self.apply(&*answer, What::Answer(&answer), later, at);
            }
            Body::Reap => {
                let _count = self.apply(&Reap, What::Reap, later, at);
            }
            Body::Sweep => {
                let _none = self.apply(&Rescan::Sweep, What::Sweep, later, at);
            }
        }
    }

    /// Applies one command as the writer does, and looks at what it did.
    fn apply<D: Decide>(
        &mut self,
        command: &D,
        what: What<'_>,
        later: &mut Later,
        from: Option<usize>,
    ) -> Result<D::Answer, Refusal>
    where
        D::Answer: std::fmt::Debug,
    {
        let now = self.mediator_now();
        let Mediator { fleet, rows, ids, .. } = &mut self.mediator;
        let touches = command.touches(fleet, now);
        rows.fetch(fleet, &touches);
        let mut changes = Changes::default();
        let answer = fleet.apply(command, &mut Cx::new(now, &self.settings, ids, &mut changes));
        let look = Look {
            before: rows,
            after: fleet,
            changes: &changes,
            now,
            settings: &self.settings,
            agents: &self.agents,
            from,
        };
        self.rules.after(&what, &look, answer.as_ref().err(), self.now);
        if let Ok(answer) = &answer {
            self.rules.answered(&what, &look, &format!("{answer:?}"));
        }
        if rows.reservation != fleet.reservation && fleet.reservation.is_some() {
            *self.counts.entry("reservations").or_default() += 1;
        }
        rows.write(fleet, &changes);
        if self.rng.chance(20)
            && let Some(difference) = rows.differs(fleet)
        {
            self.rules.fail("rows", || format!("after {}: {difference}", what.name()));
        }
        fleet.forget_idle_runs();
        for promotion in &changes.promotions {
            *self.counts.entry(promotion.wake.as_str()).or_default() += 1;
        }
        for event in &changes.events {
            if event.data["reason"] == "deadlock" {
                *self.counts.entry("deadlocks").or_default() += 1;
            }
            *self.counts.entry(event.kind.as_str()).or_default() += 1;
        }
        self.say(|_| {
            let outcome = match &answer {
                Ok(answer) => format!("{answer:?}"),
                Err(refusal) => format!("refused: {refusal}"),
            };
            let short: String = outcome.chars().take(160).collect();
            let events: Vec<String> = changes
                .events
                .iter()
                .map(|it| {
                    let run = it.run.as_ref().map(ToString::to_string).unwrap_or_default();
                    let node = it.node.as_ref().map(ToString::to_string).unwrap_or_default();
                    format!("{} {run} {node} {}", it.kind.as_str(), it.data)
                })
                .collect();
            format!("    {}: {short} {events:?}", what.name())
        });
        let notices = Changes { work: changes.work, stop: changes.stop, ..Changes::default() };
        later.changes.push(notices);
        answer
    }

    fn crash(&mut self) {
        self.count("mediator crashes");
        self.mediator.up = false;
        self.mediator.inbox.clear();
        self.mediator.is_group_due = false;
        for (_, Stream { conn, to, .. }) in std::mem::take(&mut self.mediator.hub) {
            self.break_stream(conn, to);
        }
        if let Some(difference) = self.mediator.rows.differs(&self.mediator.fleet) {
            self.rules.fail("rows", || difference);
        }
        let away: Ms =
            if self.rng.chance(200) { self.rng.between(15_000, 150_000) } else { self.rng.between(50, 5_000) };
        self.after(away, Event::MediatorStarts);
    }

    pub(crate) fn mediator_starts(&mut self) {
        if self.mediator.up {
            return;
        }
        self.mediator.up = true;
        self.mediator.life += 1;
        self.mediator.fleet = self.mediator.rows.load();
        self.set_clock();
        self.say(|world| format!("the mediator starts, its clock is off by {} ms", world.mediator.offset));
        let mut later = Later::default();
        let _nothing = self.apply(&Rescan::Startup, What::Startup, &mut later, None);
        self.commit(later);
        let life = self.mediator.life;
        self.after(1_000, Event::Reaper(life));
        self.after(20_000, Event::Sweeper(life));
    }

    /// The wall clock may have been set while it was away. It is never below what the store has seen. (A leap of
    /// less than two intervals forward would shorten leases without being noticed: nothing can tell it from time.)
    fn set_clock(&mut self) {
        if self.calm.is_none() && self.rng.chance(200) {
            let leap = self.rng.between(25_000, 3_600_000).cast_signed();
            self.mediator.offset += if self.rng.chance(500) { leap } else { -leap };
            self.count("clock leaps of the mediator");
        }
        let rows = &self.mediator.rows;
        let seen = rows.nodes.values().map(|node| node.seen_at).chain(rows.reaped_at).max();
        if let Some(seen) = seen.filter(|seen| *seen > self.mediator_now()) {
            self.mediator.offset = seen.millis() - self.now.cast_signed();
        }
    }

    pub(crate) fn reaper(&mut self, life: u32) {
        if life == self.mediator.life {
            let next = self.rng.between(1_000, 4_000);
            self.after(next, Event::Reaper(life));
            self.own(Body::Reap);
        }
    }

    pub(crate) fn sweeper(&mut self, life: u32) {
        if life == self.mediator.life {
            self.after(60_000, Event::Sweeper(life));
            self.own(Body::Sweep);
        }
    }

    fn own(&mut self, body: Body) {
        if self.mediator.up {
            self.mediator.inbox.push(Call { from: From::Nobody, body });
            self.group_soon();
        }
    }
}
