use proptest::prelude::*;

use super::*;
use crate::crypto::ResetToken;
use crate::wire::{ConnectionId, TransportErrorCode as Code};

fn id(n: u64) -> ConnectionId {
    ConnectionId::new(&n.to_be_bytes()).unwrap()
}

const TOO_MANY: Code = Code::CONNECTION_ID_LIMIT_ERROR;

fn token(n: u64) -> ResetToken {
    ResetToken::new(u128::from(n).to_be_bytes())
}

fn remote(sequence: u64) -> RemoteId {
    mixed(sequence, sequence, sequence)
}

/// This number with the ID and the token of others.
fn mixed(sequence: u64, id_of: u64, token_of: u64) -> RemoteId {
    let (id, token) = (id(id_of), Some(token(token_of)));
    RemoteId {
        sequence,
        id,
        token,
    }
}

fn with(sequences: &[u64]) -> RemoteIds {
    let mut ids = RemoteIds::new(id(0), 4);
    for s in sequences {
        ids.on_new(0, &remote(*s)).unwrap();
    }
    ids
}

#[track_caller]
fn refused(ids: &mut RemoteIds, retire_prior_to: u64, new: &RemoteId) -> Code {
    ids.on_new(retire_prior_to, new).unwrap_err().code
}

fn retirements(ids: &mut RemoteIds) -> Vec<u64> {
    core::iter::from_fn(|| ids.next_retirement()).collect()
}

#[test]
fn switching_takes_the_lowest_spare_and_retires_the_old() {
    let mut ids = with(&[3, 1]);
    for (switches, sequence, retired) in [(true, 1, &[0][..]), (true, 3, &[1]), (false, 3, &[])] {
        assert_eq!((ids.switch(), ids.current().sequence), (switches, sequence));
        assert_eq!(retirements(&mut ids), retired);
    }
}

#[test]
fn duplicates_are_ignored_even_after_retirement() {
    // [9000 19.15 repeated]
    let mut ids = with(&[1, 1]);
    ids.switch();
    assert_eq!(retirements(&mut ids), [0]);
    for _ in 0..2 {
        ids.on_new(0, &remote(1)).unwrap();
    }
    assert!(!ids.has_spare() && !ids.has_pending());
    // No honest peer repeats the first id in a frame, but a hostile one must not revive it.
    let _ = ids.on_new(0, &mixed(0, 9, 9));
    assert!(!ids.has_spare());
}

#[test]
fn contradictions_are_violations() {
    // [9000 19.15 zero-length-peer]
    let (violation, malformed) = (Code::PROTOCOL_VIOLATION, Code::FRAME_ENCODING_ERROR);
    for (sequence, id_of, token_of) in [(1, 9, 1), (1, 1, 9), (2, 1, 1), (2, 2, 1)] {
        let case = mixed(sequence, id_of, token_of);
        assert_eq!(refused(&mut with(&[1]), 0, &case), violation, "{case:?}");
    }
    let mut none = RemoteIds::new(ConnectionId::EMPTY, 4);
    assert_eq!(refused(&mut none, 0, &remote(1)), violation);
    // One that retires itself.
    assert_eq!(refused(&mut with(&[]), 2, &remote(1)), malformed);
}

#[test]
fn limit_is_enforced_after_retirements() {
    // [9000 5.1.1 too-many] [9000 5.1.2 retire-prior-to]
    let mut ids = with(&[1, 2, 3]);
    assert_eq!(refused(&mut with(&[1, 2, 3]), 0, &remote(4)), TOO_MANY);
    assert!(ids.on_new(2, &remote(4)).unwrap());
    assert_eq!(ids.current().sequence, 2);
    let mut retired = retirements(&mut ids);
    retired.sort_unstable();
    assert_eq!(retired, [0, 1]);
}

#[test]
fn id_that_arrives_after_its_retirement_is_retired_at_once() {
    // [9000 19.15 older-request] [9000 19.15 retired-on-arrival]
    let mut ids = with(&[]);
    assert!(ids.on_new(3, &remote(3)).unwrap());
    assert_eq!(retirements(&mut ids), [0]);
    ids.on_new(0, &remote(2)).unwrap();
    ids.on_new(0, &remote(2)).unwrap();
    assert!(ids.has_pending());
    assert_eq!(retirements(&mut ids), [2]);
    // Earlier frames don't withdraw the request.
    ids.on_new(0, &remote(1)).unwrap();
    assert_eq!(retirements(&mut ids), [1]);
    assert!(!ids.has_spare());
}

#[test]
fn an_id_asked_back_is_left_as_soon_as_there_is_another() {
    // [9000 5.1.2 retire-prior-to]
    let mut ids = with(&[1]);
    ids.allot();
    ids.give_up(1);
    assert_eq!(ids.on_new(1, &remote(1)), Ok(false));
    assert_eq!(ids.current().sequence, 0);
    assert_eq!(ids.on_new(1, &remote(2)), Ok(true));
    assert_eq!(*ids.current(), remote(2));
    assert_eq!(retirements(&mut ids), [1, 0]);
}

