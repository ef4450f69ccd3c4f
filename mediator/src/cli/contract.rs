//! `contract example|lint|schema`, and reading contracts for `submit` and `dry-run`. Needs no mediator.

use std::path::Path;

use serde::Serialize;
use shared::contract::{self, ContractError, MAX_BYTES};

use crate::{file::read_given, schema};

use super::{
    args::Contract,
    exit::{Exit, Failure, Outcome},
    output::{Format, Io, clean},
};

pub(crate) fn contract(io: &mut Io, format: Format, command: &Contract) -> Outcome {
    match command {
        Contract::Example => match (format, contract::parse(contract::example().as_bytes())) {
            (Format::Json, Ok(parsed)) => io.json(&parsed)?,
            (Format::Jsonl, Ok(parsed)) => io.json_line(&parsed)?,
            // With its comments; the tests see to it that it is valid.
            (Format::Table, _) | (_, Err(_)) => io.bytes(contract::example().as_bytes())?,
        },
        Contract::Schema => match format {
            Format::Table | Format::Json => io.json(&contract::schema())?,
            Format::Jsonl => io.json_line(&contract::schema())?,
        },
        Contract::Lint { files } => return lint(io, format, files),
    }
    Ok(Exit::Ok)
}

/// One problem as `--output json` shows it.
#[derive(Serialize)]
struct Finding {
    file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<u64>,
    path: String,
    message: String,
}

fn lint(io: &mut Io, format: Format, files: &[std::path::PathBuf]) -> Outcome {
    let mut found = Vec::new();
    for file in files {
        // A file that cannot be read is a finding, too: the others are still checked.
        let problems = match read(io, file) {
            Ok(text) => schema::read_contract(&text).err().map(|error| findings(file, &error)).unwrap_or_default(),
            Err(failure) => vec![Finding {
                file: name(file),
                line: None,
                column: None,
                path: String::new(),
                message: failure.message,
            }],
        };
        if problems.is_empty() {
            io.note(format_args!("{}: ok", name(file)));
        }
        found.extend(problems);
    }
    match format {
        Format::Json => io.json(&found)?,
        Format::Jsonl => found.iter().try_for_each(|finding| io.json_line(finding))?,
        Format::Table => found.iter().try_for_each(|finding| io.line(line(finding)))?,
    }
    Ok(if found.is_empty() { Exit::Ok } else { Exit::Refused })
}

fn findings(file: &Path, error: &ContractError) -> Vec<Finding> {
    error
        .problems
        .iter()
        .map(|problem| Finding {
            file: name(file),
            line: problem.position.map(|(line, _)| line),
            column: problem.position.map(|(_, column)| column),
            path: problem.path.clone(),
            message: problem.message.clone(),
        })
        .collect()
}

/// The problems of one file, a line each.
pub(crate) fn lines(file: &Path, error: &ContractError) -> Vec<String> {
    findings(file, error).iter().map(line).collect()
}

/// `file:line:column: path: message`, as compilers write it, so that editors can jump there.
fn line(finding: &Finding) -> String {
    let mut text = finding.file.clone();
    for number in [finding.line, finding.column].into_iter().flatten() {
        text.push_str(&format!(":{number}"));
    }
    text.push_str(": ");
    if !finding.path.is_empty() {
        text.push_str(&clean(&finding.path));
        text.push_str(": ");
    }
    text.push_str(&clean(&finding.message));
    text
}

fn name(file: &Path) -> String {
    if is_stdin(file) { "stdin".into() } else { clean(&file.display().to_string()) }
}

fn is_stdin(file: &Path) -> bool {
    file.as_os_str() == "-"
}

/// The bytes of a contract, never more than it may have.
fn read(io: &mut Io, file: &Path) -> Outcome<Vec<u8>> {
    use std::io::{ErrorKind, Read};
    let too_large =
        || Failure::refused(format!("it is larger than {MAX_BYTES} bytes, the most that a contract may have"));
    let limit = MAX_BYTES as u64;
    if is_stdin(file) {
        let mut text = Vec::new();
        let read = io.stdin.by_ref().take(limit + 1).read_to_end(&mut text);
        read.map_err(|e| Failure::io("cannot read it", &e))?;
        return if text.len() > MAX_BYTES { Err(too_large()) } else { Ok(text) };
    }
    read_given(file, limit)
        .map_err(|e| if e.kind() == ErrorKind::FileTooLarge { too_large() } else { Failure::io("cannot read it", &e) })
}

/// Reads and checks a contract before anything is sent, so that mistakes are shown with their place in the file.
pub(crate) fn load(io: &mut Io, file: &Path) -> Outcome<(Vec<u8>, contract::Contract)> {
    let text = read(io, file)
        .map_err(|failure| Failure { message: format!("{}: {}", name(file), failure.message), ..failure })?;
    match schema::read_contract(&text) {
        Ok(parsed) => Ok((text, parsed)),
        Err(error) => Err(Failure::refused(format!("this contract is not valid\n{}", lines(file, &error).join("\n")))
            .advise("Nothing was sent. `mediator contract example` prints one to start from.")),
    }
}
