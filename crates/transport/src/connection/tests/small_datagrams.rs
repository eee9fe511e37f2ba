//! Paths that are configured to carry less than 1200 bytes, so that nothing waits for a datagram of
//! full size; and the contents of datagrams that are small or nearly full.

use super::*;
use crate::connection::paths::MIN_UNVALIDATED;

const SMALL: u16 = 1000;

fn small() -> Setup {
    Setup::both(|config| {
        config.initial_mtu = SMALL;
        config.max_mtu = Some(SMALL);
    })
}

fn connected() -> Pair {
    let mut pair = Pair::with(small());
    pair.up.faults.mtu = Some(SMALL.into());
    pair.down.faults.mtu = Some(SMALL.into());
    pair.connect();
    pair.run(Duration::from_millis(500));
    pair
}

/// A datagram of the size that every path is known to carry validates a path.
#[test]
fn a_new_path_is_validated_once() {
    for moves in [false, true] {
        let mut pair = connected();
        pair.rebind("10.1.0.1:2000");
        if moves {
            let local = Some("10.1.0.1".parse().unwrap());
            assert!(pair.client.get().try_address(pair.now, local));
        }
        pair.upload_and_run(50_000, 5, Duration::from_secs(10));
        assert_eq!(pair.server.get().stats().migrations, 1);
        assert!(pair.server.get().paths.validation().is_none());
        let challenges = pair.client.get().stats().path_challenges;
        assert!((1..=2).contains(&challenges), "{challenges}");
        let client = pair.client.get();
        assert_eq!(client.stats().migrations, u64::from(moves));
        assert!(client.paths.validation().is_none());
        // The path that was left was also challenged, with the size that fits there.
        let batches = pair.server.batches.iter();
        let largest = batches.map(|batch| batch.segment_size).max();
        assert_eq!(largest, Some(SMALL.into()));
    }
}

/// A driver's buffer is as large as the largest datagram.
#[test]
fn a_close_is_said_in_a_small_datagram() {
    for established in [false, true] {
        let mut pair = connected();
        if !established {
            pair = Pair::with(small());
            pair.flush();
        }
        let client = pair.client.get();
        client.close(pair.now, 7, Bytes::from_static(b"bye"));
        let mut buffer = vec![0; SMALL.into()];
        let close = client.poll_transmit(pair.now, &mut buffer, 1).unwrap();
        assert!(close.len <= SMALL.into());
        if !established {
            // With an Initial packet, it has the maximum size.
            assert_eq!(close.len, usize::from(SMALL));
            continue;
        }
        let received = Received::plain(pair.client.address);
        let server = pair.server.get();
        server.handle_datagram(pair.now, received, &mut buffer[..close.len]);
        let close = pair.server.application_closed_with();
        assert_eq!(close.error_code, 7_u32.into());
    }
}

/// A datagram to an address that isn't validated has a shim if this leaves room for a challenge or
/// an ACK.
#[test]
fn a_shim_leaves_room_for_a_packet() {
    let mut pair = Pair::at_rest(Setup::with_shims());
    let id = pair.server.open();
    pair.rebind("10.1.0.1:2000");
    pair.down.faults.loss = 1_000_000;
    pair.ping_and_run(Duration::from_millis(12));
    let server = pair.server.get();
    assert!(server.paths.validation().is_some());
    assert!(server.streams().write(id, &[1; 50_000]).is_ok());
    let least = LEN + MIN_UNVALIDATED;
    for room in MIN_UNVALIDATED..2 * least {
        // Data leaves enough credit for four challenges.
        let limit = server.paths.limit();
        limit.on_received(1000);
        let credit = 4 * MIN_UNVALIDATED + room;
        limit.on_sent(limit.available() - credit as u64);
        let mut buffer = [0; 1500];
        let sent = server.poll_transmit(pair.now, &mut buffer, 1).unwrap();
        assert_eq!(sent.len, room);
        assert_eq!(buffer[0] & 0xf8 == 8, room >= least, "{room}");
    }
}

/// If a stream ends close to the end of a packet, the rest is padded, so that the datagrams of a
/// batch have equal sizes and it can continue.
#[test]
fn a_short_rest_of_a_packet_is_filled() {
    for bytes in 1080..1200 {
        let mut pair = Pair::at_rest(Setup::new(|setup| setup.client.max_mtu = Some(1200)));
        for bytes in [bytes, 20_000] {
            pair.client.write(&vec![1; bytes]);
        }
        let sent = pair.client.batches.len();
        pair.flush();
        let first = pair.client.batches[sent];
        assert_eq!(first.segment_size, 1200, "{bytes}");
        // As much as the pacer permits at once.
        assert!(first.len >= 8 * 1200, "{bytes}: {}", first.len);
    }
}
