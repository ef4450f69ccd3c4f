//! What is around every page.

use axum::http::Uri;

use super::{assets, bell::Bell, door::Visit, fields::ADDRESS, sight::Sight};

/// Head, navigation and bell.
#[derive(Debug, Clone)]
pub(super) struct Shell {
    pub(super) csrf: String,
    pub(super) can_leave: bool,
    pub(super) bell: Bell,
    /// This page, to come back to.
    pub(super) here: String,
    /// Which part of the navigation it is in.
    pub(super) at: &'static str,
    /// What the reader knows of changes.
    pub(super) version: u64,
    /// Without script the page loads itself again.
    pub(super) reloads: bool,
    pub(super) style: String,
    pub(super) script: String,
    pub(super) icon: String,
}

impl Shell {
    pub(super) fn new(visit: &Visit, here: &str, at: &'static str, sight: &Sight) -> Self {
        Self {
            csrf: visit.csrf.clone(),
            can_leave: visit.can_leave,
            bell: Bell::new(&sight.queue, &sight.page),
            here: here.to_owned(),
            at,
            version: visit.version,
            reloads: false,
            style: assets::STYLE.address(),
            script: assets::SCRIPT.address(),
            icon: assets::ICON.address(),
        }
    }
}

/// Path and query of a request; the board, where these are too long to be repeated.
pub(super) fn here(uri: &Uri) -> &str {
    uri.path_and_query().map(|it| it.as_str()).filter(|it| it.len() <= ADDRESS).unwrap_or("/")
}
