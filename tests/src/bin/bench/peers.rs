//! The same processes through other systems, where they are installed.

use std::{
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};

use crate::{
    board::{Board, Goal},
    size::Size,
    throughput::SLOTS,
};

/// `ours` is what we reached in this run.
pub(crate) fn measure(board: &mut Board, size: &Size, ours: f64) -> Result<()> {
    match found("hq") {
        Some(hq) => compare(board, "HyperQueue", hyperqueue(&hq, size)?, ours),
        None => board.note("HyperQueue (hq) is not on the PATH: not compared."),
    }
    match (found("sbatch"), found("sinfo")) {
        (Some(sbatch), Some(_)) => compare(board, "Slurm", slurm(&sbatch, size)?, ours),
        _ => board.note("Slurm (sbatch, sinfo) is not on the PATH: not compared."),
    }
    Ok(())
}

fn compare(board: &mut Board, name: &str, rounds: Vec<f64>, ours: f64) {
    let ratios = rounds.iter().map(|theirs| ours / theirs).collect();
    board.beside(format!("{name}, /bin/true per s"), rounds, Goal::None);
    board.beside(format!("true Runs / {name}"), ratios, Goal::AtLeast(1.0));
}

fn found(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|it| it.is_file())
}

/// Ended when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// A server and a worker of our own, in a directory of their own.
fn hyperqueue(hq: &PathBuf, size: &Size) -> Result<Vec<f64>> {
    let home = tempfile::tempdir()?;
    let command = |args: &[&str]| {
        let mut command = Command::new(hq);
        command.arg("--server-dir").arg(home.path()).args(args).current_dir(home.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let _server = Running(command(&["server", "start"]).spawn()?);
    wait("hq's server", || command(&["server", "info"]).status().is_ok_and(|it| it.success()))?;
    let slots = SLOTS.to_string();
    let _worker = Running(command(&["worker", "start", "--cpus", &slots]).spawn()?);
    wait("hq's worker", || command(&["submit", "--wait", "--", "/bin/true"]).status().is_ok_and(|it| it.success()))?;
    let array = format!("1-{}", size.real_runs);
    let args = ["submit", "--wait", "--stdout", "none", "--stderr", "none", "--array", &array, "--", "/bin/true"];
    (0..size.rounds).map(|_| timed(&mut command(&args), size.real_runs)).collect()
}

/// The cluster that is there. Its limit for arrays is 1,001 unless somebody has raised it.
fn slurm(sbatch: &PathBuf, size: &Size) -> Result<Vec<f64>> {
    let count = size.real_runs.min(1_000);
    let array = format!("--array=1-{count}%{SLOTS}");
    let args = ["--wait", &array, "--output=/dev/null", "--wrap=/bin/true"];
    (0..size.rounds.min(2)).map(|_| timed(Command::new(sbatch).args(args).stdout(Stdio::null()), count)).collect()
}

fn timed(command: &mut Command, count: usize) -> Result<f64> {
    let started = Instant::now();
    let status = command.status().with_context(|| format!("{command:?}"))?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(count as f64 / started.elapsed().as_secs_f64())
}

fn wait(what: &str, mut holds: impl FnMut() -> bool) -> Result<()> {
    let started = Instant::now();
    while !holds() {
        ensure!(started.elapsed() < Duration::from_secs(20), "{what} does not start");
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}
