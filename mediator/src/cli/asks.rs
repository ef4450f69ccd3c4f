//! `asks` and `answer`: questions to people.

use proto::v1::{AnswerRequest, AskView, ListAsksRequest};
use serde_json::{Map, Value};

use super::{
    age::{between, length, short},
    args::Answer,
    client::Client,
    exit::{Exit, Failure, Outcome},
    output::{Format, Io, clean, cut},
    table::{self, or_dash},
    words,
};

pub(crate) async fn asks(client: &Client, io: &mut Io, format: Format) -> Outcome {
    let page = client.call("cannot list the questions", client.runs().list_asks(ListAsksRequest {})).await?;
    io.list(format, &page, &page.asks, |colour| ask_table(page.observed_at, &page.asks, colour))?;
    if page.asks.is_empty() {
        io.note("Nobody is asked anything.");
    } else if format == Format::Table {
        for ask in page.asks.iter().filter(|ask| ask.may_answer) {
            io.note(format_args!("To answer: {}", how(ask)));
        }
    }
    Ok(Exit::Ok)
}

fn ask_table(now: i64, asks: &[AskView], colour: bool) -> comfy_table::Table {
    let mut table = table::new(&["RUN", "STEP", "ATTEMPT", "QUESTION", "ASKED", "LEFT", "MAY ANSWER"], colour);
    for ask in asks {
        table.add_row(vec![
            comfy_table::Cell::new(clean(&ask.run_id)),
            clean(&ask.step).into(),
            ask.attempt.to_string().into(),
            cut(&ask.question, 60).into(),
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
    let fields = form.as_ref().and_then(|form| form.get("properties")).and_then(Value::as_object);
    let fields = match fields {
        Some(fields) => {
            fields.iter().map(|(name, schema)| format!("{name}={}", kind(schema))).collect::<Vec<_>>().join(" ")
        }
        None => "--json JSON".to_owned(),
    };
    clean(&format!("mediator answer {} --step {} {fields}", ask.run_id, ask.step))
}

fn kind(schema: &Value) -> String {
    if let Some(words) = schema.get("enum").and_then(Value::as_array) {
        let words: Vec<String> =
            words.iter().map(|word| word.as_str().map_or_else(|| word.to_string(), str::to_owned)).collect();
        return words.join("|");
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("boolean") => "true|false".to_owned(),
        Some(other) => other.to_uppercase(),
        None => "VALUE".to_owned(),
    }
}

pub(crate) async fn answer(client: &Client, io: &mut Io, format: Format, args: Answer) -> Outcome {
    let text = match &args.json {
        Some(json) => json.clone(),
        None => object(&args.fields)?,
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

fn object(fields: &[String]) -> Outcome<String> {
    let mut object = Map::new();
    for field in fields {
        let (name, value) = field.split_once('=').ok_or_else(|| {
            Failure::refused(format!("{field:?} is not FIELD=VALUE; the whole answer goes into --json"))
        })?;
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
        if object.insert(name.to_owned(), value).is_some() {
            return Err(Failure::refused(format!("field {name} is given twice")));
        }
    }
    Ok(Value::Object(object).to_string())
}
