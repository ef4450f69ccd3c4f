//! Takes a ticket away from whoever has it. From an open one only its `session_id`; what a live Run works on only after
//! the person has said so twice.

use askama::Template;
use axum::{
    Extension,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Redirect, Response},
};

use super::{
    Shared,
    asked::{Asked, stem},
    door::Visit,
    fault::{self, Fault},
    fields::Fields,
    shell::Shell,
    sight::absent,
};
use crate::{
    clock,
    tickets::unassign::{UnassignError, Unassigned, unassign},
};

/// Asks whether the Run is to be cancelled.
#[derive(Template)]
#[template(path = "alive.html")]
struct Alive {
    shell: Shell,
    stem: String,
    run: String,
}

pub(super) async fn write(
    State(panel): State<Shared>,
    Extension(visit): Extension<Visit>,
    Path(name): Path<String>,
    Extension(fields): Extension<Fields>,
) -> Result<Response, Fault> {
    let stem = stem(&name)?;
    let force = fields.get("force") == "yes";
    match unassign(&panel.folder, &panel.runs, &stem, force, clock::now()).await {
        Ok(done) => {
            tracing::info!(ticket = %stem, ?done, "taken away by the panel");
            if matches!(done, Unassigned::Locked { has_succeeded: true, .. }) {
                let why = format!(
                    "{stem} waits for an answer, as you wanted. But its Run has SUCCEEDED before it could be cancelled: \
                     where nothing is left to be done, say so in the answer."
                );
                return Err(Fault::new(StatusCode::OK, "Taken away", why));
            }
            Ok(Redirect::to(fields.back()).into_response())
        }
        Err(UnassignError::Alive { stem, run }) => {
            let Asked { stem, shell, .. } = Asked::new(&panel, &visit, stem.as_str(), fields.back()).await?;
            fault::page_with(StatusCode::CONFLICT, &Alive { shell, stem: stem.to_string(), run })
        }
        Err(UnassignError::Absent(why)) => Err(Fault::missing(absent(&why))),
        Err(
            error @ (UnassignError::NotAssigned(..)
            | UnassignError::Beside { .. }
            | UnassignError::Moved(_)
            | UnassignError::Trouble(_)),
        ) => Err(Fault::conflict(format!("{error}."))),
        Err(UnassignError::Io(error)) => Err(Fault::folder(panel.folder.path(), &error)),
    }
}
