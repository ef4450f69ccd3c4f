//! Steps that wait for the test, and contracts made of them.

use std::path::PathBuf;

/// A file that a step waits for. Removed on drop is not needed: it lies in a temporary directory.
pub(crate) struct Gate {
    home: tempfile::TempDir,
}

impl Gate {
    pub(crate) fn new() -> Self {
        Self { home: tempfile::tempdir().unwrap() }
    }

    /// A file beside the gates.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// A `run:` value that ends with 0 once the gate of this name is open, or its process has been orphaned.
    pub(crate) fn step(&self, name: &str) -> String {
        self.step_exiting(name, 0)
    }

    /// The same, ending with another code.
    pub(crate) fn step_exiting(&self, name: &str, code: i32) -> String {
        let gate = self.path(name);
        format!("[sh, -c, 'echo waiting; while [ ! -e {} ]; do sleep 0.05; done; exit {code}']", gate.display())
    }

    /// Lets every step of this name go on.
    pub(crate) fn open(&self, name: &str) {
        std::fs::write(self.path(name), "").unwrap();
    }
}

/// A contract on one node that can build.
pub(crate) fn on_builder(id: &str, steps: &str) -> String {
    format!("run_id: {id}\nrequires:\n  - {{as: builder, capability: build}}\nsteps:\n{steps}")
}

/// A contract of one waiting step on one node.
pub(crate) fn waiting(gate: &Gate, id: &str) -> String {
    on_builder(id, &format!("  - {{id: hold, uses: builder, run: {}}}\n", gate.step(id)))
}

/// A contract of one step that ends at once.
pub(crate) fn quick(id: &str) -> String {
    on_builder(id, "  - {id: quick, uses: builder, run: ['true']}\n")
}
