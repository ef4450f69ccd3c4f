//! Broken files, editors' habits, and the file followed live.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    time::Duration,
};

use shared::domain::{Drain, Policy};
use tempfile::TempDir;

use super::{
    PolicyFile,
    file::{Seen, look, parse},
};
use crate::config::Config;

struct Yard {
    dir: TempDir,
    config: Config,
}

fn yard() -> Yard {
    let dir = tempfile::tempdir().unwrap();
    let mut config = Config::with_defaults("yard", &dir.path().join("state"));
    config.policy_file = dir.path().join("yard.policy.toml");
    Yard { dir, config }
}

impl Yard {
    fn file(&self) -> &Path {
        &self.config.policy_file
    }
    fn write(&self, text: impl AsRef<[u8]>) {
        fs::write(self.file(), text).unwrap();
        fs::set_permissions(self.file(), fs::Permissions::from_mode(0o600)).unwrap();
    }
    fn aside(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

/// Texts that must hold the node back, with what the message must say.
const BROKEN: [(&str, &str); 27] = [
    ("drain = \"gracefull\"\n", ":1: drain: \"gracefull\" is not a drain mode: write \"graceful\""),
    ("drain = \"GRACEFUL\"", ":1: drain:"),
    ("\n\ndrain = \"stop\"", ":3: drain:"),
    ("drain = true", ":1: drain must be text, not true or false"),
    ("drain = 1", ":1: drain must be text, not a number"),
    ("drain = [\"graceful\"]", ":1: drain must be text, not a list"),
    ("drain = {mode = \"graceful\"}", ":1: drain must be text, not a table"),
    ("[drain]\nmode = \"graceful\"", ":1: drain must be text, not a table"),
    ("drain = graceful", ":1: is not TOML"),
    ("drain = \"grace", ":1: is not TOML"),
    ("reason = \"x\"\ndrain = \"graceful", ":2: is not TOML"),
    ("drain = ", ":1: is not TOML"),
    ("drain =", ":1: is not TOML"),
    ("dra", ":1: is not TOML"),
    ("drain: graceful", ":1: is not TOML"),
    ("drain \"graceful\"", ":1: is not TOML"),
    ("{\"drain\": \"graceful\"}", ":1: is not TOML"),
    ("drain = \"\"\ndrain = \"graceful\"", ":2: is not TOML: duplicate key"),
    ("drain = \"graceful\" junk", ":1: is not TOML"),
    ("reason = 5", ":1: reason must be text in quotes, not a number"),
    ("drain = \"\"\npanel_token = 7", ":2: panel_token must be text in quotes, not a number"),
    ("drian = \"graceful\"", ":1: unknown key \"drian\": write drain"),
    ("Drain = \"graceful\"", ":1: unknown key \"Drain\": write drain"),
    ("drain_mode = \"graceful\"", ":1: unknown key \"drain_mode\": write drain"),
    ("[policy]\ndrain = \"graceful\"", ":1: drain stands inside the table [policy]"),
    ("drain = \"\"\n<<<<<<< HEAD\n", ":2: is not TOML"),
    ("drain = \"\"\n\0\0\0", ":2: is not TOML"),
];

#[test]
fn a_broken_text_is_named_with_its_line_and_what_to_write() {
    for (text, want) in BROKEN {
        let said = parse("p.toml", text.as_bytes()).expect_err(text);
        assert!(said.starts_with("p.toml") && said.contains(want), "{text:?}: {said}");
        assert!(!said.contains('\n'), "one line: {said:?}");
    }
    for bytes in [&b"drain = \"\xff\""[..], b"\xff\xfed\0r\0a\0i\0n\0", b"# \xc3\x28\ndrain = \"\""] {
        assert!(parse("p.toml", bytes).unwrap_err().contains(":1: is not UTF-8"));
    }
}

#[test]
fn odd_but_readable_texts_are_read() {
    let good: [(&[u8], Option<Drain>, &str); 16] = [
        (b"", None, ""),
        (b"\xef\xbb\xbf", None, ""),
        (b"# only a comment", None, ""),
        (b"\xef\xbb\xbfdrain = \"graceful\"", Some(Drain::Graceful), ""),
        (b"drain = \"graceful\"\r\nreason = \"x\"\r\n", Some(Drain::Graceful), "x"),
        (b"\tdrain\t=\t\"at-boundary\"\t\t\n", Some(Drain::AtBoundary), ""),
        (b"drain = 'at-boundary'   \n   \n", Some(Drain::AtBoundary), ""),
        (b"drain = \" graceful \"", Some(Drain::Graceful), ""),
        (b"drain = \"\"\n", Some(Drain::None), ""),
        (b"drain = \"\" # all yours", Some(Drain::None), ""),
        (b"drain = \"\"", None, ""),
        (b"drain = \"\"\"graceful\"\"\"", Some(Drain::Graceful), ""),
        (b"\"drain\" = \"graceful\" # mine", Some(Drain::Graceful), ""),
        (b"drain = \"grace\\u0066ul\"", Some(Drain::Graceful), ""),
        ("drain = \"graceful\"\nreason = \"für Ünal 🛠\"".as_bytes(), Some(Drain::Graceful), "für Ünal 🛠"),
        (b"drain = \"graceful\"\nreason = \"a\\u001b[2Jb\\nc\"", Some(Drain::Graceful), "a [2Jb c"),
    ];
    for (text, drain, reason) in good {
        let written = parse("p", text).unwrap_or_else(|why| panic!("{:?}: {why}", String::from_utf8_lossy(text)));
        assert_eq!((written.drain, written.reason.as_str()), (drain, reason), "{}", String::from_utf8_lossy(text));
        assert!(written.warnings.is_empty(), "{:?}", written.warnings);
    }
}

#[test]
fn unknown_keys_and_long_reasons_are_warnings() {
    let text = format!("drain = \"graceful\"\ncolour = 1\nreason = \"{}\"\n[panel]\nx = 1\n", "ü".repeat(5_000));
    let written = parse("p", text.as_bytes()).unwrap();
    assert_eq!(written.drain, Some(Drain::Graceful));
    assert_eq!(written.reason.chars().count(), 1_000);
    assert_eq!(written.warnings.len(), 3, "{:?}", written.warnings);
    assert!(written.warnings[0].contains("p:2: unknown key \"colour\""));
}

#[test]
fn the_secret_shows_nowhere() {
    let written = parse("p", b"panel_token = \"hunter2\"").unwrap();
    assert!(!format!("{written:?}").contains("hunter2"));
    for broken in ["panel_token = \"hunter2", "panel_token = [\"hunter2\"]", "panel_token = \"hunter2\"\ndrain = 7"] {
        let said = parse("p", broken.as_bytes()).unwrap_err();
        assert!(!said.contains("hunter2"), "{said}");
    }
}

/// What can stand in the file's place. As root nothing is denied, so that case is made by a user's own test run.
#[test]
fn what_is_not_a_file_is_broken_and_never_waited_for() {
    type Make = fn(&Path);
    let cases: [(&str, Make, &str); 10] = [
        ("dangling", |path| symlink("nowhere", path).unwrap(), "leads nowhere (nowhere)"),
        ("not mounted", |path| symlink("mnt/yard.policy.toml", path).unwrap(), "leads nowhere (mnt/"),
        (
            "below a file",
            |path| {
                fs::write(path.with_file_name("file"), "").unwrap();
                symlink("file/yard.policy.toml", path).unwrap();
            },
            "leads nowhere (file/",
        ),
        ("folder", |path| fs::create_dir(path).unwrap(), "is a folder"),
        ("pipe", |path| rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::RWXU).unwrap(), "is a pipe"),
        ("/dev/zero", |path| symlink("/dev/zero", path).unwrap(), "is a device"),
        ("/dev/tty", |path| symlink("/dev/tty", path).unwrap(), "is a device"),
        ("loop", |path| symlink(path.file_name().unwrap(), path).unwrap(), "loop of symbolic links"),
        ("huge", |path| fs::File::create(path).unwrap().set_len(1 << 30).unwrap(), "has 1073741824 bytes"),
        ("socket", |path| drop(std::os::unix::net::UnixListener::bind(path).unwrap()), "is a socket"),
    ];
    for (name, make, want) in cases {
        let yard = yard();
        make(yard.file());
        let policy = PolicyFile::start(&yard.config).unwrap().read();
        assert_eq!(policy.drain, Drain::Graceful, "{name}");
        assert!(policy.error.contains(want) && policy.error.contains("yard.policy.toml"), "{name}: {}", policy.error);
    }
}

/// Only a folder that can be looked into says that the file is gone.
#[test]
fn a_folder_that_is_gone_or_not_mounted_releases_nothing() {
    type Lose = fn(&Path);
    let cases: [(&str, Lose); 3] = [
        ("gone", |folder| fs::rename(folder, folder.with_file_name("elsewhere")).unwrap()),
        ("a file", |folder| {
            fs::rename(folder, folder.with_file_name("elsewhere")).unwrap();
            fs::write(folder, "").unwrap();
        }),
        ("a link to nowhere", |folder| {
            fs::rename(folder, folder.with_file_name("elsewhere")).unwrap();
            symlink("not-mounted", folder).unwrap();
        }),
    ];
    for (name, lose) in cases {
        let mut yard = yard();
        fs::create_dir(yard.aside("folder")).unwrap();
        yard.config.policy_file = yard.aside("folder").join("yard.policy.toml");
        yard.write("drain = \"\"\n");
        assert_eq!(look(yard.file()), Seen::Written(parse("p", b"drain = \"\"\n").unwrap()));
        lose(&yard.aside("folder"));
        let policy = PolicyFile::start(&yard.config).unwrap().read();
        assert_eq!(policy.drain, Drain::Graceful, "{name}");
        assert!(policy.error.contains("cannot be read"), "{name}: {}", policy.error);
    }
}

#[test]
fn a_file_that_may_not_be_read_is_broken() {
    if rustix::process::geteuid().is_root() {
        // Root reads everything; the error's text is checked without the file system.
        let error: crate::files::ReadError = std::io::Error::from(std::io::ErrorKind::PermissionDenied).into();
        assert!(error.to_string().contains("may not be read"));
        return;
    }
    let yard = yard();
    yard.write("drain = \"\"");
    fs::set_permissions(yard.file(), fs::Permissions::from_mode(0o000)).unwrap();
    let policy = PolicyFile::start(&yard.config).unwrap().read();
    assert_eq!(policy.drain, Drain::Graceful);
    assert!(policy.error.contains("may not be read"), "{}", policy.error);
}

#[test]
fn writable_by_others_is_a_warning_and_the_value_counts() {
    let yard = yard();
    for (mode, who) in [(0o620, "its group"), (0o602, "everyone"), (0o666, "everyone")] {
        yard.write("drain = \"\"");
        fs::set_permissions(yard.file(), fs::Permissions::from_mode(mode)).unwrap();
        let policy = PolicyFile::start(&yard.config).unwrap().read();
        assert_eq!(policy.drain, Drain::None);
        assert!(policy.error.contains(who), "{}", policy.error);
    }
}

#[test]
fn every_broken_text_is_the_stronger_of_graceful_and_the_last_good_value() {
    for (last, want) in [("", Drain::Graceful), ("graceful", Drain::Graceful), ("at-boundary", Drain::AtBoundary)] {
        let yard = yard();
        for (text, _) in BROKEN {
            yard.write(format!("drain = \"{last}\"\nreason = \"mine\""));
            let policy = PolicyFile::start(&yard.config).unwrap().read();
            assert_eq!(policy.error, "");
            // A new start: the last good value comes from disk.
            yard.write(text);
            let policy = PolicyFile::start(&yard.config).unwrap().read();
            assert_eq!(policy.drain, want, "{text}");
            assert_ne!(policy.error, "", "{text}");
            assert!(policy.since.is_some());
        }
    }
}

#[test]
fn the_first_read_after_a_start_is_the_files_word() {
    for (text, want) in [
        (None, Drain::None),
        (Some("drain = \"\""), Drain::None),
        (Some("drain = \"graceful\""), Drain::Graceful),
        (Some("drain = \"at-boundary\""), Drain::AtBoundary),
    ] {
        let yard = yard();
        if let Some(text) = text {
            yard.write(text);
        }
        for _restart in 0..3 {
            assert_eq!(PolicyFile::start(&yard.config).unwrap().read().drain, want);
        }
    }
}

/// Each save pattern, observed as fast as possible while it happens many times.
#[test]
fn a41_no_editor_opens_a_node_whose_owner_holds_it_back() {
    type Save = fn(&Yard, &str);
    let truncate_and_write: Save = |yard, text| {
        let mut file = fs::File::create(yard.file()).unwrap();
        for piece in text.as_bytes().chunks(7) {
            std::io::Write::write_all(&mut file, piece).unwrap();
            std::thread::yield_now();
        }
    };
    let unlink_and_create: Save = |yard, text| {
        fs::remove_file(yard.file()).unwrap();
        std::thread::yield_now();
        fs::write(yard.file(), text).unwrap();
    };
    let rename: Save = |yard, text| {
        fs::write(yard.aside("new"), text).unwrap();
        fs::rename(yard.aside("new"), yard.file()).unwrap();
    };
    let backup_and_create: Save = |yard, text| {
        fs::rename(yard.file(), yard.aside("yard.policy.toml~")).unwrap();
        std::thread::yield_now();
        fs::write(yard.file(), text).unwrap();
    };
    for (name, save) in [
        ("truncate", truncate_and_write),
        ("unlink", unlink_and_create),
        ("rename", rename),
        ("backup", backup_and_create),
    ] {
        let yard = yard();
        let text = |n: usize| format!("# notes of the owner, {n}\nreason = \"night {n}\"\ndrain = \"at-boundary\"\n");
        yard.write(text(0));
        let policy = PolicyFile::start(&yard.config).unwrap();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| (1..300).for_each(|n| save(&yard, &text(n))));
            let mut looks = 0;
            while !writer.is_finished() || looks < 50 {
                let seen = policy.read();
                assert_eq!(seen.drain, Drain::AtBoundary, "{name}: {seen:?}");
                looks += 1;
            }
        });
    }
}

