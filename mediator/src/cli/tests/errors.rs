//! Errors: what failed, why, what to do, and the exit code.

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use super::{messages::*, *};
use crate::cli::{refusal, shown::Shown};

#[tokio::test]
async fn nobody_there() {
    let mut fake = Fake::start().await;
    fake.stop().await;
    for args in [&["nodes"][..], &["status"], &["show", "r"], &["watch", "r"], &["watch"], &["logs", "r"]] {
        let ran = run(&fake, args).await;
        assert_eq!(ran.exit, Exit::Unreachable, "{args:?}: {ran}");
        let head =
            "error: cannot reach http://MEDIATOR: Connection refused (os error 111)\nIs `mediator serve` running?";
        assert!(ran.err.starts_with(head), "{args:?}: {ran}");
    }
}

fn refused(code: Code, reason: &str, message: &str) -> Status {
    Status::with_error_details(code, message, ErrorDetails::with_error_info(reason, "fleet.v1", []))
}

#[tokio::test]
async fn each_refusal_has_its_exit_code_and_advice() {
    let fake = Fake::start().await;
    let mut seen = String::new();
    for (code, reason, message) in [
        (Code::PermissionDenied, "WRONG_ROLE", "a node token may not list Runs"),
        (Code::NotFound, "NOT_FOUND", "there is no Run build-1"),
        (Code::AlreadyExists, "RUN_EXISTS", "Run build-1 is taken by another contract"),
        (Code::ResourceExhausted, "TOO_LARGE", "the message has more than 4194304 bytes"),
        (Code::Unavailable, "STORE_UNAVAILABLE", "the database did not answer"),
        (Code::Internal, "INTERNAL", "a fault of ours \x1b[2J"),
        (Code::Unimplemented, "", ""),
        (Code::DeadlineExceeded, "", "too late"),
    ] {
        let status = if reason.is_empty() { Status::new(code, message) } else { refused(code, reason, message) };
        fake.lines().get_run = fake::Script::default();
        fake.lines().get_run.then(Err(status));
        let ran = run(&fake, &["show", "build-1"]).await;
        seen.push_str(&format!("exit {}\n{}\n", ran.exit.code(), ran.err));
    }
    insta::assert_snapshot!(seen);
}

#[tokio::test]
async fn field_violations_are_a_line_each() {
    let fake = Fake::start().await;
    let mut details = ErrorDetails::new();
    details.add_bad_request_violation("steps[3].needs[0]", "there is no step \"fetsh\"");
    details.add_bad_request_violation("requires", "a contract needs a role");
    let status = Status::with_error_details(Code::InvalidArgument, "bad contract", details);
    fake.lines().dry_run.then(Err(status));
    let ran =
        run_changed(&fake, &["dry-run", "-"], |io| io.stdin = Box::new(Cursor::new(shared::contract::example()))).await;
    insta::assert_snapshot!(ran);
}

#[tokio::test]
async fn addresses_and_files_that_cannot_work() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty");
    std::fs::write(&empty, " \n").unwrap();
    let empty = empty.display().to_string();
    for (args, says) in [
        (&["--mediator", "yard:7070"][..], "only http:// and https:// are known"),
        (&["--mediator", "ftp://yard"], "only http:// and https:// are known"),
        (&["--mediator", "a b"], "this is not a URL"),
        (&["--mediator", "http://127.0.0.1:99999"], "port \"99999\" is not a number from 1 to 65535"),
        (&["--mediator", "http://127.0.0.1:0"], "port \"0\" is not"),
        (&["--mediator", "http://[::1]:x"], "not a"),
        (&["--mediator", "http://ann@yard:7070"], "a user in it means nothing"),
        (&["--mediator", "http://yard:7070/fleet"], "nothing behind the port"),
        (&["--mediator", "https://yard"], "no certificate authority is given"),
        (&["--mediator", "https://yard", "--ca", "/nowhere/ca.pem"], "--ca /nowhere/ca.pem: No such file"),
        (&["--ca", "/nowhere/ca.pem"], "which has no certificates"),
        (&["--token-file", "/nowhere/token"], "--token-file /nowhere/token: No such file"),
        (&["--token-file", &empty], "there is no token in it"),
    ] {
        let ran = run_with("", &[&["nodes"], args].concat()).await;
        assert_eq!(ran.exit, Exit::Refused, "{args:?}: {ran}");
        assert!(ran.err.contains(says), "{args:?}: {ran}");
    }
}

#[test]
fn a_server_that_leaves_over_a_certificate_is_not_called_down() {
    let shown = Shown { cert: Some("me.crt".into()), ..Shown::default() };
    let failure = |cause: &str, shown: &Shown| {
        let failure = refusal::unreachable("https://yard:7070", cause, shown);
        format!("{}\n{}", failure.message, failure.advice.unwrap_or_default())
    };
    for cause in
        ["stream closed because of a broken pipe", "received fatal alert: UnknownCA", "Connection reset by peer"]
    {
        let said = failure(cause, &shown);
        assert!(
            said.starts_with("https://yard:7070 was reached, but it refused the certificate that was shown"),
            "{said}"
        );
        assert!(said.contains("tls.client_ca") && said.contains("me.crt"), "{said}");
        let said = failure(cause, &Shown::default());
        assert!(said.contains("give one with --client-cert"), "{said}");
    }
    assert!(failure("Connection refused (os error 111)", &shown).contains("Is `mediator serve` running?"));
}

#[test]
fn who_is_not_known_is_told_what_was_shown() {
    let status = refused(Code::Unauthenticated, "UNAUTHENTICATED", "this is not known here");
    let advice = |cert: Option<&str>, token: Option<&str>| {
        let shown = Shown { cert: cert.map(Into::into), token: token.map(str::to_owned), ..Shown::default() };
        let failure = refusal::failure("https://yard:7070", "cannot list the nodes", &status, &shown);
        assert_eq!(failure.exit, Exit::Refused);
        failure.advice.unwrap()
    };
    assert!(advice(None, None).starts_with("Give a token with --token-file"));
    assert!(
        advice(None, Some("--token-file t"))
            .starts_with("The token that was shown is that of --token-file t. Give another")
    );
    assert!(advice(Some("me.crt"), None).starts_with("What was shown is --client-cert me.crt. Show another one"));
}

#[tokio::test]
async fn the_token_of_the_file_is_sent() {
    let fake = Fake::start().await;
    fake.lines().list_nodes.then(Ok(nodes()));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "s3cret\n").unwrap();
    run(&fake, &["nodes", "--token-file", file.to_str().unwrap()]).await;
    assert_eq!(fake.lines().authorization.as_deref(), Some("Bearer s3cret"));
}

#[tokio::test]
async fn a_reader_that_left_is_no_error() {
    struct Gone;
    impl Write for Gone {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let fake = Fake::start().await;
    fake.lines().list_nodes.then(Ok(nodes()));
    let ran = run_changed(&fake, &["nodes"], |io| io.out = Box::new(Gone)).await;
    assert_eq!(ran.to_string(), "exit 0\n-- stdout\n-- stderr\n");
}
