//! The door: every request, gRPC and HTTP alike, passes here before anything else sees it.
//!
//! What a path needs is said by [`crate::auth::Access`]; who is let in finds its [`Identity`] in the request's
//! extensions. The door also sees to it that nobody takes more than a share ([`super::quota`]), that a stream
//! ends with the credential that opened it ([`super::guard`]), and that a message comes in good time.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use http::{Request, Response, header};
use tonic::{Code, Status, body::Body};
use tower::{Layer, Service};

use super::{
    Limits,
    guard::Guards,
    io::{Peer, UnderWay},
    prompt,
    quota::{Permit, Quotas},
};
use crate::{
    auth::{Access, Auth, Caller, Identity, Shape},
    error::Error,
    http::problem,
};

/// Puts [`Door`] before a service.
#[derive(Clone)]
pub(super) struct DoorLayer(Keeper);

/// What the door goes by.
#[derive(Clone)]
struct Keeper {
    auth: Auth,
    quotas: Quotas,
    guards: Guards,
    limits: Limits,
}

impl DoorLayer {
    pub(super) fn new(auth: Auth, limits: Limits) -> Self {
        Self(Keeper { auth, quotas: Quotas::new(limits.quota), guards: Guards::new(limits.stall), limits })
    }

    /// The streams that are open.
    pub(super) fn guards(&self) -> Guards {
        self.0.guards.clone()
    }
}

impl<S> Layer<S> for DoorLayer {
    type Service = Door<S>;
    fn layer(&self, inner: S) -> Door<S> {
        Door { keeper: self.0.clone(), inner }
    }
}

/// Lets a request in, or answers in the caller's own protocol why not.
#[derive(Clone)]
pub(super) struct Door<S> {
    keeper: Keeper,
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
        let keeper = self.keeper.clone();
        Box::pin(async move {
            let grpc = is_grpc(request.headers());
            let Admitted { shape, caller, permit, under_way } = match keeper.admit(&mut request).await {
                Ok(admitted) => admitted,
                Err(error) => return Ok(refusal(error, grpc)),
            };
            if shape == Shape::Once {
                let (permit, under_way) = (permit, under_way);
                let request = request.map(|body| prompt::body(body, keeper.limits.header));
                let answer = inner.call(request).await.map(|answer| keeper.answer(answer, grpc));
                drop((permit, under_way));
                return answer;
            }
            let guarded = keeper.guards.open(caller.as_ref(), grpc, permit, under_way);
            let answer = tokio::select! {
                answer = inner.call(request) => answer?,
                error = guarded.ended() => return Ok(refusal(error, grpc)),
            };
            Ok(keeper.answer(answer, grpc).map(|body| guarded.body(body)))
        })
    }
}

/// What is known of a request that was let in.
struct Admitted {
    shape: Shape,
    caller: Option<Caller>,
    permit: Permit,
    under_way: UnderWay,
}

impl Keeper {
    async fn admit(&self, request: &mut Request<Body>) -> Result<Admitted, Error> {
        let peer = request.extensions().get::<Peer>();
        let peer = peer.cloned().ok_or_else(|| Error::Internal("a request came over no connection".to_owned()))?;
        let under_way = peer.begin();
        let access = Access::of(request.uri().path());
        if access == Access::Open {
            // Among them are streams that last: health and reflection.
            let permit = self.quotas.stranger(peer.ip)?;
            return Ok(Admitted { shape: Shape::Down, caller: None, permit, under_way });
        }
        let header = request.headers().get(header::AUTHORIZATION).map(|value| value.as_bytes().to_vec());
        let may_look = || self.quotas.look(peer.ip);
        let caller = self.auth.identify(header.as_deref(), peer.certificate.as_deref(), may_look).await?;
        let shape = match access {
            Access::Open | Access::Known => Shape::Once,
            Access::Needs(call) => {
                caller.identity.may(call)?;
                call.shape()
            }
        };
        let permit = match shape {
            Shape::Once => self.quotas.call(&caller.identity)?,
            Shape::Up | Shape::Down => self.quotas.stream(&caller.identity)?,
        };
        request.extensions_mut().insert(caller.identity.clone());
        Ok(Admitted { shape, caller: Some(caller), permit, under_way })
    }

    /// A message that is too large, or too slow, is refused by tonic itself, with a code that says less than ours.
    fn answer(&self, answer: Response<Body>, grpc: bool) -> Response<Body> {
        let code = answer.headers().get("grpc-status").map(|code| Code::from_bytes(code.as_bytes()));
        match code {
            // Nothing of ours answers with this code.
            Some(Code::OutOfRange) => {
                let most = self.limits.message_bytes;
                let text = format!("a message is larger than {most} bytes; send less, or raise limits.message_bytes");
                refusal(Error::TooLarge(text), grpc)
            }
            _ => answer,
        }
    }
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
