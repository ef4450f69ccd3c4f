//! Rows of `asks`: questions to people. A step's own row says whether it is open; these say what was asked and who
//! answered what.

use shared::{
    Principal, RunId, Seq, StepName, Timestamp, WorkId,
    domain::{AskChange, AskChangeKind, Fleet},
};

use super::{
    batch::{Kind, Rows, Verb, Write},
    error::StoreError,
    row::{Bad, Row},
    sql::{Query, Value, listed},
};

static OPEN: Write = Write {
    name: "asks.open",
    table: "asks",
    verb: Verb::Insert,
    keys: 3,
    columns: &[
        ("run_id", Kind::Text),
        ("seq", Kind::Int),
        ("attempt", Kind::Int),
        ("question", Kind::Text),
        ("answerers", Kind::Text),
        ("asked_at", Kind::Int),
        ("deadline", Kind::Int),
    ],
};
static ANSWER: Write = Write {
    name: "asks.answer",
    table: "asks",
    verb: Verb::Update(" AND asks.answered_at IS NULL AND asks.withdrawn = 0"),
    keys: 3,
    columns: &[
        ("run_id", Kind::Text),
        ("seq", Kind::Int),
        ("attempt", Kind::Int),
        ("answered_at", Kind::Int),
        ("answered_by", Kind::Text),
        ("answer", Kind::Text),
    ],
};
static WITHDRAW: Write = Write {
    name: "asks.withdraw",
    table: "asks",
    verb: Verb::Update(" AND asks.answered_at IS NULL"),
    keys: 3,
    columns: &[("run_id", Kind::Text), ("seq", Kind::Int), ("attempt", Kind::Int), ("withdrawn", Kind::Int)],
};
pub(super) const OPEN_ASKS: Query = Query::both(
    "asks.of_open",
    "SELECT a.run_id, a.seq, s.name, a.attempt, a.question, a.answerers, a.asked_at, a.deadline, r.work_id \
     FROM asks a \
     JOIN steps s ON s.run_id = a.run_id AND s.seq = a.seq AND s.attempt = a.attempt AND s.state = 'ASKED' \
     JOIN runs r ON r.run_id = a.run_id \
     WHERE a.answered_at IS NULL AND a.withdrawn = 0 ORDER BY a.asked_at, a.run_id, a.seq",
);

pub(super) const ANSWERS_OF_RUNS: Query = listed!(
    "asks.answers_of_runs",
    "SELECT run_id, seq, attempt, answered_at, answered_by FROM asks WHERE answered_at IS NOT NULL AND run_id",
    "ORDER BY run_id, seq, attempt"
);

/// Who answered a question, and when. What is the step's file of the same attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerRow {
    /// Of which Run.
    pub run: RunId,
    /// Of which step.
    pub seq: Seq,
    /// Of which asking.
    pub attempt: u32,
    /// Who.
    pub by: String,
    /// When.
    pub at: Timestamp,
}

/// One open question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskRow {
    /// Of which Run.
    pub run: RunId,
    /// What the Run is for.
    pub work: Option<WorkId>,
    /// Which step.
    pub seq: Seq,
    /// Its name.
    pub step: StepName,
    /// How often it was begun, this time included.
    pub attempt: u32,
    /// What is asked: `{question, form?}`.
    pub question: serde_json::Value,
    /// Who may answer; empty: whoever may submit.
    pub answerers: Vec<Principal>,
    /// Since when.
    pub asked_at: Timestamp,
    /// Until when.
    pub deadline: Option<Timestamp>,
}

/// Rows by what happens to them. A question that opens and closes in one group is in two of them, in this order.
pub(super) struct Batches {
    pub(super) opened: Rows,
    pub(super) answered: Rows,
    pub(super) withdrawn: Rows,
}

impl Batches {
    pub(super) fn new(fleet: &Fleet, changes: &[AskChange], now: Timestamp) -> Result<Self, StoreError> {
        let mut batches =
            Self { opened: Rows::new(&OPEN), answered: Rows::new(&ANSWER), withdrawn: Rows::new(&WITHDRAW) };
        for change in changes {
            batches.add(fleet, change, now)?;
        }
        Ok(batches)
    }

    fn add(&mut self, fleet: &Fleet, change: &AskChange, now: Timestamp) -> Result<(), StoreError> {
        let mut row = vec![Value::show(&change.run), Value::int(change.seq), Value::int(change.attempt)];
        match &change.kind {
            AskChangeKind::Opened { deadline } => {
                let run = fleet.runs.get(&change.run);
                let ask = run.and_then(|run| run.spec(change.seq)).and_then(|spec| spec.ask.as_ref());
                let (question, answerers) = match ask {
                    Some(ask) => {
                        let mut question = serde_json::json!({"question": ask.question});
                        if let Some(form) = &ask.form {
                            question["form"] = form.clone();
                        }
                        (question, serde_json::json!(ask.answerers))
                    }
                    None => (serde_json::json!({}), serde_json::json!([])),
                };
                row.extend([Value::text(question.to_string()), Value::text(answerers.to_string())]);
                row.extend([Value::at(now), Value::maybe_at(*deadline)]);
                self.opened.push(row)
            }
            AskChangeKind::Answered { by, answer } => {
                row.extend([Value::at(now), Value::show(by), Value::text(answer.to_string())]);
                self.answered.push(row)
            }
            AskChangeKind::Withdrawn => {
                row.push(Value::int(1));
                self.withdrawn.push(row)
            }
        }
    }
}

pub(super) fn read_answer(row: &Row) -> Result<AnswerRow, StoreError> {
    let decode = || -> Result<AnswerRow, Bad> {
        Ok(AnswerRow {
            run: row.parse("run_id")?,
            seq: row.number("seq")?,
            attempt: row.number("attempt")?,
            by: row.text("answered_by")?.to_owned(),
            at: row.at("answered_at")?,
        })
    };
    decode().map_err(|bad| bad.of("asks", row.text("run_id").unwrap_or("?")))
}

pub(super) fn read(row: &Row) -> Result<AskRow, StoreError> {
    let decode = || -> Result<AskRow, Bad> {
        Ok(AskRow {
            run: row.parse("run_id")?,
            work: row.maybe_parse("work_id")?,
            seq: row.number("seq")?,
            step: row.parse("name")?,
            attempt: row.number("attempt")?,
            question: row.json("question")?,
            answerers: row.json("answerers")?,
            asked_at: row.at("asked_at")?,
            deadline: row.maybe_at("deadline")?,
        })
    };
    decode().map_err(|bad| bad.of("asks", row.text("run_id").unwrap_or("?")))
}