#[test]
fn a_file_that_changes_all_the_time_gives_only_what_was_written() {
    let yard = yard();
    yard.write("drain = \"graceful\"\n");
    let policy = PolicyFile::start(&yard.config).unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for n in 0..200 {
                let word = if n % 2 == 0 { "at-boundary" } else { "graceful" };
                super::writer::edit(
                    yard.file(),
                    &yard.config.state_dir,
                    &super::writer::Edit {
                        drain: Some(word.parse().unwrap()),
                        reason: Some(String::new()),
                        quarantine_cleared: None,
                        force: false,
                    },
                )
                .unwrap();
            }
        });
        while !writer.is_finished() {
            let seen = policy.read();
            assert!(seen.drain >= Drain::Graceful && seen.error.is_empty(), "{seen:?}");
        }
    });
    assert_eq!(policy.read().drain, Drain::Graceful);
}

async fn next(policy: &PolicyFile) -> Policy {
    tokio::time::timeout(Duration::from_secs(20), policy.changed()).await.expect("a change is told");
    policy.read()
}

#[tokio::test]
async fn changes_are_told_without_being_asked() {
    let yard = yard();
    let policy = PolicyFile::start(&yard.config).unwrap();
    yard.write("drain = \"graceful\"\nreason = \"mine\"");
    let seen = next(&policy).await;
    assert_eq!((seen.drain, seen.reason.as_str()), (Drain::Graceful, "mine"));
    yard.write("drain = \"\"");
    assert_eq!(next(&policy).await.drain, Drain::None);
}

