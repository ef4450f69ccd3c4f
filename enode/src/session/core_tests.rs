use super::*;

fn key(run: &str, seq: u32, attempt: u32) -> StepKey {
    StepKey { run: RunId::new(run).unwrap(), seq, attempt }
}

fn lease(run: &str, nonce: u128) -> LeaseKey {
    (RunId::new(run).unwrap(), Nonce::from_bits(nonce))
}

fn reply(rev: i64, leases: &[LeaseKey]) -> Reply {
    Reply {
        rev,
        leases: leases.to_vec(),
        policy: Policy::default(),
        interval: Duration::from_secs(1),
        ttl: Duration::from_secs(6),
        stream: None,
    }
}

fn at(ms: u64) -> BootTime {
    BootTime::from_millis(ms)
}

#[test]
fn an_answer_older_than_the_grant_stops_nothing() {
    let mut node = NodeCore::default();
    assert_eq!(node.receive(&key("r", 0, 1), Nonce::from_bits(1), 7), Received::Start(vec![]));
    assert_eq!(node.apply(&reply(6, &[]), at(0), None), vec![]);
    assert!(node.is_open(&key("r", 0, 1)));
    assert_eq!(node.apply(&reply(7, &[]), at(0), None), vec![lease("r", 1)]);
    assert!(!node.is_open(&key("r", 0, 1)));
}

#[test]
fn a_step_that_is_sent_twice_is_started_once() {
    let mut node = NodeCore::default();
    let nonce = Nonce::from_bits(1);
    assert_eq!(node.receive(&key("r", 0, 1), nonce, 3), Received::Start(vec![]));
    assert!(matches!(node.receive(&key("r", 0, 1), nonce, 3), Received::Ignore(_)));
    assert!(node.finish(&key("r", 0, 1)));
    assert!(matches!(node.receive(&key("r", 0, 1), nonce, 3), Received::Ignore(_)));
    node.settled(&key("r", 0, 1));
    assert!(matches!(node.receive(&key("r", 0, 1), nonce, 4), Received::Ignore(_)));
    assert_eq!(node.receive(&key("r", 1, 1), nonce, 4), Received::Start(vec![]));
}

#[test]
fn a_step_of_a_lease_that_has_ended_is_not_started() {
    let mut node = NodeCore::default();
    node.apply(&reply(9, &[lease("r", 2)]), at(0), None);
    assert!(matches!(node.receive(&key("r", 0, 1), Nonce::from_bits(1), 8), Received::Ignore(_)));
    assert_eq!(node.receive(&key("r", 0, 1), Nonce::from_bits(2), 8), Received::Start(vec![]));
}

#[test]
fn another_nonce_for_the_same_run_ends_the_old_lease() {
    let mut node = NodeCore::default();
    node.receive(&key("r", 0, 1), Nonce::from_bits(1), 3);
    assert_eq!(node.receive(&key("r", 0, 2), Nonce::from_bits(2), 5), Received::Start(vec![lease("r", 1)]));
    assert!(!node.is_open(&key("r", 0, 1)));
    assert!(node.is_open(&key("r", 0, 2)));
}

#[test]
fn stop_is_obeyed_unless_it_is_older_than_the_grant() {
    let mut node = NodeCore::default();
    node.receive(&key("r", 0, 1), Nonce::from_bits(1), 5);
    assert!(!node.stop(&lease("r", 1), 4));
    assert!(!node.stop(&lease("r", 9), 6));
    assert!(node.stop(&lease("r", 1), 6));
    assert!(matches!(node.receive(&key("r", 0, 1), Nonce::from_bits(1), 5), Received::Ignore(_)), "sent late");
}

#[test]
fn what_an_earlier_life_left_ends_with_the_first_reply_that_lacks_it() {
    let mut node = NodeCore::default();
    node.found(lease("gone", 1));
    node.found_result(key("kept", 0, 1), Nonce::from_bits(2));
    assert_eq!(node.apply(&reply(1, &[lease("kept", 2)]), at(0), None), vec![lease("gone", 1)]);
    assert_eq!(node.finished().cloned().collect::<Vec<_>>(), vec![key("kept", 0, 1)]);
}

#[test]
fn a_step_may_overtake_the_answer_that_releases_the_node() {
    let mut node = NodeCore::default();
    let mut told = reply(5, &[]);
    told.policy.drain = shared::domain::Drain::AtBoundary;
    node.apply(&told, at(0), None);
    assert_eq!(node.receive(&key("r", 0, 1), Nonce::from_bits(1), 7), Received::Start(vec![]));
}

