//! `config`, `token` and `pki`: the mediator's own host.

use super::{run_with, *};

async fn at(dir: &std::path::Path, args: &str) -> Ran {
    let dir = dir.display().to_string();
    let args: Vec<_> = args.split(' ').chain(["--state-dir", &dir]).collect();
    let mut ran = run_with("", &args).await;
    ran.err = ran.err.replace(&dir, "STATE");
    ran
}

#[tokio::test]
async fn a_token_is_shown_once_and_listed_without_its_secret() {
    let folder = tempfile::tempdir().unwrap();
    let made = at(folder.path(), "token create --role node --principal yard --node yard").await;
    let secret = made.out.trim_end();
    assert_eq!((made.exit, secret.len()), (Exit::Ok, 64), "{made}");
    assert!(made.err.contains("Using sqlite:STATE/mediator.db"), "{made}");
    let made = at(folder.path(), "token create --role observer --principal ann --output json").await;
    let shown: serde_json::Value = serde_json::from_str(&made.out).unwrap();
    assert_eq!((&shown["role"], &shown["principal"]), (&"observer".into(), &"ann".into()));

    let listed = at(folder.path(), "token list").await;
    let rows: Vec<Vec<_>> = listed.out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["HASH", "ROLE", "PRINCIPAL", "NODE", "AGE"]);
    let hash = crate::auth::hash(secret);
    let node = rows.iter().find(|row| row[1] == "node").unwrap();
    assert_eq!((node[0], &node[2..4]), (&hash[..12], &["yard", "yard"][..]));
    assert!(rows.iter().any(|row| row[1..4] == ["observer", "ann", "-"]), "{listed}");
    for text in [listed.to_string(), at(folder.path(), "token list --output json").await.to_string()] {
        assert!(!text.contains(secret) && !text.contains(&hash), "{text}");
    }
}

#[tokio::test]
async fn a_token_that_makes_no_sense_is_not_made() {
    let folder = tempfile::tempdir().unwrap();
    for (args, says) in [
        ("token create --role boss --principal ann", "write node, submitter, observer or admin"),
        ("token create --role admin --principal a/b", "principal"),
        ("token create --role admin --principal ann --node yard", "--node binds a token of role node"),
        ("token create --role admin", "--principal"),
    ] {
        let ran = at(folder.path(), args).await;
        assert!(ran.exit == Exit::Refused && ran.err.contains(says), "{args}: {ran}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn config_show_says_where_each_value_comes_from_and_no_secret() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("c.toml");
    std::fs::write(&file, "[lease]\nrenew = \"5s\"\n").unwrap();
    let file = file.display().to_string();
    let args = ["config", "show", "--config", &file, "--database", "postgres://m:s3cret@db/fleet", "--insecure"];
    let ran = run_with("", &args).await;
    let row = |key: &str| {
        let line = ran.out.lines().find(|line| line.starts_with(&format!("{key} "))).unwrap();
        line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(ran.exit, Exit::Ok, "{ran}");
    assert_eq!(row("lease.renew")[1..3], ["5s", &file]);
    assert_eq!(row("insecure")[1..3], ["true", "flag --insecure"]);
    assert_eq!(row("lease.factor")[1..3], ["6", "default"]);
    assert_eq!(row("database")[1..3], ["postgres://m:REDACTED@db/fleet", "flag --database"]);
    assert!(!ran.to_string().contains("s3cret"));

    let ran = run_with("", &["config", "show", "--output", "jsonl"]).await;
    assert_eq!(ran.out.lines().count(), crate::config::KEYS.len());
}

#[tokio::test]
async fn every_mistake_of_a_configuration_is_told() {
    for command in [&["serve"][..], &["config", "show"]] {
        let args = [command, &["--lease-factor", "1", "--listen", "nowhere"]].concat();
        let ran = run_with("", &args).await;
        assert_eq!(ran.exit, Exit::Refused);
        for says in ["error: the configuration is not valid\n", "flag --lease-factor: ", "flag --listen: "] {
            assert!(ran.err.contains(says), "{ran}");
        }
    }
}

#[tokio::test]
async fn pki_init_never_overwrites() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("pki").display().to_string();
    let args = ["pki", "init", "--out", &out, "--host", "yard.example", "10.0.0.7"];
    let ran = run_with("", &args).await;
    assert_eq!(
        ran.out,
        ["ca.crt", "ca.key", "server.crt", "server.key"].map(|name| format!("{out}/{name}\n")).concat()
    );
    assert!(ran.exit == Exit::Ok && ran.err.contains("Copy"), "{ran}");
    let before = std::fs::read(format!("{out}/ca.key")).unwrap();
    let ran = run_with("", &args).await;
    assert!(ran.exit == Exit::Refused && ran.err.contains("is not overwritten"), "{ran}");
    assert_eq!(std::fs::read(format!("{out}/ca.key")).unwrap(), before);
}
