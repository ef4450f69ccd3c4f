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
    let made = at(folder.path(), "token create --role node --principal yard --node yard --new-database").await;
    let secret = made.out.trim_end();
    assert_eq!((made.exit, secret.len()), (Exit::Ok, 64), "{made}");
    // Whoever gave another --state-dir than the mediator's finds out here, and not by a token that nobody knows.
    assert!(made.err.contains("Made sqlite:STATE/mediator.db: no mediator has served there yet"), "{made}");
    let made = at(folder.path(), "token create --role observer --principal ann --output json").await;
    assert!(made.err.contains("Using sqlite:STATE/mediator.db"), "{made}");
    let shown: serde_json::Value = serde_json::from_str(&made.out).unwrap();
    assert_eq!((&shown["role"], &shown["principal"]), (&"observer".into(), &"ann".into()));

    let listed = at(folder.path(), "token list").await;
    let rows: Vec<Vec<_>> = listed.out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["ID", "ROLE", "PRINCIPAL", "NODE", "AGE", "EXPIRES", "REVOKED"]);
    let hash = crate::auth::hash(secret);
    let node = rows.iter().find(|row| row[1] == "node").unwrap();
    assert_eq!((node[0], &node[2..4], &node[5..]), (&hash[..12], &["yard", "yard"][..], &["-", "-"][..]));
    assert!(rows.iter().any(|row| row[1..4] == ["observer", "ann", "-"]), "{listed}");
    for text in [listed.to_string(), at(folder.path(), "token list --output json").await.to_string()] {
        assert!(!text.contains(secret) && !text.contains(&hash), "{text}");
    }
}

#[tokio::test]
async fn a_database_in_a_folder_that_is_not_there_names_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let create = "token create --role node --principal yard --new-database --database sqlite:/nowhere/at/all/x.db";
    let ran = at(folder.path(), create).await;
    assert_eq!(ran.exit, Exit::Refused);
    assert!(ran.err.contains("there is no folder /nowhere/at/all; make it first, or write another path"), "{ran}");
}

#[tokio::test]
async fn a_token_expires_and_is_revoked_by_a_part_of_its_id() {
    let folder = tempfile::tempdir().unwrap();
    let made =
        at(folder.path(), "token create --role observer --principal ann --expires 30d --output json --new-database")
            .await;
    let made: serde_json::Value = serde_json::from_str(&made.out).unwrap();
    let id = made["id"].as_str().unwrap();
    assert!(crate::auth::hash(made["token"].as_str().unwrap()).starts_with(id) && made["expires_at"].is_string());
    let listed = at(folder.path(), "token list").await;
    assert!(listed.out.contains("in 29d"), "{listed}");

    for (args, says) in [
        ("token revoke abc".to_owned(), "too short"),
        ("token revoke 000000000000".to_owned(), "no token has an id that begins with 000000000000"),
        (format!("token revoke {}", "z%_*".repeat(3)), "no token has an id"),
    ] {
        let ran = at(folder.path(), &args).await;
        assert!(ran.exit == Exit::Refused && ran.err.contains(says) && ran.err.contains("token list"), "{ran}");
    }
    let revoked = at(folder.path(), &format!("token revoke {} --output json", &id[..8])).await;
    let shown: serde_json::Value = serde_json::from_str(&revoked.out).unwrap();
    assert_eq!((&shown["id"], revoked.exit), (&made["id"], Exit::Ok));
    assert!(shown["revoked_at"].is_string());
    let again = at(folder.path(), &format!("token revoke {id}")).await;
    assert!(again.exit == Exit::Refused && again.err.contains("was revoked already, at"), "{again}");
    let listed = at(folder.path(), "token list --output json").await;
    let rows: serde_json::Value = serde_json::from_str(&listed.out).unwrap();
    assert_eq!(rows[0]["revoked_at"], shown["revoked_at"]);
}

#[tokio::test]
async fn a_database_that_is_gone_is_not_made_anew_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    at(folder.path(), "token create --role admin --principal ann --new-database").await;
    std::fs::write(folder.path().join("admin.token"), "x").unwrap();
    std::fs::remove_file(folder.path().join("mediator.db")).unwrap();
    for args in ["token create --role admin --principal ann", "token list", "token revoke abcdefgh", "serve"] {
        let ran = at(folder.path(), args).await;
        assert!(ran.exit == Exit::Refused, "{ran}");
        for says in ["STATE/admin.token", "restore a backup", "--new-database"] {
            assert!(ran.err.contains(says), "{args} {says}: {ran}");
        }
        assert!(!folder.path().join("mediator.db").exists(), "{args}");
    }
    let ran = at(folder.path(), "token create --role admin --principal ann --new-database").await;
    assert_eq!(ran.exit, Exit::Ok, "{ran}");
    assert_eq!(at(folder.path(), "token list").await.exit, Exit::Ok);
}

