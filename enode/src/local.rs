//! The status socket.

use std::path::PathBuf;

use crate::state::AgentStatus;

/// Serves the status.
pub async fn serve(_path: PathBuf, _status: impl Fn() -> AgentStatus + Send + Sync + 'static) {
    std::future::pending().await
}
