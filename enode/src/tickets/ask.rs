//! Questions and their answers: a person's answer becomes a file, and the file answers the step that asked.

use std::{io, sync::Arc};

use serde_json::{Map, Value, json};
use shared::{
    RunId,
    contract::form,
    ticket::{Lane, Queue, Stem, Ticket, options::Group, order, question, question::Origin},
};

use super::{
    Folder,
    absent::Absent,
    back::Return,
    moves::Lost,
    new::publish_new,
    queue_lock::QueueLock,
    repair::repair,
    runs::{Ask, Question, RunNow, Runs, Trouble},
};

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    /// There is none.
    #[error(transparent)]
    Absent(#[from] Absent),
    /// It does not ask.
    #[error("{0} asks nothing: `enode tickets list --state answer_wait` shows those that do")]
    NotAsking(Stem),
    /// Somebody works on it.
    #[error("{0} asks nobody while it is in progress: {holder}", holder = holder(.1))]
    InHand(Stem, String),
    /// It has its answer.
    #[error("{0} was answered already, in {1}: it asks nothing more; read there what was said")]
    Answered(Stem, String),
    /// Somebody was faster, or began an answer that is not done.
    #[error(
        "there is a file {0} already: look at it; an answer counts once its name ends with the done suffix and it says something"
    )]
    Begun(String),
    /// It answers another question than the ticket asks by now.
    #[error("the question was changed meanwhile: read what it asks now")]
    Changed,
    /// It says what the question does not offer.
    #[error("the answer does not fit the question: {0}")]
    Unfit(String),
    /// Nothing was said.
    #[error("the answer is empty: say something")]
    Empty,
    /// The operating system's.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Who has a ticket in hand, for people.
fn holder(owner: &str) -> String {
    match owner.trim() {
        "" => "somebody has it, and the file does not say who".to_owned(),
        owner => format!("{owner} has it"),
    }
}

/// Writes the answer to the open question of a ticket, which is named by its own stem or by the one it waits for. From
/// that moment the ticket is in line; nothing in it is touched. Gives back the name of the file.
///
/// # Errors
/// [`AnswerError`]; no file is made then.
pub fn answer(folder: &Folder, stem: &Stem, text: &str) -> Result<String, AnswerError> {
    answer_if(folder, stem, text, |_| true)
}

/// The same, where the ticket's body still `is_asked` what was answered.
///
/// # Errors
/// As of [`answer`].
pub fn answer_if(
    folder: &Folder,
    stem: &Stem,
    text: &str,
    is_asked: impl FnOnce(&str) -> bool,
) -> Result<String, AnswerError> {
    if text.trim().is_empty() {
        return Err(AnswerError::Empty);
    }
    let _lock = QueueLock::acquire(folder)?;
    let queue = repair(folder)?;
    let (ticket, awaiting) = asking(folder, &queue, stem)?;
    if let Some(lane) = queue.lane(&awaiting).filter(|_| queue.has(&awaiting)) {
        return Err(AnswerError::Begun(folder.name(&awaiting, lane)));
    }
    let body = ticket.text.body();
    if !is_asked(body) {
        return Err(AnswerError::Changed);
    }
    fits(body, text).map_err(AnswerError::Unfit)?;
    match publish(folder, &ticket, &awaiting, text)? {
        Ok(file) => Ok(file),
        Err(file) => Err(AnswerError::Begun(file)),
    }
}

/// Writes the file that answers the last question of a ticket. The caller holds the queue's lock, and has repaired. Gives
/// back its name, also where somebody was faster.
pub(super) fn publish(
    folder: &Folder,
    ticket: &Ticket,
    awaiting: &Stem,
    text: &str,
) -> io::Result<Result<String, String>> {
    let number = question::next_number(ticket.text.body()).saturating_sub(1).max(1);
    let file = folder.name(awaiting, Lane::Done);
    Ok(match publish_new(folder, &file, &question::answer_file(ticket, awaiting, number, text))? {
        Ok(()) => Ok(file),
        Err(Lost::Taken | Lost::Gone) => Err(file),
    })
}

/// The stem of the answer that a ticket waits for, and the groups of options that its question offers. The ticket is
/// named as for [`answer`].
///
/// # Errors
/// [`AnswerError`] where it asks nothing.
pub fn options(folder: &Folder, stem: &Stem) -> Result<(Stem, Vec<Group>), AnswerError> {
    let (ticket, awaiting) = asking(folder, &folder.read()?, stem)?;
    Ok((awaiting, question::options(ticket.text.body())))
}

fn asking(folder: &Folder, queue: &Queue, stem: &Stem) -> Result<(Arc<Ticket>, Stem), AnswerError> {
    let found = order::asking(queue).find(|(ticket, awaiting)| ticket.stem == *stem || awaiting == stem);
    found.ok_or_else(|| {
        // By the answer's own stem as well: who answers twice may name either.
        let has_asked = |it: &&Arc<Ticket>| it.awaiting.as_ref() == Some(stem);
        let Some(ticket) = queue.tickets().iter().find(has_asked).or_else(|| queue.find(stem)) else {
            return Absent::of(queue, stem).into();
        };
        let asked = ticket.stem.clone();
        match (ticket.lane, queue.answer_of(ticket)) {
            (Lane::Waiting, Some(answer)) => AnswerError::Answered(asked, folder.name(answer, Lane::Done)),
            (Lane::InProgress, _) => AnswerError::InHand(asked, ticket.owner.clone()),
            (Lane::Waiting, None) | (Lane::Done, _) => AnswerError::NotAsking(asked),
        }
    })
}

