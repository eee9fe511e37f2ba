//! Reports of loss to the controller.

use super::*;

#[test]
fn reordering_beyond_the_threshold_is_a_loss_taken_back() {
    let mut pair = Pair::connected(Setup::default());
    pair.up.faults.reorder = 30_000;
    pair.upload_and_run(1 << 20, 30, Duration::from_millis(200));
    let log = pair.client.log();
    assert!(log.lost > 0 && log.spurious > 0, "{log:?}");
    let stats = pair.client.get().stats();
    assert!(stats.packets_spurious > 0 && stats.bytes_retransmitted > 0);
}

#[test]
fn counts_agree_with_the_controllers() {
    // [9002 7.4 later-losses] [9000 13.3 losses-are-congestion]
    let mut pair = Pair::connected(Setup::default());
    pair.up.faults.loss = 50_000;
    pair.upload_and_run(1 << 20, 60, Duration::from_secs(2));
    let log = pair.client.log();
    assert_eq!(pair.client.get().path_report(pair.now).in_flight, 0);
    let stats = pair.client.get().stats();
    assert_eq!(log.lost, stats.packets_lost);
    assert_eq!(log.lost + log.acked + stats.mtu_probes_lost, log.sent);
    assert_eq!(log.wrong_states, 0);
}

#[test]
fn a_long_blackout_is_persistent_congestion() {
    let mut pair = Pair::connected(Setup::default());
    pair.upload_and_run(50_000, 5, Duration::from_millis(200));
    pair.up.faults.loss = 1_000_000;
    let id = pair.client.open();
    for _ in 0..20 {
        let _ = pair.client.get().streams().write(id, &[7; 3000]);
        pair.run(Duration::from_millis(100));
    }
    pair.up.faults.loss = 0;
    pair.run(Duration::from_secs(5));
    let log = pair.client.log();
    assert!(log.probe_timeouts >= 3, "{log:?}");
    assert_eq!(log.persistent_congestions, 1, "{log:?}");
}

#[test]
fn what_was_lost_and_the_round_trips_are_counted() {
    let mut pair = Pair::connected(Setup::default());
    // Until the path's MTU is found.
    pair.upload_and_run(100_000, 5, Duration::from_secs(2));
    let before = pair.client.get().stats();
    pair.record = true;
    let id = pair.client.write(&[1; 700]);
    pair.flush();
    pair.up.cut();
    let lost = pair.client.sent.pop().unwrap().len();
    assert!((700..800).contains(&lost) && pair.client.sent.is_empty());
    pair.client.get().streams().write(id, &[2; 20_000]).unwrap();
    pair.run(Duration::from_secs(1));
    let stats = pair.client.get().stats();
    assert_eq!(stats.packets_lost - before.packets_lost, 1);
    assert_eq!(stats.bytes_lost - before.bytes_lost, lost as u64);
    assert_eq!(stats.probe_timeouts, before.probe_timeouts);
    assert!(stats.rtt.samples() > before.rtt.samples());
    // 10 ms in each direction, plus the peer's maximum delay of acknowledgements.
    let round_trip = Duration::from_millis(20);
    assert_eq!(stats.rtt.min(), Some(round_trip));
    assert!(stats.rtt.max().unwrap() <= round_trip + Duration::from_millis(25));
}

#[test]
fn what_one_end_sends_the_other_receives() {
    let mut pair = Pair::connected(Setup::default());
    pair.upload_and_run(100_000, 5, Duration::from_secs(2));
    let (client, server) = (pair.client.get().stats(), pair.server.get().stats());
    for (sender, receiver) in [(&client, &server), (&server, &client)] {
        assert_eq!(sender.datagrams_sent, receiver.datagrams_received);
        assert_eq!(sender.packets_sent, receiver.packets_received);
        assert_eq!(sender.bytes_sent, receiver.bytes_received);
        assert_eq!(receiver.packets_dropped, 0);
    }
}

