//! Sessions are resumed once, by clients that have their secret.

use super::*;

fn limits(max_data: u64) -> PeerLimits {
    PeerLimits::from(&TransportParameters {
        initial_max_data: max_data,
        ..TransportParameters::DEFAULT
    })
}

fn put(sessions: &Sessions, now: u64, id: u8) -> bool {
    sessions.put(now, vec![id; 32], limits(1000), vec![id])
}

fn take(sessions: &Sessions, now: u64, id: u8) -> Option<Vec<u8>> {
    let taken = sessions.take(now, &[id; 32], &limits(1000));
    taken.map(|session| session.secrets)
}

#[test]
fn each_is_taken_once() {
    let sessions = Sessions::new(10);
    assert!(put(&sessions, 5, 1) && put(&sessions, 5, 2));
    assert_eq!(take(&sessions, 6, 1), Some(vec![1]));
    assert_eq!(take(&sessions, 6, 1), None);
    assert_eq!(take(&sessions, 6, 3), None);
    assert_eq!(sessions.len(), 1);
}

#[test]
fn the_oldest_go_where_there_are_too_many_and_all_after_a_day() {
    let sessions = Sessions::new(3);
    for id in 0..200 {
        assert!(put(&sessions, id.into(), id));
        assert!(sessions.len() <= 3);
    }
    assert_eq!(take(&sessions, 200, 196), None);
    assert_eq!(take(&sessions, 200, 197), Some(vec![197]));
    assert_eq!(take(&sessions, 198 + LIFETIME, 198), Some(vec![198]));
    assert_eq!(take(&sessions, 200 + LIFETIME, 199), None);
    assert!(put(&sessions, 0, 7) && put(&sessions, LIFETIME + 1, 8));
    assert_eq!(sessions.len(), 1);
    assert!(!put(&Sessions::new(0), 0, 1));
}

#[test]
fn what_is_long_is_not_kept() {
    let sessions = Sessions::new(3);
    let long = vec![0; LONGEST - 31];
    assert!(!sessions.put(0, vec![1; 32], limits(1), long.clone()));
    assert!(sessions.put(0, vec![1; 32], limits(1), long[1..].to_vec()));
}

#[test]
fn limits_that_were_lowered_since_end_a_session() {
    // [9000 7.4.1 not-lowered] [9000 7.4.1 reject]
    let sessions = Sessions::new(3);
    for (now, is_taken) in [(999, false), (1000, true), (1001, true)] {
        assert!(put(&sessions, 0, 1));
        let taken = sessions.take(0, &[1; 32], &limits(now));
        assert_eq!(taken.is_some(), is_taken);
        assert_eq!(sessions.len(), 0);
    }
    // Invalid parameters promise nothing.
    let mut broken = ForConnection::new(Arc::new(sessions), &[0xff], 0);
    assert!(!broken.put(vec![1], vec![1]) && !broken.can_cache());
    broken.limits = Some(limits(0));
    assert!(broken.put(vec![1], vec![1]) && broken.get(&[1]).is_none());
    assert_eq!(broken.take(&[1]), Some(vec![1]));
}

#[test]
fn only_what_was_resumed_does_not_go_back() {
    let sessions = Arc::new(Sessions::new(3));
    for id in 1..=3 {
        assert!(put(&sessions, 0, id));
    }
    let mut one = ForConnection::new(Arc::clone(&sessions), &[], 0);
    one.limits = Some(limits(1000));
    for (offered, resumed, left) in [(&[1, 2][..], false, 3), (&[3, 1], true, 2), (&[], true, 2)] {
        for id in offered {
            assert_eq!(one.take(&[*id; 32]), Some(vec![*id]));
            assert_eq!(one.take(&[*id; 32]), None, "it is out");
        }
        one.settle(resumed);
        one.settle(resumed);
        assert_eq!(sessions.len(), left);
    }
    // It was put back in its position: 2 is the oldest, and is removed first. Expired
    // sessions, and those for which there is no room anymore, aren't put back.
    assert_eq!(one.take(&[2; 32]), Some(vec![2]));
    for id in 4..=6 {
        assert!(put(&sessions, 1, id));
    }
    one.settle(false);
    assert_eq!((sessions.len(), take(&sessions, 1, 2)), (3, None));
    one.now = 1 + LIFETIME;
    assert_eq!(one.take(&[6; 32]), Some(vec![6]));
    one.now += 1;
    one.settle(false);
    assert_eq!(sessions.len(), 0);
}
