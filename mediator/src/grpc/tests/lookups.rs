//! What finding out who calls may cost: counted in reads of the store, not in time.

use std::{convert::Infallible, net::IpAddr};

use ::http::Response;
use futures::{FutureExt, future::join_all};
use tower::{Layer, Service};

use super::*;
use crate::service::sample::Statements;

/// The door alone, with nothing behind it.
struct Bare {
    bench: Bench,
    auth: Auth,
    door: access::DoorLayer,
}

impl Bare {
    async fn new() -> Self {
        let bench = Bench::new().await;
        let auth = Auth::new(bench.services.store.clone(), bench.clock.clone());
        Self { door: access::DoorLayer::new(auth.clone(), Limits::default()), auth, bench }
    }

    /// One request from there; the status.
    async fn call(&self, from: &str, token: &str) -> u16 {
        let inner =
            tower::service_fn(async |_: ::http::Request<Body>| Ok::<_, Infallible>(Response::new(Body::empty())));
        let request = ::http::Request::get("/v1/nodes").header("authorization", format!("Bearer {token}"));
        let request = request.extension(io::Peer::at(from.parse::<IpAddr>().unwrap())).body(Body::empty()).unwrap();
        self.door.layer(inner).call(request).await.unwrap().status().as_u16()
    }

    async fn token(&self) -> String {
        let (store, clock) = (&self.bench.services.store, &self.bench.clock);
        create_token(store, clock, Role::Observer, id("ann"), None, None).await.unwrap().secret
    }
}

const FLOOD: usize = 300;

fn made_up(n: usize) -> String {
    format!("{n:064x}")
}

#[tokio::test]
async fn a_flood_of_unknown_tokens_costs_a_few_reads_and_harms_nobody_who_is_known() {
    let bare = Bare::new().await;
    let (known, fresh) = (bare.token().await, bare.token().await);
    assert_eq!(bare.call("10.0.0.1", &known).await, 200);
    let statements = Statements::count();
    let flood = async |from| {
        let calls = (0..FLOOD).map(async |n| bare.call(from, &made_up(n)).await);
        join_all(calls).await
    };
    let good = async || {
        let mut seen = Vec::new();
        for _ in 0..20 {
            seen.push(bare.call("10.0.0.1", &known).await);
            tokio::task::yield_now().await;
        }
        seen
    };
    // One floods from where the known caller is, and somebody new comes from elsewhere.
    let (flooded, good, new) = tokio::join!(flood("10.0.0.1"), good(), bare.call("10.0.0.2", &fresh));
    assert!(good.iter().all(|status| *status == 200), "{good:?}");
    assert_eq!(new, 200);
    // Each is told that it is unknown, or to come back.
    assert!(flooded.iter().all(|status| [401, 429].contains(status)), "{flooded:?}");
    let reads = statements.of("tokens.by_hash");
    assert!(reads < 100, "{reads} reads");
    // Also from many places at once.
    let everywhere = (0..FLOOD).map(async |n| bare.call(&format!("10.1.{}.{}", n / 250, n % 250), &made_up(n)).await);
    let (_, again) = tokio::join!(join_all(everywhere), bare.call("10.0.0.1", &known));
    assert_eq!(again, 200);
    // When it is over everybody is looked up again.
    assert_eq!(bare.call("10.0.0.1", &made_up(0)).await, 401);
}

#[tokio::test]
async fn a_fleet_that_comes_back_with_one_token_is_looked_up_once() {
    let bare = Bare::new().await;
    let token = bare.token().await;
    let statements = Statements::count();
    let all = join_all((0..FLOOD).map(|_| bare.call("10.0.0.1", &token))).await;
    assert!(all.iter().all(|status| *status == 200), "{all:?}");
    assert_eq!(statements.of("tokens.by_hash"), 1);
}

#[tokio::test]
async fn a_caller_that_hangs_up_keeps_its_look_counted_until_it_is_over() {
    let bare = Bare::new().await;
    let statements = Statements::count();
    // Each is polled once and dropped, and nothing else goes on meanwhile.
    let begun = (0..FLOOD).filter(|n| bare.call("10.0.0.1", &made_up(*n)).now_or_never().is_none()).count();
    assert!((1..100).contains(&begun), "{begun} looks");
    assert_eq!(bare.call("10.0.0.1", &made_up(FLOOD)).now_or_never(), Some(429));
    tokio::time::timeout(std::time::Duration::from_secs(10), async {
        while bare.call("10.0.0.1", &made_up(0)).await != 401 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("the looks come to their end");
    assert!(statements.of("tokens.by_hash") <= begun as u64 + 1, "each look is seen through, and is the only one");
}

#[tokio::test]
async fn a_known_caller_costs_no_read_as_long_as_revocations_are_heard_of() {
    let bare = Bare::new().await;
    let token = bare.token().await;
    let statements = Statements::count();
    for _ in 0..20 {
        assert_eq!(bare.call("10.0.0.1", &token).await, 200);
        bare.bench.clock.advance(shared::Duration::from_secs(1));
        bare.auth.dead(|_| ()).await.unwrap();
    }
    assert_eq!(statements.of("tokens.by_hash"), 1);
    // Now and then it is read all the same.
    for _ in 0..50 {
        assert_eq!(bare.call("10.0.0.1", &token).await, 200);
        bare.bench.clock.advance(shared::Duration::from_secs(1));
        bare.auth.dead(|_| ()).await.unwrap();
    }
    assert_eq!(statements.of("tokens.by_hash"), 2);
    // A revocation is heard of at once when it is asked for, and where nobody asks, the token is read again.
    bare.bench.services.store.revoke_token(&crate::auth::hash(&token)).await.unwrap();
    bare.auth.dead(|_| ()).await.unwrap();
    assert_eq!(bare.call("10.0.0.1", &token).await, 401);
}

#[tokio::test]
async fn where_revocations_are_not_heard_of_a_token_is_read_again() {
    let bare = Bare::new().await;
    let token = bare.token().await;
    assert_eq!(bare.call("10.0.0.1", &token).await, 200);
    bare.bench.services.store.revoke_token(&crate::auth::hash(&token)).await.unwrap();
    bare.bench.clock.advance(shared::Duration::from_secs(3));
    assert_eq!(bare.call("10.0.0.1", &token).await, 401);
}
