//! Work that is seen through even where nobody waits for it any more.
//!
//! A call is dropped when its caller hangs up. What must not end half way then, or must not be begun anew by the next
//! caller while the first one's still goes on, runs in a task of its own.

use tokio::task::JoinError;

/// Runs `work` to its end, whoever is still there to hear of it.
///
/// # Errors
/// It panicked, or the program ends.
pub async fn seen_through<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Result<T, JoinError> {
    tokio::spawn(work).await
}
