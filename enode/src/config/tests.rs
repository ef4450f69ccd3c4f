//! Layers, faults and secrets.

use std::{
    fs,
    path::{Path, PathBuf},
};

use shared::{Duration, NodeId, contract::AttrValue};

use super::{Config, ConfigErrors, Flags, Layers, Need};

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }
    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }
    fn path(&self) -> &Path {
        self.0.path()
    }
}

fn env(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

fn load(layers: &Layers) -> Result<Config, ConfigErrors> {
    Config::load(layers, Need::All)
}

#[test]
fn later_layers_win() {
    let place = Place::new();
    let etc = place.file("etc/enode.toml", "name = \"etc\"\nslots = 2\ngrace = \"1s\"\nlabel = \"from etc\"\n");
    let user = place.file("user/enode.toml", "slots = 3\ngrace = \"2s\"\nstop_timeout = \"1m\"\n");
    let own = place.file("yard.toml", "name = \"yard\"\ngrace = \"3s\"\n");
    let layers = Layers {
        files: vec![etc, place.path().join("none.toml"), user],
        config: Some(own),
        env: env(&[("ENODE_GRACE", "4s"), ("ENODE_DISK__MIN_FREE", "2GiB"), ("ENODE_LOG", "debug"), ("PATH", "/bin")]),
        flags: Flags { slots: Some("5".into()), ..Flags::default() },
    };
    let config = load(&layers).unwrap();
    assert_eq!((config.name.as_str(), config.label.as_str()), ("yard", "from etc"));
    assert_eq!((config.slots, config.grace), (5, Duration::from_secs(4)));
    assert_eq!((config.stop_timeout, config.start_timeout), (Duration::from_secs(60), Duration::from_secs(30)));
    assert_eq!(config.min_free, Some(2 << 30));
    assert_eq!(config.policy_file, place.path().join("yard.policy.toml"));
    let nodes = config.nodes();
    assert_eq!((nodes.len(), &nodes[4]), (5, &NodeId::new("yard/4").unwrap()));
    // Whoever wonders why the file is not heard finds it here.
    let from = |key: &str| config.shown().into_iter().find(|(name, ..)| *name == key).unwrap().2;
    let shown = from("grace").replace(&place.path().display().to_string(), "");
    assert_eq!(
        shown,
        "environment: ENODE_GRACE, over /yard.toml:2: grace and /user/enode.toml:2: grace and /etc/enode.toml:3: grace"
    );
    assert!(!from("stop_timeout").contains("over"));
}

#[test]
fn one_slot_is_the_name_itself() {
    let config = load(&Layers { env: env(&[("ENODE_NAME", "yard")]), ..Layers::default() }).unwrap();
    assert_eq!(config.nodes(), [NodeId::new("yard").unwrap()]);
    assert_eq!(config.policy_file, config.state_dir.join("yard.policy.toml"), "no config file: beside the state");
}

#[test]
fn every_fault_is_told_at_once_with_its_place() {
    let place = Place::new();
    let etc = place.file("etc.toml", "slot = 3\n\n[disk]\nmin_fre = 1\n");
    let own = place.file(
        "yard.toml",
        "name = \"a b\"\nslots = 0\ngrace = 10\nmediator = [\"http://a\", \"ftp://b/x\"]\nartifact_bytes = \"3 parsecs\"\n\
         pass_env = [\"ENODE_TOKEN\"]\n[[capability]]\nname = \"x\"\nattr = 1\n",
    );
    let layers = Layers {
        files: vec![etc],
        config: Some(own),
        env: env(&[("ENODE_START_TIMEOUT", "soon"), ("ENODE_GARCE", "1s"), ("ENODE_DETECT", "maybe")]),
        flags: Flags { token_file: Some("/nonexistent/token".into()), ..Flags::default() },
    };
    let said = load(&layers).unwrap_err().to_string();
    for want in [
        "etc.toml:1: slot is not a known key; did you mean slots?",
        "etc.toml:4: disk.min_fre is not a known key; did you mean disk.min_free?",
        "yard.toml:1: name is not usable: node id \"a b\"",
        "yard.toml:2: slots must be from 1 to 1000, not 0",
        "yard.toml:3: grace must be a duration in quotes, such as \"10s\" or \"5m\", not 10",
        "\"ftp://b/x\" is not http://HOST:PORT",
        "yard.toml:5: artifact_bytes must be bytes",
        "yard.toml:6: pass_env must not hold ENODE_TOKEN",
        "capability entry 1: unknown key `attr`",
        "environment: ENODE_START_TIMEOUT \"soon\" is not a duration",
        "environment: ENODE_GARCE is not a known key; did you mean grace?",
        "environment: ENODE_DETECT must be true or false, not \"maybe\"",
        "command line: --token-file /nonexistent/token: no such file",
    ] {
        assert!(said.contains(want), "missing {want:?} in\n{said}");
    }
    assert!(said.starts_with("the configuration has 13 faults:"), "{said}");
}

#[test]
fn a_file_that_is_not_toml_is_one_fault_among_others() {
    let place = Place::new();
    let own = place.file("yard.toml", "name = \"yard\"\nslots = \n");
    let said = load(&Layers { config: Some(own), env: env(&[("ENODE_SLOTS", "many")]), ..Layers::default() });
    let said = said.unwrap_err().to_string();
    assert!(said.contains("yard.toml:2: ") && said.contains("ENODE_SLOTS must be a whole number"), "{said}");
}

#[test]
fn a_config_that_is_not_there_says_how_to_make_one() {
    let layers = Layers { config: Some("/nonexistent/yard.toml".into()), ..Layers::default() };
    let said = load(&layers).unwrap_err().to_string();
    assert!(said.contains("/nonexistent/yard.toml: no such file; `enode init`"), "{said}");
    assert!(!said.contains("name is not set"), "who knows what would be in it: {said}");
    let said = load(&Layers::default()).unwrap_err().to_string();
    assert!(said.contains("name is not set"), "{said}");
}

#[test]
fn the_token_is_read_from_file_text_or_environment_and_never_shown() {
    let place = Place::new();
    place.file("yard.token", "  s3cret\n");
    let own = place.file("yard.toml", "name = \"yard\"\ntoken_file = \"yard.token\"\n");
    let mut layers = Layers { config: Some(own), ..Layers::default() };
    let config = load(&layers).unwrap();
    assert_eq!(config.token.as_ref().unwrap().reveal(), "s3cret");
    layers.env = env(&[("ENODE_TOKEN", "0123")]);
    let config = load(&layers).unwrap();
    assert_eq!(config.token.as_ref().unwrap().reveal(), "0123", "digits stay as they are");
    assert!(!format!("{config:?}").contains("0123"));
    let shown = serde_json::to_string(&config.shown().iter().map(|(_, v, _)| v.clone()).collect::<Vec<_>>()).unwrap();
    assert!(!shown.contains("0123") && shown.contains("(set, not shown)"), "{shown}");
}

#[test]
fn both_ways_to_give_a_token_in_one_place_are_refused() {
    let place = Place::new();
    let own = place.file("yard.toml", "name = \"yard\"\ntoken_file = \"t\"\ntoken = \"x\"\n");
    let said = load(&Layers { config: Some(own), ..Layers::default() }).unwrap_err().to_string();
    assert!(said.contains("yard.toml:3: token and token_file are both set"), "{said}");
}

#[test]
fn an_owner_needs_no_token() {
    let layers = Layers { env: env(&[("ENODE_NAME", "y"), ("ENODE_TOKEN_FILE", "/nonexistent")]), ..Layers::default() };
    assert!(load(&layers).is_err());
    let config = Config::load(&layers, Need::Owner).unwrap();
    assert!(
        config.token.is_none() && config.warnings.iter().any(|w| w.contains("/nonexistent")),
        "{:?}",
        config.warnings
    );
}

#[test]
fn an_empty_token_is_a_fault_and_not_no_token() {
    let place = Place::new();
    place.file("t", "\n");
    let own = place.file("yard.toml", "name = \"yard\"\ntoken_file = \"t\"\n");
    let said = load(&Layers { config: Some(own), ..Layers::default() }).unwrap_err().to_string();
    assert!(said.contains("holds no token"), "{said}");
}

#[test]
fn transport_and_authority_must_fit() {
    let place = Place::new();
    place.file("ca.crt", "pem");
    for (text, want) in [
        ("mediator = \"http://127.0.0.1:1\"\nca_file = \"ca.crt\"", "ca_file is set, but"),
        ("mediator = \"https://far:1\"", "needs ca_file"),
        ("mediator = \"https://far:1\"\nca_file = \"none.pem\"", "none.pem: no such file; copy the ca.crt there"),
    ] {
        let own = place.file("yard.toml", &format!("name = \"yard\"\n{text}\n"));
        let said = load(&Layers { config: Some(own), ..Layers::default() }).unwrap_err().to_string();
        assert!(said.contains(want), "{text}: {said}");
    }
    let own = place.file("yard.toml", "name = \"yard\"\nmediator = \"https://far:1\"\nca_file = \"ca.crt\"\n");
    let config = load(&Layers { config: Some(own), ..Layers::default() }).unwrap();
    assert_eq!(config.ca_file, Some(place.path().join("ca.crt")), "relative to the file that names it");
    let config =
        load(&Layers { env: env(&[("ENODE_NAME", "y"), ("ENODE_MEDIATOR", "http://far:1")]), ..Layers::default() });
    assert!(config.unwrap().warnings.iter().any(|warning| warning.contains("not encrypted")));
}

#[test]
fn capabilities_are_tables_and_detection_fills_them_up() {
    let place = Place::new();
    let text = "name = \"yard\"\n[[capability]]\nname = \"build\"\nattrs = { os = \"plan9\", cores = 64, fast = true }\n\
                [[capability]]\nname = \"flash\"\n";
    let own = place.file("yard.toml", text);
    let mut layers = Layers { config: Some(own), ..Layers::default() };
    let config = load(&layers).unwrap();
    let attrs = &config.capabilities[0].attrs;
    assert_eq!((&attrs["os"], &attrs["cores"]), (&AttrValue::Text("plan9".into()), &AttrValue::Number(64)));
    assert_eq!(attrs["fast"], AttrValue::Flag(true));
    assert!(attrs.contains_key("arch") && config.capabilities[1].attrs.contains_key("os"));
    layers.env = env(&[("ENODE_DETECT", "false")]);
    let config = load(&layers).unwrap();
    assert!(config.capabilities[1].attrs.is_empty());
    layers.env = env(&[("ENODE_CAPABILITY", "a, b"), ("ENODE_DETECT", "false")]);
    let names: Vec<_> = load(&layers).unwrap().capabilities.into_iter().map(|capability| capability.name).collect();
    assert_eq!(names, ["a", "b"]);
}

#[test]
fn home_is_understood_in_paths() {
    let layers = Layers {
        env: env(&[("ENODE_NAME", "y"), ("ENODE_STATE_DIR", "~/e"), ("HOME", "/home/u")]),
        ..Layers::default()
    };
    assert_eq!(load(&layers).unwrap().state_dir, PathBuf::from("/home/u/e"));
}

#[test]
fn the_panel_has_a_table_with_the_checks_of_its_flags() {
    let place = Place::new();
    let text = "name = \"yard\"\n[panel]\nlisten = \"127.0.0.1:9\"\nqueue = \"tickets\"\ntemplates = \"t\"\nmediator = [\"https://a:1\"]\n\
                token_file = \"~/t\"\nca_file = \"ca.crt\"\n";
    let own = place.file("yard.toml", text);
    let mut layers = Layers { config: Some(own), env: env(&[("HOME", "/home/u")]), ..Layers::default() };
    // The agent does not use them: neither of the files need be there.
    let config = load(&layers).unwrap();
    assert_eq!(config.panel.listen, Some("127.0.0.1:9".parse().unwrap()));
    assert_eq!(config.panel.queue, Some(place.path().join("tickets")), "relative to the file that names it");
    assert_eq!(config.panel.templates, Some(place.path().join("t")));
    assert_eq!(
        (config.panel.token_file, config.panel.ca_file),
        (Some("/home/u/t".into()), Some(place.path().join("ca.crt")))
    );
    layers.env = env(&[("HOME", "/home/u"), ("ENODE_PANEL__LISTEN", "[::1]:8")]);
    let config = load(&layers).unwrap();
    assert_eq!(config.panel.listen, Some("[::1]:8".parse().unwrap()));
    assert!(config.origin("panel.listen").starts_with("environment: ENODE_PANEL__LISTEN, over "));
    assert!(config.shown().iter().any(|(key, value, _)| *key == "panel.listen" && value == "[::1]:8"));
    for (text, want) in [
        ("[panel]\nlisten = \"here\"", ":3: panel.listen must be IP:PORT in quotes"),
        ("[panel]\nlisten = 7071", "panel.listen must be IP:PORT in quotes"),
        ("[panel]\nmediator = \"nowhere\"", "panel.mediator \"nowhere\" is not http://HOST:PORT"),
        ("[panel]\nqueue = \"\"", "panel.queue must not be empty"),
        ("[panel]\nlisen = \"x\"", "panel.lisen is not a known key; did you mean panel.listen?"),
        ("panel = 1", "must be a table: [panel]"),
    ] {
        let own = place.file("odd.toml", &format!("name = \"yard\"\n{text}\n"));
        let error = load(&Layers { config: Some(own), ..Layers::default() }).unwrap_err();
        assert!(error.to_string().contains(want) && error.concern_the_panel(), "{text}: {error}");
    }
    // Whatever a text says, it is the setting that counts.
    for (name, text) in [("yard", "slots = \"x: panel\""), ("a: panel b", ""), ("yard", "panels = 1")] {
        let own = place.file("a: panel.toml", &format!("name = \"{name}\"\n{text}\n"));
        let error = load(&Layers { config: Some(own), ..Layers::default() }).unwrap_err();
        assert!(!error.concern_the_panel(), "{text}: {error}");
    }
    layers.env = env(&[("HOME", "/home/u"), ("ENODE_PANEL__LISTEN", "here"), ("ENODE_PANELS", "x")]);
    let error = load(&layers).unwrap_err();
    let keys: Vec<_> = error.0.iter().map(|it| it.key().unwrap_or_default()).collect();
    assert_eq!(keys, ["panels", "panel.listen"], "{error}");
    layers.env = env(&[("HOME", "/home/u"), ("ENODE_PANEL__LISEN", "x")]);
    assert!(load(&layers).unwrap_err().concern_the_panel());
}