#[tokio::test]
async fn a_token_that_makes_no_sense_is_not_made() {
    let folder = tempfile::tempdir().unwrap();
    for (args, says) in [
        ("token create --role boss --principal ann", "write node, submitter, observer or admin"),
        ("token create --role admin --principal a/b", "principal"),
        ("token create --role admin --principal ann --node yard", "--node binds a token of role node"),
        ("token create --role admin", "--principal"),
        ("token create --role admin --principal ann --expires 0s", "no good from the start"),
        ("token create --role admin --principal ann --expires soon", "such as 250ms"),
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

#[tokio::test]
async fn a_client_certificate_is_issued_and_revoked_by_its_file_or_its_fingerprint() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("pki").display().to_string();
    run_with("", &["pki", "init", "--out", &dir, "--host", "yard.example"]).await;
    let issue = async |more: &str| {
        let args = format!("pki issue --dir {dir} {more}");
        run_with("", &args.split(' ').collect::<Vec<_>>()).await
    };
    let ran = issue("--role node --principal yard --node yard --days 7 --output json").await;
    let made: serde_json::Value = serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{ran}"));
    let (file, fingerprint) = (made["cert"].as_str().unwrap(), made["fingerprint"].as_str().unwrap());
    assert!(file.ends_with("pki/yard.yard.crt") && ran.err.contains(fingerprint), "{ran}");
    let ran = issue("--role observer --principal ann").await;
    assert_eq!(ran.out, format!("{dir}/ann.crt\n{dir}/ann.key\n"));
    for (args, says) in [
        ("--role observer --principal ann", "is not overwritten"),
        ("--role observer --principal eve --node yard", "--node binds a certificate of role node"),
        ("--role boss --principal eve", "write node, submitter, observer or admin"),
        ("--role observer --principal eve --days 0", "0 is not in 1..=3650"),
    ] {
        let ran = issue(args).await;
        assert!(ran.exit == Exit::Refused && ran.err.contains(says), "{args}: {ran}");
    }

    let state = folder.path().join("state");
    // Revoking needs a database that is in use.
    at(&state, "token create --role observer --principal ann --new-database").await;
    for (named, printed) in [(file, fingerprint), (&"ab".repeat(32), &*"ab".repeat(32))] {
        let ran = at(&state, &format!("pki revoke {named}")).await;
        assert_eq!((ran.exit, ran.out.trim_end()), (Exit::Ok, printed), "{ran}");
        let ran = at(&state, &format!("pki revoke {named}")).await;
        assert!(ran.exit == Exit::Refused && ran.err.contains("was revoked already, at"), "{ran}");
    }
    let listed = at(&state, "token list").await;
    assert!(listed.out.contains(&format!("cert:{}  node", &fingerprint[..12])), "{listed}");
    for bad in ["abc", &format!("{dir}/ca.key"), "/nowhere/x.crt"] {
        let ran = at(&state, &format!("pki revoke {bad}")).await;
        assert!(ran.exit == Exit::Refused && ran.err.contains("64 hexadecimal digits"), "{ran}");
    }
}

#[tokio::test]
async fn a_database_that_is_not_there_is_told_and_not_made() {
    let folder = tempfile::tempdir().unwrap();
    let never = folder.path().join("never");
    let fingerprint = "ab".repeat(32);
    let create = "token create --role node --principal me";
    for args in ["gc --older-than 1d", "token list", "token revoke abcdef", "recover", "backup /nonexistent/b", create]
    {
        let ran = at(&never, args).await;
        assert_eq!(ran.exit, Exit::Refused, "{args}: {ran}");
        assert!(ran.err.contains("no database of a mediator at sqlite:STATE/mediator.db"), "{args}: {ran}");
        assert!(ran.err.contains("--state-dir"), "where the value came from: {ran}");
        assert_eq!(ran.err.contains("--new-database"), args == create, "{args}: {ran}");
        assert!(!never.join("mediator.db").exists(), "{args}");
    }
    let ran = at(&never, &format!("pki revoke {fingerprint}")).await;
    assert!(ran.exit == Exit::Refused && ran.err.contains("no database"), "{ran}");
    assert!(!never.join("mediator.db").exists());
}

#[tokio::test]
async fn a_database_that_may_not_be_looked_at_is_not_called_missing() {
    let folder = tempfile::tempdir().unwrap();
    // A loop, because no permission keeps root from looking.
    std::os::unix::fs::symlink("mediator.db", folder.path().join("mediator.db")).unwrap();
    for args in ["token list", "token create --role admin --principal ann", "gc --older-than 1d"] {
        let ran = at(folder.path(), args).await;
        assert!(ran.exit == Exit::Refused && ran.err.contains("cannot open sqlite:STATE/mediator.db"), "{args}: {ran}");
        assert!(
            ran.err.contains("symbolic link") && ran.err.contains("as the user that `mediator serve`"),
            "{args}: {ran}"
        );
    }
}

#[tokio::test]
async fn a_database_of_an_earlier_version_is_left_as_it_is() {
    use sqlx::{Connection, Row};
    let folder = tempfile::tempdir().unwrap();
    at(folder.path(), "token create --role observer --principal ann --new-database").await;
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(folder.path().join("mediator.db"));
    let mut conn = sqlx::SqliteConnection::connect_with(&options).await.unwrap();
    sqlx::query("DELETE FROM schema_migrations WHERE version = (SELECT max(version) FROM schema_migrations)")
        .execute(&mut conn)
        .await
        .unwrap();
    let count = "SELECT count(*) FROM schema_migrations";
    let before: i64 = sqlx::query(count).fetch_one(&mut conn).await.unwrap().get(0);
    for args in ["token list", "gc --older-than 1d", "token create --role observer --principal bob"] {
        let ran = at(folder.path(), args).await;
        assert!(ran.exit == Exit::Refused && ran.err.contains("earlier version"), "{args}: {ran}");
    }
    let after: i64 = sqlx::query(count).fetch_one(&mut conn).await.unwrap().get(0);
    assert_eq!(before, after);
}

#[tokio::test]
async fn a_backup_does_not_go_into_what_it_is_a_copy_of() {
    let folder = tempfile::tempdir().unwrap();
    at(folder.path(), "token create --role observer --principal ann --new-database").await;
    for to in [folder.path().to_owned(), folder.path().join("records/new"), folder.path().join("a/b")] {
        let ran = at(folder.path(), &format!("backup {}", to.display())).await;
        assert!(ran.exit == Exit::Refused && ran.err.contains("name a directory elsewhere"), "{ran}");
    }
    assert!(!folder.path().join("a").exists());
}
