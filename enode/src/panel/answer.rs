//! The answer to a question: one form, which stands in the ticket, in a dialog over the board and in the bell.

use askama::Template;
use axum::{
    Extension,
    extract::{Path, State},
    http::{StatusCode, Uri},
    response::{IntoResponse, Redirect, Response},
};

use super::{
    Shared,
    bell::Asking,
    door::Visit,
    fault::{self, Fault},
    fields::Fields,
    shell::Shell,
    ticket::{missing, stem},
    words::escaped,
};
use crate::tickets::{
    ask::{self, AnswerError},
    view,
};

/// The form alone: without script a page, with it what the dialog shows.
#[derive(Template)]
#[template(path = "answer.html")]
struct Page {
    shell: Shell,
    ask: Asking,
}

pub(super) async fn page(
    State(panel): State<Shared>,
    Extension(visit): Extension<Visit>,
    Path(name): Path<String>,
    uri: Uri,
) -> Result<Response, Fault> {
    let stem = stem(&name)?;
    let queue = panel.queue().await?;
    let found = queue.find(&stem).ok_or_else(|| missing(&queue, &stem))?;
    let ask = Asking::new(&queue, &found.stem).ok_or_else(|| Fault::conflict(format!("{stem} asks nothing now.")))?;
    let mut shell = Shell::new(&panel, &visit, &uri, "", &queue, &view::page(&queue));
    shell.here = format!("/ticket/{}", escaped(&ask.stem));
    fault::page(&Page { shell, ask })
}

pub(super) async fn write(
    State(panel): State<Shared>,
    Extension(visit): Extension<Visit>,
    Path(name): Path<String>,
    Extension(fields): Extension<Fields>,
    uri: Uri,
) -> Result<Response, Fault> {
    let asking = stem(&name)?;
    // By the stem that was asked for: a second question has another one.
    let awaiting = stem(fields.get("awaiting"))?;
    let text = fields.text("answer");
    let typed = text.clone();
    match panel.off(move |folder| ask::answer(folder, &awaiting, &text)).await? {
        Ok(file) => {
            tracing::info!(file, "answered");
            Ok(Redirect::to(fields.back()).into_response())
        }
        Err(AnswerError::Io(error)) => Err(Fault::folder(panel.folder.path(), &error)),
        Err(
            error @ (AnswerError::Missing(_)
            | AnswerError::NotAsking(_)
            | AnswerError::Answered(_)
            | AnswerError::Empty
            | AnswerError::Value(_)),
        ) => {
            let queue = panel.queue().await?;
            let Some(mut ask) = Asking::new(&queue, &asking) else {
                return Err(Fault::conflict(format!("{asking} asks nothing any more: {error}.")));
            };
            let mut shell = Shell::new(&panel, &visit, &uri, "", &queue, &view::page(&queue));
            fields.back().clone_into(&mut shell.here);
            let is_empty = matches!(error, AnswerError::Empty);
            ask.wrong = if is_empty { "Say something.".to_owned() } else { format!("Not taken: {error}.") };
            ask.typed = typed;
            let mut response = fault::page(&Page { shell, ask })?;
            *response.status_mut() = if is_empty { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::CONFLICT };
            Ok(response)
        }
    }
}