#[test]
fn a_refusal_of_a_message_without_the_newest_stream_says_nothing() {
    let mut node = NodeCore::default();
    let (first, second) = (StreamId::new("s1").unwrap(), StreamId::new("s2").unwrap());
    assert!(!node.lacks_newest(&[]));
    node.stream_drawn(first.clone());
    assert!(node.lacks_newest(&[]));
    node.stream_acknowledged(&first);
    node.stream_drawn(second.clone());
    assert_eq!(node.streams(), [first.clone(), second.clone()]);
    assert!(node.lacks_newest(std::slice::from_ref(&first)));
    node.stream_acknowledged(&second);
    node.stream_acknowledged(&first);
    assert_eq!(node.streams(), [second]);
}

#[test]
fn streams_that_never_open_do_not_pile_up() {
    let mut node = NodeCore::default();
    let id = |number: u32| StreamId::new(&format!("s{number}")).unwrap();
    for number in 0..2_000 {
        node.stream_drawn(id(number));
    }
    assert_eq!(node.streams().len(), MAX_STREAMS);
    node.stream_acknowledged(&id(99));
    for number in 2_000..4_000 {
        node.stream_drawn(id(number));
    }
    assert_eq!((node.streams().len(), &node.streams()[0]), (MAX_STREAMS, &id(99)), "the stored one is among them");
    node.supersede("another".into());
    node.stream_drawn(id(9_000));
    assert_eq!(node.streams(), [id(9_000)]);
}

#[test]
fn a_copy_that_is_made_while_a_stream_opens_has_another_newest_id_than_its_original() {
    let id = |number: u32| StreamId::new(&format!("s{number}")).unwrap();
    let mut original = NodeCore::default();
    original.stream_drawn(id(0));
    original.stream_acknowledged(&id(0));
    original.stream_drawn(id(1));
    let mut copy = original.clone();
    original.stream_drawn(id(2));
    copy.stream_drawn(id(3));
    assert_eq!(copy.streams(), [id(0), id(1), id(3)]);
    assert!(!copy.streams().contains(original.streams().last().unwrap()));
    assert!(!original.streams().contains(copy.streams().last().unwrap()));
}

#[test]
fn a_step_that_comes_when_the_time_to_live_is_over_would_be_killed_at_once() {
    let mut node = NodeCore::default();
    assert!(!node.is_lapsed(at(1)), "nothing is known yet");
    node.apply(&reply(1, &[]), at(1_000), None);
    assert!(!node.is_lapsed(at(4_000)));
    assert!(node.is_lapsed(at(4_750)), "it would be told to end before the next advert");
    assert!(node.is_lapsed(at(99_000)));
    node.apply(&reply(1, &[]), at(99_000), None);
    assert!(!node.is_lapsed(at(99_001)));
}

#[test]
fn a_step_that_was_sent_again_and_overtaken_by_the_end_of_its_run_is_not_run_again() {
    let mut node = NodeCore::default();
    node.apply(&reply(5, &[lease("r", 1)]), at(1), None);
    assert_eq!(node.receive(&key("r", 0, 1), Nonce::from_bits(1), 5), Received::Start(Vec::new()));
    assert!(node.finish(&key("r", 0, 1)));
    // A new stream was opened at rev 6 and sends what is claimed, while the report is answered: the Run is over.
    node.settled(&key("r", 0, 1));
    node.end(&lease("r", 1));
    assert!(matches!(node.receive(&key("r", 0, 1), Nonce::from_bits(1), 6), Received::Ignore(_)));
}

#[test]
fn a_lease_that_a_later_answer_names_again_is_not_over() {
    let mut node = NodeCore::default();
    node.apply(&reply(5, &[lease("r", 1)]), at(1), None);
    node.next_advert();
    node.end(&lease("r", 1));
    // Asked before the end: it may not know of it yet.
    node.apply(&reply(5, &[lease("r", 1)]), at(2), None);
    assert!(matches!(node.receive(&key("r", 0, 1), Nonce::from_bits(1), 6), Received::Ignore(_)));
    // Asked since: its store is another one, and it waits for this step.
    node.next_advert();
    node.apply(&reply(6, &[lease("r", 1)]), at(3), None);
    assert_eq!(node.receive(&key("r", 0, 1), Nonce::from_bits(1), 6), Received::Start(Vec::new()));
}

#[test]
fn the_time_to_live_counts_from_the_sending() {
    let mut node = NodeCore::default();
    node.apply(&reply(1, &[]), at(1_000), None);
    assert_eq!(node.deadline(), Some((at(7_000), Duration::from_secs(6))));
    node.supersede("another".into());
    assert_eq!(node.deadline(), None);
}

#[test]
fn a_mediator_whose_store_was_replaced_is_believed() {
    let mut node = NodeCore::default();
    node.receive(&key("r", 0, 1), Nonce::from_bits(1), 50);
    assert_eq!(node.apply(&reply(3, &[]), at(0), None), vec![], "sent before the step came");
    let known = node.known_rev();
    assert_eq!(node.apply(&reply(3, &[]), at(0), known), vec![lease("r", 1)]);
}
