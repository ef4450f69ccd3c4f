//! The agent's word to its own machine: one JSON document a connection, on the socket `STATE/enode.sock`.
//!
//! Read only, and open only to the user that runs the agent and to root. [`Lock`] sees to it that one state
//! folder has one agent; with it held, a socket file that is there already is a leftover.

use std::{
    fs::File,
    io::{self, Read, Seek, Write},
    os::{
        fd::AsRawFd,
        unix::fs::{OpenOptionsExt, PermissionsExt},
    },
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{UnixListener, UnixStream},
};

use crate::{files, state::AgentStatus};

/// How long either side waits for the other.
const PATIENCE: Duration = Duration::from_secs(3);
/// Far more than a thousand nodes need.
const LIMIT: u64 = 4 << 20;
/// What a socket address holds, less the closing zero.
const ADDRESS: usize = 107;

/// The socket's place.
#[must_use]
pub fn socket(state_dir: &Path) -> PathBuf {
    state_dir.join("enode.sock")
}

/// Why this process may not use the state folder.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another agent does.
    #[error(
        "another agent{} runs with the state folder {}: stop it, or give this one a state_dir of its own",
        pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default(), state_dir.display()
    )]
    Taken {
        /// The folder.
        state_dir: PathBuf,
        /// Its process, if it said so.
        pid: Option<u32>,
    },
    /// The folder cannot be used.
    #[error("the state folder {} cannot be used: {source}", state_dir.display())]
    Io {
        /// The folder.
        state_dir: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Held while this process is the agent of a state folder. The system lets go of it when the process ends.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Takes it.
    ///
    /// # Errors
    /// [`LockError::Taken`] names the process that has it.
    pub fn take(state_dir: &Path) -> Result<Self, LockError> {
        let failed = |source| LockError::Io { state_dir: state_dir.to_owned(), source };
        files::make_private_dir(state_dir).map_err(failed)?;
        let mut options = std::fs::OpenOptions::new();
        options.create(true).truncate(false).read(true).write(true).mode(0o600);
        let mut file = options.open(state_dir.join("enode.lock")).map_err(failed)?;
        match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut text = String::new();
                let read = (&mut file).take(32).read_to_string(&mut text);
                let pid = read.ok().and_then(|_| text.trim().parse().ok());
                return Err(LockError::Taken { state_dir: state_dir.to_owned(), pid });
            }
            Err(error) => return Err(failed(error.into())),
        }
        let note = |file: &mut File| {
            file.set_len(0)?;
            file.rewind()?;
            write!(file, "{}", std::process::id())
        };
        note(&mut file).map_err(failed)?;
        Ok(Self { _file: file })
    }
}

/// Serves `status` on `socket` until dropped. Without the socket the agent works all the same, so a failure is
/// logged and nothing more.
pub async fn serve(socket: PathBuf, status: impl Fn() -> AgentStatus + Send + Sync + 'static) {
    let listener = match bind(&socket).await {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(socket = %socket.display(), %error, "enode status and enode drain --wait cannot ask this agent");
            return std::future::pending().await;
        }
    };
    let _leftover = Leftover(socket);
    let status = Arc::new(status);
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let status = Arc::clone(&status);
                tokio::spawn(async move {
                    if let Ok(Err(error)) = tokio::time::timeout(PATIENCE, answer(stream, &*status)).await {
                        tracing::debug!(%error, "a status request went away");
                    }
                });
            }
            Err(error) => {
                // Out of file descriptors, most likely: it passes.
                tracing::debug!(%error, "cannot accept a status request");
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
    }
}

/// Takes the socket file away when serving ends.
struct Leftover(PathBuf);

impl Drop for Leftover {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.0) {
            tracing::debug!(%error, "the socket file was gone already");
        }
    }
}

async fn bind(socket: &Path) -> io::Result<UnixListener> {
    match tokio::time::timeout(PATIENCE, connect(socket)).await {
        Ok(Ok(_)) | Err(_) => {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "another agent answers on this socket"));
        }
        Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => {}
        // Nobody listens: a process that was killed left it.
        Ok(Err(_)) => std::fs::remove_file(socket)?,
    }
    let near = Near::of(socket)?;
    let listener = UnixListener::bind(&near.path)?;
    std::fs::set_permissions(&near.path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

async fn connect(socket: &Path) -> io::Result<UnixStream> {
    let near = Near::of(socket)?;
    UnixStream::connect(&near.path).await
}

/// A path short enough for a socket address: a long one goes through its opened folder.
struct Near {
    path: PathBuf,
    _folder: Option<File>,
}

impl Near {
    fn of(socket: &Path) -> io::Result<Self> {
        if socket.as_os_str().len() <= ADDRESS {
            return Ok(Self { path: socket.to_owned(), _folder: None });
        }
        let folder = File::open(socket.parent().unwrap_or(Path::new(".")))?;
        let name = socket.file_name().unwrap_or_default();
        Ok(Self {
            path: PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(name),
            _folder: Some(folder),
        })
    }
}

async fn answer(mut stream: UnixStream, status: &(dyn Fn() -> AgentStatus + Send + Sync)) -> io::Result<()> {
    let mut bytes = serde_json::to_vec(&status())?;
    bytes.push(b'\n');
    stream.write_all(&bytes).await?;
    stream.shutdown().await
}

/// Why the agent of a state folder could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// Nobody listens.
    #[error("no agent runs with the state folder {}: start it with `enode run`", .0.display())]
    NotRunning(PathBuf),
    /// Another user's agent.
    #[error("the agent's socket {} belongs to another user: run this as that user or as root", .0.display())]
    Denied(PathBuf),
    /// It answers strangely, or not at all.
    #[error("the agent does not answer on {}: {why}", socket.display())]
    Garbled {
        /// The socket.
        socket: PathBuf,
        /// What happened.
        why: String,
    },
}

