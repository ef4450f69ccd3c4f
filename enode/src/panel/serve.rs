//! Binds the panel and runs it until it is told to stop.

use std::{future::Future, net::SocketAddr, sync::Arc};

use anyhow::Context as _;
use tokio::net::TcpListener;

pub use super::connections::Limits;

use super::{Panel, connections, door, door::Door, live, looks::Looks, router};
use crate::{
    config::Config,
    tickets::{Folder, client::Client, template::Templates},
};

/// What one panel shows, and where.
#[expect(missing_debug_implementations, reason = "the client holds a token")]
pub struct Setup {
    /// Where to listen; beyond loopback only with `panel_token`.
    pub listen: SocketAddr,
    /// The queue.
    pub folder: Arc<Folder>,
    /// What workers make contracts of, where that is known: tickets that none is for are named.
    pub templates: Templates,
    /// The mediator that Runs are asked of and cancelled at.
    pub runs: Client,
    /// The agent of this machine, or why there is none to ask.
    pub node: Result<Config, String>,
    /// What one client may take of it.
    pub limits: Limits,
}

/// A panel that listens.
#[expect(missing_debug_implementations, reason = "it holds secrets")]
pub struct Bound {
    listener: TcpListener,
    panel: Arc<Panel>,
    address: SocketAddr,
    limits: Limits,
}

impl Setup {
    /// Listens; nothing is answered yet.
    ///
    /// # Errors
    /// The address cannot be used, or is reachable from elsewhere and the policy file has no `panel_token`.
    pub async fn bind(self) -> anyhow::Result<Bound> {
        let policy = self.node.as_ref().map(|config| Arc::new(Looks::new(config.policy_file.clone())));
        let policy = policy.map_err(String::clone);
        let lock = if self.listen.ip().is_loopback() {
            None
        } else {
            let policy = policy.clone().map_err(|why| {
                anyhow::anyhow!("{} is reachable from elsewhere and needs panel_token: {why}", self.listen)
            })?;
            door::token(&policy).await.map_err(anyhow::Error::msg)?;
            Some(policy)
        };
        let listener = TcpListener::bind(self.listen).await;
        let listener =
            listener.with_context(|| format!("cannot listen on {}: choose another --listen", self.listen))?;
        let address = listener.local_addr().context("cannot tell the address")?;
        let live = live::Live::new(&self.folder);
        let panel = Panel {
            folder: self.folder,
            templates: self.templates,
            runs: self.runs,
            node: self.node,
            policy: policy.ok(),
            door: Door::new(lock),
            live,
            last: Default::default(),
            stopping: Default::default(),
        };
        Ok(Bound { listener, panel: Arc::new(panel), address, limits: self.limits })
    }
}

impl Bound {
    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until `stop` resolves. Open pages are let go of then; what somebody has asked is answered, within
    /// [`Limits::stop`].
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let stopping = self.panel.stopping.clone();
        let serving = connections::serve(self.listener, router(self.panel.clone()), self.limits, stopping.clone());
        let until = async {
            stop.await;
            stopping.cancel();
        };
        tokio::select! {
            ((), ()) = async { tokio::join!(serving, until) } => {}
            () = live::follow(&self.panel) => {}
        }
    }
}
