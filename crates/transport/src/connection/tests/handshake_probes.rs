//! Probes of a handshake: their contents, and when they are sent.

use super::*;

const START: Instant = Instant::from_millis(1);

/// Returns when the client's long headers are sent. Those until `lost` after the start are damaged.
fn long_headers(pair: &mut Pair, lost: Duration) -> Rc<RefCell<Vec<Duration>>> {
    let left = Rc::new(RefCell::new(Vec::new()));
    let seen = Rc::clone(&left);
    pair.tap = Some(Box::new(move |now, datagram| {
        if datagram.to == SERVER.parse().unwrap() && datagram.bytes[0] & 0x80 != 0 {
            seen.borrow_mut().push(now - START);
            if now - START < lost {
                datagram.bytes.fill(0);
            }
        }
    }));
    left
}

/// A queue that is full for a while drops all packets that arrive meanwhile. The second probe of a
/// handshake is sent later than the first, so that a single such period doesn't affect both.
#[test]
fn probes_of_a_handshake_do_not_leave_together() {
    let mut pair = Pair::new();
    // Both the first flight and the packets sent at the first probe timeout, after 999 ms, are
    // lost.
    let left = long_headers(&mut pair, Duration::from_millis(1050));
    assert!(pair.run_until(Duration::from_secs(4), |p| p.client.get().is_established()));
    let at = [0, 999_000, 1_123_875].map(Duration::from_micros);
    assert_eq!(*left.borrow(), at);
    // The next timeout would fire after three seconds (333 ms plus 4 times 333/2 ms).
    assert_eq!(pair.now - START, Duration::from_micros(1_143_875));
    assert_eq!(pair.client.get().stats().probe_timeouts, 1);
}

/// The client's first flight is acknowledged, but the server's doesn't arrive. Since there's
/// nothing to repeat, a probe is a PING in a datagram of full size.
#[test]
fn a_probe_with_nothing_to_carry_is_a_ping() {
    // [9002 6.2.4 eliciting-probe] [9002 6.2.2.1 client-probe-space]
    let mut pair = Pair::new();
    pair.flush();
    // ACK of number 0.
    let ack = [0x02, 0, 0, 0, 0];
    pair.run(Duration::from_millis(15));
    let bytes = packet(pair.server.get(), pair.now, SpaceId::Initial, &ack);
    pair.down.cut();
    pair.down.faults.loss = 1_000_000;
    pair.send_to_client(bytes);
    let client = pair.client.get();
    assert_eq!(client.spaces.recovery.bytes_in_flight(), 0);
    pair.record = true;
    let probed = |p: &mut Pair| !p.client.sent.is_empty();
    assert!(pair.run_until(Duration::from_secs(1), probed));
    assert_eq!(types(&pair.client.sent[0]), [PacketType::Initial]);
    assert_eq!(pair.client.sent[0].len(), 1200);
    let client = pair.client.get();
    let sent = client.spaces.recovery.space(SpaceId::Initial).sent();
    assert!(sent.iter().any(|(_, packet)| packet.ack_eliciting));
}
