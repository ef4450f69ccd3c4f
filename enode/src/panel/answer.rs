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
    shell::{Shell, here},
    sight::Asked,
    ticket::stem,
    words::escaped,
};
use crate::tickets::ask::{self, AnswerError};

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
    let Asked { sight, stem, mut shell } = Asked::new(&panel, &visit, &name, here(&uri)).await?;
    let ask = Asking::new(&sight.queue, &sight.find(&stem)?.stem);
    let ask = ask.ok_or_else(|| Fault::conflict(format!("{stem} asks nothing now.")))?;
    shell.here = format!("/ticket/{}", escaped(&ask.stem));
    fault::page(&Page { shell, ask })
}

pub(super) async fn write(
    State(panel): State<Shared>,
    Extension(visit): Extension<Visit>,
    Path(name): Path<String>,
    Extension(fields): Extension<Fields>,
) -> Result<Response, Fault> {
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
            let Asked { sight, stem, shell } = Asked::new(&panel, &visit, &name, fields.back()).await?;
            let Some(mut ask) = Asking::new(&sight.queue, &stem) else {
                return Err(Fault::conflict(format!("{stem} asks nothing any more: {error}.")));
            };
            let is_empty = matches!(error, AnswerError::Empty);
            ask.wrong = if is_empty { "Say something.".to_owned() } else { format!("Not taken: {error}.") };
            ask.typed = typed;
            let code = if is_empty { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::CONFLICT };
            fault::page_with(code, &Page { shell, ask })
        }
    }
}
