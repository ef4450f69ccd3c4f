//! What mediators of one database tell each other, by PostgreSQL's LISTEN and NOTIFY.
//!
//! A notice is sent in the very statement that raises the fleet's rev, so it arrives after the commit or not at all.
//! It names nodes and the last event, never a nonce: whoever may connect to the database may listen. A notice only
//! wakes; what is true is read from the store, and what a lost one would have said is found by looking now and then.
//! SQLite has one mediator, and nobody to tell.

use std::time::Duration;

use shared::{NodeId, domain::Changes};
use sqlx::{PgPool, postgres::PgListener};

use super::{Engine, Store, error::StoreError, postgres};

const CHANNEL: &str = "mediator";
/// PostgreSQL takes less than 8000 bytes. What does not fit is told as "look at everything".
const MOST: usize = 7_000;
/// Before a listener that cannot connect tries again.
const PAUSE: Duration = Duration::from_secs(1);

/// What another mediator has committed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Notice {
    /// The number of the last event.
    pub last_event: i64,
    /// There may be something to claim for these nodes.
    pub work: Vec<NodeId>,
    /// Leases of these nodes went while they were in use.
    pub stop: Vec<NodeId>,
    /// It was too much to say.
    pub everything: bool,
}

/// What came over the line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// Another mediator has committed.
    Notice(Notice),
    /// The line was cut, and is there again: whatever was said meanwhile is lost.
    Gap,
}

/// The payload of a transaction's notice; empty when there is nothing to tell.
pub(super) fn payload(origin: &str, changes: &Changes, last_event: i64) -> String {
    if changes.work.is_empty() && changes.stop.is_empty() && changes.events.is_empty() {
        return String::new();
    }
    let mut text = format!("{origin} {last_event}");
    for node in &changes.work {
        text.push_str(&format!(" w:{node}"));
    }
    for (node, ..) in &changes.stop {
        text.push_str(&format!(" s:{node}"));
    }
    if text.len() > MOST { format!("{origin} {last_event} *") } else { text }
}

/// None: it is one of our own, or none of a mediator.
fn read(origin: &str, text: &str) -> Option<Notice> {
    let mut words = text.split(' ');
    if words.next()? == origin {
        return None;
    }
    let mut notice = Notice { last_event: words.next()?.parse().ok()?, ..Notice::default() };
    for word in words {
        match word.split_once(':') {
            Some(("w", node)) => notice.work.extend(NodeId::new(node)),
            Some(("s", node)) => notice.stop.extend(NodeId::new(node)),
            // A later version may say more; looking at everything misses nothing.
            _ => notice.everything = true,
        }
    }
    Some(notice)
}

/// An open line to the other mediators.
#[derive(Debug)]
pub struct Listener {
    /// None: it was cut.
    line: Option<PgListener>,
    origin: String,
    pool: PgPool,
}

impl Store {
    /// Whether other mediators may work on this database.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        matches!(*self.engine, Engine::Postgres(_))
    }

    /// Opens the line to the other mediators of this database; none where there can be none.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn listen(&self) -> Result<Option<Listener>, StoreError> {
        let Engine::Postgres(pools) = &*self.engine else { return Ok(None) };
        let pool = pools.line.clone();
        let line = Some(open(&pool).await.map_err(failed)?);
        Ok(Some(Listener { line, origin: self.origin.to_string(), pool }))
    }
}

impl Listener {
    /// The next thing heard. Goes on by itself after an outage. May be dropped at any time.
    pub async fn next(&mut self) -> Heard {
        loop {
            let Some(line) = &mut self.line else {
                match open(&self.pool).await {
                    Ok(line) => {
                        self.line = Some(line);
                        return Heard::Gap;
                    }
                    Err(error) => self.no_line(error).await,
                }
                continue;
            };
            match line.try_recv().await {
                Ok(Some(said)) => match read(&self.origin, said.payload()) {
                    Some(notice) => return Heard::Notice(notice),
                    None => continue,
                },
                Ok(None) => self.line = None,
                Err(error) => {
                    self.line = None;
                    self.no_line(error).await;
                }
            }
        }
    }

    async fn no_line(&self, error: sqlx::Error) {
        tracing::debug!(error = %failed(error), "no line to the other mediators");
        tokio::time::sleep(PAUSE).await;
    }
}

fn failed(error: sqlx::Error) -> StoreError {
    StoreError::of("listen", error, postgres::verdict)
}

/// The listener can connect again by itself, and says so in some cases only; one that is opened anew cannot hide a gap.
async fn open(pool: &PgPool) -> Result<PgListener, sqlx::Error> {
    let mut line = PgListener::connect_with(pool).await?;
    line.eager_reconnect(false);
    line.listen(CHANNEL).await?;
    Ok(line)
}

#[cfg(test)]
mod tests {
    use shared::Nonce;

    use super::*;

    fn node(name: &str) -> NodeId {
        NodeId::new(name).unwrap()
    }

    #[test]
    fn a_notice_says_whom_it_concerns_and_no_secret() {
        let mut changes = Changes::default();
        assert_eq!(payload("me", &changes, 5), "");
        changes.work.insert(node("yard/1"));
        let nonce = Nonce::from_bits(0xdead_beef);
        changes.stop.push((node("n2"), shared::RunId::new("r").unwrap(), nonce, 7));
        let text = payload("me", &changes, 5);
        assert!(!text.contains("deadbeef"), "{text}");
        assert_eq!(read("me", &text), None, "our own");
        let notice = Notice { last_event: 5, work: vec![node("yard/1")], stop: vec![node("n2")], everything: false };
        assert_eq!(read("other", &text), Some(notice));
    }

    #[test]
    fn what_does_not_fit_is_told_as_everything_and_nonsense_as_nothing() {
        let mut changes = Changes::default();
        changes.work.extend((0..2_000).map(|n| node(&format!("a-node-with-a-long-name-{n}"))));
        let text = payload("me", &changes, 5);
        assert!(text.len() < 8_000);
        assert!(read("other", &text).unwrap().everything);
        for nonsense in ["", "x", "x y", "x 1.5 w:n", "me 1"] {
            assert_eq!(read("me", nonsense), None, "{nonsense:?}");
        }
        assert!(read("me", "x 1 q:new").unwrap().everything);
    }
}
