//! The reason `disk`: too little room where Runs work.

use std::path::Path;

use shared::{Timestamp, domain::Drain};

use super::{Held, Reasons, Source};

/// Holds the node back while less than `min_free` bytes are free, and lets it go only at a tenth more, so that
/// a node at the edge does not open and close with every file.
pub(super) fn check(reasons: &mut Reasons, work_dir: &Path, min_free: Option<u64>, now: Timestamp) {
    let Some(min_free) = min_free else { return };
    match free(work_dir) {
        Ok(free) => judge(reasons, free, min_free, now),
        // Not knowing changes nothing.
        Err(error) => tracing::debug!(dir = %work_dir.display(), %error, "cannot tell how much room is left"),
    }
}

fn judge(reasons: &mut Reasons, free: u64, min_free: u64, now: Timestamp) {
    let enough = if reasons.holds(Source::Disk) { min_free.saturating_add(min_free / 10) } else { min_free };
    if free >= enough {
        reasons.clear(Source::Disk);
        return;
    }
    // Tenths of a GiB at most: the text is compared to tell whether anything changed.
    let text = format!("{} free, {} wanted", gib(free), gib(enough));
    reasons.hold(Source::Disk, Held { drain: Drain::Graceful, text, since: Some(now) });
}

fn gib(bytes: u64) -> String {
    let tenths = (u128::from(bytes) * 10) >> 30;
    format!("{}.{} GiB", tenths / 10, tenths % 10)
}

/// Bytes that this user may still write. The folder may not exist yet; then its nearest ancestor counts.
fn free(dir: &Path) -> std::io::Result<u64> {
    let place = dir.ancestors().find(|place| place.exists()).unwrap_or(Path::new("/"));
    let stat = rustix::fs::statvfs(place)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_holds_back_and_lets_go_only_with_some_distance() {
        let mut reasons = Reasons::default();
        let now = Timestamp::from_millis(1);
        judge(&mut reasons, 100, 100, now);
        assert!(!reasons.holds(Source::Disk));
        judge(&mut reasons, 99, 100, now);
        assert!(reasons.holds(Source::Disk));
        judge(&mut reasons, 105, 100, now);
        assert!(reasons.holds(Source::Disk));
        judge(&mut reasons, 110, 100, now);
        assert!(!reasons.holds(Source::Disk));
    }

    #[test]
    fn off_when_told_so_and_measured_when_on() {
        let dir = tempfile::tempdir().unwrap();
        let (mut reasons, now) = (Reasons::default(), Timestamp::from_millis(1));
        check(&mut reasons, dir.path(), None, now);
        assert!(!reasons.holds(Source::Disk));
        check(&mut reasons, &dir.path().join("not/made/yet"), Some(u64::MAX), now);
        assert!(reasons.holds(Source::Disk));
    }
}
