//! `record`: fetches the sealed Record.

use std::{io::Write, path::PathBuf, time::Duration};

use proto::v1::{Chunk, GetRunRequest};
use shared::RunId;
use tokio::time::{Instant, sleep};
use tonic::Streaming;

use super::{
    client::Client,
    exit::{Exit, Failure, Outcome},
    follow,
    output::{Io, clean},
    show,
};

/// Sealing follows the end of a Run within moments.
const SEALING: Duration = Duration::from_secs(30);

const WHAT: &str = "cannot fetch the Record of Run";

pub(crate) async fn record(client: &Client, io: &mut Io, run: &RunId, out: Option<PathBuf>) -> Outcome {
    let to_stdout = out.as_ref().is_some_and(|file| file.as_os_str() == "-");
    if to_stdout && io.out_is_terminal {
        return Err(Failure::refused("a tar file is nothing to look at on a terminal")
            .advise("Redirect stdout, or give a file with --out FILE."));
    }
    let taken = |file: &PathBuf| if !to_stdout && file.exists() { Err(exists(file)) } else { Ok(()) };
    out.as_ref().map_or(Ok(()), taken)?;
    // The whole id: the file is called by it.
    let run = &sealed(client, run).await?;
    let file = out.unwrap_or_else(|| format!("{run}.tar").into());
    taken(&file)?;
    let what = format!("{WHAT} {run}");
    let request = GetRunRequest { run_id: run.to_string() };
    let stream = client.call(&what, client.runs().get_record(request)).await?;
    if to_stdout {
        copy(client, &what, stream, |data| io.bytes(data)).await?;
        return Ok(Exit::Ok);
    }
    // Written beside and moved at the end: a file with this name is always a whole Record.
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| ".".as_ref());
    let wrong = |error: &std::io::Error| Failure::io(format_args!("cannot write {}", file.display()), error);
    let mut part = tempfile::NamedTempFile::new_in(folder).map_err(|e| wrong(&e))?;
    copy(client, &what, stream, |data| part.write_all(data).map_err(|e| wrong(&e))).await?;
    part.as_file().sync_all().map_err(|e| wrong(&e))?;
    part.persist_noclobber(&file).map_err(|e| {
        if e.error.kind() == std::io::ErrorKind::AlreadyExists { exists(&file) } else { wrong(&e.error) }
    })?;
    io.line(clean(&file.display().to_string()))?;
    Ok(Exit::Ok)
}

fn exists(file: &std::path::Path) -> Failure {
    Failure::refused(format!("{} exists already and is left as it is", file.display()))
        .advise("Give another name with --out FILE.")
}

/// Waits out the moment between the end of a Run and its seal, and says which Run it is.
async fn sealed(client: &Client, run: &RunId) -> Outcome<RunId> {
    let until = Instant::now() + SEALING;
    loop {
        let (run, detail) = show::get(client, WHAT, run).await?;
        let view = follow::view(&detail)?;
        if detail.sealed_at.is_some() {
            return Ok(run);
        }
        if !follow::has_ended(view) {
            return Err(Failure::refused(format!(
                "Run {run} is {}; its Record is sealed when it has ended",
                clean(&view.state)
            ))
            .advise(format!("`mediator watch {run}` waits for its end.")));
        }
        if Instant::now() > until {
            return Err(Failure::new(Exit::Unreachable, format!("the Record of Run {run} is not sealed yet"))
                .advise("Try again later; the mediator's log says what keeps it."));
        }
        sleep(Duration::from_millis(250)).await;
    }
}

async fn copy(
    client: &Client,
    what: &str,
    mut stream: Streaming<Chunk>,
    mut write: impl FnMut(&[u8]) -> Outcome<()>,
) -> Outcome<()> {
    loop {
        match stream.message().await {
            Ok(Some(chunk)) => write(&chunk.data)?,
            Ok(None) => return Ok(()),
            Err(status) => return Err(client.failure(what, &status)),
        }
    }
}
