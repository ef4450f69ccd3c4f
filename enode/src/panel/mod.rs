//! The host panel: pages about the ticket queue of this machine, and above them about its node. Server-rendered HTML.
//!
//! `serve` binds and runs, `connections` and their `seats` have limits, `guard` decides who may come in and puts the rules of the browser on every answer, `door`
//! knows the token, `live` notices changes, `sight` lays the queue out. Each page has a file: `board`, `ticket`, `new`,
//! `edit`, `answer`, `unassign`, `node`; `bell` is on all of them. What a page shows it takes from `tickets::view` and the agent's own socket; what it
//! writes goes through the functions of `tickets` and the policy file's writer. Nothing is decided here twice.
//!
//! `axum` and `hyper` are known here and nowhere else in this program.

mod answer;
mod asked;
mod assets;
mod bell;
mod board;
mod card;
mod connections;
mod door;
mod edit;
mod fault;
mod fields;
mod filter;
mod guard;
mod kept;
mod live;
mod looks;
mod new;
mod node;
mod pick;
mod search;
mod seats;
pub mod serve;
mod shell;
mod sight;
mod ticket;
mod unassign;
mod words;

use std::{io, sync::Arc};

use axum::{
    Router, middleware,
    routing::{get, post},
};
use tokio_util::sync::CancellationToken;

use self::{door::Door, fault::Fault};
use crate::{
    config::Config,
    tickets::{Folder, client::Client, template::Templates},
};

/// What the pages need.
#[expect(missing_debug_implementations, reason = "it holds secrets")]
pub struct Panel {
    /// The queue.
    folder: Arc<Folder>,
    /// For naming tickets that no worker takes.
    templates: Templates,
    /// For taking away what a Run works on.
    runs: Client,
    /// The agent of this machine, or why there is none to ask.
    node: Result<Config, String>,
    /// The owner's file, where there is a node.
    policy: Option<Arc<looks::Looks>>,
    /// Who may come in.
    door: Door,
    /// What has changed.
    live: live::Live,
    /// The queue as it was laid out last.
    last: sight::Last,
    /// Pages that are open are let go of.
    stopping: CancellationToken,
}

type Shared = Arc<Panel>;

impl Panel {
    /// File work on a thread that may wait.
    async fn off<T: Send + 'static>(&self, work: impl FnOnce(&Folder) -> T + Send + 'static) -> Result<T, Fault> {
        let folder = self.folder.clone();
        let done = tokio::task::spawn_blocking(move || work(&folder)).await;
        done.map_err(|died| Fault::broken(&io::Error::other(died)))
    }
}

/// All pages.
fn router(panel: Shared) -> Router {
    Router::new()
        .route("/", get(board::page))
        .route("/new", get(new::page).post(new::write))
        .route("/ticket/{stem}", get(ticket::page))
        .route("/ticket/{stem}/edit", get(edit::page).post(edit::write))
        .route("/ticket/{stem}/answer", get(answer::page).post(answer::write))
        .route("/ticket/{stem}/unassign", post(unassign::write))
        .route("/node", get(node::page))
        .route("/node/drain", post(node::drain))
        .route("/node/undrain", post(node::undrain))
        .route("/node/quarantine", post(node::end_quarantine))
        .route("/login", get(door::page).post(door::write))
        .route("/logout", post(door::leave))
        .route("/events", get(live::events))
        .route("/assets/{name}", get(assets::file))
        .fallback(fault::nothing_here)
        .method_not_allowed_fallback(fault::wrong_method)
        .layer(middleware::from_fn_with_state(panel.clone(), guard::guard))
        .with_state(panel)
}
