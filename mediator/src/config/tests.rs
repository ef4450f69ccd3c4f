use std::path::Path;

use super::*;

fn file(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

fn env(vars: &[(&str, &str)]) -> Vec<(String, String)> {
    vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn state() -> Vec<(&'static str, String)> {
    vec![("state_dir", "/srv/state".to_owned())]
}

fn problems(layers: &Layers) -> Vec<String> {
    load(layers).unwrap_err().0.iter().map(ToString::to_string).collect()
}

#[test]
fn defaults_are_good_and_are_those_of_the_table() {
    let (config, shown) = load(&Layers { flags: state(), ..Layers::default() }).unwrap();
    assert_eq!(config.database, "sqlite:/srv/state/mediator.db");
    assert_eq!(config.lease, Settings::default());
    assert_eq!((config.tls, config.insecure), (None, false));
    assert_eq!(shown.len(), KEYS.len());
    for (key, shown) in KEYS.iter().zip(&shown).filter(|(key, _)| !key.default.is_empty()) {
        assert_eq!((shown.value.as_str(), shown.source.as_str()), (key.default, "default"), "{}", key.name);
    }
}

#[test]
fn later_layers_win() {
    let dir = tempfile::tempdir().unwrap();
    let layers = Layers {
        system: Some(file(dir.path(), "etc.toml", "[lease]\nrenew = \"1s\"\nfactor = 4\nmax_per_run = 1\n")),
        user: Some(file(dir.path(), "user.toml", "lease.renew = \"2s\"\nlease.factor = 5\nsweep_interval = \"7s\"\n")),
        file: Some(file(dir.path(), "given.toml", "lease.renew = \"3s\"\nreap_interval = \"2s\"\n")),
        env: env(&[("MEDIATOR_LEASE__RENEW", "4s"), ("MEDIATOR_REAP_INTERVAL", "3s"), ("PATH", "/bin")]),
        flags: [state(), vec![("lease.renew", "5s".to_owned())]].concat(),
    };
    let (config, shown) = load(&layers).unwrap();
    let lease = config.lease;
    assert_eq!((lease.renew, lease.factor, lease.max_per_run), (Duration::from_secs(5), 5, 1));
    assert_eq!((config.sweep_interval, config.reap_interval), (Duration::from_secs(7), Duration::from_secs(3)));
    let source = |key: &str| shown.iter().find(|it| it.key == key).unwrap().source.clone();
    let there = dir.path().display().to_string();
    let source = |key: &str| source(key).replace(&there, "");
    assert_eq!(
        source("lease.renew"),
        "flag --lease-renew, over environment variable MEDIATOR_LEASE__RENEW and /given.toml and /user.toml and /etc.toml"
    );
    assert_eq!(source("reap_interval"), "environment variable MEDIATOR_REAP_INTERVAL, over /given.toml");
    assert!(source("lease.max_per_run").ends_with("etc.toml"));
}

#[test]
fn c04_a_horizon_of_less_than_three_intervals_is_refused() {
    assert!(Settings::default().factor >= 3);
    for (factor, good) in [("0", false), ("1", false), ("2", false), ("3", true)] {
        let layers = Layers { env: env(&[("MEDIATOR_LEASE__FACTOR", factor)]), flags: state(), ..Layers::default() };
        let told = load(&layers).err().map(|it| it.0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"));
        assert_eq!(told.is_none(), good, "{factor}: {told:?}");
        assert!(told.is_none_or(|it| it.contains("lease.factor") && it.contains("at least 3")));
    }
}

#[test]
fn every_mistake_is_told_at_once_with_its_source() {
    let dir = tempfile::tempdir().unwrap();
    let etc = file(dir.path(), "etc.toml", "colour = \"red\"\nlistn = \"x\"\nlisten = [1]\n[lease]\nfactor = 2\n");
    let layers = Layers {
        system: Some(etc.clone()),
        user: Some(file(dir.path(), "user.toml", "half = \n")),
        file: Some(dir.path().join("none.toml")),
        env: env(&[
            ("MEDIATOR_LEASE__RENEW", "10"),
            ("MEDIATOR_SWEEP_INTERVAL", "1ms"),
            ("MEDIATOR_REAP_INTERVAL", "2h"),
            ("MEDIATOR_LIMITS__LOG_BYTES", "1MB"),
            ("MEDIATOR_LIMITS__ARTIFACT_BYTES", "1"),
            ("MEDIATOR_LIMITS__MESSAGE_BYTES", "1MiB"),
            ("MEDIATOR_LOG__FORMAT", "xml"),
            ("MEDIATOR_LOG__FILTER", "a=b=c"),
            ("MEDIATOR_INSECURE", "perhaps"),
            ("MEDIATOR_DATABASE", "mysql://u:secret@h/x"),
            ("MEDIATOR_TLS__CERT", "/nowhere/x.crt"),
            ("MEDIATOR_LEASE__MAX_PER_RUN", "-1"),
        ]),
        flags: vec![("state_dir", String::new())],
    };
    let found = problems(&layers);
    let text = found.join("\n");
    let etc_at = |line: u32| format!("{}:{line}", etc.display());
    for (source, key, hint) in [
        (&*etc_at(1), "colour", "is not a key; there are listen,"),
        (&*etc_at(2), "listn", "did you mean listen?"),
        (&*etc_at(3), "listen", "write one value"),
        (&*etc_at(5), "lease.factor", "at least 3 intervals"),
        ("environment variable MEDIATOR_LEASE__RENEW", "lease.renew", "such as 250ms, 10s"),
        ("environment variable MEDIATOR_SWEEP_INTERVAL", "sweep_interval", "write 100ms to 1h"),
        ("environment variable MEDIATOR_REAP_INTERVAL", "reap_interval", "write 50ms to 1m"),
        ("environment variable MEDIATOR_LIMITS__LOG_BYTES", "limits.log_bytes", "KiB, MiB or GiB"),
        ("environment variable MEDIATOR_LIMITS__ARTIFACT_BYTES", "limits.artifact_bytes", "write 1KiB to 1024GiB"),
        ("environment variable MEDIATOR_LIMITS__MESSAGE_BYTES", "limits.message_bytes", "with some room"),
        ("environment variable MEDIATOR_LOG__FORMAT", "log.format", "write text or json"),
        ("environment variable MEDIATOR_LOG__FILTER", "log.filter", "write levels"),
        ("environment variable MEDIATOR_INSECURE", "insecure", "neither true nor false"),
        ("environment variable MEDIATOR_DATABASE", "database", "write sqlite:PATH or postgres://"),
        ("environment variable MEDIATOR_TLS__CERT", "tls.cert", "without tls.key"),
        ("environment variable MEDIATOR_LEASE__MAX_PER_RUN", "lease.max_per_run", "write 0 for no limit"),
        ("flag --state-dir", "state_dir", "write a directory"),
    ] {
        let said = found.iter().any(|it| it.starts_with(&format!("{source}: {key}: ")) && it.contains(hint));
        assert!(said, "{source} {key} {hint} is not in\n{text}");
    }
    assert!(found.iter().any(|it| it.contains("user.toml: is not TOML")), "{text}");
    assert!(found.iter().any(|it| it.contains("none.toml: cannot be read")), "{text}");
    assert_eq!(found.len(), 19, "nothing is told twice:\n{text}");
    assert!(!text.contains("secret"), "a password is never repeated:\n{text}");
}

#[test]
fn plain_text_beyond_loopback_is_refused_unless_said_so() {
    let with = |more: &[(&'static str, &str)]| Layers {
        flags: [state(), more.iter().map(|(key, value)| (*key, (*value).to_owned())).collect()].concat(),
        ..Layers::default()
    };
    for listen in ["0.0.0.0:7070", "[::]:7070", "10.0.0.7:1"] {
        let found = problems(&with(&[("listen", listen)]));
        assert!(found[0].starts_with("flag --listen: listen: ") && found[0].contains("pki init"), "{found:?}");
        assert!(load(&with(&[("listen", listen), ("insecure", "true")])).is_ok());
    }
    for listen in ["127.0.0.1:0", "[::1]:7070"] {
        assert!(load(&with(&[("listen", listen)])).is_ok());
    }
    let dir = tempfile::tempdir().unwrap();
    let (cert, key) = (file(dir.path(), "c", ""), file(dir.path(), "k", ""));
    let (cert, key) = (cert.to_str().unwrap(), key.to_str().unwrap());
    assert!(load(&with(&[("listen", "0.0.0.0:7070"), ("tls.cert", cert), ("tls.key", key)])).is_ok());
    let found = problems(&with(&[("tls.cert", cert), ("tls.key", "/nowhere/k")]));
    assert!(found[0].starts_with("flag --tls-key: tls.key: cannot read /nowhere/k"), "{found:?}");
}

#[test]
fn a_lease_of_more_than_a_day_is_refused() {
    let layers = Layers {
        env: env(&[("MEDIATOR_LEASE__FACTOR", "1000"), ("MEDIATOR_LEASE__RENEW", "5m")]),
        flags: state(),
        ..Layers::default()
    };
    assert!(problems(&layers)[0].contains("more than a day"));
}

#[test]
fn a_relative_path_in_a_file_is_relative_to_it() {
    let dir = tempfile::tempdir().unwrap();
    let layers = Layers { file: Some(file(dir.path(), "m.toml", "state_dir = \"state\"\n")), ..Layers::default() };
    assert_eq!(load(&layers).unwrap().0.state_dir, dir.path().join("state"));
}

#[test]
fn variables_of_the_client_are_left_alone() {
    let layers =
        Layers { env: env(&[("MEDIATOR_TOKEN", "x"), ("MEDIATOR_URL", "y")]), flags: state(), ..Layers::default() };
    assert!(load(&layers).is_ok());
    let layers = Layers { env: env(&[("MEDIATOR_LISTENN", "x")]), flags: state(), ..Layers::default() };
    assert!(problems(&layers)[0].contains("did you mean listen?"));
}

#[test]
fn a_password_is_never_shown() {
    for (url, shown) in [
        ("postgres://u:p@ss@h/db", "postgres://u:REDACTED@h/db"),
        ("postgres://u@h/db?sslmode=require&PASSWORD=x", "postgres://u@h/db?sslmode=require&PASSWORD=REDACTED"),
        ("sqlite:/srv/m.db", "sqlite:/srv/m.db"),
    ] {
        assert_eq!(redact(url), shown);
    }
    let layers =
        Layers { env: env(&[("MEDIATOR_DATABASE", "postgres://u:hunter2@h/db")]), flags: state(), ..Layers::default() };
    let (config, shown) = load(&layers).unwrap();
    assert!(config.database.contains("hunter2"));
    assert!(!format!("{shown:?}").contains("hunter2"));
}
