use std::os::unix::fs::PermissionsExt;

use super::{keeper::bearer, *};
use crate::service::sample::{NOW, id};
use crate::{clock::Clock, store::Store};

/// The table once more, by hand: node, submitter, observer, admin.
pub(crate) fn expected(call: Call) -> [bool; 4] {
    use Call::*;
    match call {
        Advertise | Work | Report | PutLog | FindMissingBlobs | PutArtifacts | GetArtifacts => {
            [true, false, false, false]
        }
        Submit | DryRun | Cancel | Answer => [false, true, false, true],
        GetRun | ListNodes => [true, true, true, true],
        ListRuns | WatchRun | Explain | ListAsks | GetLog | GetRecord | ListLeases | ListCapabilities | WatchFleet
        | NodesPage | RunsPage | RunPage | LeasesPage | EventsPage | Metrics => [false, true, true, true],
    }
}

#[test]
fn the_whole_table_is_as_it_should_be() {
    for call in Call::ALL {
        assert_eq!(Role::ALL.map(|role| role.may(*call)), expected(*call), "{call:?}");
    }
}

#[test]
fn every_method_of_the_protocol_is_a_call_and_nothing_else_is_open() {
    let proto = include_str!("../../../proto/fleet/v1/fleet.proto");
    let mut service = "";
    let mut methods = 0;
    for line in proto.lines() {
        let words: Vec<&str> = line.split([' ', '(']).filter(|word| !word.is_empty()).collect();
        match words.as_slice() {
            ["service", name, ..] => service = name,
            ["rpc", name, ..] => {
                methods += 1;
                let path = format!("/fleet.v1.{service}/{name}");
                let Access::Needs(call) = Access::of(&path) else { panic!("{path} is in no table") };
                assert_eq!(call.as_str(), *name);
                let (up, down) = (line.contains("(stream "), line.contains("returns (stream "));
                let shape = if down {
                    Shape::Down
                } else if up {
                    Shape::Up
                } else {
                    Shape::Once
                };
                assert_eq!(call.shape(), shape, "{path}");
                // No method drains a node: only its owner does.
                assert!(!name.to_lowercase().contains("drain"), "{name}");
            }
            _ => {}
        }
    }
    assert_eq!(methods, Call::ALL.iter().filter(|call| call.path().starts_with("/fleet")).count());
    for (path, access) in [
        ("/healthz", Access::Open),
        ("/readyz", Access::Open),
        ("/grpc.health.v1.Health/Check", Access::Open),
        ("/v1/runs/abc", Access::Needs(Call::RunPage)),
        ("/v1/runs", Access::Needs(Call::RunsPage)),
        ("/", Access::Known),
        ("/healthz/x", Access::Known),
        ("/fleet.v1.NodeService/Nope", Access::Known),
    ] {
        assert_eq!(Access::of(path), access, "{path}");
    }
}

#[test]
fn a_refused_role_is_told_which_one_could() {
    let observer = Identity { principal: id("eve"), role: Role::Observer, node: None };
    let error = observer.may(Call::Submit).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a token or certificate of role observer may not call Submit; use one of role submitter or admin"
    );
    assert_eq!(error.kind(), crate::error::Kind::WrongRole);
}

#[test]
fn a_bound_token_speaks_for_its_machine_only() {
    let agent = Identity { principal: id("yard"), role: Role::Node, node: Some(id("yard")) };
    assert!(agent.speaks_for(&id("yard")).is_ok());
    assert!(agent.speaks_for(&id("yard/3")).is_ok());
    assert!(agent.speaks_for(&id("yard2")).is_err());
    let free = Identity { node: None, ..agent };
    assert!(free.speaks_for(&id("yard2")).is_ok());
}

#[test]
fn a_submitter_cancels_its_own_runs_and_an_admin_any() {
    let mut who = Identity { principal: id("ann"), role: Role::Submitter, node: None };
    assert!(who.may_cancel(&id("ann")).is_ok());
    assert!(who.may_cancel(&id("bob")).is_err());
    who.role = Role::Admin;
    assert!(who.may_cancel(&id("bob")).is_ok());
}

#[test]
fn bearer_takes_any_case_and_refuses_what_is_not_one() {
    assert_eq!(bearer(b"bEaReR abc"), Some("abc"));
    for bad in [&b"abc"[..], b"Bearer", b"Bearer ", b"Basic abc", b"Bearer \xff"] {
        assert_eq!(bearer(bad), None);
    }
    assert_eq!(bearer(format!("Bearer {}", "x".repeat(513)).as_bytes()), None);
}

/// Looks cost nothing here.
fn freely() -> Result<(), crate::error::Error> {
    Ok(())
}

async fn store(clock: &Clock) -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", dir.path().join("mediator.db").display());
    let store = Store::open(&url, clock.clone()).await.unwrap();
    (dir, store)
}

#[tokio::test]
async fn a_token_works_at_once_and_only_its_hash_is_stored() {
    let clock = Clock::manual(NOW);
    let (_dir, store) = store(&clock).await;
    let auth = Auth::new(store.clone(), clock.clone());
    let guess = format!("Bearer {}", "0".repeat(64));
    assert_eq!(
        auth.identify(Some(guess.as_bytes()), None, freely).await.unwrap_err().kind(),
        crate::error::Kind::Unauthenticated
    );
    assert_eq!(auth.identify(None, None, freely).await.unwrap_err().kind(), crate::error::Kind::Unauthenticated);
    let made = create_token(&store, &clock, Role::Node, id("yard"), Some(id("yard")), None).await.unwrap();
    assert!(store.token_by_hash(&made.secret).await.unwrap().is_none());
    let header = format!("Bearer {}", made.secret);
    for _ in 0..2 {
        let who = auth.identify(Some(header.as_bytes()), None, freely).await.unwrap().identity;
        assert_eq!(who, Identity { principal: id("yard"), role: Role::Node, node: Some(id("yard")) });
    }
}

#[tokio::test]
async fn the_admin_token_is_private_and_survives_a_fresh_database() {
    let clock = Clock::manual(NOW);
    let state = tempfile::tempdir().unwrap();
    let (_one, first) = store(&clock).await;
    let path = admin_token(&first, &clock, state.path()).await.unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let secret = std::fs::read_to_string(&path).unwrap();
    let (_two, second) = store(&clock).await;
    admin_token(&second, &clock, state.path()).await.unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), secret, "an existing file is never changed");
    let header = format!("Bearer {}", secret.trim());
    for store in [first, second] {
        let auth = Auth::new(store, clock.clone());
        let who = auth.identify(Some(header.as_bytes()), None, freely).await.unwrap().identity;
        assert_eq!(who.role, Role::Admin);
    }
    std::fs::write(&path, "").unwrap();
    let (_three, third) = store(&clock).await;
    assert!(admin_token(&third, &clock, state.path()).await.unwrap_err().to_string().contains("delete it"));
}

proptest::proptest! {
    #![proptest_config(crate::service::sample::inputs())]

    #[test]
    fn any_header_is_a_secret_of_its_own_or_nothing(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..40), good in proptest::bool::ANY) {
        let header = if good { [b"Bearer ", &bytes[..]].concat() } else { bytes };
        if let Some(secret) = bearer(&header) {
            proptest::prop_assert!(!secret.is_empty() && secret.trim() == secret);
        }
    }
}
