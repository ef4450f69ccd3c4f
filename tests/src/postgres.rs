//! A real PostgreSQL for tests: a temporary cluster of the installed server, reachable through a socket in its
//! own folder, gone at the end.
//!
//! `with-postgres COMMAND` starts one for a whole test run and says where it is in `TEST_POSTGRES_URL`; without
//! that variable the first test of a process starts one and the last one stops it. Each test has a database of
//! its own. A server that is not installed is an error, never a skipped test.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU32, Ordering},
        mpsc,
    },
    thread::JoinHandle,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};

/// Where a server that was started for a whole run can be reached.
pub const ENV: &str = "TEST_POSTGRES_URL";

const INSTALL: &str = "PostgreSQL's server is not installed; install it (Debian: apt-get install postgresql)";
const USER: &str = "postgres";

/// A running cluster. Dropping it stops it and removes its files.
#[derive(Debug)]
pub struct Server {
    dir: tempfile::TempDir,
    settings: &'static [&'static str],
    running: Mutex<Option<Running>>,
}

/// Ends when the sender is dropped.
#[derive(Debug)]
struct Running {
    stop: mpsc::Sender<()>,
    keeper: JoinHandle<()>,
}

impl Server {
    /// Makes a cluster and starts it. `fsync` is off: what is tested is the mediator, not the disk.
    ///
    /// # Errors
    /// What is missing, or what the server said.
    pub fn start() -> Result<Self> {
        Self::start_with(&["fsync=off", "full_page_writes=off"])
    }

    /// The same with `fsync`, as it is shipped.
    ///
    /// # Errors
    /// What is missing, or what the server said.
    pub fn start_durable() -> Result<Self> {
        Self::start_with(&[])
    }

    fn start_with(settings: &'static [&'static str]) -> Result<Self> {
        let bin = bin_dir()?;
        let dir = tempfile::Builder::new().prefix("pg-").tempdir()?;
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755))?;
        if is_root() {
            let (uid, gid) = (id("-u")?, id("-g")?);
            chown(dir.path(), Some(uid), Some(gid)).context("the server's folder")?;
        }
        let data = dir.path().join("data");
        let made = as_server(&bin.join("initdb"))
            .arg("-D")
            .arg(&data)
            .args(["-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"])
            .output()?;
        ensure!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        let server = Self { dir, settings, running: Mutex::default() };
        server.resume()?;
        Ok(server)
    }

    /// Stops it, as a fast shutdown does; its files stay.
    pub fn pause(&self) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Running { stop, keeper }) = running {
            drop(stop);
            keeper.join().ok();
        }
    }

    /// Keeps a copy of its files; it must be stopped.
    ///
    /// # Errors
    /// What could not be copied.
    pub fn save(&self) -> Result<()> {
        self.copy("data", "saved")
    }

    /// Puts the copy in the place of its files; it must be stopped.
    ///
    /// # Errors
    /// What could not be copied.
    pub fn restore(&self) -> Result<()> {
        fs::remove_dir_all(self.dir.path().join("data"))?;
        self.copy("saved", "data")
    }

    fn copy(&self, from: &str, to: &str) -> Result<()> {
        let path = |name: &str| self.dir.path().join(name);
        let copied = Command::new("cp").arg("-a").args([path(from), path(to)]).status()?;
        ensure!(copied.success(), "cp -a {from} {to}");
        Ok(())
    }

    /// Starts it (again), and waits until it can be connected to.
    ///
    /// # Errors
    /// What the server said.
    pub fn resume(&self) -> Result<()> {
        let bin = bin_dir()?;
        self.run(&bin, &self.dir.path().join("data"))
    }

    /// The child belongs to a thread that lives as long as the server: the kernel ends the child with the
    /// thread that made it, however this process ends.
    fn run(&self, bin: &Path, data: &Path) -> Result<()> {
        let log = self.dir.path().join("log");
        let mut command = as_server(&bin.join("postgres"));
        command.arg("-D").arg(data).arg("-k").arg(self.dir.path());
        for setting in ["listen_addresses=", "max_connections=200"].iter().chain(self.settings) {
            command.args(["-c", setting]);
        }
        let out = fs::File::create(&log)?;
        command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);
        let (started, is_started) = mpsc::channel();
        let (stop, stopped) = mpsc::channel::<()>();
        let keeper = std::thread::Builder::new().name("postgres".to_owned()).spawn(move || {
            let mut child = match command.spawn() {
                Ok(child) => child,
                Err(error) => return drop(started.send(Err(error))),
            };
            if started.send(Ok(child.id())).is_ok() {
                // Ends when the sender is dropped.
                stopped.recv().ok();
            }
            end(&mut child);
        })?;
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(Running { stop, keeper });
        is_started.recv()?.context("cannot start postgres")?;
        for _ in 0..600 {
            if Command::new(bin.join("pg_isready")).arg("-q").arg("-h").arg(self.dir.path()).status()?.success() {
                return Ok(());
            }
            let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
            if running.as_ref().is_some_and(|it| it.keeper.is_finished()) {
                break;
            }
            drop(running);
            std::thread::sleep(Duration::from_millis(50));
        }
        bail!("postgres did not start: {}", fs::read_to_string(&log).unwrap_or_default())
    }

    /// The URL of its `postgres` database.
    #[must_use]
    pub fn url(&self) -> String {
        url(&self.dir.path().display().to_string(), "postgres")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.pause();
    }
}

