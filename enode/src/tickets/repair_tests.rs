use shared::ticket::Suffixes;

use super::{super::links::Links, *};

const OPEN: &str = "---\ntitle: t\n---\nbody\n";
const HELD: &str = "---\ntitle: t\nsession_id: r1\nowner: me\n---\nbody\n";

/// Files before and after; `=NAME` is another name of that file.
fn check(before: &[(&str, &str)], after: &[(&str, &str)]) {
    check_begun(None, before, after);
}

/// With what a killed process had noted.
fn check_begun(begun: Option<&str>, before: &[(&str, &str)], after: &[(&str, &str)]) {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::with(dir.path(), Suffixes::default(), Links::Kernel).unwrap();
    for (name, text) in before {
        match text.strip_prefix('=') {
            Some(other) => fs::hard_link(folder.at(other), folder.at(name)).unwrap(),
            None => fs::write(folder.at(name), text).unwrap(),
        }
    }
    if let Some(name) = begun {
        begun::note(&folder, name).unwrap();
    }
    repair(&folder).unwrap();
    let mut found: Vec<(String, String)> = fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .map(|name| (name.clone(), fs::read_to_string(folder.at(&name)).unwrap()))
        .collect();
    found.sort();
    let after: Vec<(String, String)> = after.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
    assert_eq!(found, after, "{before:?}");
    // And again it changes nothing.
    repair(&folder).unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), after.len());
}

#[test]
fn a_claim_stands_once_it_is_linked_and_never_happened_before_it_was_copied() {
    check(&[("a.md", OPEN), ("a.wip.md", "=a.md")], &[("a.wip.md", OPEN)]);
    for copied in ["", "---\ntit", OPEN] {
        check_begun(Some("a.wip.md"), &[("a.md", OPEN), ("a.wip.md", copied)], &[("a.md", OPEN)]);
    }
}

#[test]
fn a_return_stands_once_the_open_name_is_there() {
    let check = |before: &[_], after: &[_]| check_begun(Some("a.wip.md"), before, after);
    check(&[("a.md", OPEN), ("a.wip.md", HELD)], &[("a.md", OPEN)]);
    check(&[("a.wip.md", HELD)], &[("a.wip.md", HELD)]);
    let asked = "---\ntitle: t\ndeps: [q]\nawaiting: q\n---\nbody\n\n## 질문 1\n\n?\n";
    check(&[("a.md", asked), ("a.wip.md", HELD)], &[("a.md", asked)]);
    check(&[("a.md", ""), ("a.wip.md", HELD)], &[("a.wip.md", HELD)]);
}

/// What nobody of ours had begun is an editor that saves late, under the name that the ticket had when it was opened.
#[test]
fn a_late_save_under_the_open_name_ends_no_claim() {
    let unowned = OPEN;
    for late in [OPEN.to_owned(), format!("{OPEN}more\n"), String::new(), "---\ntitle: t\n".to_owned()] {
        for wip in [HELD, unowned] {
            let pair = [("a.md", late.as_str()), ("a.wip.md", wip)];
            check(&pair, &pair);
            // Nor by what was begun with another one.
            check_begun(Some("b.wip.md"), &pair, &pair);
        }
    }
}

#[test]
fn an_end_is_ended() {
    check(&[("a.done.md", HELD), ("a.wip.md", "=a.done.md")], &[("a.done.md", HELD)]);
    let check = |before: &[_], after: &[_]| check_begun(Some("a.done.md"), before, after);
    for part in ["", "---\ntitle", HELD] {
        check(&[("a.done.md", part), ("a.wip.md", HELD)], &[("a.done.md", HELD)]);
    }
}

/// What nobody of ours had begun is a person's: a file that is being saved in steps, or a name that was only touched.
#[test]
fn a_done_name_that_a_person_makes_ends_no_claim() {
    for done in ["", "---\ntitle", HELD] {
        let pair = [("a.done.md", done), ("a.wip.md", HELD)];
        check(&pair, &pair);
        for begun in ["b.done.md", "a.wip.md"] {
            check_begun(Some(begun), &pair, &pair);
        }
    }
}