/// A step's question as a person reads it in the ticket.
pub(super) async fn text_of(runs: &impl Runs, question: &Question) -> Result<String, Trouble> {
    let form = open_ask(runs, &question.origin).await?.and_then(|ask| ask.form);
    let shape = form.and_then(|form| serde_json::from_str::<Value>(&form).ok()).map(|form| shape(&form));
    let shape = shape.filter(|shape| !shape.is_empty()).map(|shape| format!("\n\n{shape}")).unwrap_or_default();
    Ok(format!("{}{shape}", question.text.trim()))
}

async fn open_ask(runs: &impl Runs, origin: &Origin) -> Result<Option<Ask>, Trouble> {
    Ok(runs.asks().await?.into_iter().find(|ask| ask.origin == *origin))
}

/// So many characters of an answer that cannot be used are quoted.
const QUOTED: usize = 1_000;

/// Behind a field that is not required.
const OPTIONAL: &str = "; may be left out";

/// Whether an answer fits the fields that the last question of a body lists. The mediator has the last word; but what it
/// would refuse, a person should hear at once.
fn fits(body: &str, text: &str) -> Result<(), String> {
    let listed = question::fields_of_last(body);
    let field = |line: &&str| {
        let (name, shown) = line.strip_prefix("- `")?.strip_suffix(')')?.split_once(": …` (")?;
        let (shown, must) = shown.strip_suffix(OPTIONAL).map_or((shown, true), |shown| (shown, false));
        Some((name.to_owned(), shown.to_owned(), must))
    };
    let fields: Vec<(String, String, bool)> =
        listed.iter().map(String::as_str).filter_map(|line| field(&line)).collect();
    if fields.is_empty() {
        return Ok(());
    }
    let is_type = |shown: &str| {
        matches!(shown, "anything" | "string" | "integer" | "number" | "boolean" | "object" | "array" | "null")
    };
    let schema = |shown: &str| if is_type(shown) { json!({"type": shown}) } else { json!({"type": "string"}) };
    let properties: Map<String, Value> = fields.iter().map(|(name, shown, _)| (name.clone(), schema(shown))).collect();
    let required: Vec<&str> = fields.iter().filter(|it| it.2).map(|it| it.0.as_str()).collect();
    let form = json!({"properties": properties, "required": required}).to_string();
    let said = serde_json::from_str::<Value>(&to_json(text, Some(&form))).unwrap_or_default();
    for (name, shown, must) in &fields {
        match said.get(name) {
            None if *must => return Err(format!("{name}: is missing; write a line `{name}: …`")),
            Some(value) if !is_type(shown) => {
                let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                // Between the words stands what may stand in one.
                if !format!(" or {shown} or ").contains(&format!(" or {} or ", value.trim())) {
                    return Err(format!("{name}: write {shown}"));
                }
            }
            None | Some(_) => {}
        }
    }
    Ok(())
}

/// How to answer a form with fields.
fn shape(form: &Value) -> String {
    let Some(fields) = form::fields(form) else { return String::new() };
    let must = form.get("required").and_then(Value::as_array);
    let line = |(name, field): (&String, &Value)| {
        let kind = || field.get("type").and_then(Value::as_str).unwrap_or("anything").to_owned();
        let optional = !must.is_some_and(|must| must.iter().any(|it| it.as_str() == Some(name)));
        let shown = form::words(field).map_or_else(kind, |words| words.join(" or "));
        format!("- `{name}: …` ({shown}{})", if optional { OPTIONAL } else { "" })
    };
    format!("{}\n\n{}", question::FIELDS, fields.iter().map(line).collect::<Vec<_>>().join("\n"))
}

/// What a person wrote as the JSON that a form wants: JSON as it is, else lines `field: value`, else the whole text as
/// the one field that must be there, else as text.
#[must_use]
pub fn to_json(text: &str, form: Option<&str>) -> String {
    let text = text.trim();
    let bare = text.strip_prefix("```json").or_else(|| text.strip_prefix("```")).and_then(|it| it.strip_suffix("```"));
    let bare = bare.unwrap_or(text).trim();
    let form: Option<Value> = form.and_then(|form| serde_json::from_str(form).ok());
    let fields = form.as_ref().and_then(form::fields);
    let Some(fields) = fields else {
        // Anything does, or one plain value: what reads as JSON is taken for that.
        return serde_json::from_str::<Value>(bare).unwrap_or_else(|_| Value::String(text.to_owned())).to_string();
    };
    if let Ok(object @ Value::Object(_)) = serde_json::from_str::<Value>(bare) {
        return object.to_string();
    }
    if let Some(object) = by_lines(bare, fields) {
        return Value::Object(object).to_string();
    }
    let must = form.as_ref().and_then(|form| form.get("required")).and_then(Value::as_array);
    let must: Vec<&str> = must.into_iter().flatten().filter_map(Value::as_str).collect();
    let only = match (must.as_slice(), fields.len()) {
        ([one], _) => Some((*one).to_owned()),
        ([], 1) => fields.keys().next().cloned(),
        _ => None,
    };
    match only {
        Some(name) => {
            let value = form::value(fields.get(&name), text);
            Value::Object(Map::from_iter([(name, value)])).to_string()
        }
        None => Value::String(text.to_owned()).to_string(),
    }
}

