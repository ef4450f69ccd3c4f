//! The sections in which tickets and people talk: a question in the ticket, its answer in a file of its own.
//!
//! The headings are part of the format, not of a language: the earlier tool's files and its tools look for the Korean
//! words, so these are what is written. The English ones are read as well, because people write them.

use super::{
    data::Ticket,
    edit::MOST_ATTEMPTS,
    fence::Fence,
    file::Document,
    key::{self, BadValue, one_line, quoted},
    name::Stem,
    options::{self, Group},
};
use crate::{RunId, Timestamp};

const QUESTION: [&str; 2] = ["질문", "question"];
const ANSWER: [&str; 2] = ["답변", "answer"];
/// The word in front of an answer's number, as it is written.
pub const ANSWER_HEADING: &str = ANSWER[0];
/// Between the stem of a ticket that asks and the number of its question, in the stem of its answer.
pub const ANSWER_STEM: &str = "-answer-";
const BLOCK: [&str; 2] = ["블록", "block"];

/// What a section is, by its heading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `## 질문 n`
    Question,
    /// `## 답변 n`
    Answer,
    /// `## 블록`: a session cannot go on.
    Block,
    /// Any other heading of the second level.
    Other,
}

/// What stands under one heading of the second level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section<'a> {
    /// By its heading.
    pub kind: Kind,
    /// The number in its heading.
    pub number: Option<u32>,
    /// What follows up to the next heading of this level, blank lines around it left out.
    pub text: &'a str,
    /// Where it stands in the body, heading included.
    pub span: (usize, usize),
}

/// Every section of the second level, in order. Headings inside of fences are text.
#[must_use]
pub fn sections(body: &str) -> Vec<Section<'_>> {
    let mut found: Vec<(usize, usize, Kind, Option<u32>)> = Vec::new();
    let (mut at, mut fence) = (0, Fence::default());
    for line in body.split_inclusive('\n') {
        if fence.is_plain(line)
            && let Some(heading) = line.strip_prefix("## ")
        {
            let (kind, number) = read_heading(heading);
            found.push((at, at + line.len(), kind, number));
        }
        at += line.len();
    }
    let ends = found.iter().skip(1).map(|it| it.0).chain([body.len()]).collect::<Vec<_>>();
    let section = |((start, text, kind, number), end): ((usize, usize, Kind, Option<u32>), usize)| Section {
        kind,
        number,
        text: body[text..end].trim(),
        span: (start, end),
    };
    found.into_iter().zip(ends).map(section).collect()
}

fn read_heading(heading: &str) -> (Kind, Option<u32>) {
    use unicode_normalization::UnicodeNormalization;
    let heading: String = heading.trim().trim_end_matches(':').nfc().collect::<String>().to_lowercase();
    let mut words = heading.split_whitespace();
    let word = words.next().unwrap_or_default();
    let number = words.next().map(|number| number.parse().ok());
    let rest = words.next();
    match (number, rest) {
        (Some(Some(number)), _) if QUESTION.contains(&word) => (Kind::Question, Some(number)),
        (Some(Some(number)), _) if ANSWER.contains(&word) => (Kind::Answer, Some(number)),
        (None, None) if QUESTION.contains(&word) => (Kind::Question, None),
        (None, None) if ANSWER.contains(&word) => (Kind::Answer, None),
        (None, None) if BLOCK.contains(&word) => (Kind::Block, None),
        _ => (Kind::Other, None),
    }
}

/// A session has said that it cannot go on, and nobody has been asked since: the last section is a block.
#[must_use]
pub fn is_freshly_blocked(body: &str) -> bool {
    sections(body).last().is_some_and(|it| it.kind == Kind::Block)
}

/// Which step of a Run a question mirrors, so that its answer finds the way back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The Run.
    pub run: String,
    /// Its step that asks.
    pub step: String,
    /// How often that was begun.
    pub attempt: u32,
}

const MARK: &str = "<!-- asked by run ";

impl Origin {
    /// A line that Markdown does not show.
    fn line(&self) -> String {
        format!("{MARK}{} step {} attempt {} -->", self.run, self.step, self.attempt)
    }

