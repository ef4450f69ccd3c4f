//! What can happen next: messages that arrive, timers that ring. What is meant for an agent is addressed to one
//! life of one process, so that it does not reach the next.

use shared::{
    InstanceId, NodeId, Nonce, RunId, StreamId,
    domain::{Advert, AdvertReply, AnswerAsk, Cancel, ClaimedStep, Refusal, Report, ReportReply, Speaker, Submit},
};

use crate::agent_core::StepKey;

pub(crate) type Ms = u64;
pub(crate) type Conn = u64;
pub(crate) type CallId = u64;

/// A process: its position, and which of its lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct To {
    pub(crate) at: usize,
    pub(crate) life: u32,
}

/// Who waits for an answer.
#[derive(Debug, Clone, Copy)]
pub(crate) enum From {
    Agent(To, CallId),
    Client(usize),
    /// A work stream's own claim.
    Stream(Conn),
    Nobody,
}

#[derive(Debug, Clone)]
pub(crate) enum Body {
    Advert(Box<Advert>),
    Open(Speaker, Conn, To),
    Claim(Speaker),
    Report(Box<Report>),
    Submit(Box<Submit>),
    Cancel(Cancel),
    Ask(Box<AnswerAsk>),
    Reap,
    Sweep,
}

#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) from: From,
    pub(crate) body: Body,
}

#[derive(Debug, Clone)]
pub(crate) enum Answer {
    Advert(Result<AdvertReply, Refusal>),
    Report(Result<ReportReply, Refusal>),
    /// A submission is known.
    Told,
    /// Nobody listens, or the connection broke.
    Down,
}

/// What a work stream brings.
#[derive(Debug, Clone)]
pub(crate) enum Item {
    Opened(StreamId),
    Step(Box<ClaimedStep>),
    Stop(RunId, Nonce, i64),
    Ended,
    Refused(Refusal),
}

/// What happens to an agent.
#[derive(Debug, Clone)]
pub(crate) enum Mine {
    Answer(CallId, Answer),
    TimedOut(CallId),
    Item(Conn, Item),
    Beat(u32),
    /// A look at the time to live.
    Watch,
    Reopen,
    Deliver,
    StepEnds(StepKey),
    /// The time to stop in is over.
    StopNow,
    Exit,
}

#[derive(Debug, Clone)]
pub(crate) enum Event {
    Arrive(Box<Call>),
    Group(u32),
    MediatorStarts,
    Reaper(u32),
    Sweeper(u32),
    Agent(To, Mine),
    Boot(usize),
    Resume(usize),
    Submit(usize),
    Accepted(usize),
    Person,
    Fault,
    Calm,
}

/// Names of fresh things.
#[derive(Debug, Default)]
pub(crate) struct Names(u64);

impl Names {
    pub(crate) const fn number(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }

    pub(crate) fn instance(&mut self) -> InstanceId {
        InstanceId::new(&format!("i{}", self.number())).unwrap()
    }

    pub(crate) fn stream(&mut self) -> StreamId {
        StreamId::new(&format!("s{}", self.number())).unwrap()
    }
}

pub(crate) fn node_id(at: usize) -> NodeId {
    NodeId::new(&format!("n{at:02}")).unwrap()
}
