//! The help of every command.

use clap::CommandFactory;

use crate::cli::args::Cli;

#[test]
fn every_command_is_described() {
    let mut root = Cli::command().term_width(100);
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
    let ran = super::run_with("", &["completions", "bash", "--output", "json"]).await;
    insta::assert_snapshot!(ran);
}

#[tokio::test]
async fn a_wrong_argument_is_refused() {
    for args in [&["submit"][..], &["runs", "--state", "LOST"], &["submit", "-", "--timeout", "1s"], &["show", "a/b"]] {
        assert_eq!(super::run_with("", args).await.exit.code(), 2, "{args:?}");
    }
}
