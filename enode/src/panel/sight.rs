//! The queue at one moment with its layout: read and laid out once for a request, and not at all again while no file
//! changes. A page of a large queue costs its drawing and a look at every file's stamp.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
};

use shared::ticket::{Queue, Stem, Suffixes, Ticket};

use super::{
    Panel,
    fault::Fault,
    words::{Few, LINE, cut},
};
use crate::tickets::{
    Folder,
    absent::Absent,
    check,
    check::{Fault as Odd, Kind},
    view,
};

/// Why it is not there, for the page that says so.
pub(super) fn missing(queue: &Queue, stem: &Stem) -> Fault {
    Fault::missing(absent(&Absent::of(queue, stem)))
}

/// In its own words the first of these leads to the command line.
pub(super) fn absent(why: &Absent) -> String {
    match why {
        Absent::Nowhere(stem) => format!("There is no ticket {stem}."),
        Absent::Unread { .. } => format!("{why}."),
    }
}

/// What all pages draw from.
#[derive(Debug)]
pub(super) struct Sight {
    pub(super) queue: Queue,
    pub(super) page: view::Page,
    /// Files that are no tickets, files that do not count, and circles.
    pub(super) odd: Few<Odd>,
}

/// How many odd files are named.
const ODD: usize = 50;

fn few(odd: impl IntoIterator<Item = Odd>) -> Few<Odd> {
    Few::new(odd, ODD).map(|it| Odd { message: cut(&it.message, LINE), ..it })
}

/// The last one that was laid out.
#[derive(Debug, Default)]
pub(super) struct Last(Mutex<Option<Arc<Sight>>>);

impl Sight {
    pub(super) fn new(queue: Queue, suffixes: &Suffixes) -> Self {
        let page = view::page(&queue);
        let odd = check::check(&queue, suffixes).into_iter();
        let odd = odd.filter(|it| matches!(it.kind, Kind::Broken | Kind::Twin | Kind::Cycle));
        Self { queue, page, odd: few(odd) }
    }

    /// Whether a queue is this one. A file that has not changed is the same allocation.
    fn is_of(&self, queue: &Queue) -> bool {
        let same = |a: &[Arc<Ticket>], b: &[Arc<Ticket>]| {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| Arc::ptr_eq(a, b))
        };
        same(self.queue.tickets(), queue.tickets())
            && same(self.queue.twins(), queue.twins())
            && self.queue.unread() == queue.unread()
    }

    /// The ticket that an address names.
    ///
    /// # Errors
    /// There is none, and why.
    pub(super) fn find(&self, stem: &Stem) -> Result<&Ticket, Fault> {
        self.queue.find(stem).map(|it| &**it).ok_or_else(|| missing(&self.queue, stem))
    }
}

impl Last {
    /// The queue as its folder is now.
    pub(super) fn look(&self, folder: &Folder) -> io::Result<Arc<Sight>> {
        let queue = folder.read()?;
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = last.as_ref().filter(|known| known.is_of(&queue)) {
            return Ok(known.clone());
        }
        Ok(last.insert(Arc::new(Sight::new(queue, folder.suffixes()))).clone())
    }
}

impl Panel {
    /// Everything in the queue now.
    pub(super) async fn look(self: &Arc<Self>) -> Result<Arc<Sight>, Fault> {
        let panel = self.clone();
        let seen = self.off(move |folder| panel.last.look(folder)).await?;
        seen.map_err(|error| Fault::folder(self.folder.path(), &error))
    }

    /// Open tickets that no worker takes, by the templates as they are now.
    pub(super) async fn untaken(&self, sight: &Arc<Sight>) -> Result<Few<Odd>, Fault> {
        if self.templates.folder.is_none() {
            return Ok(few([]));
        }
        let (templates, sight) = (self.templates.clone(), sight.clone());
        self.off(move |_| few(check::without_template(&sight.page, &templates))).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_queue_is_read_and_laid_out_again_for_no_more_than_what_has_changed() {
        const FILES: usize = 5_000;
        let dir = tempfile::tempdir().unwrap();
        let write = |at: usize, text: &str| {
            std::fs::write(dir.path().join(format!("t{at}.md")), format!("---\ntitle: {text}\n---\n")).unwrap();
        };
        (0..FILES).for_each(|at| write(at, "old"));
        let (folder, last) = (Folder::open(dir.path()).unwrap(), Last::default());
        assert_eq!(*folder.suffixes(), Suffixes::new("", "").unwrap());
        // Files as fresh as the clock's tick are read once more.
        let settled = || {
            for _ in 0..200 {
                let before = folder.reads();
                let sight = last.look(&folder).unwrap();
                if folder.reads() == before {
                    return sight;
                }
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            panic!("it is read again and again");
        };
        let first = settled();
        assert_eq!(first.page.total, FILES);
        let before = folder.reads();
        assert!(Arc::ptr_eq(&first, &last.look(&folder).unwrap()), "nothing changed, and it was laid out again");
        assert_eq!(folder.reads(), before);
        (0..3).for_each(|at| write(at, "new"));
        let next = last.look(&folder).unwrap();
        assert_eq!(folder.reads() - before, 3);
        assert_eq!(next.page.tickets.iter().filter(|it| it.title == "new").count(), 3);
        // One that goes away costs nothing, and is seen.
        settled();
        let before = folder.reads();
        std::fs::remove_file(dir.path().join("t7.md")).unwrap();
        assert_eq!(last.look(&folder).unwrap().page.total, FILES - 1);
        assert_eq!(folder.reads(), before);
    }
}