    /// The origin of the last question in a body.
    #[must_use]
    pub fn of_last(body: &str) -> Option<Self> {
        let question = last(body)?;
        let line = question.text.lines().next()?.trim().strip_prefix(MARK)?;
        let mut words = line.strip_suffix("-->")?.split_whitespace();
        let run = words.next()?.to_owned();
        let (_, step) = (words.next().filter(|word| *word == "step")?, words.next()?.to_owned());
        let (_, attempt) = (words.next().filter(|word| *word == "attempt")?, words.next()?.parse().ok()?);
        Some(Self { run, step, attempt })
    }
}

const TAKEN: &str = "A person has taken it away from Run ";

/// The question of a ticket that was taken away from a Run which may still be alive.
#[must_use]
pub fn taken_from(run: &RunId, stem: &Stem) -> String {
    format!("{TAKEN}{run}, which may have been at work.\n\n{}", way_on(stem))
}

/// What a person can do about a question that no step has asked. What an answer leads to is not for everybody to guess.
#[must_use]
pub fn way_on(stem: &Stem) -> String {
    format!(
        "How should it go on? With an answer it is in line again, for at most {MOST_ATTEMPTS} attempts without a pause. To end \
         it instead: `enode tickets claim {stem}`, then `enode tickets done {stem}`."
    )
}

/// The Run from which a ticket was taken away, if that is its last question.
#[must_use]
pub fn taken_from_of_last(body: &str) -> Option<RunId> {
    let question = last(body)?;
    let (run, _) = question.text.strip_prefix(TAKEN)?.split_once(',')?;
    RunId::new(run).ok()
}

/// The question that counts. Older ones are history.
#[must_use]
pub fn last(body: &str) -> Option<Section<'_>> {
    sections(body).into_iter().rfind(|it| it.kind == Kind::Question)
}

/// What stands above the list of fields in the question of a step that wants a form.
pub const FIELDS: &str = "Answer with one line for each:";

/// The groups of options that the last question of a body offers. One that lists fields offers none: letters are no answer
/// to a form.
#[must_use]
pub fn options(body: &str) -> Vec<Group> {
    last(body).filter(|_| fields_of_last(body).is_empty()).map(|it| options::parse(it.text)).unwrap_or_default()
}

/// The lines of the list of fields in the last question of a body.
#[must_use]
pub fn fields_of_last(body: &str) -> Vec<String> {
    let question = last(body);
    let lines = question.iter().flat_map(|it| it.text.lines()).map(str::trim);
    let below = lines.skip_while(|line| *line != FIELDS).skip(1);
    below.filter(|line| line.starts_with("- ")).map(str::to_owned).collect()
}

/// A question as a person reads it: without the line that only programs read.
#[must_use]
pub fn readable(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.trim().starts_with(MARK));
    lines.collect::<Vec<_>>().join("\n").trim().to_owned()
}

/// Writes a question into a ticket and locks it: the section, `deps`, `awaiting`, in this order. The caller has seen
/// to it that no file has the stem `answer`. Gives back the question's number.
///
/// # Errors
/// [`BadValue`] where the stem cannot be written; nothing is changed then.
pub fn ask(
    document: &mut Document,
    text: &str,
    origin: Option<&Origin>,
    answer: &Stem,
    now: Timestamp,
) -> Result<u32, BadValue> {
    let mut asking = document.clone();
    let number = next_number(document.body());
    let mark = origin.map_or_else(String::new, |origin| format!("{}\n\n", origin.line()));
    // A heading inside of a fence would be none: nobody would find the question again.
    if let Some(end) = Fence::left_open(document.body()) {
        asking.append(&end);
    }
    asking.append(&format!("## {} {number}\n\n{mark}{}\n", QUESTION[0], fenced_off(text)));
    let mut deps = asking.deps().0;
    if !deps.contains(answer) {
        deps.push(answer.clone());
    }
    asking.set_deps(&deps);
    asking.set(key::AWAITING, answer.as_str())?;
    asking.set(key::ASKED_AT, &now.to_string())?;
    *document = asking;
    Ok(number)
}

/// The number that the next question of a body gets.
#[must_use]
pub fn next_number(body: &str) -> u32 {
    let asked = sections(body).iter().filter(|it| it.kind == Kind::Question).count();
    u32::try_from(asked).unwrap_or(u32::MAX).saturating_add(1)
}

