//! The node's own page.

use super::{Served, served_six};

#[test]
fn the_owners_word_is_read_and_written_in_the_policy_file() {
    let panel = Served::with(&[], "127.0.0.1:0", "# mine\npanel_token = \"stays\"\nother = 1\n");
    let page = panel.page("/node");
    assert!(page.contains("<b>lending</b>") && page.contains("no agent runs"), "{page}");
    assert!(!page.contains("stays") && !page.contains("Undrain"), "the token is never shown");
    let got = panel.post("/node/drain", &[("mode", "at-boundary"), ("reason", "moving <b>"), ("back", "/node")]);
    assert_eq!((got.status, got.header("location")), (303, "/node"));
    let policy = panel.policy();
    assert!(policy.starts_with("# mine\npanel_token = \"stays\"\nother = 1\n"), "{policy}");
    assert!(policy.contains("drain = \"at-boundary\"") && policy.contains("reason = \"moving <b>\""), "{policy}");
    for path in ["/", "/node"] {
        let page = panel.page(path);
        assert!(page.contains("at-boundary") && page.contains("moving &#60;b&#62;"), "{path}: {page}");
    }
    assert_eq!(panel.post("/node/undrain", &[]).status, 303);
    assert!(panel.policy().contains("drain = \"\""));
    assert!(panel.page("/").contains("lending"));
    assert_eq!(panel.post("/node/quarantine", &[]).status, 303);
    assert!(panel.policy().contains("quarantine_cleared = \""));
}

/// The machine is its owner's, whatever becomes of the tickets.
#[test]
fn the_node_has_its_page_also_while_the_queue_is_out_of_reach() {
    let panel = served_six();
    std::fs::rename(panel.queue(), panel.place.path().join("away")).unwrap();
    let page = panel.page("/node");
    assert!(page.contains("<b>lending</b>") && page.contains("cannot be read"), "{page}");
    let csrf = super::csrf(&page);
    let drain = |mode: &str| super::http::post(panel.port(), "/node/drain", &[("csrf", &csrf), ("mode", mode)]).status;
    assert_eq!((drain("now"), drain("graceful")), (422, 303));
    assert!(panel.policy().contains("drain = \"graceful\""));
}

#[test]
fn a_word_that_there_is_not_and_a_broken_file_are_said() {
    let panel = served_six();
    for fields in [&[("mode", "now")][..], &[], &[("mode", "")], &[("mode", "graceful"), ("reason", "a\nb")]] {
        assert_eq!(panel.post("/node/drain", fields).status, 422, "{fields:?}");
    }
    assert_eq!(panel.policy(), "");
    let broken = Served::with(&[], "127.0.0.1:0", "drain = [\n");
    let page = broken.page("/node");
    assert!(page.contains("nothing is lent") && page.contains("is not TOML"), "{page}");
    let got = broken.post("/node/drain", &[("mode", "graceful"), ("reason", "kept words")]);
    assert_eq!(got.status, 422);
    // A page has no --force: it names the command that has.
    assert!(!got.body.contains("it with --force") && got.body.contains("`enode drain --force`"), "{}", got.body);
    assert!(got.body.contains("kept words"));
    let got = broken.post("/node/undrain", &[]);
    assert!(got.status == 422 && got.body.contains("`enode undrain --force`"), "{}", got.body);
    assert_eq!(broken.policy(), "drain = [\n");
}
