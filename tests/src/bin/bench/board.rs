//! What was measured: the table for people and the summary for programs.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use serde_json::{Map, Value, json};

/// What a figure should reach.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Goal {
    AtLeast(f64),
    AtMost(f64),
    /// It is there to compare with.
    None,
}

/// Every figure of the summary, with its goal.
const KEYS: [(&str, Goal); 19] = [
    ("spawn_limit_per_s", Goal::None),
    ("true_runs_per_s", Goal::None),
    ("noop_runs_per_s_sqlite", Goal::AtLeast(3_000.0)),
    ("noop_runs_per_s_postgres", Goal::AtLeast(1_500.0)),
    ("submit_to_start_ms_p50", Goal::AtMost(5.0)),
    ("submit_to_start_ms_p99", Goal::AtMost(20.0)),
    ("free_to_start_ms_p50", Goal::AtMost(5.0)),
    ("free_to_start_ms_p99", Goal::AtMost(20.0)),
    ("free_to_start_100k_ms_p99", Goal::AtMost(20.0)),
    ("blocked_wake_100k_x_10k_ms", Goal::AtMost(5.0)),
    ("policy_to_draining_ms", Goal::AtMost(200.0)),
    ("adverts_per_s", Goal::AtLeast(1_000.0)),
    ("adverts_cpu_fraction", Goal::AtMost(0.30)),
    ("list_nodes_10k_ms", Goal::AtMost(100.0)),
    ("list_runs_1m_ms", Goal::AtMost(10.0)),
    ("mediator_rss_mib_10k_100k", Goal::AtMost(300.0)),
    ("enode_rss_mib", Goal::AtMost(15.0)),
    ("reconnect_lost_leases", Goal::AtMost(0.0)),
    ("reconnect_peak_to_mean", Goal::AtMost(3.0)),
];

#[derive(Debug)]
struct Figure {
    name: String,
    rounds: Vec<f64>,
    goal: Goal,
}

/// All figures so far.
#[derive(Debug, Default)]
pub(crate) struct Board {
    figures: Vec<Figure>,
    notes: Vec<String>,
}

impl Board {
    /// A figure of the summary, measured so many times.
    pub(crate) fn put(&mut self, key: &'static str, rounds: Vec<f64>) {
        let goal = KEYS.iter().find(|(known, _)| *known == key).map(|(_, goal)| *goal);
        self.add(key.to_owned(), rounds, goal.unwrap_or_else(|| panic!("{key} is no key of the summary")));
    }

    /// A figure of the table only.
    pub(crate) fn beside(&mut self, name: impl Into<String>, rounds: Vec<f64>, goal: Goal) {
        self.add(name.into(), rounds, goal);
    }

    fn add(&mut self, name: String, rounds: Vec<f64>, goal: Goal) {
        let figure = Figure { name, rounds, goal };
        println!("   {}", figure.line());
        self.figures.push(figure);
    }

    /// A sentence below the table.
    pub(crate) fn note(&mut self, text: impl Into<String>) {
        let text = text.into();
        println!("   {text}");
        self.notes.push(text);
    }

    /// Everything, for people.
    pub(crate) fn table(&self) -> String {
        let mut text = format!("{:<56}{:>11}   {:<25}{:>10}\n", "figure", "median", "spread", "goal");
        for figure in &self.figures {
            writeln!(text, "{}", figure.line()).ok();
        }
        for note in &self.notes {
            writeln!(text, "{note}").ok();
        }
        text
    }

    /// Writes the medians to `bench/summary.json` in the target directory; what was not measured is null.
    pub(crate) fn write_summary(&self) -> Result<PathBuf> {
        let of = |key: &str| self.figures.iter().find(|it| it.name == key).map(|it| json!(rounded(median(&it.rounds))));
        let summary: Map<String, Value> =
            KEYS.iter().map(|(key, _)| ((*key).to_owned(), of(key).unwrap_or(Value::Null))).collect();
        // target/PROFILE/bench
        let this = std::env::current_exe()?;
        let target = this.ancestors().nth(2).context("the target directory")?;
        let path = Path::new(target).join("bench").join("summary.json");
        std::fs::create_dir_all(path.parent().context("a folder")?)?;
        std::fs::write(&path, serde_json::to_string_pretty(&summary)? + "\n")?;
        Ok(path)
    }
}

impl Figure {
    fn line(&self) -> String {
        let middle = median(&self.rounds);
        let (least, most) = self.rounds.iter().fold((f64::MAX, f64::MIN), |(a, b), it| (a.min(*it), b.max(*it)));
        let spread = match self.rounds.len() {
            0 => "not measured".to_owned(),
            1 => "once".to_owned(),
            n => format!("{} to {} ({n})", short(least), short(most)),
        };
        let (goal, met) = match self.goal {
            Goal::AtLeast(goal) => (format!(">= {}", short(goal)), middle >= goal),
            Goal::AtMost(goal) => (format!("<= {}", short(goal)), middle <= goal),
            Goal::None => (String::new(), true),
        };
        let missed = if met { "" } else { "  missed" };
        format!("{:<56}{:>11}   {spread:<25}{goal:>10}{missed}", self.name, short(middle))
    }
}

/// The middle of some figures.
pub(crate) fn median(figures: &[f64]) -> f64 {
    percentile(figures, 0.5)
}

/// The figure below which this share of them lies.
pub(crate) fn percentile(figures: &[f64], share: f64) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(at.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

fn rounded(figure: f64) -> f64 {
    (figure * 1_000.0).round() / 1_000.0
}

fn short(figure: f64) -> String {
    match figure.abs() {
        it if it >= 100.0 => format!("{figure:.0}"),
        it if it >= 10.0 => format!("{figure:.1}"),
        _ => format!("{figure:.2}"),
    }
}
