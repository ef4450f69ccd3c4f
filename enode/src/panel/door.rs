//! Who may come in. On loopback everybody on this machine may; on any other address whoever has said `panel_token` of
//! the owner's policy file, which is read again each time, so that a new word there shuts everybody out at once.

use std::{sync::Arc, time::Duration};

use askama::Template;
use axum::{
    Extension,
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Redirect, Response},
};
use shared::sha256_hex;
use subtle::ConstantTimeEq;

use super::{Shared, fault, fault::Fault, fields::Fields, looks::Looks};
use crate::{
    clock,
    config::Secret,
    policy::file::{SHORTEST_TOKEN, Seen},
};

const COOKIE: &str = "enode_panel";

/// The rule of one panel.
pub(super) struct Door {
    /// Drawn at the start; nobody else knows it.
    secret: String,
    /// The policy file with the token; none on loopback.
    lock: Option<Arc<Looks>>,
}

/// On an answer to a wrong token: it is given [`LATER`], by the guard and so outside of the places for work.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wrong;

/// Guessing is slow: no more than one for each connection in this time.
pub(super) const LATER: Duration = Duration::from_secs(1);

/// What came with a request that may come in.
#[derive(Debug, Clone)]
pub(super) struct Visit {
    /// What every form of this visitor must send back.
    pub(super) csrf: String,
    /// Came in with the token.
    pub(super) can_leave: bool,
    /// The changes before anything was read for the answer: what changes while that is drawn is a later one.
    pub(super) version: u64,
}

impl Door {
    pub(super) fn new(lock: Option<Arc<Looks>>) -> Self {
        Self { secret: format!("{}{}", clock::random_hex(32), clock::random_hex(32)), lock }
    }

    /// Only this machine can reach it.
    pub(super) const fn is_local(&self) -> bool {
        self.lock.is_none()
    }

    fn derive(&self, what: &str, of: &str) -> String {
        // The secret has a fixed length, and `what` is one of ours.
        sha256_hex(&[self.secret.as_bytes(), what.as_bytes(), b"\0", of.as_bytes()].concat())
    }

    /// The word that a form must send back.
    pub(super) fn csrf(&self, session: &str) -> String {
        self.derive("csrf", session)
    }

    /// Of somebody who has said no token.
    pub(super) fn stranger(&self, version: u64) -> Visit {
        Visit { csrf: self.csrf(""), can_leave: false, version }
    }

    /// Whether a request may come in, `version` being that of [`Visit`]; `None`: it must say the token first.
    pub(super) async fn visit(&self, headers: &HeaderMap, version: u64) -> Result<Option<Visit>, Fault> {
        let Some(lock) = &self.lock else { return Ok(Some(self.stranger(version))) };
        let token = token(lock).await.map_err(|why| Fault::new(StatusCode::SERVICE_UNAVAILABLE, "Shut", why))?;
        let session = self.derive("session", token.reveal());
        let shown = cookie(headers).unwrap_or_default();
        let bearer = headers.get(header::AUTHORIZATION).and_then(|it| it.to_str().ok());
        let bearer = bearer.and_then(|it| it.strip_prefix("Bearer ")).unwrap_or_default();
        let is_known = same(shown, &session) | same(bearer, token.reveal());
        Ok(is_known.then(|| Visit { csrf: self.csrf(&session), can_leave: true, version }))
    }

    /// The cookie for whoever says the token.
    async fn enter(&self, said: &str) -> Result<Option<String>, Fault> {
        let Some(lock) = &self.lock else { return Ok(None) };
        let token = token(lock).await.map_err(|why| Fault::new(StatusCode::SERVICE_UNAVAILABLE, "Shut", why))?;
        let session = self.derive("session", token.reveal());
        Ok(same(said.trim(), token.reveal()).then(|| format!("{COOKIE}={session}; Path=/; HttpOnly; SameSite=Lax")))
    }
}

/// Compares in a time that says nothing about where they differ.
pub(super) fn same(a: &str, b: &str) -> bool {
    a.as_bytes().ct_eq(b.as_bytes()).into()
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    let all = headers.get_all(header::COOKIE).into_iter().filter_map(|it| it.to_str().ok());
    let pairs = all.flat_map(|it| it.split(';')).filter_map(|it| it.trim().split_once('='));
    pairs.filter(|(name, _)| *name == COOKIE).map(|(_, value)| value).next()
}

/// The token of a policy file.
///
/// # Errors
/// Why there is none, and what instead.
pub(super) async fn token(policy: &Looks) -> Result<Secret, String> {
    let path = policy.path().display();
    let hint = format!("write panel_token = \"…\" with at least {SHORTEST_TOKEN} characters into {path}");
    match policy.look().await {
        Seen::Written(written) if written.has_short_token() => Err(format!("panel_token is too short: {hint}")),
        Seen::Written(written) => match written.panel_token {
            Some(token) => Ok(Secret::new(token.reveal().trim().to_owned())),
            None => Err(format!("a panel beyond loopback needs a token: {hint}")),
        },
        Seen::Missing => Err(format!("a panel beyond loopback needs a token: {hint}")),
        Seen::Unsteady => Err(format!("{path} is being written: try again")),
        Seen::Broken(why) => Err(format!("panel_token cannot be read: {why}")),
    }
}

#[derive(Template)]
#[template(path = "login.html")]
struct Login {
    csrf: String,
    wrong: bool,
}

pub(super) async fn page(State(panel): State<Shared>) -> Result<Response, Fault> {
    if panel.door.is_local() {
        return Ok(Redirect::to("/").into_response());
    }
    fault::page(&Login { csrf: panel.door.csrf(""), wrong: false })
}

pub(super) async fn write(
    State(panel): State<Shared>,
    Extension(fields): Extension<Fields>,
) -> Result<Response, Fault> {
    match panel.door.enter(fields.get("token")).await? {
        Some(cookie) => {
            let mut response = Redirect::to(fields.back()).into_response();
            let cookie = HeaderValue::from_str(&cookie).map_err(|error| Fault::broken(&error))?;
            response.headers_mut().insert(header::SET_COOKIE, cookie);
            Ok(response)
        }
        None => {
            tracing::warn!("somebody said a wrong panel_token");
            let page = Login { csrf: panel.door.csrf(""), wrong: true };
            Ok((Extension(Wrong), fault::page_with(StatusCode::UNAUTHORIZED, &page)?).into_response())
        }
    }
}

/// Forgets the cookie of this browser.
pub(super) async fn leave() -> Response {
    let gone = format!("{COOKIE}=; Path=/; HttpOnly; SameSite=Lax; Max-Age=0");
    let mut response = Redirect::to("/login").into_response();
    if let Ok(gone) = HeaderValue::from_str(&gone) {
        response.headers_mut().insert(header::SET_COOKIE, gone);
    }
    response
}
