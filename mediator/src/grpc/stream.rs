//! What long streams share: they are pulled by the client, so that a slow one holds back nobody else, and
//! they end when the mediator stops.

use std::{future::Future, pin::Pin};

use futures::{Stream, stream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use crate::error::Error;

/// What a server stream is.
pub type Outgoing<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// A stream whose next item is computed when the client asks for it. `None` ends it, and so does an error,
/// after it was told.
pub(super) fn pulled<S, T, F, Fut>(state: S, next: F) -> Outgoing<T>
where
    S: Send + 'static,
    T: Send + 'static,
    F: Fn(S) -> Fut + Send + 'static,
    Fut: Future<Output = Result<Option<(T, S)>, Error>> + Send + 'static,
{
    Box::pin(stream::unfold(Some((state, next)), |state| async move {
        let (state, next) = state?;
        match next(state).await {
            Ok(Some((item, state))) => Some((Ok(item), Some((state, next)))),
            Ok(None) => None,
            Err(error) => Some((Err(Status::from(error)), None)),
        }
    }))
}

/// Waits until the watched value has changed.
///
/// # Errors
/// [`Error::Stopping`] when the mediator stops first: the client knows then that the stream is not complete.
pub(super) async fn changed<T>(watched: &mut watch::Receiver<T>, stop: &CancellationToken) -> Result<(), Error> {
    tokio::select! {
        biased;
        () = stop.cancelled() => Err(Error::Stopping),
        changed = watched.changed() => changed.map_err(|_| Error::Stopping),
    }
}
