//! Probes of a handshake: their contents, and when they are sent.

use super::*;

const START: Instant = Instant::from_millis(1);

/// Either probe is enough if the first flight and the first probe are lost.
#[test]
fn every_probe_carries_the_first_flight() {
    let mut pair = Pair::new();
    let mut from_client = 0;
    pair.tap = Some(Box::new(move |_, datagram| {
        if datagram.to == SERVER.parse().unwrap() {
            from_client += 1;
            if from_client <= 2 {
                datagram.bytes.fill(0);
            }
        }
    }));
    // The initial probe timeout is a second. The next one would fire after three seconds.
    assert!(pair.is_established_within(Duration::from_millis(1500)));
    assert_eq!(pair.client.get().stats().probe_timeouts, 1);
}

/// Returns when the client's long headers are sent. Those until `lost` after the start are damaged.
pub(super) fn long_headers(pair: &mut Pair, lost: Duration) -> Rc<RefCell<Vec<Duration>>> {
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
    assert!(pair.is_established_within(Duration::from_secs(4)));
    let at = [0, 999_000, 1_123_875].map(Duration::from_micros);
    assert_eq!(*left.borrow(), at);
    // The next timeout would fire after three seconds (333 ms plus 4 times 333/2 ms).
    assert_eq!(pair.now - START, Duration::from_micros(1_143_875));
    assert_eq!(pair.client.get().stats().probe_timeouts, 1);
}

/// A packet that only requests an ACK was sent before the client's first flight, and is the oldest
/// one not acknowledged. The probe carries the flight.
#[test]
fn a_probe_of_a_handshake_carries_what_is_missing_and_not_an_older_ping() {
    let mut pair = Pair::new();
    let left = long_headers(&mut pair, Duration::from_millis(10));
    let ping = frames(&[Frame::Ping]);
    let client = pair.client.get();
    let _lost = sealed(client, pair.now, SpaceId::Initial, &ping, 0, false);
    // A round trip after the first probe.
    let done = pair.is_established_within(Duration::from_millis(1025));
    assert!(done, "{left:?}");
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

/// A server's flight in two packet number spaces is lost, together with the first probe. The second
/// one carries the missing data of both.
#[test]
fn the_second_probe_of_a_server_carries_both_of_its_flights() {
    let mut pair = Pair::new();
    let (probes, seen) = (Rc::new(RefCell::new(Vec::new())), Rc::default());
    let (log, count): (_, Rc<RefCell<usize>>) = (Rc::clone(&probes), Rc::clone(&seen));
    pair.tap = Some(Box::new(move |_, datagram| {
        if datagram.from != SERVER.parse().unwrap() {
            // The client doesn't ask again.
            if *count.borrow() > 0 && *count.borrow() < 3 {
                datagram.bytes.fill(0);
            }
            return;
        }
        *count.borrow_mut() += 1;
        log.borrow_mut().push(types(&datagram.bytes));
        if *count.borrow() < 3 {
            datagram.bytes.fill(0);
        }
    }));
    let done = pair.is_established_within(Duration::from_secs(2));
    assert!(done, "{probes:?}");
    let both = vec![PacketType::Initial, PacketType::Handshake];
    let expected = [both.clone(), vec![PacketType::Initial], both];
    assert_eq!(probes.borrow()[..3], expected);
}
