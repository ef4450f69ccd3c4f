//! Room for connections. When all of it is taken, whoever comes gets the place of the one that has done nothing for
//! longest: a fixed number that waits for places to come free would let those who hold them and say nothing keep everybody
//! else out. Only what is at work keeps its place whoever comes; while all are, whoever comes waits.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

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

    fn free_one(&mut self) -> bool {
        let quiet = self.seats.iter().filter(|(_, it)| !it.is_at_work);
        let longest = quiet.min_by_key(|(_, it)| it.last).map(|(id, _)| *id);
        let freed = longest.and_then(|id| self.seats.remove(&id));
        if let Some(freed) = &freed {
            freed.leave.cancel();
        }
        freed.is_some()
    }

    fn note(&mut self, id: u64, is_at_work: bool) {
        let last = self.tick();
        if let Some(state) = self.seats.get_mut(&id) {
            (state.last, state.is_at_work) = (last, is_at_work);
        }
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
            if let Some(seat) = self.take() {
                return seat;
            }
            changed.await;
        }
    }

    /// Takes the place of the one that has done nothing for longest, if there is one. It is counted no more from then on,
    /// not only when its task has ended.
    pub(super) fn free_one(&self) -> bool {
        self.taken().free_one()
    }

    /// A place for one more. `None`: everybody is at work.
    fn take(self: &Arc<Self>) -> Option<Arc<Seat>> {
        let mut taken = self.taken();
        if taken.seats.len() >= self.most && !taken.free_one() {
            return None;
        }
        let (id, leave) = (taken.tick(), CancellationToken::new());
        taken.seats.insert(id, State { last: id, is_at_work: false, leave: leave.clone() });
        Some(Arc::new(Seat { seats: self.clone(), id, leave }))
    }
}

impl Seat {
    /// Resolves when somebody else has got this place.
    pub(super) async fn is_gone(&self) {
        self.leave.cancelled().await;
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
        let [a, b, c] = [(); 3].map(|()| seats.take().unwrap());
        let gone = |all: &[&Arc<Seat>]| all.iter().map(|it| it.leave.is_cancelled()).collect::<Vec<_>>();
        // `a` has been answered just now, `b` is at work.
        drop(a.work());
        let work = b.work();
        let d = seats.take().unwrap();
        assert_eq!(gone(&[&a, &b, &c, &d]), [false, false, true, false]);
        let e = seats.take().unwrap();
        assert_eq!(gone(&[&a, &b, &d, &e]), [true, false, false, false]);
        let (_d, _e) = (d.work(), e.work());
        assert!(seats.take().is_none(), "everybody is at work");
        drop(work);
        assert!(seats.take().is_some());
        assert!(b.leave.is_cancelled());
        let f = seats.take().unwrap();
        assert!(seats.free_one() && f.leave.is_cancelled(), "also where somebody only wants its descriptor");
        assert!(!seats.free_one());
        // Those that left, and those that end by themselves, hold nothing.
        drop((a, b, c));
        assert_eq!(seats.taken().seats.len(), 2);
    }

    #[tokio::test]
    async fn while_everybody_is_at_work_whoever_comes_waits() {
        let seats = Seats::new(2);
        let [a, b] = [(); 2].map(|()| seats.take().unwrap());
        let work = [a.work(), b.work()];
        let mut next = std::pin::pin!(seats.wait());
        assert!(futures::poll!(next.as_mut()).is_pending());
        drop(work);
        next.await;
        assert!(a.leave.is_cancelled() && !b.leave.is_cancelled());
    }
}
