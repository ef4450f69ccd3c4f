//! One program and everything it starts: spawned as a process group, ended as a process group.
//!
//! stdout and stderr are the same pipe, so that the log has the order in which the program wrote; they are two where
//! what the program prints is wanted for itself. The group is signalled only while its leader is not reaped; until then its number cannot belong to anybody else.

use std::{
    io,
    os::{fd::OwnedFd, unix::process::CommandExt as _},
    path::Path,
    process::{Child, Command, ExitStatus},
};

use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open, waitid},
};
use shared::Duration;
use tokio::{
    io::{Interest, unix::AsyncFd},
    net::unix::pipe,
    sync::watch,
};

use super::env::{self, Program};
use crate::{
    clock,
    policy::quarantine::Against,
    session::node::{Stop, StopCause},
};

/// How often to look at a leader of which the kernel tells nothing.
const LOOK_EVERY: std::time::Duration = std::time::Duration::from_millis(20);

/// Why a program did not start.
#[derive(Debug, thiserror::Error)]
#[error("cannot start {program:?} in {folder}: {source}{hint}")]
pub struct StartError {
    program: String,
    folder: String,
    source: io::Error,
    hint: String,
    /// It came as far as the program itself.
    at_program: bool,
    /// The owner's configuration names it, not the contract.
    is_owners: bool,
}

impl StartError {
    /// A program that is not there, cannot be executed or is given too much is the fault of whoever named it. That there
    /// is no process, no memory or no descriptor for it is the machine's.
    pub(super) fn against(&self) -> Against {
        use io::ErrorKind as Kind;
        if !self.at_program || !Path::new(&self.folder).is_dir() {
            return Against::Machine;
        }
        let too_long = matches!(self.source.kind(), Kind::ArgumentListTooLong | Kind::InvalidInput);
        let not_there = matches!(
            self.source.kind(),
            Kind::NotFound | Kind::PermissionDenied | Kind::NotADirectory | Kind::IsADirectory | Kind::InvalidFilename
        );
        let no_program = not_there
            || [Errno::NOEXEC, Errno::LOOP, Errno::LIBBAD]
                .iter()
                .any(|errno| self.source.raw_os_error() == Some(errno.raw_os_error()));
        if too_long || (no_program && !self.is_owners) { Against::Others } else { Against::Machine }
    }
}

/// A program that was started.
#[derive(Debug)]
pub struct Process {
    child: Child,
    group: Pid,
    /// Becomes readable when the leader has ended. None where the kernel has no such thing, or no more of them.
    leader: Option<AsyncFd<OwnedFd>>,
    /// What it prints, where that is wanted apart.
    stdout: Option<pipe::Receiver>,
}

/// Why a program was ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It ended by itself.
    ByItself,
    /// It ran longer than it may.
    TimedOut,
    /// It was told to.
    Stopped(StopCause),
}

/// Starts a program in a folder, in a process group of its own. The pipe carries all that it writes.
///
/// # Errors
/// [`StartError`] names the program and the folder.
pub fn start(program: &Program, folder: &Path) -> Result<(Process, pipe::Receiver), StartError> {
    let name = program.argv.first().cloned().unwrap_or_default();
    let failed_at = |at_program, source: io::Error| StartError {
        hint: hint(&name, program, &source),
        program: name.clone(),
        folder: folder.display().to_string(),
        source,
        at_program,
        is_owners: program.is_owners,
    };
    let failed = |source| failed_at(false, source);
    let (reader, writer) = io::pipe().map_err(failed)?;
    let reader = pipe::Receiver::from_owned_fd(reader.into()).map_err(failed)?;
    let (stdout, printed) = if program.capture {
        let (reader, writer) = io::pipe().map_err(failed)?;
        (Some(pipe::Receiver::from_owned_fd(reader.into()).map_err(failed)?), writer)
    } else {
        (None, writer.try_clone().map_err(failed)?)
    };
    let stdin = match &program.stdin {
        Some(path) => std::fs::File::open(path).map_err(failed)?.into(),
        None => std::process::Stdio::null(),
    };
    let mut command = Command::new(env::file(&name, folder));
    command
        .arg0(&name)
        .args(program.argv.iter().skip(1))
        .env_clear()
        .envs(&program.env)
        .current_dir(folder)
        .stdin(stdin)
        .stdout(printed)
        .stderr(writer)
        .process_group(0);
    let child = command.spawn().map_err(|source| failed_at(true, source))?;
    // Drop the write ends that the command still holds, or the pipe never ends.
    drop(command);
    let group = Pid::from_child(&child);
    Ok((Process { child, group, leader: follow(group), stdout }, reader))
}

/// A descriptor that becomes readable when the process has ended.
#[expect(deprecated, reason = "its successor is unsafe to call; all it asks for is what an OwnedFd does: stay open")]
fn follow(process: Pid) -> Option<AsyncFd<OwnedFd>> {
    pidfd_open(process, PidfdFlags::NONBLOCK).ok().and_then(|fd| AsyncFd::with_interest(fd, Interest::READABLE).ok())
}

