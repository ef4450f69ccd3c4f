//! The help of every command.

use crate::cli::args;

#[test]
fn every_command_is_described() {
    let mut root = args::command().term_width(100);
    root.build();
    root.clone().debug_assert();
    let mut left = vec![(String::from("mediator"), root)];
    while let Some((name, mut command)) = left.pop() {
        insta::assert_snapshot!(name.replace(' ', "-"), command.render_long_help());
        for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
            left.push((format!("{name} {}", sub.get_name()), sub.clone().term_width(100)));
        }
    }
}

#[tokio::test]
async fn completions_name_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let ran = super::run_with("", &["completions", shell]).await;
        assert!(ran.exit.code() == 0 && ran.out.contains("dry-run"), "{shell}");
    }
}

#[tokio::test]
async fn a_flag_that_would_do_nothing_is_refused() {
    for args in [
        "completions bash --output json",
        "logs r --output json",
        "record r --output jsonl",
        "contract example --mediator http://yard:7070",
        "--token-file t token list",
        "pki init --out d --host h --ca c",
        "serve --mediator http://yard:7070",
    ] {
        let ran = super::run_with("", &args.split(' ').collect::<Vec<_>>()).await;
        assert!(ran.exit.code() == 2 && ran.err.contains("does nothing with"), "{args}: {ran}");
    }
}

#[tokio::test]
async fn a_wrong_argument_is_refused() {
    for args in [&["submit"][..], &["runs", "--state", "LOST"], &["submit", "-", "--timeout", "1s"], &["show", "a/b"]] {
        assert_eq!(super::run_with("", args).await.exit.code(), 2, "{args:?}");
    }
}
