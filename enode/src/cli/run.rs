//! `enode run`.

use tracing_subscriber::EnvFilter;

use super::{Exit, Failure, Outcome};
use crate::{app, config::Config, local::Lock};

pub(super) async fn run(config: Config) -> Outcome {
    let filter = EnvFilter::try_from_env("ENODE_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    let _lock = Lock::take(&config.state_dir).map_err(|error| Failure::new(Exit::Refused, error))?;
    tracing::info!(
        name = config.name, slots = config.slots, mediator = config.mediator.join(","),
        state_dir = %config.state_dir.display(), policy_file = %config.policy_file.display(), "enode starts"
    );
    app::run(config).await?;
    Ok(Exit::Done)
}
