//! Room for connections. When all of it is taken, whoever comes gets the place of the one that has done nothing for
//! longest: a fixed number that waits for places to come free would let those who hold them and say nothing keep everybody
//! else out. Only what is at work keeps its place whoever comes, and for a moment whoever has just come, whose request is on its
//! way, and whoever has just taken a part of a long answer. While all do, whoever comes waits.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use shared::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::clock::{self, BootTime};

/// How long a place is kept without a sign. Those who say nothing hold up the others by this for each time that all places are
/// taken once more.
const FRESH: Duration = Duration::from_millis(200);

/// All places.
#[derive(Debug)]
pub(super) struct Seats {
    most: usize,
    taken: Mutex<Taken>,
    /// Somebody has left, or has nothing to do any more.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Taken {
    /// Grows with everything that happens, so that the smallest `last` is the longest ago.
    clock: u64,
    seats: BTreeMap<u64, State>,
}

#[derive(Debug)]
struct State {
    last: u64,
    is_at_work: bool,
    /// When it came, until it has said something; or when it has taken a part of its answer.
    fresh: Option<BootTime>,
    leave: CancellationToken,
}

/// The place of one connection, until it is dropped.
#[derive(Debug)]
pub(super) struct Seat {
    seats: Arc<Seats>,
    id: u64,
    leave: CancellationToken,
}

/// A request that is worked on, until it is dropped.
#[derive(Debug)]
pub(super) struct Work(Arc<Seat>);

impl Taken {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Whether one was freed; else, after how long one can be, where that is known.
    fn free_one(&mut self, now: BootTime) -> Result<(), Option<Duration>> {
        let quiet: Vec<_> = self.seats.iter().filter(|(_, it)| !it.is_at_work).collect();
        let free = quiet.iter().filter(|(_, it)| it.keeps_for(now).is_none());
        let Some(longest) = free.min_by_key(|(_, it)| it.last).map(|(id, _)| **id) else {
            return Err(quiet.iter().filter_map(|(_, it)| it.keeps_for(now)).min());
        };
        if let Some(freed) = self.seats.remove(&longest) {
            freed.leave.cancel();
        }
        Ok(())
    }

    fn note(&mut self, id: u64, is_at_work: bool) {
        let last = self.tick();
        if let Some(state) = self.seats.get_mut(&id) {
            (state.last, state.is_at_work, state.fresh) = (last, is_at_work, None);
        }
    }
}

impl State {
    /// How long it keeps its place yet, although it has said nothing.
    fn keeps_for(&self, now: BootTime) -> Option<Duration> {
        let gone = self.fresh?.until(now);
        (gone < FRESH).then(|| Duration::from_millis(FRESH.millis() - gone.millis()))
    }
}

impl Seats {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, taken: Mutex::default(), changed: Notify::new() })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for one more, as soon as not everybody is at work.
    pub(super) async fn wait(self: &Arc<Self>) -> Arc<Seat> {
        loop {
            let changed = self.changed.notified();
            let soon = match self.take(clock::boot_time()) {
                Ok(seat) => return seat,
                Err(soon) => soon,
            };
            let lapses = async {
                match soon {
                    Some(soon) => tokio::time::sleep(soon.std()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! { () = changed => {}, () = lapses => {} }
        }
    }

    /// Takes the place of the one that has done nothing for longest, if there is one. It is counted no more from then on,
    /// not only when its task has ended.
    pub(super) fn free_one(&self) -> bool {
        self.taken().free_one(clock::boot_time()).is_ok()
    }

    /// A place for one more; else, after how long to ask again, or `None` while everybody is at work.
    fn take(self: &Arc<Self>, now: BootTime) -> Result<Arc<Seat>, Option<Duration>> {
        let mut taken = self.taken();
        if taken.seats.len() >= self.most {
            taken.free_one(now)?;
        }
        let (id, leave) = (taken.tick(), CancellationToken::new());
        taken.seats.insert(id, State { last: id, is_at_work: false, fresh: Some(now), leave: leave.clone() });
        Ok(Arc::new(Seat { seats: self.clone(), id, leave }))
    }
}

impl Seat {
    /// Resolves when somebody else has got this place.
    pub(super) async fn is_gone(&self) {
        self.leave.cancelled().await;
    }

    /// A part of an answer was taken, and more is to come.
    pub(super) fn keep(&self) {
        if let Some(state) = self.seats.taken().seats.get_mut(&self.id) {
            state.fresh = Some(clock::boot_time());
        }
    }

    /// Keeps the place while a request is worked on.
    pub(super) fn work(self: &Arc<Self>) -> Work {
        self.seats.taken().note(self.id, true);
        Work(self.clone())
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.0.seats.taken().note(self.0.id, false);
        self.0.seats.changed.notify_one();
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.taken().seats.remove(&self.id);
        self.seats.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_that_was_quiet_for_longest_leaves_and_what_is_at_work_stays() {
        let seats = Seats::new(3);
        let (came, now) = (BootTime::from_millis(0), BootTime::from_millis(FRESH.millis()));
        let [a, b, c] = [(); 3].map(|()| seats.take(came).unwrap());
        let gone = |all: &[&Arc<Seat>]| all.iter().map(|it| it.leave.is_cancelled()).collect::<Vec<_>>();
        // `a` has been answered just now, `b` is at work.
        drop(a.work());
        let work = b.work();
        let d = seats.take(now).unwrap();
        assert_eq!(gone(&[&a, &b, &c, &d]), [false, false, true, false]);
        let e = seats.take(now).unwrap();
        assert_eq!(gone(&[&a, &b, &d, &e]), [true, false, false, false]);
        let (_d, _e) = (d.work(), e.work());
        assert_eq!(seats.take(now).err(), Some(None), "everybody is at work");
        drop(work);
        let f = seats.take(came).unwrap();
        assert!(b.leave.is_cancelled());
        assert!(seats.free_one() && f.leave.is_cancelled(), "also where somebody only wants its descriptor");
        assert!(!seats.free_one());
        // Those that left, and those that end by themselves, hold nothing.
        drop((a, b, c));
        assert_eq!(seats.taken().seats.len(), 2);
    }

    #[tokio::test]
    async fn while_everybody_is_at_work_whoever_comes_waits() {
        let seats = Seats::new(2);
        let [a, b] = [(); 2].map(|()| seats.take(clock::boot_time()).unwrap());
        let work = [a.work(), b.work()];
        let mut next = std::pin::pin!(seats.wait());
        assert!(futures::poll!(next.as_mut()).is_pending());
        drop(work);
        next.await;
        assert!(a.leave.is_cancelled() && !b.leave.is_cancelled());
    }

    /// Of many who come at once each is heard; who came and says nothing makes room a moment later.
    #[tokio::test]
    async fn who_has_just_come_keeps_the_place_for_a_moment() {
        let (seats, now) = (Seats::new(2), clock::boot_time());
        let [a, b] = [(); 2].map(|()| seats.take(now).unwrap());
        assert_eq!(seats.take(now).err(), Some(Some(FRESH)));
        assert!(!a.leave.is_cancelled() && !b.leave.is_cancelled());
        drop(b.work());
        let c = seats.take(now).unwrap();
        assert!(b.leave.is_cancelled() && !a.leave.is_cancelled(), "it has had its turn");
        seats.wait().await;
        assert!(a.leave.is_cancelled() && !c.leave.is_cancelled(), "nobody leaves for who waits");
        drop(c.work());
        c.keep();
        assert!(seats.taken().free_one(now).is_err(), "it takes a long answer");
    }
}
