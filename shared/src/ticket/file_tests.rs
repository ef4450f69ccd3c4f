use proptest::prelude::*;

use super::*;

fn document(text: &str) -> Document {
    Document::parse(text.as_bytes().to_vec()).unwrap()
}

fn text(document: &Document) -> String {
    String::from_utf8(document.to_bytes()).unwrap()
}

fn deps(text: &str) -> Vec<String> {
    document(text).deps().0.iter().map(ToString::to_string).collect()
}

#[test]
fn r07_without_opener_or_closer_there_is_no_ticket() {
    for (bytes, why) in [
        (&b""[..], NoTicket::Empty),
        (b"\n\n", NoTicket::Empty),
        (b"# A note\n", NoTicket::NoFrontmatter),
        (b"\n---\ntitle: a\n---\n", NoTicket::NoFrontmatter),
        (b"----\ntitle: a\n---\n", NoTicket::NoFrontmatter),
        (b"---\ntitle: a\n", NoTicket::NotClosed),
        (b"---", NoTicket::NotClosed),
        (b"---\ntitle: a\n---x\n", NoTicket::NotClosed),
        (b"---\ntitle: \xff\n---\n", NoTicket::NotUtf8(2)),
    ] {
        assert_eq!(Document::parse(bytes.to_vec()).unwrap_err(), why, "{bytes:?}");
    }
}

#[test]
fn values_are_read_line_by_line() {
    let it = document(
        "---  \ntitle:  A: b \nkind: \"work\"\nempty:\n note: indented\nno colon\n9x: y\ntitle: later\n--- \nbody\n",
    );
    for (key, value) in [
        ("title", Some("later")),
        ("kind", Some("work")),
        ("empty", Some("")),
        ("note", None),
        ("9x", None),
        ("nothing", None),
    ] {
        assert_eq!(it.get(key), value, "{key}");
    }
    assert_eq!(it.said("empty"), None);
    assert_eq!(it.body(), "body\n");
}

#[test]
fn deps_are_read_inline_as_a_list_and_both() {
    for (keys, expected) in [
        ("deps: [a, b]", &["a", "b"][..]),
        ("deps: [ 'a' ,, \"b\" ]", &["a", "b"]),
        ("deps: a, b", &["a", "b"]),
        ("deps:\n  - a\n  - b", &["a", "b"]),
        ("deps:\n- a\n\n- b", &["a", "b"]),
        ("deps:\n  # why\n  - a", &["a"]),
        ("deps: [a]\n  - b\n  - a", &["a", "b"]),
        ("deps: [a]\ndeps: [b]", &["a"]),
        ("deps:\ntitle: x\n  - b", &[]),
        ("deps: []", &[]),
        ("deps:", &[]),
        ("title: x", &[]),
    ] {
        assert_eq!(deps(&format!("---\n{keys}\n---\n")), expected, "{keys}");
    }
    assert_eq!(document("---\ndeps: [a, ../b]\n---\n").deps().1, ["../b"]);
}

#[test]
fn r39_a_list_is_rewritten_as_one_line_and_loses_no_child() {
    for (before, after) in [
        ("---\ndeps:\n  - a\n  # why\n  - b\ntitle: x\n---\n", "---\ndeps: [a, b, q]\n  # why\ntitle: x\n---\n"),
        ("---\r\ndeps: [a]\r\n  - b\r\nx: y\r\n---\r\n", "---\r\ndeps: [a, b, q]\r\nx: y\r\n---\r\n"),
        ("---\ntitle: x\n---\nbody", "---\ntitle: x\ndeps: [q]\n---\nbody"),
    ] {
        let mut it = document(before);
        let mut deps = it.deps().0;
        deps.push(Stem::new("q").unwrap());
        it.set_deps(&deps);
        assert_eq!(text(&it), after);
        assert_eq!(it.deps().0, deps);
    }
}

#[test]
fn a_key_is_replaced_in_place_or_put_last_and_nothing_else_moves() {
    for (before, after) in [
        ("---\nowner: a\nx: y\n---\nbody", "---\nowner: me\nx: y\n---\nbody"),
        ("---\nx: y\n---\nbody", "---\nx: y\nowner: me\n---\nbody"),
        ("\u{feff}---\r\nx: y\r\n---\r\n", "\u{feff}---\r\nx: y\r\nowner: me\r\n---\r\n"),
        ("---\nowner: a\nowner: b\n---\n", "---\nowner: a\nowner: me\n---\n"),
        ("---\nowner:a\r\n---\n", "---\nowner: me\r\n---\n"),
        ("---\n---", "---\nowner: me\n---"),
    ] {
        let mut it = document(before);
        it.set("owner", "me").unwrap();
        assert_eq!(text(&it), after, "{before:?}");
    }
    let mut it = document("---\nowner: a\n---\n");
    it.set("owner", "").unwrap();
    assert_eq!(text(&it), "---\nowner:\n---\n");
    assert!(it.set("owner", "a\n---\nsession_id: x").is_err() && it.set("a b", "c").is_err());
    assert_eq!(text(&it), "---\nowner:\n---\n", "what is refused has changed nothing");
}