#[tokio::test]
async fn a_silence_that_has_lasted_is_told_too() {
    let yard = yard();
    yard.write("drain = \"graceful\"");
    let policy = PolicyFile::start(&yard.config).unwrap();
    fs::remove_file(yard.file()).unwrap();
    assert_eq!(policy.read().drain, Drain::Graceful);
    assert_eq!(next(&policy).await.drain, Drain::None);
}

#[tokio::test]
async fn a_dropped_wait_loses_no_change_and_clones_are_told_each() {
    let yard = yard();
    let policy = PolicyFile::start(&yard.config).unwrap();
    let other = policy.clone();
    yard.write("drain = \"graceful\"");
    assert_eq!(policy.read().drain, Drain::Graceful);
    // Dropped in the middle of its debounce.
    let cut = tokio::time::timeout(Duration::from_millis(1), policy.changed()).await;
    assert!(cut.is_err());
    next(&policy).await;
    next(&other).await;
    let again = tokio::time::timeout(Duration::from_millis(200), policy.changed()).await;
    assert!(again.is_err(), "nothing changed since");
}

#[tokio::test]
async fn a_folder_made_later_and_a_link_elsewhere_are_followed_by_looking() {
    let mut yard = yard();
    yard.config.policy_file = yard.aside("later/yard.policy.toml");
    let policy = PolicyFile::start(&yard.config).unwrap();
    let before = policy.read();
    assert!(before.drain == Drain::Graceful && before.error.contains("make or mount it"), "{before:?}");
    fs::create_dir(yard.aside("later")).unwrap();
    fs::write(yard.aside("real.toml"), "drain = \"\"").unwrap();
    symlink(yard.aside("real.toml"), yard.file()).unwrap();
    assert_eq!(policy.read().drain, Drain::None);
    fs::write(yard.aside("real.toml"), "drain = \"at-boundary\"").unwrap();
    assert_eq!(next(&policy).await.drain, Drain::AtBoundary);
}

