use proptest::prelude::*;

use super::*;
use crate::crypto::ResetToken;
use crate::wire::{ConnectionId, TransportErrorCode};

fn id(n: u64) -> ConnectionId {
    ConnectionId::new(&n.to_be_bytes()).unwrap()
}

fn token(n: u64) -> ResetToken {
    ResetToken::new(u128::from(n).to_be_bytes())
}

fn remote(sequence: u64) -> RemoteId {
    RemoteId {
        sequence,
        id: id(sequence),
        token: Some(token(sequence)),
    }
}

fn with(sequences: &[u64]) -> RemoteIds {
    let mut ids = RemoteIds::new(id(0), 4);
    for s in sequences {
        ids.on_new(0, &remote(*s)).unwrap();
    }
    ids
}

fn retirements(ids: &mut RemoteIds) -> Vec<u64> {
    core::iter::from_fn(|| ids.next_retirement()).collect()
}

#[test]
fn switching_takes_the_lowest_spare_and_retires_the_old() {
    let mut ids = with(&[3, 1]);
    assert!(ids.switch());
    assert_eq!(ids.current().sequence, 1);
    assert_eq!(retirements(&mut ids), [0]);
    assert!(ids.switch());
    assert_eq!(ids.current().sequence, 3);
    assert!(!ids.switch());
    assert_eq!(ids.current().sequence, 3);
}

#[test]
fn duplicates_are_ignored_even_after_retirement() {
    let mut ids = with(&[1, 1]);
    ids.switch();
    assert_eq!(retirements(&mut ids), [0]);
    for _ in 0..2 {
        ids.on_new(0, &remote(1)).unwrap();
    }
    assert!(!ids.has_spare() && !ids.has_pending());
    // A client's copy of the first id's announcement does not exist, but a hostile one must not
    // revive it.
    let _ = ids.on_new(
        0,
        &RemoteId {
            sequence: 0,
            ..remote(9)
        },
    );
    assert!(!ids.has_spare());
}

#[test]
fn contradictions_are_violations() {
    let cases = [
        RemoteId {
            id: id(9),
            ..remote(1)
        },
        RemoteId {
            token: Some(token(9)),
            ..remote(1)
        },
        RemoteId {
            sequence: 2,
            ..remote(1)
        },
        RemoteId {
            token: Some(token(1)),
            ..remote(2)
        },
    ];
    for case in cases {
        let error = with(&[1]).on_new(0, &case).unwrap_err();
        assert_eq!(
            error.code,
            TransportErrorCode::PROTOCOL_VIOLATION,
            "{case:?}"
        );
    }
    let mut none = RemoteIds::new(ConnectionId::EMPTY, 4);
    let error = none.on_new(0, &remote(1)).unwrap_err();
    assert_eq!(error.code, TransportErrorCode::PROTOCOL_VIOLATION);
}

#[test]
fn frame_that_retires_itself_is_malformed() {
    let error = with(&[]).on_new(2, &remote(1)).unwrap_err();
    assert_eq!(error.code, TransportErrorCode::FRAME_ENCODING_ERROR);
}

#[test]
fn limit_is_enforced_after_retirements() {
    let mut ids = with(&[1, 2, 3]);
    let error = with(&[1, 2, 3]).on_new(0, &remote(4)).unwrap_err();
    assert_eq!(error.code, TransportErrorCode::CONNECTION_ID_LIMIT_ERROR);
    assert!(ids.on_new(2, &remote(4)).unwrap());
    assert_eq!(ids.current().sequence, 2);
    let mut retired = retirements(&mut ids);
    retired.sort_unstable();
    assert_eq!(retired, [0, 1]);
}

#[test]
fn id_that_arrives_after_its_retirement_is_retired_at_once() {
    let mut ids = with(&[]);
    assert!(ids.on_new(3, &remote(3)).unwrap());
    assert_eq!(retirements(&mut ids), [0]);
    ids.on_new(0, &remote(2)).unwrap();
    ids.on_new(0, &remote(2)).unwrap();
    assert_eq!(retirements(&mut ids), [2]);
    assert!(!ids.has_spare());
}

#[test]
fn endless_retirement_requests_end_the_connection() {
    let mut ids = RemoteIds::new(id(0), 4);
    let ended = (1..100).find_map(|n| ids.on_new(n, &remote(n)).err());
    assert_eq!(
        ended.unwrap().code,
        TransportErrorCode::CONNECTION_ID_LIMIT_ERROR
    );
    // With acknowledgements it goes on for ever.
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
    let mut ids = with(&[1, 2]);
    ids.set_first_token(token(77));
    assert!(ids.is_reset(&token(77)) && !ids.is_reset(&token(1)));
    ids.allot();
    assert!(ids.is_reset(&token(1)) && !ids.is_reset(&token(2)));
    ids.adopt(1);
    assert!(!ids.is_reset(&token(77)));
}

proptest! {
    /// Whatever arrives, state stays bounded and the current id is never one that was retired.
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

/// The id of a preferred address has sequence number 1, which no NEW_CONNECTION_ID frame brings.
#[test]
fn ids_go_on_beside_that_of_a_preferred_address() {
    let id = |n: u64| ConnectionId::new(&n.to_be_bytes()).unwrap();
    let token = |n: u64| ResetToken::new([n as u8; 16]);
    for preferred in [false, true] {
        let mut ids = RemoteIds::new(id(0), 4);
        if preferred {
            ids.set_preferred(id(1), token(1));
            assert!(ids.has_spare());
        }
        let outcome: Result<Vec<_>, _> = (2..200)
            .map(|sequence| {
                let new = RemoteId {
                    sequence,
                    id: id(sequence),
                    token: Some(token(sequence)),
                };
                let result = ids.on_new(sequence - 1, &new);
                while let Some(retired) = ids.next_retirement() {
                    ids.on_retirement_acked(retired);
                }
                result
            })
            .collect();
        assert_eq!(outcome.is_ok(), preferred);
    }
}
