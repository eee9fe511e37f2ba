//! Floods of frames that a peer may send, but not in such numbers. Their cost is proportional, and
//! they are counted.

use super::inject::{id, replace_ids, reset};
use super::*;
use crate::connection::Stats;

/// The client floods the server with the frames that `flood` returns for each packet. Returns the
/// server's counters before and after. A transfer on the same connection continues.
fn flood(packets: u64, mut flood: impl FnMut(&mut Pair, u64) -> Vec<u8>) -> (Stats, Stats) {
    let mut pair = Pair::at_rest(Setup::default());
    let before = pair.server.get().stats();
    for n in 0..packets {
        let payload = flood(&mut pair, n);
        send(&mut pair, From::Client, SpaceId::Data, &payload);
        // Several packets in a round trip.
        pair.run(Duration::from_millis(3));
        let server = pair.server.get();
        let [events, routing] = server.outbox.waiting();
        assert!(events <= 300 && routing <= 32);
        while server.streams().accept(Dir::Bi).is_some() {}
    }
    pair.run(Duration::from_millis(100));
    let after = pair.server.get().stats();
    assert_eq!((pair.client.error(), pair.server.error()), (None, None));
    pair.upload(50_000, Duration::from_secs(10));
    (before, after)
}

/// Checks that the server sends at most `factor` times the bytes received during the flood.
fn in_proportion((before, after): &(Stats, Stats), factor: u64) {
    let received = after.bytes_received - before.bytes_received;
    let sent = after.bytes_sent - before.bytes_sent;
    assert!(sent <= factor * received, "{sent} for {received}");
}

#[test]
fn small_challenges_get_small_responses() {
    let flooded = flood(1000, |_, n| {
        frames(&[Frame::PathChallenge(n.to_be_bytes())])
    });
    assert_eq!(flooded.1.path_challenges - flooded.0.path_challenges, 1000);
    in_proportion(&flooded, 2);
    // With many in one packet, the latest four are answered.
    let flooded = flood(100, |_, n| {
        let challenge = |i: u64| Frame::PathChallenge((n * 100 + i).to_be_bytes());
        frames(&(0..100).map(challenge).collect::<Vec<_>>())
    });
    in_proportion(&flooded, 1);
}

#[test]
fn ids_that_come_and_go_cost_a_frame_each() {
    let flooded = flood(500, |pair, _| {
        replace_ids(pair.client.get());
        frames(&[Frame::Ping])
    });
    let frames = flooded.1.id_frames - flooded.0.id_frames;
    assert!(frames >= 200, "{frames}");
    in_proportion(&flooded, 2);
}

/// A peer that retires each ID at once gets another for each 400 bytes that it sends.
#[test]
fn ids_that_are_retired_at_once_must_be_earned() {
    let (before, after) = flood(500, |pair, _| {
        let ids = &mut pair.client.get().sources.control.remote_ids;
        while ids.switch() {}
        frames(&[Frame::Ping])
    });
    let retired = after.id_frames - before.id_frames;
    assert!(retired > 20, "{retired}");
    assert!(retired < 8 + after.bytes_received / 400, "{retired}");
}

#[test]
fn ids_that_were_not_sent_cannot_be_retired() {
    let mut pair = Pair::at_rest(Setup::default());
    // Each makes room for the next ID, which is issued immediately but not yet sent.
    let all: Vec<_> = (1..200).map(Frame::RetireConnectionId).collect();
    send(&mut pair, From::Client, SpaceId::Data, &frames(&all));
    pair.run(Duration::from_millis(50));
    assert_eq!(pair.server.closed_with(), Code::PROTOCOL_VIOLATION);
}

#[test]
fn streams_opened_and_given_up_leave_nothing() {
    let id = |index| id(Side::Client, Dir::Bi, index);
    let flooded = flood(600, |pair, n| {
        let server = pair.server.get();
        // The application reads the data of the last streams.
        for index in (n.saturating_sub(12) * 8)..n * 8 {
            let _ = server.streams().read(id(index), &mut [0; 8]);
        }
        assert!(server.streams().open_streams() <= 140);
        let each = |index: u64| {
            let (id, error_code) = (id(index), 1);
            // This opens the streams at the client.
            let stop = Frame::StopSending(StopSending { id, error_code });
            [reset(id, 0), stop]
        };
        while pair.client.get().streams().open(Dir::Bi).is_ok() {}
        let all: Vec<_> = (n * 8..(n + 1) * 8).flat_map(each).collect();
        frames(&all)
    });
    let given_up = flooded.1.streams_given_up - flooded.0.streams_given_up;
    assert_eq!(given_up, 600 * 16);
    in_proportion(&flooded, 2);
}

#[test]
fn key_updates_without_end() {
    let mut updates = 0;
    let flooded = flood(1000, |pair, _| {
        updates += u64::from(pair.client.get().update_keys(pair.now));
        frames(&[Frame::Ping])
    });
    // An update requires the acknowledgement of the previous one.
    let counted = flooded.1.key_updates - flooded.0.key_updates;
    assert!(updates > 10 && counted == updates, "{updates} {counted}");
    assert!(updates < 1000, "{updates}");
    in_proportion(&flooded, 2);
}

/// A peer sends forever without acknowledging anything. Neither the packets sent to it nor the ACKs
/// accumulate.
#[test]
fn acks_to_a_peer_that_acknowledges_nothing_do_not_pile_up() {
    let mut pair = Pair::at_rest(Setup::default());
    pair.down.faults.loss = 1_000_000;
    pair.server.write(b"never acknowledged");
    let before = pair.server.get().stats();
    let mut most = 0;
    for _ in 0..10_000 {
        // Not quite enough bytes for an ACK each.
        send_frames(&mut pair, From::Client, &[Frame::Ping; 200]);
        pair.run(Duration::from_millis(1));
        let recovery = &pair.server.get().spaces.recovery;
        most = most.max(recovery.space(SpaceId::Data).sent().span());
    }
    let after = pair.server.get().stats();
    assert_eq!((pair.client.error(), pair.server.error()), (None, None));
    let sent = after.packets_sent - before.packets_sent;
    assert!(sent > 2000, "{sent}");
    assert!(most <= 200, "{most} of {sent}");
}

/// RFC 9000 §8.2.1: a peer that moves back and forth between two of its addresses is challenged at
/// each occasionally, but not for each packet.
#[test]
fn moves_to_and_fro_cost_no_challenge_each() {
    let flooded = flood(500, |pair, n| {
        pair.client.address.set_port(1001 - (n % 2) as u16);
        frames(&[Frame::Ping])
    });
    in_proportion(&flooded, 3);
}