#[test]
fn a_state_folder_that_cannot_be_written_is_said_and_the_value_counts() {
    let mut yard = yard();
    fs::write(yard.aside("file"), "").unwrap();
    yard.config.state_dir = yard.aside("file");
    yard.write("drain = \"at-boundary\"");
    let policy = PolicyFile::start(&yard.config).unwrap().read();
    assert_eq!(policy.drain, Drain::AtBoundary);
    assert!(policy.error.contains("cannot be kept in"), "{}", policy.error);
}

#[test]
fn a_look_never_waits_for_a_pipe() {
    let yard = yard();
    rustix::fs::mkfifoat(rustix::fs::CWD, yard.file(), rustix::fs::Mode::RWXU).unwrap();
    assert!(matches!(look(yard.file()), Seen::Broken(_)));
}

/// Whatever part of a file an editor has written so far: it never weakens what the owner said before.
#[test]
fn no_prefix_of_a_file_weakens_a_drain() {
    use super::{judge::Judge, memory::Memory};
    use crate::clock::BootTime;
    let texts = [
        "drain = \"at-boundary\"\nreason = \"x\"\n",
        "# mine\r\nreason = \"a # b\"\r\n\r\ndrain = 'at-boundary'\r\n[panel]\r\nx = 1\r\n",
        "\u{feff}panel_token = \"t\"\ndrain = \"\"\"at-boundary\"\"\"",
    ];
    for text in texts {
        for end in 0..=text.len() {
            let wall = shared::Timestamp::from_millis(1);
            let mut memory = Memory::default();
            memory.take(Drain::AtBoundary, "mine", wall);
            let seen = parse("p", &text.as_bytes()[..end]).map_or_else(Seen::Broken, Seen::Written);
            let policy = Judge::new(memory).judge(seen, wall, BootTime::from_millis(1));
            let written = String::from_utf8_lossy(&text.as_bytes()[..end]);
            assert_eq!(policy.drain, Drain::AtBoundary, "{written:?}: {policy:?}");
        }
    }
}

