//! The mediators of a fleet, as an owner's command or a worker asks them: connections that are opened when they are
//! needed, one of them in use, and a token that goes with every request.
//!
//! The agent's own connections are `link`'s: they know a node.

use std::sync::atomic::{AtomicUsize, Ordering};

use tonic::{
    Request,
    metadata::{Ascii, MetadataValue},
    transport::Channel,
};

/// See the module. At least one.
#[expect(missing_debug_implementations, reason = "it would show the token")]
pub struct Mediators {
    channels: Vec<Channel>,
    used: AtomicUsize,
    token: Option<MetadataValue<Ascii>>,
}

impl Mediators {
    /// None where there is no channel.
    ///
    /// # Errors
    /// The token is none: it has characters that no token has.
    pub fn new(channels: Vec<Channel>, token: Option<&str>) -> anyhow::Result<Option<Self>> {
        let token = token.map(|token| format!("Bearer {}", token.trim()).parse::<MetadataValue<Ascii>>()).transpose();
        let mut token = token.map_err(|_| anyhow::anyhow!("what is given as the token is none"))?;
        if let Some(token) = &mut token {
            token.set_sensitive(true);
        }
        Ok((!channels.is_empty()).then_some(Self { channels, used: AtomicUsize::new(0), token }))
    }

    /// How many there are.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.channels.len()
    }

    /// The one in use.
    #[must_use]
    pub fn channel(&self) -> Channel {
        self.channels[self.used.load(Ordering::Relaxed) % self.channels.len()].clone()
    }

    /// From now on the next one is used.
    pub fn leave(&self) {
        self.used.fetch_add(1, Ordering::Relaxed);
    }

    /// A request with the token.
    #[must_use]
    pub fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(token) = &self.token {
            request.metadata_mut().insert("authorization", token.clone());
        }
        request
    }
}
