//! Artifacts pass only under the present lease, and not after the report; the outbox; tokens.

use mediator::store::{ArtifactRow, ErrorKind, Fence, Found, TokenRow};
use shared::{
    Duration, InstanceId, NodeId, Nonce, RunId, Timestamp,
    domain::{Answer, Attempt, Cause, Changes, Fleet, Lease, RunState, Verdict},
};

use crate::{
    round_trips::{node, run, write_all},
    support::{Bed, START},
};

on_both_engines!(
    artifacts_pass_under_the_lease,
    a_reported_attempt_is_closed,
    the_outbox,
    what_is_removed_is_old_and_sealed,
    tokens
);

/// A Run `r` on node `n`, step 0 claimed as attempt 1 under nonce 7.
async fn claimed(bed: &Bed) -> (Fleet, Fence) {
    let mut fleet = Fleet::default();
    let now = bed.store.read().await.unwrap().now();
    let mut row = run("r", 2);
    row.steps[0].attempt = 1;
    row.steps[0].attempts.push(Attempt {
        number: 1,
        starts: 0,
        node: NodeId::new("n").unwrap(),
        instance: InstanceId::new("i1").unwrap(),
        nonce: Nonce::from_bits(7),
        claimed_at: now,
        answer: None,
    });
    fleet.load_node(node("n"));
    let id = NodeId::new("n").unwrap();
    let (nonce, not_after) = (Nonce::from_bits(7), now + Duration::from_secs(60));
    let lease = Lease { node: id.clone(), run: row.id.clone(), nonce, granted_at: now, not_after };
    fleet.load_lease(&id, Some(lease));
    let fence =
        Fence { run: row.id.clone(), seq: 0, attempt: 1, node: id, instance: InstanceId::new("i1").unwrap(), nonce };
    fleet.runs.insert(row.id.clone(), row);
    write_all(bed, &mut fleet).await;
    (fleet, fence)
}

fn artifact(name: &str, sha256: &str) -> ArtifactRow {
    ArtifactRow { seq: 0, attempt: 1, name: name.to_owned(), sha256: sha256.to_owned(), size: 1 << 40 }
}

async fn write(bed: &Bed, fleet: &Fleet, changes: Changes) {
    let mut tx = bed.store.begin_fleet().await.unwrap();
    tx.write(fleet, &changes).await.unwrap();
    tx.commit().await.unwrap();
}

async fn artifacts_pass_under_the_lease(bed: Bed) {
    let (mut fleet, fence) = claimed(&bed).await;
    let store = &bed.store;
    assert!(store.lease_holds(&fence).await.unwrap());
    assert!(store.put_artifacts(&fence, &[artifact("b/ü 'x", "11")]).await.unwrap());
    assert!(store.put_artifacts(&fence, &[artifact("a", "22")]).await.unwrap());
    // Sent again, with other bytes: the last one counts.
    assert!(store.put_artifacts(&fence, &[artifact("a", "33")]).await.unwrap());
    let stored = store.read().await.unwrap().artifacts(&fence.run).await.unwrap();
    assert_eq!(stored, [artifact("a", "33"), artifact("b/ü 'x", "11")]);

    for wrong in [
        Fence { nonce: Nonce::from_bits(8), ..fence.clone() },
        Fence { node: NodeId::new("m").unwrap(), ..fence.clone() },
        Fence { instance: InstanceId::new("i2").unwrap(), ..fence.clone() },
        Fence { run: RunId::new("q").unwrap(), ..fence.clone() },
        Fence { seq: 1, ..fence.clone() },
        Fence { attempt: 2, ..fence.clone() },
    ] {
        assert!(!store.lease_holds(&wrong).await.unwrap(), "{wrong:?}");
        assert!(!store.put_artifacts(&wrong, &[artifact("a", "44")]).await.unwrap(), "{wrong:?}");
    }
    // One that has run out fences off at once, before the reaper comes.
    let lease = fleet.lease(&fence.node).cloned().unwrap();
    let now = store.read().await.unwrap().now();
    fleet.load_lease(&fence.node, Some(Lease { not_after: now, ..lease }));
    write(&bed, &fleet, Changes { leases: [fence.node.clone()].into(), ..Changes::default() }).await;
    assert!(!store.lease_holds(&fence).await.unwrap());
    assert!(!store.put_artifacts(&fence, &[artifact("a", "44")]).await.unwrap());
    // And so does one that is gone.
    fleet.load_lease(&fence.node, None);
    write(&bed, &fleet, Changes { leases: [fence.node.clone()].into(), ..Changes::default() }).await;
    assert!(!store.lease_holds(&fence).await.unwrap());
    assert_eq!(store.read().await.unwrap().artifacts(&fence.run).await.unwrap(), stored);
    assert!(store.read().await.unwrap().leases().await.unwrap().is_empty());
}

async fn a_reported_attempt_is_closed(bed: Bed) {
    let (mut fleet, fence) = claimed(&bed).await;
    let store = &bed.store;
    assert!(store.put_artifacts(&fence, &[artifact("a", "22")]).await.unwrap());
    fleet.runs.get_mut(&fence.run).unwrap().steps[0].attempts[0].answer =
        Some(Answer { state: "DONE".to_owned(), log_bytes: 0 });
    write(&bed, &fleet, Changes { attempts: [(fence.run.clone(), 0, 1)].into(), ..Changes::default() }).await;
    // What the judge saw stays; an agent that did not hear the answer may send it all again.
    assert!(store.put_artifacts(&fence, &[artifact("a", "22")]).await.unwrap());
    assert!(!store.put_artifacts(&fence, &[artifact("a", "33")]).await.unwrap());
    assert!(!store.put_artifacts(&fence, &[artifact("b", "22")]).await.unwrap());
    assert_eq!(store.read().await.unwrap().artifacts(&fence.run).await.unwrap(), [artifact("a", "22")]);
    let nul = store.put_artifacts(&fence, &[artifact("a\0", "22")]).await.unwrap_err();
    assert_eq!(nul.kind(), ErrorKind::Corrupt, "{nul}");
}

