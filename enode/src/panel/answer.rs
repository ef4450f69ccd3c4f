//! The answer to a question: one form, which stands in the ticket, in a dialog over the board and in the bell.

use std::collections::BTreeMap;

use askama::Template;
use axum::{
    Extension,
    extract::{Path, State},
    http::{StatusCode, Uri},
    response::{IntoResponse, Redirect, Response},
};
use shared::ticket::{
    Stem,
    options::{self, Picked},
    question,
};

use super::{
    Shared,
    asked::{Asked, stem},
    bell::{self, Asking},
    door::Visit,
    fault::{self, Fault},
    fields::Fields,
    shell::{Shell, here},
    words::{LINE, cut, escaped},
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
    let _named = stem(&name)?;
    let said = said(&panel, &awaiting, &fields).await?;
    let answered = match said {
        Ok(text) => {
            let seen = fields.get("seen").to_owned();
            // A script that says its words has seen no form.
            let is_asked = move |body: &str| seen.is_empty() || seen == bell::seen(body);
            panel.off(move |folder| ask::answer_if(folder, &awaiting, &text, is_asked)).await?
        }
        Err(Unsaid::Answer(error)) => Err(error),
        Err(Unsaid::Choice(why)) => return again(&panel, &visit, &name, &fields, StatusCode::CONFLICT, why).await,
    };
    let (code, why) = match answered {
        Ok(file) => {
            tracing::info!(file, "answered");
            return Ok(Redirect::to(fields.back()).into_response());
        }
        Err(AnswerError::Io(error)) => return Err(Fault::folder(panel.folder.path(), &error)),
        Err(AnswerError::Empty) => (StatusCode::UNPROCESSABLE_ENTITY, "Say something, or choose.".to_owned()),
        // In its own words these lead to the command line.
        Err(
            AnswerError::Absent(_) | AnswerError::NotAsking(_) | AnswerError::InHand(..) | AnswerError::Answered(..),
        ) => {
            let why = "Not taken: That question is not asked any more. What is asked now stands here.";
            (StatusCode::CONFLICT, why.to_owned())
        }
        Err(AnswerError::Begun(file)) => {
            let why = format!(
                "Not taken: the queue has a file {file} already: look at it. It counts once it is done by its name and says something."
            );
            (StatusCode::CONFLICT, why)
        }
        Err(error @ (AnswerError::Changed | AnswerError::Unfit(_))) => {
            (StatusCode::CONFLICT, format!("Not taken: {error}."))
        }
    };
    again(&panel, &visit, &name, &fields, code, why).await
}

/// Why a form says nothing that could be written.
enum Unsaid {
    Answer(AnswerError),
    Choice(String),
}

/// The answer that a form makes: a line for each group in which something was chosen or noted, and the free text behind
/// them, as `enode tickets answer --choose` writes it.
async fn said(panel: &Shared, awaiting: &Stem, fields: &Fields) -> Result<Result<String, Unsaid>, Fault> {
    let text = fields.text("answer");
    let picked = match picked(fields) {
        Ok(picked) => picked,
        Err(why) => return Ok(Err(Unsaid::Choice(why))),
    };
    if picked.is_empty() {
        return Ok(Ok(text));
    }
    if fields.get("seen").is_empty() {
        return Ok(Err(Unsaid::Choice(
            "Not taken: letters mean nothing without the question that offered them.".to_owned(),
        )));
    }
    let sight = panel.look().await?;
    // Only an open question is looked for: what has no name but an answer's is told by writing it.
    let asking = sight.page.tickets.iter().find(|it| it.awaiting.as_ref() == Some(awaiting));
    let Some(ask) = asking.and_then(|it| Asking::new(&sight.queue, &it.stem)) else {
        return Ok(Err(Unsaid::Answer(AnswerError::NotAsking(awaiting.clone()))));
    };
    let ticket = sight.queue.find(&ask.of);
    let groups = ticket.map(|it| question::options(it.text.body())).unwrap_or_default();
    Ok(options::compose(&groups, &picked)
        .map(|chosen| format!("{chosen}\n\n{text}").trim().to_owned())
        .map_err(|error| Unsaid::Choice(format!("Not taken: {error}."))))
}

/// What was chosen and noted, by group.
fn picked(fields: &Fields) -> Result<BTreeMap<usize, Picked>, String> {
    let mut all = BTreeMap::<usize, Picked>::new();
    for word in fields.all("choose") {
        let (number, letter) = word.split_once(':').unwrap_or_default();
        let (Ok(number), Ok(letter)) = (number.parse(), letter.parse()) else {
            return Err(format!("Not taken: {word:?} is no option."));
        };
        all.entry(number).or_default().letters.insert(letter);
    }
    for (number, text) in fields.notes() {
        all.entry(number).or_default().note = text.to_owned();
    }
    Ok(all)
}

/// The form once more, with what was typed and why it was not taken.
async fn again(
    panel: &Shared,
    visit: &Visit,
    name: &str,
    fields: &Fields,
    code: StatusCode,
    why: String,
) -> Result<Response, Fault> {
    let Asked { sight, stem, shell } = Asked::new(panel, visit, name, fields.back()).await?;
    let Some(mut ask) = Asking::new(&sight.queue, &stem) else {
        // Who says why: there is no such ticket, or somebody was faster.
        sight.find(&stem)?;
        let why = format!("Not taken: {stem} asks nothing any more, since somebody has answered or has taken it over.");
        return Err(Fault::conflict(why));
    };
    ask.typed(fields);
    ask.wrong = cut(&why, LINE);
    fault::page_with(code, &Page { shell, ask })
}