/// Whether a child has ended. It stays to be reaped.
fn has_ended(process: Pid) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(waitid(WaitId::Pid(process), options), Ok(None))
}

fn hint(name: &str, program: &Program, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound if name.contains('/') => {
            " (or the interpreter in its first line is not on this machine)".to_owned()
        }
        io::ErrorKind::NotFound => match program.env.get(std::ffi::OsStr::new("PATH")) {
            Some(path) => format!(" (it is not on the PATH {})", path.display()),
            None => " (there is no PATH: the agent's `pass_env` lacks it)".to_owned(),
        },
        io::ErrorKind::ArgumentListTooLong => {
            " (a long prompt goes to stdin or into {prompt_file}, not into an argument)".to_owned()
        }
        _ => String::new(),
    }
}

impl Process {
    /// What it prints, where that was wanted apart.
    pub const fn take_stdout(&mut self) -> Option<pipe::Receiver> {
        self.stdout.take()
    }

    /// Its process group.
    #[must_use]
    pub const fn group(&self) -> Pid {
        self.group
    }

    /// Waits until the leader has ended; does not reap it.
    pub async fn ended(&mut self) {
        if let Some(leader) = &self.leader {
            match leader.readable().await {
                Ok(mut ready) => return ready.retain_ready(),
                Err(e) => tracing::error!(error = %e, "cannot follow the process"),
            }
        }
        while !has_ended(self.group) {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Signals the whole group.
    pub fn signal(&self, signal: Signal) {
        match kill_process_group(self.group, signal) {
            Ok(()) | Err(Errno::SRCH) => {}
            Err(e) => tracing::warn!(group = self.group.as_raw_pid(), ?signal, error = %e, "cannot signal the group"),
        }
    }

    /// Waits for the end of the leader, sees to it that it comes, and kills what is left of the group. False:
    /// the leader did not even end within `stuck` of SIGKILL.
    pub async fn supervise(
        &mut self,
        timeout: Option<Duration>,
        orders: &mut watch::Receiver<Option<Stop>>,
        grace: Duration,
        stuck: Duration,
    ) -> (Ended, bool) {
        let mut why = Ended::ByItself;
        let mut limit = std::pin::pin!(sleep_some(timeout));
        // SIGKILL once a SIGTERM is out, then the end of patience once SIGKILL is.
        let mut next = std::pin::pin!(sleep_some(None));
        let mut killed = false;
        let mut deaf = false;
        loop {
            let stop = tokio::select! {
                biased;
                () = self.ended() => break,
                stop = order(orders), if !deaf => stop,
                () = &mut limit, if why == Ended::ByItself => {
                    why = Ended::TimedOut;
                    Some(Stop { cause: StopCause::Stopped, grace })
                }
                () = &mut next => {
                    if killed {
                        return (why, false);
                    }
                    self.signal(Signal::KILL);
                    killed = true;
                    next.set(sleep_some(Some(stuck)));
                    continue;
                }
            };
            let Some(stop) = stop else {
                deaf = true;
                continue;
            };
            if why != Ended::TimedOut || !stop.cause.is_reported() {
                why = Ended::Stopped(stop.cause);
            }
            if !killed {
                if stop.grace > Duration::default() {
                    self.signal(Signal::TERM);
                }
                next.set(sleep_some(Some(stop.grace)));
            }
        }
        self.signal(Signal::KILL);
        // The heartbeat kills by itself when the time to live is over; the order that says so may lie here unread.
        let over = |stop: &Stop| stop.cause == StopCause::TimeToLive;
        if why == Ended::ByItself && orders.borrow().as_ref().is_some_and(over) {
            why = Ended::Stopped(StopCause::TimeToLive);
        }
        (why, true)
    }

    /// Collects the exit status of a leader that has ended. From here on the group's number may belong to somebody else.
    /// `None`: it is not to be had within this long. Who traces a process keeps its end from its parent; `meanwhile` is
    /// done between the looks, and may be what ends the tracer.
    ///
    /// # Errors
    /// As the operating system says.
    pub async fn reap(&mut self, within: Duration, meanwhile: impl Fn()) -> io::Result<Option<ExitStatus>> {
        let end = clock::boot_time().plus(within);
        loop {
            let status = self.child.try_wait()?;
            if status.is_some() || clock::boot_time() >= end {
                return Ok(status);
            }
            meanwhile();
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

/// The next order; none when there will be no more.
async fn order(orders: &mut watch::Receiver<Option<Stop>>) -> Option<Stop> {
    loop {
        orders.changed().await.ok()?;
        if let Some(stop) = *orders.borrow_and_update() {
            return Some(stop);
        }
    }
}

async fn sleep_some(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time.std()).await,
        None => std::future::pending().await,
    }
}

/// The exit code as contracts see it: 128 + N for signal N.
#[must_use]
pub fn exit_code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt as _;
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(-1)
}

#[cfg(test)]
#[path = "process_tests.rs"]
mod tests;
