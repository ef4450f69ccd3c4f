//! The door: every request, gRPC and HTTP alike, passes here before anything else sees it.
//!
//! What a path needs is said by [`crate::auth::Access`]; who is let in finds its [`Identity`] in the request's
//! extensions.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use http::{Request, Response, header};
use tonic::{Status, body::Body};
use tower::{Layer, Service};

use crate::{
    auth::{Access, Auth, Identity},
    error::Error,
    http::problem,
};

/// Puts [`Door`] before a service.
#[derive(Clone)]
pub(super) struct DoorLayer(pub(super) Auth);

impl<S> Layer<S> for DoorLayer {
    type Service = Door<S>;
    fn layer(&self, inner: S) -> Door<S> {
        Door { auth: self.0.clone(), inner }
    }
}

/// Lets a request in, or answers in the caller's own protocol why not.
#[derive(Clone)]
pub(super) struct Door<S> {
    auth: Auth,
    inner: S,
}

impl<S> Service<Request<Body>> for Door<S>
where
    S: Service<Request<Body>, Response = Response<Body>> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        // The clone that was polled ready is the one to use.
        let fresh = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, fresh);
        let auth = self.auth.clone();
        Box::pin(async move {
            let grpc = is_grpc(request.headers());
            match admit(&auth, &mut request).await {
                Ok(()) => inner.call(request).await,
                Err(error) => Ok(refusal(error, grpc)),
            }
        })
    }
}

async fn admit(auth: &Auth, request: &mut Request<Body>) -> Result<(), Error> {
    let access = Access::of(request.uri().path());
    if access == Access::Open {
        return Ok(());
    }
    let header = request.headers().get(header::AUTHORIZATION).map(|value| value.as_bytes().to_vec());
    let identity = auth.identify(header.as_deref()).await?;
    match access {
        Access::Open | Access::Known => {}
        Access::Needs(call) => identity.may(call)?,
    }
    request.extensions_mut().insert(identity);
    Ok(())
}

/// Whether an answer must be a gRPC one.
pub(super) fn is_grpc(headers: &http::HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"))
}

fn refusal(error: Error, grpc: bool) -> Response<Body> {
    if grpc { Status::from(error).into_http() } else { problem::response(&error).map(Body::new) }
}

/// Who sent this request.
///
/// # Errors
/// [`Error::Internal`] when the request did not come through the door.
pub fn identity<T>(request: &tonic::Request<T>) -> Result<Identity, Error> {
    request
        .extensions()
        .get::<Identity>()
        .cloned()
        .ok_or_else(|| Error::Internal("a request came past the door".to_owned()))
}