#[test]
fn an_id_that_is_not_asked_back_stays() {
    let mut ids = with(&[1, 2]);
    ids.switch();
    assert_eq!(ids.on_new(1, &remote(3)), Ok(false));
    assert_eq!(ids.current().sequence, 1);
    assert_eq!(retirements(&mut ids), [0]);
}

#[test]
fn the_limit_is_between_two_and_sixty_four() {
    for (limit, most) in [(0, 2), (2, 2), (64, 64), (1000, 64)] {
        let mut ids = RemoteIds::new(id(0), limit);
        for n in 1..most {
            assert_eq!(ids.on_new(0, &remote(n)), Ok(false));
        }
        assert_eq!(refused(&mut ids, 0, &remote(most)), TOO_MANY);
    }
}

#[test]
fn endless_retirement_requests_end_the_connection() {
    // [9000 5.1.2 none-forgotten]
    let mut ids = RemoteIds::new(id(0), 4);
    // Up to four times the limit may wait for retirement.
    for n in 1..=16 {
        assert_eq!(ids.on_new(n, &remote(n)), Ok(true));
    }
    assert_eq!(refused(&mut ids, 17, &remote(17)), TOO_MANY);
    // Ids that were never used count as well: four at a time.
    let mut ids = RemoteIds::new(id(0), 4);
    for n in 1..20 {
        let outcome = ids.on_new(n / 4 * 4, &remote(n));
        assert_eq!(outcome, Ok(n.is_multiple_of(4)), "{n}");
    }
    assert_eq!(refused(&mut ids, 20, &remote(20)), TOO_MANY);
    // With acknowledgements, this can continue forever.
    let mut ids = RemoteIds::new(id(0), 4);
    for n in 1..1000 {
        ids.on_new(n, &remote(n)).unwrap();
        for sequence in retirements(&mut ids) {
            ids.on_retirement_lost(sequence);
            assert_eq!(retirements(&mut ids), [sequence]);
            ids.on_retirement_acked(sequence);
        }
    }
}

#[test]
fn probing_uses_an_id_of_its_own() {
    let mut ids = with(&[1, 2]);
    let probe = ids.allot().unwrap();
    assert_eq!((probe.sequence, ids.current().sequence), (1, 0));
    let failed = ids.allot().unwrap();
    assert_eq!(ids.allot(), None);
    ids.give_up(failed.sequence);
    assert!(ids.adopt(1) && ids.adopt(1));
    assert!(!ids.adopt(failed.sequence));
    assert_eq!(ids.current().sequence, 1);
    assert_eq!(retirements(&mut ids), [2, 0]);
}

#[test]
fn id_of_a_probed_path_serves_when_the_current_one_is_asked_back() {
    let mut ids = with(&[1]);
    let probe = ids.allot().unwrap();
    assert!(ids.on_new(1, &remote(1)).unwrap());
    assert_eq!(*ids.current(), probe);
    assert_eq!(retirements(&mut ids), [0]);
}

#[test]
fn only_tokens_of_ids_in_use_reset() {
    // [9000 10.3.1 tokens-in-use]
    let mut ids = with(&[1, 2]);
    ids.set_first_token(token(77));
    assert!(ids.is_reset(&token(77)) && !ids.is_reset(&token(1)));
    ids.allot();
    assert!(ids.is_reset(&token(1)) && !ids.is_reset(&token(2)));
    ids.adopt(1);
    assert!(!ids.is_reset(&token(77)));
}

#[test]
fn only_the_id_of_the_handshake_is_set_again() {
    // [9000 7.2 one-change]
    let mut ids = with(&[1]);
    ids.set_first(id(50));
    ids.set_first_token(token(50));
    assert_eq!(*ids.current(), mixed(0, 50, 50));
    assert!(ids.switch());
    ids.set_first(id(60));
    ids.set_first_token(token(60));
    assert_eq!(*ids.current(), remote(1));
}

#[test]
fn sequence_numbers_may_be_sixty_four_ahead() {
    let mut ids = RemoteIds::new(id(0), 64);
    assert_eq!(ids.on_new(0, &remote(64)), Ok(false));
    assert_eq!(refused(&mut ids, 0, &remote(65)), TOO_MANY);
    // The missing one advances the window over all sixty-four.
    let mut ids = RemoteIds::new(id(0), 64);
    for n in (2..=64).rev() {
        assert_eq!(ids.on_new(0, &remote(n)), Ok(false), "{n}");
    }
    assert_eq!(ids.on_new(1, &remote(1)), Ok(true));
    assert_eq!(*ids.current(), remote(1));
    assert_eq!(refused(&mut ids, 65, &remote(129)), TOO_MANY);
    assert_eq!(ids.on_new(65, &remote(128)), Ok(true));
    assert_eq!(ids.on_new(65, &remote(65)), Ok(false));
    assert!(ids.has_spare());
}

