//! What long streams share: they are pulled by the client, so that a slow one holds back nobody else, and
//! they end when the mediator stops.

use std::{future::Future, pin::Pin};

use futures::{Stream, stream};
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
