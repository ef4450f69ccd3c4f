//! What is around every page.

use axum::http::Uri;
use shared::ticket::Queue;

use super::{Panel, assets, bell::Bell, door::Visit};
use crate::tickets::view::Page;

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
    pub(super) fn new(panel: &Panel, visit: &Visit, uri: &Uri, at: &'static str, queue: &Queue, page: &Page) -> Self {
        Self {
            csrf: visit.csrf.clone(),
            can_leave: visit.can_leave,
            bell: Bell::new(queue, page),
            here: uri.path_and_query().map_or_else(|| "/".to_owned(), ToString::to_string),
            at,
            version: panel.live.version(),
            reloads: false,
            style: assets::STYLE.address(),
            script: assets::SCRIPT.address(),
            icon: assets::ICON.address(),
        }
    }
}