/// Text of others, so that no line of it is a heading or a mark of ours, and no fence of it reaches what follows.
fn fenced_off(text: &str) -> String {
    let lines = text.trim().lines().filter(|line| !line.trim().starts_with(MARK));
    let mut lines: Vec<String> =
        lines.map(|line| if line.starts_with("## ") { format!("#{line}") } else { line.to_owned() }).collect();
    lines.extend(Fence::left_open(&lines.join("\n")));
    lines.join("\n")
}

/// The file that answers a question. It is born done: `<awaiting>.done.md`.
#[must_use]
pub fn answer_file(asking: &Ticket, awaiting: &Stem, number: u32, text: &str) -> String {
    let title = one_line(&format!("Answer {number} to {}: {}", asking.stem, asking.title));
    format!(
        "---\n{}: {}\n{}: {title}\n{}: {}\n{}: {}\n---\n\n## {} {number}\n\n{}\n",
        key::TICKET,
        quoted(awaiting.as_str()),
        key::TITLE,
        key::KIND,
        key::ANSWER,
        key::REQ,
        quoted(asking.stem.as_str()),
        ANSWER[0],
        fenced_off(text)
    )
}

/// What an answer file says: the text under its answer's heading, or all of its body where a person left that out.
#[must_use]
pub fn answer_text(body: &str) -> &str {
    sections(body).into_iter().find(|it| it.kind == Kind::Answer).map_or_else(|| body.trim(), |it| it.text)
}

/// One question with its answer, if there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange {
    /// That of its heading, else its place, from 1.
    pub number: u32,
    /// As a person reads it.
    pub question: String,
    /// The stem of the file that answers, and what it says.
    pub answer: Option<(Stem, String)>,
}

/// The talk of a ticket. Answers are the done files of its `deps` that have `kind: answer`, or that it waits for. A question
/// is answered by the one with its number, else by the oldest one that says no number of a question.
#[must_use]
pub fn thread(queue: &super::Queue, ticket: &Ticket) -> Vec<Exchange> {
    let questions = sections(ticket.text.body()).into_iter().filter(|it| it.kind == Kind::Question);
    let questions: Vec<(u32, Section<'_>)> =
        (1..).zip(questions).map(|(place, it)| (it.number.unwrap_or(place), it)).collect();
    let is_answer = |it: &&std::sync::Arc<Ticket>| {
        it.lane == super::Lane::Done && (it.kind == key::ANSWER || ticket.awaiting.as_ref() == Some(&it.stem))
    };
    let mut answers: Vec<_> = ticket.deps.iter().filter_map(|dep| queue.find(dep)).filter(is_answer).collect();
    answers.sort_by(|a, b| (a.created_ns, &a.stem).cmp(&(b.created_ns, &b.stem)));
    let (mut numbered, mut others) = (std::collections::BTreeMap::new(), Vec::new());
    for it in answers {
        let number = sections(it.text.body()).into_iter().find(|it| it.kind == Kind::Answer).and_then(|it| it.number);
        match number.filter(|number| questions.iter().any(|(of, _)| of == number) && !numbered.contains_key(number)) {
            Some(number) => drop(numbered.insert(number, it)),
            None => others.push(it),
        }
    }
    let mut others = others.into_iter();
    let exchange = |(number, question): (u32, Section<'_>)| Exchange {
        number,
        question: readable(question.text),
        answer: numbered
            .remove(&number)
            .or_else(|| others.next())
            .map(|it| (it.stem.clone(), answer_text(it.text.body()).to_owned())),
    };
    questions.into_iter().map(exchange).collect()
}

/// The body without its questions, for a page that shows the talk beside it.
#[must_use]
pub fn without_questions(body: &str) -> String {
    let (mut kept, mut at) = (String::with_capacity(body.len()), 0);
    for section in sections(body).into_iter().filter(|it| it.kind == Kind::Question) {
        kept.push_str(&body[at..section.span.0]);
        at = section.span.1;
    }
    kept.push_str(&body[at..]);
    kept
}

#[cfg(test)]
#[path = "question_tests.rs"]
mod tests;
