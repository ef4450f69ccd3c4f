//! What can be said to a ticket queue.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use shared::{
    Duration,
    ticket::{Choice, Priority, Stem, options::Picked},
};

use super::{super::Failure, refused};
use crate::tickets::{client::Address, template::Templates, worker::PACES};

pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  failed in another way; with `check`: something is wrong in the queue
  2  refused: usage, the queue, the ticket or the token
  3  a Run works on the ticket (`unassign` without --force)
  4  the mediator cannot be reached";

#[derive(Debug, Subcommand)]
pub(crate) enum Tickets {
    /// Show the queue: the line, the next one first, then what is in progress and what is done
    List(List),
    /// Show one ticket with its text, questions and answers
    Show(One),
    /// Write a new ticket
    New(New),
    /// Be a worker: take tickets, have Runs made for them, follow these to their end
    Work(Work),
    /// Take a ticket in hand yourself; no worker and no reaper touches it then
    Claim(Claim),
    /// Say that a ticket which you have claimed is done
    Done(One),
    /// Take a ticket away from whoever works on it; from an open one only its session_id
    Unassign(Unassign),
    /// Answer the question of a ticket
    Answer(Answer),
    /// Look once after tickets in progress whose Run has ended, or whose worker is gone
    Reap(Reap),
    /// Report everything that is wrong in the queue
    Check(Check),
}

#[derive(Debug, Args)]
pub(crate) struct Place {
    /// Folder that holds the tickets
    #[arg(long, value_name = "DIR", env = "TICKET_QUEUE", hide_env_values = true, default_value = "tickets")]
    pub(crate) queue: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Mediator {
    /// Where the mediator listens; several of one fleet with commas between
    #[arg(
        long,
        value_name = "URL",
        env = "MEDIATOR_URL",
        hide_env_values = true,
        default_value = "http://127.0.0.1:7070"
    )]
    pub(crate) mediator: String,
    /// File that holds the token of a submitter [default: the token in MEDIATOR_TOKEN]
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// PEM file of the authority that signed the mediator's certificate
    #[arg(long, value_name = "FILE", env = "MEDIATOR_CA", hide_env_values = true)]
    pub(crate) ca_file: Option<PathBuf>,
}

impl Mediator {
    pub(crate) fn address(&self) -> Address {
        Address {
            urls: self.mediator.clone(),
            token_file: self.token_file.clone(),
            token: std::env::var("MEDIATOR_TOKEN").ok(),
            ca_file: self.ca_file.clone(),
        }
    }
}

fn choice(word: &str) -> Result<Choice, String> {
    Choice::read(word).ok_or_else(|| {
        let words: Vec<&str> = Choice::ALL.iter().map(|it| it.as_str()).collect();
        format!("write one of {}", words.join(", "))
    })
}

fn priority(word: &str) -> Result<Priority, String> {
    word.parse().ok().and_then(Priority::new).ok_or_else(|| "write a whole number from 1 to 5, 5 first".to_owned())
}

#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    pub(crate) place: Place,
    /// Only tickets in this state: open, deps_wait, answer_wait, assigned, in_progress or done; several with commas
    #[arg(long, value_name = "STATE", value_parser = choice, value_delimiter = ',')]
    pub(crate) state: Vec<Choice>,
    #[command(flatten)]
    pub(crate) templates: TemplateFolder,
}

#[derive(Debug, Args)]
pub(crate) struct TemplateFolder {
    /// Folder of contracts: KIND.yaml for tickets of that kind, default.yaml for all others
    #[arg(long = "templates", value_name = "DIR", env = "TICKET_TEMPLATES", hide_env_values = true)]
    pub(crate) folder: Option<PathBuf>,
}

impl TemplateFolder {
    /// The folder, if one is given; it is there then.
    pub(crate) fn checked(&self) -> Result<Option<PathBuf>, Failure> {
        self.folder.clone().map(existing).transpose().map_err(refused)
    }

    /// What is in it, if one is given.
    pub(crate) fn templates(&self) -> Result<Option<Templates>, Failure> {
        Ok(self.checked()?.map(|folder| Templates { folder: Some(folder), ..Templates::default() }))
    }
}

/// A folder of templates, if it is there.
pub(crate) fn existing(folder: PathBuf) -> anyhow::Result<PathBuf> {
    let what = if folder.exists() { "that is no folder: name the one it is in" } else { "there is no such folder" };
    anyhow::ensure!(folder.is_dir(), "templates {}: {what}", folder.display());
    Ok(folder)
}

#[derive(Debug, Args)]
pub(crate) struct One {
    #[command(flatten)]
    pub(crate) place: Place,
    /// The ticket: its file's name, with or without state and .md
    #[arg(value_name = "TICKET")]
    pub(crate) stem: Stem,
}

