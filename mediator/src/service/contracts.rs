//! Contracts of what was claimed here, until it is reported: a report is judged by one, and reading it from the
//! store again would cost as much as the report itself.
//!
//! A contract never changes, and a lease's nonce names one Run only; so what is found here is never out of date. What is
//! not found is read from the store.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use shared::{Nonce, RunId, contract::Contract, domain::ClaimedStep};

/// Above this many it begins anew: they are of Runs that went on elsewhere.
const MOST: usize = 16 * 1024;

/// A lease.
type Key = (RunId, Nonce);

/// The contracts. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Contracts(Arc<Mutex<HashMap<Key, Arc<Contract>>>>);

impl Contracts {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Key, Arc<Contract>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A step was claimed here.
    pub fn claimed(&self, step: &ClaimedStep) {
        let mut known = self.lock();
        if known.len() >= MOST {
            known.clear();
        }
        known.insert((step.run.clone(), step.nonce), step.contract.clone());
    }

    /// The contract of a Run that holds this lease, if something of it was claimed here.
    #[must_use]
    pub fn get(&self, run: &RunId, nonce: Nonce) -> Option<Arc<Contract>> {
        self.lock().get(&(run.clone(), nonce)).cloned()
    }

    /// The step under this lease has ended. The next one that is claimed brings it back.
    pub fn reported(&self, lease: &Key) {
        self.lock().remove(lease);
    }
}
