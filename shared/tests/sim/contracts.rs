//! Random contracts that are valid: written as text and parsed like everybody's.

use std::{fmt::Write as _, sync::Arc};

use shared::contract::{Contract, parse};

use crate::rng::Rng;

/// Words that nodes may have, each with values of its attribute `kind`.
pub(crate) const WORDS: [&str; 3] = ["build", "flash", "gpu"];
pub(crate) const KINDS: [&str; 3] = ["red", "green", "blue"];

/// A valid contract of at most `most` nodes a role. What validation refuses is drawn again.
/// Or one that asks people more than others do.
pub(crate) fn draw(rng: &mut Rng, most: u64, asks: bool) -> Arc<Contract> {
    for _ in 0..50 {
        let rich = rng.chance(500) || asks;
        let text = Draft { rng, text: String::new(), roles: Vec::new(), targets: Vec::new(), rich, asks }.write(most);
        if let Ok(contract) = parse(text.as_bytes()) {
            return Arc::new(contract);
        }
    }
    let plain = "{requires: [{as: r0, capability: build}], steps: [{id: s0, uses: r0, run: [x]}]}";
    Arc::new(parse(plain.as_bytes()).unwrap())
}

struct Draft<'r> {
    rng: &'r mut Rng,
    text: String,
    /// Roles and how many nodes each has.
    roles: Vec<(String, u64)>,
    targets: Vec<u64>,
    /// Everything the language has, or `run` steps alone.
    rich: bool,
    asks: bool,
}

impl Draft<'_> {
    fn put(&mut self, text: impl AsRef<str>) {
        self.text.push_str(text.as_ref());
    }

    fn write(mut self, most: u64) -> String {
        self.put("requires:\n");
        for at in 0..self.rng.between(1, 2) {
            let count = if self.rng.chance(250) { self.rng.between(1, most) } else { 1 };
            let role = format!("r{at}");
            let want = self.want(&role, count);
            self.put(format!("  - {{{want}"));
            if self.rich && self.rng.chance(150) {
                self.put(", apart: true");
            }
            self.put("}\n");
            self.roles.push((role, count));
        }
        let steps = self.rng.between(1, if self.rich { 6 } else { 5 });
        self.put("steps:\n");
        for at in 0..steps {
            self.step(at, steps);
        }
        self.end(steps);
        self.text
    }

    fn want(&mut self, role: &str, count: u64) -> String {
        let word = if self.rng.chance(700) { WORDS[0] } else { *self.rng.pick(&WORDS) };
        let mut text = format!("as: {role}, capability: {word}, count: {count}");
        match self.rng.below(14) {
            0 => write!(text, ", attrs: {{kind: {}}}", self.rng.pick(&KINDS)).unwrap(),
            1 => write!(text, ", attrs: {{cores: {{min: {}}}}}", self.rng.between(1, 8)).unwrap(),
            2 => write!(text, ", attrs: {{kind: {{any: [{}, {}]}}}}", KINDS[0], KINDS[1]).unwrap(),
            _ => {}
        }
        text
    }

    fn step(&mut self, at: u64, steps: u64) {
        let kind = if self.asks && self.rng.chance(300) {
            0
        } else if self.rich {
            self.rng.below(10)
        } else {
            9
        };
        let free: Vec<u64> = (at + 1..steps).filter(|it| !self.targets.contains(it)).collect();
        let forks = free.len() >= 2 && self.rng.chance(300);
        self.put(format!("  - {{id: s{at}"));
        match kind {
            0 => {
                self.put(", ask: {question: well}");
                if self.rng.chance(400) {
                    self.put(", timeout: 40s");
                }
                if forks {
                    self.fork(&format!("answer.json#/v, to: [s{}, s{}]", free[0], free[1]), &free);
                }
            }
            1 | 2 => {
                let role = format!("x{at}");
                let want = self.want(&role, 1);
                let text = format!(", acquire: {{{want}, wait: {}}}", self.rng.chance(700));
                self.put(text);
                self.roles.push((role, 1));
                if self.rng.chance(200) {
                    self.put(", timeout: 2m");
                }
                if forks {
                    let to = format!("acquired: s{}, unavailable: s{}, deadlock: s{}", free[0], free[1], free[1]);
                    self.fork(&format!("outcome, to: {{{to}}}"), &free);
                }
            }
            _ => {
                let (role, count) = if self.roles.len() > 2 && self.rng.chance(500) {
                    self.roles.last().cloned().unwrap()
                } else {
                    self.rng.pick(&self.roles).clone()
                };
                let what = if kind == 3 { "agent: {prompt: do}" } else { "run: [x]" };
                let text = format!(", uses: '{role}[{}]', {what}, out: [o{at}]", self.rng.below(count));
                self.put(text);
                if forks {
                    self.fork(&format!("o{at}#/v, to: [s{}, s{}]", free[0], free[1]), &free);
                }
                self.more(at, &role);
            }
        }
        self.needs(at);
        self.put("}\n");
    }

    fn fork(&mut self, how: &str, free: &[u64]) {
        self.targets.extend(&free[..2]);
        self.put(format!(", dispatch: {{from: {how}}}"));
    }

    fn needs(&mut self, at: u64) {
        match self.rng.below(7) {
            0 => self.put(", needs: []"),
            1 if at > 0 && !self.targets.contains(&at) => {
                let needs: Vec<String> = (0..at).filter(|_| self.rng.chance(500)).map(|it| format!("s{it}")).collect();
                self.put(format!(", needs: [{}]", needs.join(", ")));
            }
            _ => {}
        }
    }

    fn more(&mut self, at: u64, role: &str) {
        if self.rng.chance(150) {
            self.put(format!(", release: [{role}]"));
        }
        if self.rng.chance(100) {
            self.put(", timeout: 1m");
        }
        if !self.rich {
            return;
        }
        if self.rng.chance(200) {
            self.put(", keep: true");
        }
        if self.rng.chance(200) {
            self.put(", max_attempts: 2");
        }
        if self.rng.chance(200) {
            let until = *self.rng.pick(&["", ", until: {exit_code: 0}", ", until: {exit_code: 1}"]);
            let back = self.rng.between(at.saturating_sub(2), at);
            let text = format!(", loop: {{back_to: s{back}, max: {}{until}}}", self.rng.between(1, 3));
            self.put(text);
        }
    }

    fn end(&mut self, steps: u64) {
        if self.rng.chance(400) {
            self.put("success_when:\n");
            for at in 0..steps {
                match self.rng.below(5) {
                    0 | 1 => self.put(format!("  - {{step: s{at}, exit_code: 0}}\n")),
                    2 => {
                        let required = self.rng.chance(500);
                        self.put(format!("  - {{step: s{at}, produced: [o{at}], required: {required}}}\n"));
                    }
                    _ => {}
                }
            }
            self.put(format!("  - {{step: s{}, required: true}}\n", steps - 1));
        }
        if self.rich {
            let text = format!("on_lost: {{retry: {}}}\n", self.rng.below(3));
            self.put(text);
            if self.rng.chance(500) {
                self.put("on_drain: requeue\n");
            }
            if self.rng.chance(500) {
                self.put("when_unmatched: queue\n");
            }
        }
    }
}
