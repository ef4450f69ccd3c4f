//! Wires the agent together.

use crate::config::Config;

/// Runs the agent until it is told to stop.
///
/// # Errors
/// It cannot work, or a part of it broke down.
#[expect(clippy::unused_async, reason = "the agent's parts are wired in elsewhere")]
pub async fn run(_config: Config) -> anyhow::Result<()> {
    anyhow::bail!("this build has no agent in it")
}
