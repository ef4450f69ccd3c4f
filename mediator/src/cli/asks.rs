//! `asks` and `answer`: questions to people.

use proto::v1::{AnswerRequest, AskView, ListAsksRequest};
use serde_json::{Map, Value};
use shared::{contract::form, ticket::name::of_work};

use super::{
    age::{between, length, short},
    args::Answer,
    client::Client,
    exit::{Exit, Failure, Outcome},
    output::{Format, Io, Look, clean},
    table::{self, or_dash},
    words,
};
use crate::schema;

pub(crate) async fn asks(client: &Client, io: &mut Io, format: Format) -> Outcome {
    let page = client.call("cannot list the questions", client.runs().list_asks(ListAsksRequest {})).await?;
    io.list(format, &page, &page.asks, |look| ask_table(page.observed_at, &page.asks, look))?;
    if page.asks.is_empty() {
        io.note("Nobody is asked anything.");
    } else if format == Format::Table {
        for ask in page.asks.iter().filter(|ask| ask.may_answer) {
            io.note(format_args!("To answer: {}", how(ask)));
        }
        // An answer from here is one all the same; but the ticket would not say it.
        if let Some(stem) = page.asks.iter().find_map(|ask| of_work(ask.work_id.as_ref()?)) {
            io.note(format_args!(
                "What is asked for a ticket is better answered in its queue: enode tickets answer {stem} TEXT"
            ));
        }
    }
    Ok(Exit::Ok)
}

fn ask_table(now: i64, asks: &[AskView], look: Look) -> comfy_table::Table {
    let mut table = table::new(&["RUN", "WORK", "STEP", "ATTEMPT", "QUESTION", "ASKED", "LEFT", "MAY ANSWER"], look);
    for ask in asks {
        table.add_row(vec![
            comfy_table::Cell::new(clean(&ask.run_id)),
            or_dash(clean(ask.work_id.as_deref().unwrap_or_default())).into(),
            clean(&ask.step).into(),
            ask.attempt.to_string().into(),
            look.cut(&ask.question, 60).into(),
            short(between(ask.asked_at, now)).into(),
            or_dash(ask.deadline_at.map(|end| length(between(now, end))).unwrap_or_default()).into(),
            comfy_table::Cell::new(if ask.may_answer { "yes" } else { "no" }),
        ]);
    }
    table
}

/// The command that answers, with the fields that the form names.
fn how(ask: &AskView) -> String {
    let form: Option<Value> = serde_json::from_str(&ask.form).ok();
    let arguments = schema::answer_arguments(form.as_ref());
    clean(&format!("mediator answer {} --step {} {arguments}", ask.run_id, ask.step))
}

/// The form of the question that is answered. Not knowing it is no reason to stop: the mediator looks at the answer.
async fn form(client: &Client, args: &Answer) -> Option<Value> {
    let page = client.attempt(client.runs().list_asks(ListAsksRequest {})).await.ok()?;
    let (run, step) = (args.run.to_string(), args.step.as_ref().map(ToString::to_string));
    let mut open = page.asks.iter().filter(|ask| ask.run_id == run && step.as_ref().is_none_or(|it| ask.step == *it));
    let ask = open.next().filter(|_| open.next().is_none())?;
    serde_json::from_str(&ask.form).ok()
}

pub(crate) async fn answer(client: &Client, io: &mut Io, format: Format, mut args: Answer) -> Outcome {
    // Before its form is looked for, which says what the fields are.
    if let Some(run) = client.meant(&args.run).await? {
        args.run = run;
    }
    let text = match &args.json {
        Some(json) => json.clone(),
        None => object(&args.fields, form(client, &args).await.as_ref())?,
    };
    let request = AnswerRequest {
        run_id: args.run.to_string(),
        step: args.step.map(|step| step.to_string()).unwrap_or_default(),
        attempt: args.attempt,
        answer: text,
    };
    let what = format!("cannot answer Run {}", args.run);
    let view = client.call(&what, client.runs().answer(request)).await?;
    match format {
        Format::Json => io.json(&view)?,
        Format::Jsonl => io.json_line(&view)?,
        Format::Table => io.line(words::sentence(&view))?,
    }
    Ok(Exit::Ok)
}

fn object(fields: &[String], form: Option<&Value>) -> Outcome<String> {
    let mut object = Map::new();
    for field in fields {
        let (name, value) = field.split_once('=').ok_or_else(|| {
            Failure::refused(format!("{field:?} is not FIELD=VALUE; the whole answer goes into --json"))
        })?;
        let value = form::value(form.and_then(form::fields).and_then(|fields| fields.get(name)), value);
        if object.insert(name.to_owned(), value).is_some() {
            return Err(Failure::refused(format!("field {name} is given twice")));
        }
    }
    Ok(Value::Object(object).to_string())
}
