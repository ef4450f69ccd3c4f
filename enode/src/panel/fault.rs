//! Why there is no such page, as a page.

use std::{io, path::Path};

use askama::Template;
use axum::{
    http::StatusCode,
    response::{Html, IntoResponse, Response},
};

use super::{
    kept::{Kept, Sent},
    words::{LINE, cut},
};

/// A status and a sentence that says what instead.
#[derive(Debug, Clone, Template)]
#[template(path = "fault.html")]
pub(super) struct Fault {
    code: StatusCode,
    title: &'static str,
    why: String,
    /// Where to go from here, and what that is called.
    to: (&'static str, &'static str),
    /// What was sent, to be sent once more.
    kept: Option<Box<Kept>>,
}

impl Fault {
    pub(super) fn new(code: StatusCode, title: &'static str, why: impl Into<String>) -> Self {
        // It may say what somebody has sent.
        Self { code, title, why: cut(&why.into(), LINE), to: ("/", "To the board"), kept: None }
    }

    /// Who writes and has not said the token, or not since the panel was started. A stranger's form is not even read;
    /// the browser still has it.
    pub(super) fn locked(is_write: bool) -> Self {
        let why = if is_write {
            "Say the token first, in another tab; then load this page again: the browser sends what you wrote once more."
        } else {
            "Say the token first."
        };
        Self { to: ("/login", "Say the token"), ..Self::new(StatusCode::UNAUTHORIZED, "Refused", why) }
    }

    /// For a page that shows the rest all the same.
    pub(super) fn why(&self) -> &str {
        &self.why
    }

    /// With the form that could not be taken.
    pub(super) fn keeping(self, sent: &Sent) -> Self {
        Self { kept: sent.kept().map(Box::new), ..self }
    }

    pub(super) fn refused(why: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "Refused", why)
    }

    pub(super) fn missing(why: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "Not found", why)
    }

    pub(super) fn conflict(why: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "Not done", why)
    }

    pub(super) fn folder(folder: &Path, error: &io::Error) -> Self {
        let why = format!("The queue {} cannot be read or written: {error}.", folder.display());
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "Queue out of reach", why)
    }

    pub(super) fn broken(error: &dyn std::error::Error) -> Self {
        tracing::error!(%error, "the panel could not answer");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "Something broke", error.to_string())
    }
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        let text = self.render().unwrap_or_else(|_| self.title.to_owned());
        let mut response = (self.code, Html(text)).into_response();
        // For the guard, who has what was sent.
        response.extensions_mut().insert(self);
        response
    }
}

pub(super) async fn nothing_here() -> Fault {
    Fault::missing("There is no such page.")
}

pub(super) async fn wrong_method() -> Fault {
    Fault::new(StatusCode::METHOD_NOT_ALLOWED, "Refused", "This address is not used that way.")
}

/// A page, or what became of it.
pub(super) fn page(template: &impl Template) -> Result<Response, Fault> {
    page_with(StatusCode::OK, template)
}

/// A page that says that something was not done.
pub(super) fn page_with(code: StatusCode, template: &impl Template) -> Result<Response, Fault> {
    let text = template.render().map_err(|error| Fault::broken(&error))?;
    Ok((code, Html(text)).into_response())
}