/// Asks the agent of a state folder.
///
/// # Errors
/// [`AskError::NotRunning`] only when it is certain that nobody listens.
pub async fn ask(state_dir: &Path) -> Result<AgentStatus, AskError> {
    let socket = socket(state_dir);
    let garbled = |why: String| AskError::Garbled { socket: socket.clone(), why };
    let stream = match tokio::time::timeout(PATIENCE, connect(&socket)).await {
        Err(_) => return Err(garbled(format!("no connection within {} s", PATIENCE.as_secs()))),
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            return Err(match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                    AskError::NotRunning(state_dir.to_owned())
                }
                io::ErrorKind::PermissionDenied => AskError::Denied(socket.clone()),
                _ => garbled(error.to_string()),
            });
        }
    };
    let mut bytes = Vec::new();
    match tokio::time::timeout(PATIENCE, stream.take(LIMIT).read_to_end(&mut bytes)).await {
        Err(_) => return Err(garbled(format!("no answer within {} s", PATIENCE.as_secs()))),
        Ok(Err(error)) => return Err(garbled(error.to_string())),
        Ok(Ok(_)) => {}
    }
    serde_json::from_slice(&bytes).map_err(|error| garbled(error.to_string()))
}

#[cfg(test)]
mod tests {
    use shared::{InstanceId, NodeId, domain::Drain};

    use super::*;
    use crate::state::NodeStatus;

    pub(crate) fn status() -> AgentStatus {
        let node = NodeStatus {
            node_id: NodeId::new("yard/0").unwrap(),
            instance: InstanceId::new("i1").unwrap(),
            accepted: true,
            superseded: None,
            drain: Drain::Graceful,
            drain_reason: "mine".into(),
            reasons: Vec::new(),
            lease: None,
            step: None,
            live_processes: false,
            spooled: 0,
            last_advert_at: None,
            policy_error: String::new(),
        };
        AgentStatus {
            name: "yard".into(),
            pid: std::process::id(),
            version: "0".into(),
            mediator: "http://127.0.0.1:1".into(),
            connected: true,
            stopping: false,
            nodes: vec![node],
        }
    }

    async fn served(state_dir: &Path) -> tokio::task::JoinHandle<()> {
        let server = tokio::spawn(serve(socket(state_dir), status));
        while ask(state_dir).await.is_err() {
            tokio::task::yield_now().await;
        }
        server
    }

    #[tokio::test]
    async fn what_is_served_is_what_is_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        let server = served(dir.path()).await;
        assert_eq!(ask(dir.path()).await.unwrap(), status());
        let mode = std::fs::metadata(socket(dir.path())).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        server.abort();
        assert!(server.await.unwrap_err().is_cancelled());
        assert!(!socket(dir.path()).exists(), "the socket file goes with its server");
        assert!(matches!(ask(dir.path()).await, Err(AskError::NotRunning(_))));
    }

    #[tokio::test]
    async fn a_stale_socket_file_is_replaced_and_a_live_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        drop(std::os::unix::net::UnixListener::bind(socket(dir.path())).unwrap());
        assert!(matches!(ask(dir.path()).await, Err(AskError::NotRunning(_))), "a leftover is no agent");
        let server = served(dir.path()).await;
        let error = bind(&socket(dir.path())).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        assert_eq!(ask(dir.path()).await.unwrap().name, "yard", "the live one was left alone");
        server.abort();
    }

    #[tokio::test]
    async fn a_long_state_folder_has_a_socket_too() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("x".repeat(100)).join("y".repeat(100));
        std::fs::create_dir_all(&deep).unwrap();
        let server = served(&deep).await;
        server.abort();
    }

    #[tokio::test]
    async fn garbage_and_silence_are_not_taken_for_an_agent_that_is_not_there() {
        let dir = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(socket(dir.path())).unwrap();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(b"{\"name\":").await.unwrap();
            drop(stream);
            let (_silent, _) = listener.accept().await.unwrap();
            std::future::pending::<()>().await;
        });
        for _ in 0..2 {
            assert!(matches!(ask(dir.path()).await, Err(AskError::Garbled { .. })));
        }
        server.abort();
    }

    #[test]
    fn one_state_folder_has_one_agent() {
        let dir = tempfile::tempdir().unwrap();
        let lock = Lock::take(&dir.path().join("state")).unwrap();
        let error = Lock::take(&dir.path().join("state")).unwrap_err();
        let said = error.to_string();
        assert!(matches!(error, LockError::Taken { pid: Some(pid), .. } if pid == std::process::id()), "{said}");
        assert!(said.contains("state_dir of its own"), "{said}");
        drop(lock);
        Lock::take(&dir.path().join("state")).unwrap();
    }
}
