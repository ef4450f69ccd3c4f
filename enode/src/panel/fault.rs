//! Why there is no such page, as a page.

use std::{io, path::Path};

use askama::Template;
use axum::{
    http::StatusCode,
    response::{Html, IntoResponse, Response},
};

use super::words::{LINE, cut};

/// A status and a sentence that says what instead.
#[derive(Debug, Clone, Template)]
#[template(path = "fault.html")]
pub(super) struct Fault {
    code: StatusCode,
    title: &'static str,
    why: String,
}

impl Fault {
    pub(super) fn new(code: StatusCode, title: &'static str, why: impl Into<String>) -> Self {
        // It may say what somebody has sent.
        Self { code, title, why: cut(&why.into(), LINE) }
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
        (self.code, Html(text)).into_response()
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