#[test]
fn ids_in_use_are_held_and_no_others() {
    let mut ids = with(&[1, 2, 3]);
    assert_eq!(ids.allot(), Some(remote(1)));
    assert!(ids.allot().is_some_and(|id| id.sequence == 2));
    ids.give_up(2);
    ids.give_up(3);
    let held: Vec<u64> = (0..5).filter(|n| ids.is_held(*n)).collect();
    assert_eq!(held, [0, 1]);
    // An id that no path uses isn't retired either.
    assert_eq!(retirements(&mut ids), [2]);
    assert!(ids.has_spare());
}

#[test]
fn a_peer_without_ids_is_probed_by_none() {
    let mut ids = RemoteIds::new(ConnectionId::EMPTY, 4);
    assert_eq!(ids.allot().map(|id| id.sequence), Some(0));
    ids.set_preferred(id(1), token(1));
    assert!(!ids.has_spare() && !ids.has_pending());
    // If the peer uses ids, there is exactly one for the preferred address.
    let mut ids = with(&[]);
    ids.set_preferred(id(1), token(1));
    ids.set_preferred(id(2), token(2));
    assert!(ids.switch() && !ids.switch());
    assert_eq!(*ids.current(), remote(1));
}

#[test]
fn a_retirement_is_queued_once_and_not_after_its_acknowledgement() {
    let mut ids = with(&[1, 2]);
    ids.switch();
    ids.switch();
    ids.on_retirement_lost(0);
    assert_eq!(retirements(&mut ids), [0, 1]);
    ids.on_retirement_lost(0);
    ids.on_retirement_lost(1);
    ids.on_retirement_lost(0);
    // The packet that was declared lost has arrived.
    ids.on_retirement_acked(0);
    assert_eq!(retirements(&mut ids), [1]);
}

/// A retirement's frame was declared lost and sent again, and both packets were acknowledged.
/// This counts once, and doesn't hide another unacknowledged retirement.
#[test]
fn a_retirement_that_was_sent_twice_counts_once() {
    for copies in [1, 2, 3] {
        let mut ids = RemoteIds::new(id(0), 2);
        let mut unacknowledged = 0;
        let failed_at = (1..100).find(|&sequence| {
            let result = ids.on_new(sequence, &remote(sequence));
            for retired in retirements(&mut ids) {
                for _ in 1..copies {
                    ids.on_retirement_lost(retired);
                    assert_eq!(retirements(&mut ids), [retired]);
                }
                // Every second one is acknowledged, with all copies.
                if retired % 2 == 0 {
                    (0..copies).for_each(|_| ids.on_retirement_acked(retired));
                    // The last copy was late, and also declared lost.
                    ids.on_retirement_lost(retired);
                    assert!(!ids.has_pending());
                } else {
                    unacknowledged += 1;
                }
            }
            result.is_err()
        });
        // More than four times the limit of two: these, and the one that was not sent yet.
        assert!(failed_at.is_some(), "{copies}");
        assert_eq!(unacknowledged, 8, "{copies}");
    }
}

proptest! {
    /// For any input, the state stays bounded, and the current id is never a retired one.
    #[test]
    fn bounded_for_any_sequence(
        frames in proptest::collection::vec((0u64..200, 0u64..40, any::<bool>()), 0..300),
    ) {
        let mut ids = RemoteIds::new(id(0), 4);
        let mut retired = Vec::new();
        for (sequence, back, switch) in frames {
            let before = sequence.saturating_sub(back);
            if ids.on_new(before, &remote(sequence)).is_err() {
                break;
            }
            if switch {
                ids.switch();
            }
            retired.extend(retirements(&mut ids));
            let distinct: std::collections::BTreeSet<_> = retired.iter().collect();
            prop_assert_eq!(distinct.len(), retired.len(), "retired twice");
            prop_assert!(!retired.contains(&ids.current().sequence));
            for done in &retired {
                ids.on_retirement_acked(*done);
            }
        }
    }
}

/// The id of a preferred address has sequence number 1, which no NEW_CONNECTION_ID frame uses.
#[test]
fn ids_go_on_after_that_of_a_preferred_address() {
    for preferred in [false, true] {
        let mut ids = RemoteIds::new(id(0), 4);
        if preferred {
            ids.set_preferred(id(1), token(1));
            assert!(ids.has_spare());
        }
        let outcome = (2..200).try_for_each(|sequence| {
            let result = ids.on_new(sequence - 1, &remote(sequence));
            for retired in retirements(&mut ids) {
                ids.on_retirement_acked(retired);
            }
            result.map(|_| ())
        });
        assert_eq!(outcome.is_ok(), preferred);
    }
}
