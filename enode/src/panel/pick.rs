//! Picking what must be done first: only what is there can be chosen, and the server looks again.

use shared::ticket::{Lane, Queue, Stem};

use super::words;

/// One ticket that may be chosen.
#[derive(Debug, Clone)]
pub(super) struct Pick {
    pub(super) stem: String,
    pub(super) title: String,
    pub(super) words: &'static str,
    pub(super) is_chosen: bool,
}

/// Everything that is not done, and whatever is chosen already. What is chosen stands first.
pub(super) fn picks(queue: &Queue, chosen: &[Stem], own: Option<&Stem>) -> Vec<Pick> {
    let mut picks: Vec<Pick> = chosen
        .iter()
        .map(|stem| Pick {
            stem: stem.to_string(),
            title: queue.find(stem).map(|it| words::cut(&it.title, words::LINE)).unwrap_or_default(),
            words: queue.lane(stem).map_or("missing", words::lane),
            is_chosen: true,
        })
        .collect();
    let free = queue.tickets().iter().filter(|it| it.lane != Lane::Done && Some(&it.stem) != own);
    picks.extend(free.filter(|it| !chosen.contains(&it.stem)).map(|it| Pick {
        stem: it.stem.to_string(),
        title: words::cut(&it.title, words::LINE),
        words: words::lane(it.lane),
        is_chosen: false,
    }));
    picks
}

/// What a form has chosen.
///
/// # Errors
/// Names what is no ticket by its name, or is not there.
pub(super) fn chosen<'a>(
    queue: &Queue,
    names: impl Iterator<Item = &'a str>,
    known: &[Stem],
    own: Option<&Stem>,
) -> Result<Vec<Stem>, String> {
    let mut deps = Vec::new();
    for name in names.filter(|name| !name.trim().is_empty()) {
        let stem = Stem::new(name).map_err(|error| format!("deps: {error}"))?;
        if Some(&stem) == own {
            return Err("deps: a ticket cannot wait for itself".to_owned());
        }
        if queue.lane(&stem).is_none() && !known.contains(&stem) {
            return Err(format!("deps: there is no ticket {stem}"));
        }
        if !deps.contains(&stem) {
            deps.push(stem);
        }
    }
    Ok(deps)
}
