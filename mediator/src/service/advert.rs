//! An advert comes in; what the agent is told to do next.

use shared::{
    Duration,
    domain::{Advert, AdvertReply},
};

use super::Services;
use crate::{clock, error::Error, metrics};

/// The fleet's reply with the mediator's timing.
#[derive(Debug, Clone)]
pub struct Advertised {
    /// What the fleet says.
    pub reply: AdvertReply,
    /// When to advert next.
    pub interval: Duration,
    /// How long advert and leases live, from the moment the advert was sent.
    pub ttl: Duration,
}

impl Services {
    /// Applies an advert.
    ///
    /// # Errors
    /// Another principal's node, a superseded instance or stream, a store that is not available.
    pub async fn advertise(&self, advert: Advert) -> Result<Advertised, Error> {
        metrics::advert();
        let (node, settings) = (advert.who.node.clone(), self.leave.settings());
        let reply = self.writer.apply(advert).await?;
        self.leave.heard(&node, &settings);
        let (interval, ttl) = (jittered(settings.renew), settings.horizon());
        Ok(Advertised { reply, interval, ttl })
    }
}

/// Between 80 % and 100 % of the interval, so that agents which once were in step do not stay so.
fn jittered(interval: Duration) -> Duration {
    let spread = interval.millis() / 5;
    let less = (spread as f64 * clock::random_fraction()) as u64;
    Duration::from_millis(interval.millis() - less)
}