async fn the_outbox(bed: Bed) {
    let mut fleet = Fleet::default();
    for (n, ended) in [(1, Some(5)), (2, None), (3, Some(4))] {
        let mut row = run(&format!("r{n}"), 1);
        if let Some(ended) = ended {
            row.state = RunState::Failed(Verdict { cause: Cause::Judged, findings: vec![] });
            row.ended_at = Some(Timestamp::from_millis(START.millis() + ended));
        }
        fleet.runs.insert(row.id.clone(), row);
    }
    write_all(&bed, &mut fleet).await;
    let id = |text: &str| RunId::new(text).unwrap();
    assert_eq!(bed.store.unsealed().await.unwrap(), [id("r3"), id("r1")], "in the order of their ends");
    assert_eq!(bed.store.mark_sealed(&[id("r2"), id("r3"), id("r9")], true).await.unwrap(), 1, "one has ended");
    assert_eq!(bed.store.mark_sealed(&[id("r3")], false).await.unwrap(), 0, "sealed once");
    assert_eq!(bed.store.unsealed().await.unwrap(), [id("r1")]);
    let mut read = bed.store.read().await.unwrap();
    let (_, sealed_at) = read.run(&id("r3")).await.unwrap().unwrap();
    assert!(sealed_at.unwrap() <= read.now());
}

/// Also when it was found and something has changed since.
async fn what_is_removed_is_old_and_sealed(bed: Bed) {
    let mut fleet = Fleet::default();
    for (name, ended) in [("old", 1), ("open-record", 1), ("young", 9)] {
        let mut row = run(name, 1);
        row.state = RunState::Failed(Verdict { cause: Cause::Judged, findings: vec![] });
        row.ended_at = Some(Timestamp::from_millis(START.millis() + ended));
        fleet.runs.insert(row.id.clone(), row);
    }
    write_all(&bed, &mut fleet).await;
    let id = |text: &str| RunId::new(text).unwrap();
    assert_eq!(bed.store.mark_sealed(&[id("old"), id("young")], false).await.unwrap(), 2);
    let before = Timestamp::from_millis(START.millis() + 5);
    assert_eq!(bed.store.old_runs(before, "", 9).await.unwrap(), [id("old")]);
    let all = [id("old"), id("open-record"), id("young")];
    assert_eq!(bed.store.delete_runs(&all, before).await.unwrap(), 1);
    let left = bed.store.known_runs(&all).await.unwrap();
    assert_eq!(left.into_keys().collect::<Vec<_>>(), [id("open-record"), id("young")]);
}

async fn tokens(bed: Bed) {
    let token = |hash: &str, node: Option<&str>, at: i64| TokenRow {
        hash: hash.to_owned(),
        role: "node".to_owned(),
        principal: "yard".parse().unwrap(),
        node: node.map(|node| node.parse().unwrap()),
        created_at: Timestamp::from_millis(at),
        expires_at: None,
        revoked_at: None,
    };
    let (one, two) = (token("aa11", Some("n/1"), 2), token("aa22", None, 1));
    let dead = async || {
        let mut dead = Vec::new();
        bed.store.dead_tokens(|hash| dead.push(hash.to_owned())).await.unwrap();
        dead.sort();
        dead
    };
    bed.store.put_token(&one).await.unwrap();
    bed.store.put_token(&two).await.unwrap();
    assert_eq!(bed.store.put_token(&one).await.unwrap_err().kind(), ErrorKind::Conflict);
    let (found, now) = bed.store.token_by_hash("aa11").await.unwrap().unwrap();
    assert_eq!(found, one);
    assert_eq!(bed.store.token_by_hash("cc").await.unwrap(), None);
    assert_eq!(bed.store.token_by_prefix("aa").await.unwrap(), Found::Many(2));
    assert_eq!(bed.store.token_by_prefix("aa2").await.unwrap(), Found::One(Box::new(two.clone())));
    for none in ["aa3", "a%", "aa111", "AA1"] {
        assert_eq!(bed.store.token_by_prefix(none).await.unwrap(), Found::None, "{none}");
    }
    assert_eq!(bed.store.list_tokens().await.unwrap(), [two, one.clone()]);
    assert_eq!(dead().await, [""; 0]);

    let ends = now + shared::Duration::from_secs(1_000);
    bed.store.put_token(&TokenRow { hash: "bb".into(), expires_at: Some(ends), ..one.clone() }).await.unwrap();
    assert_eq!(dead().await, [""; 0], "its time has not come");
    bed.sql("UPDATE tokens SET expires_at = 1 WHERE hash = 'bb'").await;
    assert_eq!(dead().await, ["bb"]);
    assert!(bed.store.revoke_token("aa22").await.unwrap());
    let (revoked, after) = bed.store.token_by_hash("aa22").await.unwrap().unwrap();
    assert!((now..=after).contains(&revoked.revoked_at.unwrap()), "{revoked:?}: by the store's clock");
    assert!(!bed.store.revoke_token("aa22").await.unwrap(), "a second time changes nothing");
    assert!(!bed.store.revoke_token("cc").await.unwrap());
    assert_eq!(bed.store.token_by_hash("aa22").await.unwrap().unwrap().0, revoked);
    assert_eq!(dead().await, ["aa22", "bb"]);
}
