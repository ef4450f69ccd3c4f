use super::*;

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_millis(1_000_000) + Duration::from_secs(seconds)
}

fn memory(ends_at: Option<Timestamp>) -> Memory {
    let mut memory = Memory::default();
    memory.good("k".to_owned(), None, at(0), ends_at);
    memory
}

#[test]
fn what_is_heard_of_is_believed_and_what_is_not_is_read_again() {
    let mut it = memory(None);
    assert_eq!(it.standing("k", at(1)), Standing::Good(None));
    assert_eq!(it.standing("k", at(2)), Standing::Lapsed);
    for second in 0..80 {
        it.heard(at(second));
        let wanted = if second < 60 { Standing::Good(None) } else { Standing::Lapsed };
        assert_eq!(it.standing("k", at(second)), wanted, "{second}");
    }
    it.good("k".to_owned(), None, at(80), None);
    assert_eq!(it.standing("k", at(81)), Standing::Good(None));
    it.forget("k");
    assert_eq!(it.standing("k", at(81)), Standing::Unknown);
}

#[test]
fn what_ends_is_unknown_from_then_on_and_nothing_is_kept_for_ever() {
    let mut it = memory(Some(at(2)));
    assert_eq!(it.standing("k", at(1)), Standing::Good(None));
    assert_eq!(it.standing("k", at(2)), Standing::Unknown);
    it.heard(at(3_600));
    assert!(it.is_empty());
}

#[test]
fn there_is_room_for_so_many() {
    let mut it = memory(None);
    for n in 0..MOST {
        it.good(n.to_string(), None, at(30), None);
    }
    assert_eq!((it.known.len(), it.standing("9999", at(30))), (MOST, Standing::Unknown));
    it.good("late".to_owned(), None, at(70), None);
    assert_eq!(it.standing("late", at(70)), Standing::Good(None));
    assert_eq!(it.standing("k", at(70)), Standing::Unknown);
}
