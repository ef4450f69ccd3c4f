//! `logs`: what the steps wrote, byte for byte.

use std::collections::BTreeMap;

use proto::v1::{GetLogRequest, LogChunk};
use tokio::time::sleep;

use super::{
    args::Logs,
    client::Client,
    exit::{Exit, Failure, Outcome},
    follow::Backoff,
    output::{Io, clean},
    progress::Progress,
    refusal, show,
};

pub(crate) async fn logs(client: &Client, io: &mut Io, args: Logs) -> Outcome {
    let (run, detail) = show::get(client, "cannot read the log of Run", &args.run).await?;
    let names: Vec<_> = detail.steps.iter().map(|step| step.id.as_str()).collect();
    if let Some(step) = &args.step
        && !names.contains(&step.as_str())
    {
        return Err(Failure::refused(format!("Run {run} has no step {step}"))
            .advise(format!("Its steps are: {}.", names.join(", "))));
    }
    let state = detail.run.as_ref().map_or("", |run| run.state.as_str());
    if state == "QUEUED" {
        io.note(format_args!("Run {run} is QUEUED: nothing has run yet; `mediator explain {run}` says why it waits."));
    }
    let several = args.step.is_none() && names.len() > 1;
    let prefix = args.prefix || (several && io.out_is_terminal);
    let request = GetLogRequest {
        run_id: run.to_string(),
        step: args.step.map(|step| step.to_string()).unwrap_or_default(),
        follow: args.follow,
    };
    let interrupt = io.take_interrupt();
    tokio::select! {
        end = stream(client, io, request, prefix) => end,
        () = interrupt => Ok(Exit::Interrupted),
    }
}

/// Logs only grow: after a lost connection the server starts over, and what was shown already is passed over.
async fn stream(client: &Client, io: &mut Io, request: GetLogRequest, prefix: bool) -> Outcome {
    let (mut shown, mut writer) = (BTreeMap::<(String, u32), usize>::new(), Writer { prefix, at: None });
    let (mut pace, mut progress) = (Backoff::default(), Progress::default());
    loop {
        let mut seen = BTreeMap::<(String, u32), usize>::new();
        let status = match client.attempt(client.runs().get_log(request.clone())).await {
            Err(status) => status,
            Ok(mut stream) => loop {
                match stream.message().await {
                    Ok(Some(chunk)) => {
                        let key = (chunk.step.clone(), chunk.attempt);
                        let seen = seen.entry(key.clone()).or_default();
                        let shown = shown.entry(key).or_default();
                        let known = shown.saturating_sub(*seen).min(chunk.data.len());
                        *seen += chunk.data.len();
                        *shown = (*shown).max(*seen);
                        if known < chunk.data.len() {
                            progress.done(io);
                            pace.reset();
                            writer.write(io, &chunk, known)?;
                        }
                    }
                    Ok(None) => return writer.finish(io),
                    Err(status) => break status,
                }
            },
        };
        if refusal::is_final(&status) || !request.follow {
            return Err(client.failure("cannot read the log", &status));
        }
        progress.say(io, format!("lost the mediator ({}), trying again", refusal::cause(&status)));
        sleep(pace.next()).await;
    }
}

/// Raw bytes, or lines with the name of their step.
struct Writer {
    prefix: bool,
    /// The step whose line is not complete.
    at: Option<String>,
}

impl Writer {
    fn write(&mut self, io: &mut Io, chunk: &LogChunk, from: usize) -> Outcome<()> {
        let data = &chunk.data[from..];
        if !self.prefix {
            return io.bytes(data);
        }
        let mut text = Vec::with_capacity(data.len() + 64);
        // Steps may run at the same time; a line of one is not continued with bytes of another.
        if self.at.as_ref().is_some_and(|step| *step != chunk.step) {
            text.push(b'\n');
            self.at = None;
        }
        for line in data.split_inclusive(|byte| *byte == b'\n') {
            if self.at.is_none() {
                text.extend_from_slice(clean(&chunk.step).as_bytes());
                text.extend_from_slice(b" | ");
            }
            text.extend_from_slice(line);
            self.at = if line.ends_with(b"\n") { None } else { Some(chunk.step.clone()) };
        }
        io.bytes(&text)
    }

    fn finish(self, io: &mut Io) -> Outcome {
        if self.at.is_some() {
            io.bytes(b"\n")?;
        }
        Ok(Exit::Ok)
    }
}
