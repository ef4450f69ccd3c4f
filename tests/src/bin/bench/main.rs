//! The benchmark: every figure of `docs/performance.md`, through the real binaries and the public protocol.
//!
//! Arguments choose measurements by a part of their name; none means all. `--smoke` takes tiny numbers, to see
//! that everything works. It prints a table and writes `target/bench/summary.json`. Each family of figures has a
//! module; [`fleet`] stands for machines of which one computer has too few.

mod board;
mod calls;
mod fleet;
mod latency;
mod line;
mod many;
mod peers;
mod proc;
mod reconnect;
mod size;
mod stored;
mod throughput;

use std::{
    fs::Permissions,
    os::unix::fs::PermissionsExt as _,
    panic::{AssertUnwindSafe, catch_unwind},
    process::ExitCode,
    time::Instant,
};

use anyhow::{Result, anyhow, ensure};
use board::Board;
use size::Size;

/// Figures that are measured together.
struct Family {
    name: &'static str,
    keys: &'static [&'static str],
    measure: fn(&mut Board, &Size) -> Result<()>,
}

/// In the order in which they are measured.
const FAMILIES: [Family; 8] = [
    Family {
        name: "true",
        keys: &["spawn_limit_per_s", "true_runs_per_s", "hyperqueue", "slurm"],
        measure: throughput::real,
    },
    Family { name: "noop sqlite", keys: &["noop_runs_per_s_sqlite"], measure: throughput::noop_sqlite },
    Family { name: "noop postgres", keys: &["noop_runs_per_s_postgres"], measure: throughput::noop_postgres },
    Family {
        name: "latency",
        keys: &[
            "submit_to_start_ms_p50",
            "submit_to_start_ms_p99",
            "free_to_start_ms_p50",
            "free_to_start_ms_p99",
            "policy_to_draining_ms",
            "enode_rss_mib",
        ],
        measure: latency::measure,
    },
    Family {
        name: "adverts",
        keys: &["adverts_per_s", "adverts_cpu_fraction", "list_nodes_10k_ms"],
        measure: many::measure,
    },
    Family {
        name: "line",
        keys: &["blocked_wake_100k_x_10k_ms", "free_to_start_100k_ms_p99", "mediator_rss_mib_10k_100k"],
        measure: line::measure,
    },
    Family { name: "stored", keys: &["list_runs_1m_ms"], measure: stored::measure },
    Family {
        name: "reconnect",
        keys: &["reconnect_lost_leases", "reconnect_peak_to_mean"],
        measure: reconnect::measure,
    },
];

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let (flags, words): (Vec<String>, Vec<String>) = std::env::args().skip(1).partition(|it| it.starts_with("--"));
    let size = match flags.as_slice() {
        [] => size::FULL,
        [flag] if flag == "--smoke" => size::SMOKE,
        _ => {
            return Err(anyhow!(
                "{flags:?}: the only flag is --smoke; words choose measurements by a part of their name"
            ));
        }
    };
    let wanted = |family: &&Family| {
        let names = || std::iter::once(&family.name).chain(family.keys);
        words.is_empty() || words.iter().any(|word| names().any(|name| name.contains(word.as_str())))
    };
    let chosen: Vec<&Family> = FAMILIES.iter().filter(wanted).collect();
    ensure!(!chosen.is_empty(), "no measurement has {words:?} in its name; there are: {}", names());
    let _kept = keep_everything()?;
    let (mut board, mut failed, started) = (Board::default(), Vec::new(), Instant::now());
    for family in chosen {
        println!("\n== {}", family.name);
        let began = Instant::now();
        // The support of the tests panics where a test would fail. One family that does must not cost the others.
        let ended = catch_unwind(AssertUnwindSafe(|| (family.measure)(&mut board, &size)));
        match ended.unwrap_or_else(|_| Err(anyhow!("it panicked, see above"))) {
            Ok(()) => println!("   ({:.0} s)", began.elapsed().as_secs_f64()),
            Err(error) => {
                eprintln!("   FAILED: {error:#}");
                failed.push(family.name);
            }
        }
    }
    println!("\n{}", board.table());
    let path = board.write_summary()?;
    println!("{} is written; it took {:.0} s", path.display(), started.elapsed().as_secs_f64());
    ensure!(failed.is_empty(), "not measured to the end: {}", failed.join(", "));
    Ok(())
}

/// A folder for all that the measurements make. It goes at the end, and nothing in it before: a file system that looks for a
/// free inode passes over those that were freed in the last minutes, and the next measurement would pay for that.
fn keep_everything() -> Result<tempfile::TempDir> {
    let folder = tempfile::Builder::new().prefix("bench-").permissions(Permissions::from_mode(0o755)).tempdir()?;
    tempfile::env::override_temp_dir(folder.path()).map_err(|_| anyhow!("something was made before"))?;
    Ok(folder)
}

fn names() -> String {
    FAMILIES.iter().flat_map(|it| it.keys.iter().copied()).collect::<Vec<_>>().join(", ")
}