/// `field: value` or `field=value` a line; a line without a field goes on with the one before.
fn by_lines(text: &str, fields: &Map<String, Value>) -> Option<Map<String, Value>> {
    let mut found: Vec<(&str, String)> = Vec::new();
    for line in text.lines() {
        let bare = line.trim().trim_start_matches("- ").trim_start_matches('`');
        let split = bare.split_once([':', '=']).map(|(name, value)| (name.trim(), value.trim().trim_end_matches('`')));
        match split.filter(|(name, _)| fields.contains_key(*name)) {
            Some((name, value)) => found.push((name, value.to_owned())),
            None if line.trim().is_empty() => {}
            None => {
                let (_, value) = found.last_mut()?;
                value.push('\n');
                value.push_str(line);
            }
        }
    }
    let object: Map<String, Value> =
        found.into_iter().map(|(name, value)| (name.to_owned(), form::value(fields.get(name), value.trim()))).collect();
    (!object.is_empty()).then_some(object)
}

/// What became of the answer to a ticket's last question.
pub(super) enum Passed {
    /// Nothing is to be passed on: no step has asked, or there is no answer.
    Nothing,
    /// The step asks no more: a person has answered the mediator, or another worker has just passed it on.
    Over,
    /// The step has it now.
    On,
    /// It cannot be passed on, for this reason: the ticket goes back so.
    Back(Return, String),
}

/// Answers the step that the last question of a ticket mirrors, if it still asks and the answer is there.
pub(super) async fn pass_on(
    folder: &Arc<Folder>,
    runs: &impl Runs,
    queue: &Queue,
    ticket: &Ticket,
    run: &RunId,
) -> Result<Passed, Trouble> {
    let Some(origin) = Origin::of_last(ticket.text.body()).filter(|origin| origin.run == run.as_str()) else {
        return Ok(Passed::Nothing);
    };
    let Some(question) = still_asks(runs, run, &origin).await? else { return Ok(Passed::Over) };
    let Some(stem) = queue.answer_of(ticket) else { return Ok(Passed::Nothing) };
    if queue.is_unsaid(ticket, stem) {
        // In line it waits until that is written.
        return Ok(Passed::Back(
            Return::Plain,
            format!("{} says nothing that can be read", folder.name(stem, Lane::Done)),
        ));
    }
    let Some(answer) = queue.find(stem) else { return Ok(Passed::Nothing) };
    let text = question::answer_text(answer.text.body());
    let ask = open_ask(runs, &origin).await?;
    let answered = match ask {
        // Asked to answer all the same, the mediator would say that of our token, and of all that we ask of it.
        Some(Ask { may_answer: false, .. }) => Err(Trouble::Refused(format!(
            "the contract names who may answer, and a worker of this queue is not among them: they say `mediator answer {run}`"
        ))),
        ask => runs.answer(&origin, &to_json(text, ask.and_then(|ask| ask.form).as_deref())).await,
    };
    match answered {
        Ok(()) => Ok(Passed::On),
        // Two who pass it on at once are no reason to ask a person again.
        Err(Trouble::Refused(_)) if still_asks(runs, run, &origin).await?.is_none() => Ok(Passed::On),
        Err(Trouble::Refused(why)) => {
            // Its own file has all of it, and what is quoted stays in the ticket.
            let short: String = text.chars().take(QUOTED).collect();
            let said: String = short.lines().take(20).map(|line| format!("> {line}\n")).collect();
            let text = format!("The answer cannot be used: {why}\n\n{said}\n{}", text_of(runs, &question).await?);
            let how = Return::Ask { text, origin: Some(origin) };
            Ok(Passed::Back(how, "its answer cannot be used".to_owned()))
        }
        Err(trouble @ (Trouble::Silent { .. } | Trouble::Denied(_) | Trouble::Folder(_))) => Err(trouble),
    }
}

async fn still_asks(runs: &impl Runs, run: &RunId, origin: &Origin) -> Result<Option<Question>, Trouble> {
    match runs.get(run).await? {
        RunNow::Open { asking } => Ok(asking.into_iter().find(|it| it.origin == *origin)),
        RunNow::Unknown | RunNow::Succeeded | RunNow::Failed(_) | RunNow::Stopped(_) => Ok(None),
    }
}

#[cfg(test)]
#[path = "ask_tests.rs"]
mod tests;
