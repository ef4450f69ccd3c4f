//! The line of waiting Runs, by place and by requirement shape.
//!
//! Runs of one shape stand or fall together: if the oldest cannot run, no younger one can. So a scan tests
//! one representative per shape, and its cost grows with the number of shapes, not with the queue.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use crate::{RunId, contract::Require};

/// What a Run requires, with its hash. Immutable, shared by all Runs that ask for the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// Hash of the requirements, hex.
    pub hash: Arc<str>,
    /// The requirements.
    pub requires: Arc<[Require]>,
}

impl Shape {
    /// The shape of these requirements.
    #[must_use]
    pub fn new(requires: &[Require]) -> Self {
        use sha2::{Digest, Sha256};
        use std::fmt::Write;
        let mut hasher = Sha256::new();
        // The derived `Debug` of these plain types is canonical: maps are sorted, texts are quoted.
        hasher.update(format!("{requires:?}"));
        let mut hash = String::with_capacity(32);
        for byte in &hasher.finalize()[..16] {
            let _infallible = write!(hash, "{byte:02x}");
        }
        Self { hash: hash.into(), requires: requires.into() }
    }
}

/// One waiting Run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queued {
    /// Which.
    pub run: RunId,
    /// What it waits for.
    pub shape: Shape,
}

/// All waiting Runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Queue {
    line: BTreeMap<i64, Queued>,
    shapes: HashMap<Arc<str>, SameShape>,
}

/// The requirements of one shape, and the places of those that share it.
type SameShape = (Arc<[Require]>, BTreeSet<i64>);

impl Queue {
    /// Puts a Run in line.
    pub fn insert(&mut self, place: i64, run: RunId, shape: Shape) {
        let (requires, places) =
            self.shapes.entry(shape.hash.clone()).or_insert_with(|| (shape.requires.clone(), BTreeSet::new()));
        places.insert(place);
        // One allocation per shape, however many Runs share it.
        let shape = Shape { hash: shape.hash, requires: requires.clone() };
        self.line.insert(place, Queued { run, shape });
    }

    /// Takes a Run out of the line.
    pub fn remove(&mut self, place: i64) -> Option<Queued> {
        let queued = self.line.remove(&place)?;
        if let Some((_, places)) = self.shapes.get_mut(&queued.shape.hash) {
            places.remove(&place);
            if places.is_empty() {
                self.shapes.remove(&queued.shape.hash);
            }
        }
        Some(queued)
    }

    /// The Run at a place.
    #[must_use]
    pub fn get(&self, place: i64) -> Option<&Queued> {
        self.line.get(&place)
    }

    /// Every waiting Run, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (i64, &Queued)> {
        self.line.iter().map(|(place, queued)| (*place, queued))
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

    /// The oldest Run of each shape that passes the test.
    pub(in crate::domain) fn heads(&self, test: impl Fn(&[Require]) -> bool) -> BTreeSet<i64> {
        self.shapes
            .values()
            .filter(|(requires, _)| test(requires))
            .filter_map(|(_, places)| places.first().copied())
            .collect()
    }

    /// The oldest Run of one shape.
    pub(in crate::domain) fn head_of(&self, shape: &str) -> Option<i64> {
        self.shapes.get(shape).and_then(|(_, places)| places.first().copied())
    }
}
