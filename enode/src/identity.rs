//! Which process life speaks for a node.

use std::path::Path;

use shared::{InstanceId, NodeId};

use crate::clock;

/// One node's identity.
#[derive(Debug)]
pub struct Identity {
    /// This life.
    pub instance: InstanceId,
    /// The lives it replaces.
    pub replaces: Vec<InstanceId>,
}

impl Identity {
    /// Draws a new instance.
    ///
    /// # Errors
    /// The state directory could not be written.
    pub fn load(_state_dir: &Path, _node: &NodeId) -> std::io::Result<Self> {
        Ok(Self { instance: clock::fresh_instance(), replaces: Vec::new() })
    }

    /// The first advert was accepted.
    ///
    /// # Errors
    /// The state directory could not be written.
    pub fn acknowledged(&mut self) -> std::io::Result<()> {
        Ok(())
    }

    /// Draws another instance, without `replaces`.
    ///
    /// # Errors
    /// The state directory could not be written.
    pub fn redraw(&mut self) -> std::io::Result<()> {
        *self = Self { instance: clock::fresh_instance(), replaces: Vec::new() };
        Ok(())
    }
}