/// `FUZZ_INPUTS` for each target: `make test` takes a few, `make soak` many.
fn inputs() -> proptest::test_runner::Config {
    let cases = std::env::var("FUZZ_INPUTS").ok().and_then(|it| it.parse().ok()).unwrap_or(2_000);
    proptest::test_runner::Config { cases, failure_persistence: None, ..proptest::test_runner::Config::default() }
}

proptest::proptest! {
    #![proptest_config(inputs())]

    /// A good file of which a part was replaced is read, or told with its line; what was read is harmless.
    #[test]
    fn a_policy_that_was_changed_is_read_or_refused(
        at in 0usize..80, len in 0usize..12, with in "[-a-z0-9=\"'#\\[\\]{}.,\\\\ \n\r\t\u{0}\u{feff}]{0,8}", nested in 0usize..400
    ) {
        let good = "drain = \"graceful\"\nreason = 'mine'\nquarantine_cleared = \"x\"\npanel_token = \"t\"\n";
        let (at, end) = (at.min(good.len()), (at + len).min(good.len()));
        let text = format!("{}{with}{}x = {}", &good[..at], &good[end..], "[".repeat(nested));
        for text in [&text[..], &text[..text.len() - nested - 4]] {
            match parse("p", text.as_bytes()) {
                Ok(written) => proptest::prop_assert!(!written.reason.contains('\n')),
                Err(why) => {
                    let line = why.strip_prefix("p:").and_then(|rest| rest.split(':').next()).unwrap_or_default();
                    proptest::prop_assert!(line.parse::<usize>().is_ok_and(|it| it >= 1) && !why.contains('\n'), "{}", why);
                }
            }
        }
    }

    /// Nothing that can stand in a file makes it panic, and every message is one line.
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
        if let Err(why) = parse("p", &bytes) {
            proptest::prop_assert!(why.starts_with("p:") && !why.contains('\n'), "{}", why);
        }
    }

    /// Small changes of a good file: either understood or held back, and an edit keeps every other line.
    #[test]
    fn an_edit_keeps_every_other_line(
        lines in proptest::collection::vec("(# [a-z]{0,5}|[a-c]{1,2} = [0-9]|drain = \"graceful\"|reason = \"z\"|\\[t[0-9]\\]|)", 0..8),
        crlf in proptest::bool::ANY,
    ) {
        use super::writer::{Edit, edit};
        let end = if crlf { "\r\n" } else { "\n" };
        let text: String = lines.iter().map(|line| format!("{line}{end}")).collect();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p.toml");
        fs::write(&path, &text).unwrap();
        let change = Edit { drain: Some(Drain::AtBoundary), reason: Some("why".into()), quarantine_cleared: None, force: false };
        if edit(&path, dir.path(), &change).is_ok() {
            let after = fs::read_to_string(&path).unwrap();
            let kept = |text: &str| -> Vec<String> {
                let own = |line: &&str| !line.starts_with("drain =") && !line.starts_with("reason =");
                text.lines().filter(own).map(str::to_owned).collect()
            };
            proptest::prop_assert_eq!(kept(&after), kept(&text));
            let written = parse("p", after.as_bytes()).unwrap();
            proptest::prop_assert_eq!((written.drain, written.reason.as_str()), (Some(Drain::AtBoundary), "why"));
        } else {
            proptest::prop_assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }
}