#[test]
fn r46_removing_a_key_removes_its_lines_and_no_other() {
    for (before, after) in [
        ("---\nduedate: x\ntitle: y\n---\nduedate: z\n", "---\ntitle: y\n---\nduedate: z\n"),
        ("---\nduedate:\n  - x\n  y\ntitle: y\n---\n", "---\ntitle: y\n---\n"),
        ("---\nduedate: a\nb: c\nduedate: d\n---\n", "---\nb: c\n---\n"),
        ("---\nduedate: a\n# mine\n  too: x\n---\n", "---\n# mine\n  too: x\n---\n"),
    ] {
        let mut it = document(before);
        it.remove("duedate");
        assert_eq!(text(&it), after, "{before:?}");
    }
}

#[test]
fn what_is_appended_stands_below_with_the_same_line_ends() {
    for (before, after) in [
        ("---\n---", "---\n---\n## Q\nx\n"),
        ("---\n---\nbody", "---\n---\nbody\n\n## Q\nx\n"),
        ("---\n---\nbody\n\n", "---\n---\nbody\n\n## Q\nx\n"),
        ("---\r\n---\r\nbody\r\n", "---\r\n---\r\nbody\r\n\r\n## Q\r\nx\r\n"),
    ] {
        let mut it = document(before);
        it.append("## Q\nx\n\n");
        assert_eq!(text(&it), after, "{before:?}");
    }
}

/// Lines such as people and other programs write, and such as nobody should.
fn any_line() -> impl Strategy<Value = String> {
    prop_oneof![
        "(title|deps|owner|session_id|x-y|squad): ?[ -~가é]{0,12}",
        "  - [a-z]{1,3}",
        "- [a-z]{1,3}",
        "[ \t]{0,2}#? ?[ -~]{0,8}",
        Just("deps:".to_owned()),
        Just(String::new()),
    ]
    .prop_filter("ends the frontmatter", |line| line.trim() != "---")
}

fn any_file() -> impl Strategy<Value = String> {
    let end = prop_oneof![Just("\n"), Just("\r\n")];
    (prop::collection::vec(any_line(), 0..8), end, any::<bool>(), "[^\u{0}]{0,60}").prop_map(
        |(rows, end, bom, body)| {
            let rows: String = rows.iter().map(|row| format!("{row}{end}")).collect();
            format!("{}---{end}{rows}---{end}{body}", if bom { "\u{feff}" } else { "" })
        },
    )
}

proptest! {
    #[test]
    fn r46_reading_and_writing_changes_no_byte(file in any_file()) {
        prop_assert_eq!(text(&document(&file)), file);
    }

    #[test]
    fn r46_a_write_leaves_foreign_keys_and_the_body_alone(file in any_file(), value in "[ -~]{0,12}") {
        let before = document(&file);
        let mut it = before.clone();
        it.set("owner", &value).unwrap();
        prop_assert_eq!(it.get("owner"), Some(value.trim()));
        let others = |it: &Document| it.keys().filter(|(key, _)| *key != "owner").map(|(k, v)| (k.to_owned(), v.to_owned())).collect::<Vec<_>>();
        prop_assert_eq!(others(&it), others(&before));
        prop_assert_eq!(it.body(), before.body());
        prop_assert_eq!(it.deps(), before.deps());
        // And read again it is the same.
        prop_assert_eq!(&document(&text(&it)), &it);
        it.remove("owner");
        prop_assert_eq!(it.get("owner"), None);
        prop_assert_eq!(others(&it), others(&before));
    }

    #[test]
    fn deps_that_are_written_are_read_back(file in any_file(), stems in prop::collection::btree_set("[a-z0-9가]{1,8}", 0..5)) {
        let before = document(&file);
        let stems: Vec<Stem> = stems.iter().map(|stem| Stem::new(stem).unwrap()).collect();
        let mut it = before.clone();
        it.set_deps(&stems);
        prop_assert_eq!(it.deps().0, stems);
        prop_assert_eq!(it.body(), before.body());
        prop_assert_eq!(it.get("title"), before.get("title"));
        prop_assert_eq!(&document(&text(&it)), &it);
    }

    #[test]
    fn any_bytes_are_a_ticket_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        if let Ok(it) = Document::parse(bytes.clone()) {
            prop_assert_eq!(it.to_bytes(), bytes);
        }
    }
}
