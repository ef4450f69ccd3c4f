//! The line of waiting Runs and acquires, by place and by requirement shape.
//!
//! Runs of one shape stand or fall together: if the oldest cannot run, no younger one can. So a scan tests
//! one representative per shape, and its cost grows with the number of shapes, not with the queue.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use crate::{RunId, Seq, Timestamp, contract::Require};

/// What a Run requires, with its hash. Immutable, shared by all Runs that ask for the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// Hash of the requirements, hex.
    pub hash: Arc<str>,
    /// The requirements.
    pub requires: Arc<[Require]>,
}

/// Where somebody stands. Reading the struct is reading the order: by the Run's place, given once under the fleet
/// lock; an acquire stands at its Run's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The Run's place.
    pub run: i64,
    /// Which of its acquires; none for the Run itself.
    pub acquire: Option<Seq>,
}

impl Place {
    /// A Run's own place.
    #[must_use]
    pub const fn of_run(run: i64) -> Self {
        Self { run, acquire: None }
    }

    /// That of one of its acquires.
    #[must_use]
    pub const fn of_acquire(run: i64, seq: Seq) -> Self {
        Self { run, acquire: Some(seq) }
    }
}

impl Shape {
    /// The shape of an acquire. Each has its own: whether it can be met depends on what its Run holds already.
    #[must_use]
    pub fn of_acquire(run: &RunId, seq: Seq, require: &Require) -> Self {
        Self { hash: format!("acquire {run} {seq}").into(), requires: [require.clone()].into() }
    }

    /// How many nodes it takes.
    #[must_use]
    pub fn width(&self) -> u32 {
        self.requires.iter().fold(0, |sum, require| sum.saturating_add(require.count))
    }

    /// The shape of these requirements.
    #[must_use]
    pub fn new(requires: &[Require]) -> Self {
        // The derived `Debug` of these plain types is canonical: maps are sorted, texts are quoted.
        let mut hash = crate::sha256_hex(format!("{requires:?}").as_bytes());
        hash.truncate(32);
        Self { hash: hash.into(), requires: requires.into() }
    }
}

/// One waiting Run, or a Run whose acquire waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queued {
    /// Which.
    pub run: RunId,
    /// What it waits for.
    pub shape: Shape,
    /// Since when.
    pub since: Timestamp,
}

/// All who wait.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Queue {
    line: BTreeMap<Place, Queued>,
    shapes: HashMap<Arc<str>, SameShape>,
    /// Those places that are acquires: few among many.
    acquires: BTreeSet<Place>,
}

/// The requirements of one shape, and the places of those that share it.
type SameShape = (Arc<[Require]>, BTreeSet<Place>);

impl Queue {
    /// Puts somebody in line.
    pub fn insert(&mut self, place: Place, run: RunId, shape: Shape, since: Timestamp) {
        let (requires, places) =
            self.shapes.entry(shape.hash.clone()).or_insert_with(|| (shape.requires.clone(), BTreeSet::new()));
        places.insert(place);
        if place.acquire.is_some() {
            self.acquires.insert(place);
        }
        // One allocation per shape, however many Runs share it.
        let shape = Shape { hash: shape.hash, requires: requires.clone() };
        self.line.insert(place, Queued { run, shape, since });
    }

    /// Takes somebody out of the line.
    pub fn remove(&mut self, place: Place) -> Option<Queued> {
        let queued = self.line.remove(&place)?;
        self.acquires.remove(&place);
        if let Some((_, places)) = self.shapes.get_mut(&queued.shape.hash) {
            places.remove(&place);
            if places.is_empty() {
                self.shapes.remove(&queued.shape.hash);
            }
        }
        Some(queued)
    }

    /// Who stands at a place.
    #[must_use]
    pub fn get(&self, place: Place) -> Option<&Queued> {
        self.line.get(&place)
    }

    /// Everybody in line, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (Place, &Queued)> {
        self.line.iter().map(|(place, queued)| (*place, queued))
    }

    /// The acquires in line, oldest first.
    pub fn acquires(&self) -> impl Iterator<Item = (Place, &Queued)> {
        self.acquires.iter().filter_map(|place| Some((*place, self.line.get(place)?)))
    }

    /// Whether any acquire is in line.
    #[must_use]
    pub fn has_acquires(&self) -> bool {
        !self.acquires.is_empty()
    }

    /// The shape with this hash, while somebody of it waits. For loading only.
    #[must_use]
    pub fn shape(&self, hash: &str) -> Option<Shape> {
        let (hash, (requires, _)) = self.shapes.get_key_value(hash)?;
        Some(Shape { hash: hash.clone(), requires: requires.clone() })
    }

    /// How many wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.line.len()
    }

    /// Nobody waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    /// The oldest of each shape that passes the test.
    pub(in crate::domain) fn heads(&self, test: impl Fn(&[Require]) -> bool) -> BTreeSet<Place> {
        self.shapes
            .values()
            .filter(|(requires, _)| test(requires))
            .filter_map(|(_, places)| places.first().copied())
            .collect()
    }

    /// The oldest of one shape.
    pub(in crate::domain) fn head_of(&self, shape: &str) -> Option<Place> {
        self.shapes.get(shape).and_then(|(_, places)| places.first().copied())
    }
}
