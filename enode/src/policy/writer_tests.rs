//! The owner's text stays the owner's.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::Path,
};

use shared::domain::Drain;

use super::{
    file,
    writer::{Done, Edit, WriteError, edit},
};

fn graceful(reason: &str) -> Edit {
    Edit { drain: Some(Drain::Graceful), reason: Some(reason.into()), quarantine_cleared: None, force: false }
}

fn after(text: &str, change: &Edit) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.toml");
    fs::write(&path, text).unwrap();
    edit(&path, dir.path(), change).unwrap_or_else(|why| panic!("{text:?}: {why}"));
    fs::read_to_string(&path).unwrap()
}

#[test]
fn only_the_two_values_change() {
    let text =
        "# top\n\npanel_token = \"hunter2\"   # secret\ndrain  =  ''  # mine\nfoo = [1,\n  2]\n\n[x]\n# deep\ny=1";
    assert_eq!(
        after(text, &graceful("a \"quoted\" one")),
        "# top\n\npanel_token = \"hunter2\"   # secret\ndrain  =  \"graceful\"  # mine\nfoo = [1,\n  2]\nreason = 'a \"quoted\" one'\n\n[x]\n# deep\ny=1\n"
    );
}

#[test]
fn missing_keys_are_added_where_they_count() {
    for (text, want) in [
        ("", "drain = \"graceful\"\n"),
        ("# hello", "# hello\ndrain = \"graceful\"\n"),
        ("\u{feff}# hello\r\n", "\u{feff}# hello\r\ndrain = \"graceful\"\r\n"),
        ("[t]\na = 1\n", "drain = \"graceful\"\n[t]\na = 1\n"),
        ("# c\n[[t]]\na = 1\n", "# c\ndrain = \"graceful\"\n[[t]]\na = 1\n"),
        ("a = 1 # x", "a = 1 # x\ndrain = \"graceful\"\n"),
        ("a = 1\r\n\r\n[t]\r\n", "a = 1\r\ndrain = \"graceful\"\r\n\r\n[t]\r\n"),
    ] {
        assert_eq!(after(text, &graceful("")), want, "{text:?}");
    }
}

#[test]
fn an_old_reason_goes_when_none_is_given() {
    let undrain =
        Edit { drain: Some(Drain::None), reason: Some(String::new()), quarantine_cleared: None, force: false };
    assert_eq!(after("reason = \"old\"\ndrain = \"graceful\"\n", &undrain), "reason = \"\"\ndrain = \"\"\n");
}

#[test]
fn readable_faults_are_mended_and_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.toml");
    for broken in ["drain = 7\n", "drain = \"stop\" # why\n", "drain = [\"a\"]"] {
        fs::write(&path, broken).unwrap();
        let done = edit(&path, dir.path(), &graceful("")).unwrap();
        assert!(done.was_broken.is_some() && done.before.is_none() && done.kept.is_none(), "{broken}: {done:?}");
        assert!(file::parse("p", &fs::read(&path).unwrap()).is_ok());
    }
}

#[test]
fn what_cannot_be_edited_is_refused_and_kept_when_forced() {
    for broken in
        [&b"drain = "[..], b"\xff", b"[drain]\nx = 1", b"drian = \"\"\n\0", b"[policy]\ndrain = \"\"\n[policy]"]
    {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p.toml");
        fs::write(&path, broken).unwrap();
        let refused = edit(&path, dir.path(), &graceful("")).unwrap_err();
        assert!(matches!(&refused, WriteError::Broken(_)) && refused.to_string().contains("--force"), "{refused}");
        assert_eq!(fs::read(&path).unwrap(), broken);
        for number in ["", ".1"] {
            fs::write(&path, broken).unwrap();
            let done = edit(&path, dir.path(), &Edit { force: true, ..graceful("") }).unwrap();
            let kept = done.kept.expect("kept");
            assert!(kept.to_str().unwrap().ends_with(&format!("p.toml.broken{number}")));
            assert_eq!(fs::read(kept).unwrap(), broken);
            assert_eq!(fs::read_to_string(&path).unwrap(), "drain = \"graceful\"\n");
        }
    }
}

#[test]
fn a_folder_is_refused_and_moved_away_only_by_force() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.toml");
    fs::create_dir(&path).unwrap();
    assert!(edit(&path, dir.path(), &graceful("")).is_err());
    let done = edit(&path, dir.path(), &Edit { force: true, ..graceful("") }).unwrap();
    assert!(done.kept.unwrap().is_dir());
    assert!(path.is_file());
}

#[test]
fn a_misspelled_key_stays_broken_until_the_right_one_is_there() {
    // The added `drain` counts; the misspelled one becomes a warning.
    let text = after("drian = \"graceful\"\n", &graceful(""));
    assert_eq!(text, "drian = \"graceful\"\ndrain = \"graceful\"\n");
    assert_eq!(file::parse("p", text.as_bytes()).unwrap().warnings.len(), 1);
}

#[test]
fn new_and_edited_files_are_private_and_keep_their_owner() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.toml");
    let done = edit(&path, dir.path(), &graceful("")).unwrap();
    assert_eq!(done, Done { path: path.clone(), before: None, was_broken: None, kept: None });
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
    assert_eq!(mode(&path), 0o600);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o664)).unwrap();
    edit(&path, dir.path(), &graceful("")).unwrap();
    assert_eq!(mode(&path), 0o600);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no drafts are left");

    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&path, Some(4711), Some(4712)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        edit(&path, dir.path(), &graceful("")).unwrap();
        let meta = fs::metadata(&path).unwrap();
        assert_eq!((meta.uid(), meta.gid(), meta.mode() & 0o777), (4711, 4712, 0o640), "its agent goes on reading it");
        // A new file goes to the agent's user.
        let state = dir.path().join("state");
        fs::create_dir(&state).unwrap();
        std::os::unix::fs::chown(&state, Some(4711), Some(4711)).unwrap();
        fs::remove_file(&path).unwrap();
        edit(&path, &state, &graceful("")).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().uid(), 4711);
    }
}

#[test]
fn a_link_stays_a_link() {
    let dir = tempfile::tempdir().unwrap();
    let (real, link) = (dir.path().join("real.toml"), dir.path().join("p.toml"));
    fs::write(&real, "# mine\n").unwrap();
    symlink("real.toml", &link).unwrap();
    edit(&link, dir.path(), &graceful("")).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs::read_to_string(&real).unwrap(), "# mine\ndrain = \"graceful\"\n");
}

#[test]
fn a_folder_that_is_not_there_is_an_error_with_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let said = edit(&dir.path().join("no/p.toml"), dir.path(), &graceful("")).unwrap_err().to_string();
    assert!(said.contains("no/p.toml"), "{said}");
}

#[test]
fn a_reason_stays_until_another_is_given() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("yard.policy.toml");
    edit(&path, dir.path(), &graceful("moving the rack")).unwrap();
    edit(
        &path,
        dir.path(),
        &Edit { drain: Some(Drain::AtBoundary), reason: None, quarantine_cleared: None, force: false },
    )
    .unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains("moving the rack") && text.contains("at-boundary"), "{text}");
}
