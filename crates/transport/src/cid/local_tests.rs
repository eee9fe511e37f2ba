use super::*;
use crate::crypto::null::NullEndpointKey;
use crate::crypto::{Random, ResetToken};
use crate::wire::{ConnectionId, TransportErrorCode};

const KEY: NullEndpointKey = NullEndpointKey::new(3);

fn ids() -> (LocalIds, Random) {
    let mut random = Random::from_u64(1);
    (LocalIds::new(fresh_id(&mut random)), random)
}

fn issue_all(ids: &mut LocalIds, random: &mut Random) -> Vec<Issued> {
    while ids.issue(random, u64::MAX).is_some() {}
    core::iter::from_fn(|| ids.next_frame(&KEY)).collect()
}

/// The IDs of a side whose peer permits `limit`, and the frames that issued them.
fn issued(limit: u64) -> (LocalIds, Random, Vec<Issued>) {
    let (mut ids, mut random) = ids();
    ids.on_peer_limit(limit);
    let issued = issue_all(&mut ids, &mut random);
    (ids, random, issued)
}

#[test]
fn issues_up_to_the_peers_limit_and_ours() {
    // [9000 5.1 issued-once] [9000 5.1.1 sequence]
    // [9000 5.1.1 no-more-than-limit] [9000 10.3.2 token-per-id]
    let (mut ids, mut random) = ids();
    assert!(issue_all(&mut ids, &mut random).is_empty());
    ids.on_peer_limit(3);
    let issued = issue_all(&mut ids, &mut random);
    let sequences: Vec<_> = issued.iter().map(|i| i.sequence).collect();
    assert_eq!(sequences, [1, 2]);
    let token = ResetToken::derive(&KEY, issued[0].id.as_slice());
    assert_eq!(issued[0].token, token);
    assert_ne!(issued[0].id, issued[1].id);
    ids.on_peer_limit(u64::MAX);
    issue_all(&mut ids, &mut random);
    assert_eq!(ids.iter().count(), MAX_LOCAL);
}

#[test]
fn retired_id_is_replaced() {
    // [9000 5.1.1 accepted] [9000 5.1.1 sequence]
    let (mut ids, mut random, issued) = issued(2);
    let second = issued[0].id;
    let first = *ids.iter().next().unwrap();
    assert_eq!(ids.on_retire(0, &second).unwrap(), Some(first));
    assert_eq!(ids.on_retire(0, &second).unwrap(), None);
    assert_eq!(issue_all(&mut ids, &mut random)[0].sequence, 2);
}

/// A peer that retires ids as fast as it gets them earns one for each 400 bytes that it sends.
#[test]
fn replacements_are_earned() {
    let (mut ids, mut random) = ids();
    ids.on_peer_limit(u64::MAX);
    let mut last = 0;
    for received in [0, 399, 400, 12_000] {
        while let Some(dcid) = ids.issue(&mut random, received) {
            last = ids.next_frame(&KEY).unwrap().sequence;
            assert!(ids.on_retire(last - 1, &dcid).unwrap().is_some());
            assert!(ids.is_short());
        }
        assert_eq!(last, MAX_LOCAL as u64 - 1 + received / 400);
    }
}

#[test]
fn impossible_retirements_are_violations() {
    // [9000 19.16 never-sent] [9000 19.16 own-destination]
    let (mut ids, ..) = issued(2);
    let first = *ids.iter().next().unwrap();
    for (sequence, dcid) in [(2, first), (0, first)] {
        let error = ids.on_retire(sequence, &dcid).unwrap_err();
        assert_eq!(error.code, TransportErrorCode::PROTOCOL_VIOLATION);
    }
}

#[test]
fn lost_frame_is_sent_again_unless_retired() {
    let (mut ids, _, issued) = issued(3);
    assert!(!ids.has_pending());
    ids.on_lost(1);
    ids.on_lost(1);
    assert!(ids.has_pending());
    assert_eq!(ids.next_frame(&KEY), Some(issued[0]));
    assert_eq!(ids.next_frame(&KEY), None);
    ids.on_lost(2);
    ids.on_retire(2, &issued[0].id).unwrap();
    assert_eq!(ids.next_frame(&KEY), None);
    ids.on_lost(2);
    assert!(!ids.has_pending());
}

#[test]
fn a_frame_never_asks_back_the_id_that_it_brings() {
    // [9000 19.15 retires-itself]
    let (mut ids, _, issued) = issued(3);
    ids.rotate();
    ids.on_lost(1);
    let mut again = issued[0];
    again.retire_prior_to = 1;
    assert_eq!(ids.next_frame(&KEY), Some(again));
}

#[test]
fn rotation_asks_all_old_ids_back_and_stays_bounded() {
    let (mut ids, mut random, _) = issued(8);
    ids.rotate();
    let fresh = issue_all(&mut ids, &mut random);
    assert_eq!(fresh.len(), 8);
    let renewed = |i: &Issued| i.retire_prior_to == 8 && i.sequence >= 8;
    assert!(fresh.iter().all(renewed));
    // A peer that never retires anything.
    for _ in 0..100 {
        ids.rotate();
        issue_all(&mut ids, &mut random);
    }
    assert!(ids.iter().count() <= 2 * MAX_LOCAL);
}

#[test]
fn empty_id_stays_alone() {
    // [9000 19.16 zero-length] [9000 19.15 zero-length-peer]
    let mut ids = LocalIds::new(ConnectionId::EMPTY);
    ids.on_peer_limit(8);
    assert_eq!(ids.issue(&mut Random::from_u64(1), 0), None);
    let other = fresh_id(&mut Random::from_u64(1));
    for dcid in [ConnectionId::EMPTY, other] {
        assert!(ids.on_retire(0, &dcid).is_err());
    }
}