/// RFC 9002 §6.2.4: probes carry new data if there is some. Later probes carry missing data,
/// because the peer may not be able to use new data.
#[test]
fn the_first_probes_carry_new_data_and_the_next_what_is_missing() {
    // [9002 7.5 probes-pass]
    let mut setup = Setup::with_window(3000);
    setup.client.max_mtu = Some(1200);
    let mut pair = Pair::connected(setup);
    pair.run(Duration::from_secs(1));
    pair.up.faults.loss = 1_000_000;
    // More than the window.
    pair.client.write(&[1; 20_000]);
    let before = pair.client.get().stats().probe_timeouts;
    for (timeouts, again) in [(1, false), (2, true)] {
        let due = |pair: &mut Pair| pair.client.get().stats().probe_timeouts == before + timeouts;
        assert!(pair.run_until(Duration::from_secs(5), due));
        pair.flush();
        let stats = pair.client.get().stats();
        assert_eq!(stats.bytes_retransmitted > 0, again);
    }
}

/// Returns when datagrams are sent by the client, counted from now. Those before `lost` are
/// damaged.
fn leave_while_lost(pair: &mut Pair, lost: Duration) -> Rc<RefCell<Vec<Duration>>> {
    let (left, start) = (Rc::new(RefCell::new(Vec::new())), pair.now);
    let seen = Rc::clone(&left);
    pair.tap = Some(Box::new(move |now, datagram| {
        if datagram.to == SERVER.parse().unwrap() {
            seen.borrow_mut().push(now - start);
            if now - start < lost {
                datagram.bytes.fill(0);
            }
        }
    }));
    left
}

/// A queue that is full for a while drops all packets that arrive meanwhile. The second probe is
/// sent later than the first, so that a single such period doesn't affect both.
#[test]
fn probes_do_not_leave_together() {
    let mut pair = Pair::connected(Setup::default());
    pair.upload_and_run(50_000, 5, Duration::from_secs(1));
    let timeouts = pair.client.get().stats().probe_timeouts;
    let spaces = &pair.client.get().spaces;
    let (pto, period) = (spaces.pto(), spaces.recovery.probe_period());
    let left = leave_while_lost(&mut pair, pto + Duration::from_micros(1));
    pair.client.write(&[1; 100]);
    assert!(pair.run_until(Duration::from_secs(2), |p| {
        p.client.get().spaces.recovery.bytes_in_flight() == 0 && !left.borrow().is_empty()
    }));
    // The next timeout would fire two periods after a probe.
    assert_eq!(*left.borrow(), [Duration::ZERO, pto, pto + period / 8]);
    assert_eq!(pair.client.get().stats().probe_timeouts, timeouts + 1);
}

/// If the first probe was answered before the second was due, there's no second one.
#[test]
fn an_answered_probe_is_followed_by_none() {
    let mut pair = Pair::connected(Setup::default());
    pair.upload_and_run(50_000, 5, Duration::from_secs(1));
    let left = leave_while_lost(&mut pair, Duration::from_secs(2));
    pair.client.write(&[1; 100]);
    pair.run(Duration::from_secs(2));
    let probes = left.borrow().len();
    assert!(probes > 6, "{left:?}");
    pair.run(Duration::from_secs(4));
    assert_eq!(left.borrow().len(), probes + 1, "{left:?}");
}

/// Two probes show whether only shims are lost, because the first has one and the second doesn't.
#[test]
fn the_first_of_two_probes_has_a_shim() {
    let mut pair = Pair::connected(Setup::with_shims());
    pair.upload_and_run(50_000, 5, Duration::from_secs(1));
    pair.up.faults.loss = 1_000_000;
    pair.client.write(&[1; 100]);
    pair.flush();
    let mut before = pair.client.get().stats();
    for shims in [1, 0, 1, 0] {
        let sent = |p: &mut Pair| p.client.get().stats().datagrams_sent > before.datagrams_sent;
        assert!(pair.run_until(Duration::from_secs(2), sent));
        let now = pair.client.get().stats();
        assert_eq!(now.datagrams_sent, before.datagrams_sent + 1);
        assert_eq!(now.shims_sent, before.shims_sent + shims);
        before = now;
    }
}