#[derive(Debug, Args)]
pub(crate) struct New {
    #[command(flatten)]
    pub(crate) place: Place,
    /// What is to be done, in one line
    #[arg(long, value_name = "TEXT")]
    pub(crate) title: String,
    /// Which template makes its Run, such as work, request or feedback
    #[arg(long, value_name = "WORD", default_value = "")]
    pub(crate) kind: String,
    /// 1 to 5, 5 first; 1 waits until nothing is in progress [default: 3]
    #[arg(long, value_name = "N", value_parser = priority)]
    pub(crate) priority: Option<Priority>,
    /// A ticket that must be done first; may be given several times
    #[arg(long = "dep", value_name = "TICKET")]
    pub(crate) deps: Vec<Stem>,
    /// The request that it comes from; locks nothing
    #[arg(long, value_name = "TICKET")]
    pub(crate) req: Option<Stem>,
    #[command(flatten)]
    pub(crate) templates: TemplateFolder,
    /// Its text in Markdown
    #[arg(long, value_name = "TEXT", conflicts_with = "body_file")]
    pub(crate) body: Option<String>,
    /// File that holds its text; - is standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) body_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Work {
    #[command(flatten)]
    pub(crate) place: Place,
    #[command(flatten)]
    pub(crate) mediator: Mediator,
    #[command(flatten)]
    pub(crate) templates: TemplateFolder,
    /// Shell command for tickets without a template; the ticket's text is in $IN/ticket.md and $TICKET_BODY
    #[arg(long, value_name = "COMMAND")]
    pub(crate) command: Option<String>,
    /// Capability of the node that runs --command
    #[arg(long, value_name = "NAME", default_value = "build")]
    pub(crate) capability: String,
    /// Who works, for people [default: the host's name]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// End when nothing is left that can be taken
    #[arg(long)]
    pub(crate) once: bool,
    /// How often to look for new tickets where no event of the file system tells of them, from 10ms to 5s
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = pace)]
    pub(crate) poll: Duration,
}

/// Another one would be rounded in silence.
fn pace(text: &str) -> Result<Duration, String> {
    let pace: Duration = text.parse().map_err(|error: shared::BadDuration| error.to_string())?;
    let (least, most) = PACES;
    if (least..=most).contains(&pace) { Ok(pace) } else { Err(format!("write a time from {least} to {most}")) }
}

#[derive(Debug, Args)]
pub(crate) struct Claim {
    #[command(flatten)]
    pub(crate) one: One,
    /// Who has it, for people [default: $USER]
    #[arg(long, value_name = "NAME")]
    pub(crate) owner: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Unassign {
    #[command(flatten)]
    pub(crate) one: One,
    #[command(flatten)]
    pub(crate) mediator: Mediator,
    /// Also from a Run that is alive: the ticket is locked as a question first, then the Run is cancelled
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Answer {
    #[command(flatten)]
    pub(crate) one: One,
    /// The answer; with --choose, what else is to be said
    #[arg(value_name = "TEXT", required_unless_present_any = ["file", "choose"], conflicts_with = "file")]
    pub(crate) text: Option<String>,
    /// File that holds it; - is standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Pick from a group of options, as `enode tickets show` numbers them: 1:b, 2:a,c, '2:a only at night', '3: neither';
    /// may be given several times
    #[arg(long, value_name = "GROUP:LETTERS", value_parser = pick)]
    pub(crate) choose: Vec<(usize, Picked)>,
}

/// `2:a,c and a note`. What follows the colon at once are letters; behind a blank it is a note.
fn pick(word: &str) -> Result<(usize, Picked), String> {
    let wrong = || "write the group's number, a colon and letters, such as 1:b or '2:a,c only at night'".to_owned();
    let (number, rest) = word.split_once(':').ok_or_else(wrong)?;
    let number = number.trim().parse().map_err(|_| wrong())?;
    let (letters, note) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let one = |part: &str| match part.trim_matches(['(', ')']).chars().collect::<Vec<_>>().as_slice() {
        [letter] if letter.is_ascii_alphabetic() => Ok(letter.to_ascii_lowercase()),
        _ => Err(wrong()),
    };
    let letters = letters.split(',').filter(|part| !part.is_empty()).map(one).collect::<Result<_, _>>()?;
    Ok((number, Picked { letters, note: note.trim().to_owned() }))
}

#[derive(Debug, Args)]
pub(crate) struct Reap {
    #[command(flatten)]
    pub(crate) place: Place,
    #[command(flatten)]
    pub(crate) mediator: Mediator,
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) place: Place,
    #[command(flatten)]
    pub(crate) templates: TemplateFolder,
    /// End what a killed worker had begun, and take session_id out of open tickets
    #[arg(long)]
    pub(crate) fix: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_picked_is_a_number_letters_and_a_note() {
        for (word, number, letters, note) in [
            ("1:b", 1, "b", ""),
            ("2:c,A", 2, "ac", ""),
            (" 2 :(a),(b) only at night ", 2, "ab", "only at night"),
            ("3: neither: both", 3, "", "neither: both"),
            ("4:", 4, "", ""),
        ] {
            let picked = Picked { letters: letters.chars().collect(), note: note.to_owned() };
            assert_eq!(pick(word), Ok((number, picked)), "{word}");
        }
        for word in ["b", "1", "a:b", "-1:a", "1:yes", "1:1", "1:a;b", ":a"] {
            assert!(pick(word).unwrap_err().contains("such as 1:b"), "{word}");
        }
    }
}
