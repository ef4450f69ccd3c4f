//! What the operating system and the metrics page say about a process.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use tests::Mediator;

/// Resident memory in MiB.
pub(crate) fn rss_mib(pid: u32) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|it| it.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kib: f64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib / 1_024.0)
}

/// Processor time used so far.
pub(crate) fn cpu(pid: u32) -> Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // After the name, which may hold anything: fields 14 and 15 of the line are user and system ticks.
    let (_, rest) = stat.rsplit_once(')').context("a stat line")?;
    let ticks: Vec<u64> = rest.split_whitespace().skip(11).take(2).map(str::parse).collect::<Result<_, _>>()?;
    // USER_HZ, which is 100 on every Linux that Rust builds for.
    Ok(Duration::from_millis(ticks.iter().sum::<u64>() * 10))
}

/// One number of the metrics page.
pub(crate) fn metric(mediator: &Mediator, name: &str) -> Result<f64> {
    let (_, body) = mediator.get("/metrics");
    let value = body.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.with_context(|| format!("no {name} on the metrics page"))?.parse().context("a number")
}

/// Fetches a page: how long until its last byte, and the page.
pub(crate) fn timed_get(mediator: &Mediator, path: &str) -> Result<(f64, String)> {
    let started = Instant::now();
    let (status, body) = mediator.get(path);
    let took = millis(started.elapsed());
    ensure!(status == 200, "GET {path}: {status} {body}");
    Ok((took, body))
}

/// As a figure.
pub(crate) fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000.0
}