/// The name alone unlocks: an answer that was never written must not look like one.
#[test]
fn a_new_file_that_was_never_filled_never_was() {
    let asking = "---\ntitle: t\ndeps: [q]\nawaiting: q\n---\n## 질문 1\n?\n";
    check_begun(Some("q.done.md"), &[("a.md", asking), ("q.done.md", "")], &[("a.md", asking)]);
    check_begun(Some("a.md"), &[("a.md", "")], &[]);
    let filled = [("a.md", asking), ("q.done.md", "---\nkind: answer\n---\nyes\n")];
    check_begun(Some("q.done.md"), &filled, &filled);
    // What nobody of ours had begun is an editor's that writes in steps.
    let theirs = [("a.md", asking), ("q.done.md", "")];
    check(&theirs, &theirs);
    check_begun(Some("x.done.md"), &theirs, &theirs);
}

#[test]
fn what_a_person_has_made_is_left_alone() {
    let other = "---\ntitle: another\n---\n";
    for pair in [
        // A fragment beside a ticket in progress, an accident, an old open name of what is done.
        [("a.md", other), ("a.wip.md", HELD)],
        [("a.md", HELD), ("a.wip.md", "---\ntitle: t\nsession_id: r1\n---\nbo")],
        [("a.done.md", OPEN), ("a.md", OPEN)],
        [("a.done.md", other), ("a.wip.md", HELD)],
        [("a.md", OPEN), ("b.wip.md", HELD)],
    ] {
        check(&pair, &pair);
    }
    // One that goes on where a ticket in progress ends, keys of its worker included.
    let longer = format!("{HELD}more\n");
    check(&[("a.md", &longer), ("a.wip.md", HELD)], &[("a.md", &longer), ("a.wip.md", HELD)]);
}

#[test]
fn forgotten_drafts_are_swept_and_fresh_ones_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::with(dir.path(), Suffixes::default(), Links::Kernel).unwrap();
    for name in [".enode-old.tmp", ".enode-new.tmp", ".other.tmp"] {
        fs::write(folder.at(name), "").unwrap();
        if name != ".enode-new.tmp" {
            let file = fs::File::options().write(true).open(folder.at(name)).unwrap();
            file.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(1_700_000_000)).unwrap();
        }
    }
    repair(&folder).unwrap();
    assert_eq!(
        [".enode-old.tmp", ".enode-new.tmp", ".other.tmp"].map(|name| folder.at(name).exists()),
        [false, true, true]
    );
}

/// What is in nobody's way stops nobody.
#[test]
fn a_folder_with_a_drafts_name_and_a_lock_with_odd_bytes_stop_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::with(dir.path(), Suffixes::default(), Links::Kernel).unwrap();
    fs::create_dir(folder.at(".enode-x.tmp")).unwrap();
    let long_ago = std::time::UNIX_EPOCH;
    fs::File::open(folder.at(".enode-x.tmp")).unwrap().set_modified(long_ago).unwrap();
    fs::write(folder.at(".tickets.lock"), b"\xff\xfe\n").unwrap();
    fs::write(folder.at("a.md"), OPEN).unwrap();
    let claimed = super::super::claim::next(&folder, |_| true, |_, _| {}).unwrap().unwrap();
    assert_eq!(fs::read_to_string(folder.at(".tickets.lock")).unwrap(), format!("{}\n", claimed.tag));
}

/// A process was killed between two calls, and the file that went aside may be the only one with what a person has saved.
#[test]
fn a_text_that_went_aside_is_removed_only_where_a_ticket_has_it() {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::with(dir.path(), Suffixes::default(), Links::Kernel).unwrap();
    fs::write(folder.at("a.wip.md"), OPEN).unwrap();
    // As it was before it went back; the one that asks has got a dep and a question.
    fs::write(folder.at("b.md"), "---\ntitle: b\ndeps: [q]\nawaiting: q\n---\nbody\n\n## 질문 1\n\n?\n").unwrap();
    fs::write(folder.at(".enode-0.kept"), "---\ntitle: b\nsession_id: r1\nowner: me\n---\nbody\n").unwrap();
    fs::write(folder.at(".enode-1.kept"), OPEN).unwrap();
    fs::write(folder.at(".enode-2.kept"), "---\ntitle: t\n---\nsaved at this very moment\n").unwrap();
    for kept in [".enode-0.kept", ".enode-1.kept", ".enode-2.kept"] {
        fs::File::options().write(true).open(folder.at(kept)).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    }
    repair(&folder).unwrap();
    assert!(!folder.at(".enode-0.kept").exists() && !folder.at(".enode-1.kept").exists());
    assert!(folder.at(".enode-2.kept").exists());
    let told = super::super::check::names(&folder, &folder.read().unwrap()).unwrap();
    assert!(told.len() == 1 && told[0].file == ".enode-2.kept" && told[0].message.contains("look at it"), "{told:?}");
}
