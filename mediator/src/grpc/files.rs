//! The two streams of files: logs, as they grow if wanted, and sealed Records.

use std::collections::{BTreeMap, VecDeque};

use proto::v1;
use shared::{RunId, Seq, StepName, domain::Run};

use super::stream::{Outgoing, pulled};
use crate::{
    error::Error,
    record::{LogWatch, RecordError, RecordTar},
    service::{Services, follow::RunNews},
};

/// Most bytes of log in one message.
const CHUNK: usize = 64 << 10;

/// The logs of a Run's attempts, or of one step's, in order. With `follow` it goes on until the Run has
/// ended: each round sends what is new, step by step.
///
/// # Errors
/// [`Error::NotFound`], [`Error::Store`], [`Error::Record`], all before the stream begins.
pub(super) async fn log(
    services: Services,
    id: RunId,
    step: Option<StepName>,
    follow: bool,
) -> Result<Outgoing<v1::LogChunk>, Error> {
    // Both are made before the first read, so that nothing falls in between.
    let (news, growth) = (RunNews::new(&services, &id), services.records.watch(&id).await?);
    let (run, _) = services.run_row(&id).await?;
    if let Some(step) = &step
        && run.contract.step(step).is_none()
    {
        let steps: Vec<&str> = run.steps.iter().map(|step| step.name.as_str()).collect();
        return Err(Error::NotFound(format!("step {step} in run {id}; there are {}", steps.join(", "))));
    }
    let mut tail = LogTail {
        services,
        id,
        step,
        follow,
        news,
        growth,
        known: BTreeMap::new(),
        todo: VecDeque::new(),
        last_round: false,
    };
    tail.look_at(&run);
    Ok(pulled(tail, |mut tail: LogTail| async move { Ok(tail.next().await?.map(|chunk| (chunk, tail))) }))
}

struct LogTail {
    services: Services,
    id: RunId,
    step: Option<StepName>,
    follow: bool,
    news: RunNews,
    growth: LogWatch,
    /// Every attempt so far: its step, and how much of it was sent.
    known: BTreeMap<(Seq, u32), (StepName, u64)>,
    /// Attempts of this round that may have more.
    todo: VecDeque<(Seq, u32)>,
    /// The Run had ended before this round began, or nothing is followed.
    last_round: bool,
}

impl LogTail {
    /// Begins a round with the Run's attempts as they are now.
    fn look_at(&mut self, run: &Run) {
        for step in run.steps.iter().filter(|step| self.step.as_ref().is_none_or(|only| *only == step.name)) {
            for attempt in &step.attempts {
                self.known.entry((step.seq, attempt.number)).or_insert_with(|| (step.name.clone(), 0));
            }
        }
        self.last_round = !self.follow || run.state.is_terminal();
        self.todo = self.known.keys().copied().collect();
    }

    async fn next(&mut self) -> Result<Option<v1::LogChunk>, Error> {
        loop {
            while let Some((seq, attempt)) = self.todo.front().copied() {
                if self.services.stop.is_cancelled() {
                    return Err(Error::Stopping);
                }
                let Some((step, from)) = self.known.get_mut(&(seq, attempt)) else { continue };
                let data = self.services.records.read_log(&self.id, seq, attempt, *from, CHUNK).await?;
                if data.is_empty() {
                    self.todo.pop_front();
                    continue;
                }
                *from += data.len() as u64;
                return Ok(Some(v1::LogChunk { step: step.to_string(), attempt, data }));
            }
            if self.last_round {
                return Ok(None);
            }
            let grown = tokio::select! {
                grown = self.growth.changed() => grown,
                news = self.news.wait() => { news?; false }
            };
            if grown {
                self.todo = self.known.keys().copied().collect();
            } else {
                // An event of this Run, or its logs are closed: look at it again.
                let (run, _) = self.services.run_row(&self.id).await?;
                self.look_at(&run);
            }
        }
    }
}

/// The sealed Record of a Run as a tar.
///
/// # Errors
/// [`Error::NotFound`] says what to wait for; [`Error::Store`], [`Error::Record`].
pub(super) async fn record(services: Services, id: RunId) -> Result<Outgoing<v1::Chunk>, Error> {
    let (run, _) = services.run_row(&id).await?;
    let tar = match services.records.tar(&id).await {
        Ok(tar) => tar,
        Err(RecordError::NotSealed(_)) => {
            let when = if run.state.is_terminal() {
                "it is being sealed; ask again in a moment".to_owned()
            } else {
                format!("it is {} and its Record is sealed when it has ended", run.state.as_str())
            };
            return Err(Error::NotFound(format!("Record of run {id} yet: {when}")));
        }
        Err(e) => return Err(e.into()),
    };
    Ok(pulled((tar, services), |(mut tar, services): (RecordTar, Services)| async move {
        if services.stop.is_cancelled() {
            return Err(Error::Stopping);
        }
        let data = tar.next().await?;
        Ok(data.map(|data| (v1::Chunk { data }, (tar, services))))
    }))
}