/// SIGINT asks for a fast shutdown, SIGKILL for none.
fn end(child: &mut Child) {
    let signal = |signal| {
        if let Some(pid) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
            rustix::process::kill_process(pid, signal).ok();
        }
    };
    signal(rustix::process::Signal::INT);
    for _ in 0..200 {
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    child.kill().ok();
    child.wait().ok();
}

/// A database of its own for one test. Dropping it drops the database.
#[derive(Debug)]
pub struct Database {
    host: String,
    name: String,
    // Held so that it stops with its last database.
    _server: Option<Arc<Server>>,
}

impl Database {
    /// Makes a database on the server that `TEST_POSTGRES_URL` names, or on one of this process.
    ///
    /// # Errors
    /// What is missing, or what the server said.
    pub fn fresh() -> Result<Self> {
        static SHARED: Mutex<Weak<Server>> = Mutex::new(Weak::new());
        let (host, server) = match std::env::var(ENV) {
            Ok(url) => (host_of(&url)?, None),
            Err(_) => {
                let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
                let server = match shared.upgrade() {
                    Some(server) => server,
                    None => Arc::new(Server::start()?),
                };
                *shared = Arc::downgrade(&server);
                (server.dir.path().display().to_string(), Some(server))
            }
        };
        Self::named(host, server)
    }

    /// Makes a database on a server of the test's own.
    ///
    /// # Errors
    /// What the server said.
    pub fn on(server: &Arc<Server>) -> Result<Self> {
        Self::named(server.dir.path().display().to_string(), Some(server.clone()))
    }

    fn named(host: String, server: Option<Arc<Server>>) -> Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("t{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let database = Self { host, name, _server: server };
        database.psql("postgres", &format!("CREATE DATABASE {} TEMPLATE template0", database.name))?;
        Ok(database)
    }

    /// Its URL.
    #[must_use]
    pub fn url(&self) -> String {
        url(&self.host, &self.name)
    }

    /// Runs statements in it, beside whoever else uses it; what they print, one row a line.
    ///
    /// # Errors
    /// What the server said.
    pub fn sql(&self, text: &str) -> Result<String> {
        self.psql(&self.name, text)
    }

    fn psql(&self, database: &str, text: &str) -> Result<String> {
        let out = Command::new(bin_dir()?.join("psql"))
            .args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", USER, "-h", &self.host, "-d", database])
            .args(["-c", text])
            .output()?;
        ensure!(out.status.success(), "{text}: {}", String::from_utf8_lossy(&out.stderr));
        Ok(String::from_utf8_lossy(&out.stdout).trim_end().to_owned())
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.psql("postgres", &format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name)).ok();
    }
}

fn url(host: &str, database: &str) -> String {
    format!("postgres:///{database}?host={host}&user={USER}")
}

fn host_of(url: &str) -> Result<String> {
    let (_, host) = url.split_once("host=").with_context(|| format!("{ENV} names no host: {url}"))?;
    Ok(host.split('&').next().unwrap_or(host).to_owned())
}

/// The programs of the newest server installed.
pub(crate) fn bin_dir() -> Result<PathBuf> {
    let version = |path: &PathBuf| path.parent()?.file_name()?.to_str()?.parse::<u32>().ok();
    fs::read_dir("/usr/lib/postgresql")
        .context(INSTALL)?
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .filter(|path| path.join("initdb").exists())
        .max_by_key(version)
        .context(INSTALL)
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn id(what: &str) -> Result<u32> {
    let out = Command::new("id").args([what, USER]).output()?;
    ensure!(out.status.success(), "there is no user {USER} to run the server as; {INSTALL}");
    Ok(String::from_utf8_lossy(&out.stdout).trim().parse()?)
}

/// The server refuses to run as root.
fn as_server(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.arg("--pdeathsig=INT");
    if is_root() {
        command.args([&format!("--reuid={USER}"), &format!("--regid={USER}"), "--init-groups"]);
    }
    command.arg(program);
    command
}
