//! Random contracts that are valid: written as text and parsed like everybody's.

use std::{fmt::Write as _, sync::Arc};

use shared::contract::{Contract, parse};

use crate::rng::Rng;

/// Words that nodes may have, each with values of its attribute `kind`.
pub(crate) const WORDS: [&str; 3] = ["build", "flash", "gpu"];
pub(crate) const KINDS: [&str; 3] = ["red", "green", "blue"];

/// A valid contract of at most `most` nodes a role. What validation refuses is drawn again.
pub(crate) fn draw(rng: &mut Rng, most: u64) -> Arc<Contract> {
    for _ in 0..50 {
        let text = write(rng, most);
        match parse(text.as_bytes()) {
            Ok(contract) => return Arc::new(contract),
            Err(_) => continue,
        }
    }
    let plain = "{requires: [{as: r0, capability: build}], steps: [{id: s0, uses: r0, run: [x]}]}";
    Arc::new(parse(plain.as_bytes()).unwrap())
}

fn write(rng: &mut Rng, most: u64) -> String {
    let mut roles: Vec<(String, u64)> = Vec::new();
    let mut text = String::from("requires:\n");
    for at in 0..rng.between(1, 2) {
        let count = if rng.chance(250) { rng.between(1, most) } else { 1 };
        let word = if rng.chance(700) { WORDS[0] } else { *rng.pick(&WORDS) };
        write!(text, "  - {{as: r{at}, capability: {word}, count: {count}").unwrap();
        match rng.below(14) {
            0 => write!(text, ", attrs: {{kind: {}}}", rng.pick(&KINDS)).unwrap(),
            1 => write!(text, ", attrs: {{cores: {{min: {}}}}}", rng.between(1, 8)).unwrap(),
            2 => write!(text, ", attrs: {{kind: {{any: [{}, {}]}}}}", KINDS[0], KINDS[1]).unwrap(),
            _ => {}
        }
        text.push_str("}\n");
        roles.push((format!("r{at}"), count));
    }
    let steps = rng.between(1, 5);
    text.push_str("steps:\n");
    let mut targets: Vec<u64> = Vec::new();
    for at in 0..steps {
        let (role, count) = rng.pick(&roles).clone();
        write!(text, "  - {{id: s{at}, uses: '{role}[{}]', run: [x], out: [o{at}]", rng.below(count)).unwrap();
        let free: Vec<u64> = (at + 1..steps).filter(|it| !targets.contains(it)).collect();
        if free.len() >= 2 && rng.chance(300) {
            let to = [free[0], free[1]];
            targets.extend(to);
            write!(text, ", dispatch: {{from: o{at}#/v, to: [s{}, s{}]}}", to[0], to[1]).unwrap();
        }
        match rng.below(6) {
            0 => text.push_str(", needs: []"),
            1 if at > 0 && !targets.contains(&at) => {
                let mut needs: Vec<String> = (0..at).filter(|_| rng.chance(500)).map(|it| format!("s{it}")).collect();
                needs.dedup();
                write!(text, ", needs: [{}]", needs.join(", ")).unwrap();
                if let Some(first) = needs.first() {
                    write!(text, ", in: {{from: [o{}]}}", &first[1..]).unwrap();
                }
            }
            _ => {}
        }
        if rng.chance(150) {
            write!(text, ", release: [{role}]").unwrap();
        }
        if rng.chance(100) {
            text.push_str(", timeout: 1m");
        }
        text.push_str("}\n");
    }
    if rng.chance(400) {
        text.push_str("success_when:\n");
        for at in 0..steps {
            match rng.below(5) {
                0 | 1 => writeln!(text, "  - {{step: s{at}, exit_code: 0}}").unwrap(),
                2 => writeln!(text, "  - {{step: s{at}, produced: [o{at}], required: {}}}", rng.chance(500)).unwrap(),
                _ => {}
            }
        }
        writeln!(text, "  - {{step: s{}, exit_code: 0}}", steps - 1).unwrap();
    }
    text
}
