//! Reports of a connection to its driver.

use pathmark_cc::XcpFeedback;

use super::questions::signals;
use super::*;
use crate::wire::frame::ConnectionClose;

/// Returns whether the handshake is running, the connection is established, and its handshake is
/// complete.
fn progress(connection: &Connection) -> [bool; 3] {
    [
        connection.is_handshaking(),
        connection.is_established(),
        connection.handshake().is_complete(),
    ]
}

#[test]
fn how_far_it_has_come() {
    let mut pair = Pair::new();
    assert_eq!(progress(pair.client.get()), [true, false, false]);
    pair.connect();
    assert_eq!(progress(pair.client.get()), [false, true, true]);
    pair.client.get().close(pair.now, 1, Bytes::new());
    assert_eq!(progress(pair.client.get()), [false, false, true]);

    // This connection is over before its handshake is complete.
    let mut pair = Pair::new();
    pair.client.get().close(pair.now, 1, Bytes::new());
    assert_eq!(progress(pair.client.get()), [false; 3]);
}

/// A side without room for another connection refuses it by closing it.
#[test]
fn a_connection_that_is_refused_is_over_for_the_client() {
    let mut pair = Pair::new();
    pair.run(Duration::from_millis(15));
    pair.server.get().refuse(pair.now);
    pair.run(Duration::from_millis(50));
    assert_eq!(pair.client.peer_closed_with(), Code::CONNECTION_REFUSED);
}

#[test]
fn whether_the_endpoint_has_something_to_take_over() {
    let mut pair = Pair::new();
    let client = pair.client.get();
    assert!(client.has_routing());
    let taken = |connection: &mut Connection| {
        let mut taken = 0;
        while connection.has_routing() {
            assert!(connection.poll_routing().is_some());
            taken += 1;
        }
        assert!(connection.poll_routing().is_none());
        taken
    };
    // Its first ID.
    assert_eq!(taken(client), 1);
    pair.connect();
    pair.run(Duration::from_millis(500));
    let client = pair.client.get();
    assert!(!client.has_routing());
    // A path was added or removed, and therefore an address from which resets are accepted.
    client.paths.move_tokens();
    assert_eq!(taken(client), 1);
    // The token of the current ID has changed.
    client.outbox.forget_token();
    assert_eq!(taken(client), 1);
}

/// Six bits, whatever is configured.
#[test]
fn the_code_point_that_packets_leave_with() {
    for (configured, dscp) in [(0, 0), (46, 46), (0xff, 63), (0x40, 0)] {
        let mut setup = Setup::default();
        setup.client.dscp = configured;
        assert_eq!(Pair::with(setup).client.get().dscp(), dscp);
    }
}

/// The driver is notified of a smaller size immediately.
#[test]
fn a_size_that_the_interface_refuses_is_given_up() {
    let mut pair = Pair::connected(Setup::default());
    pair.upload_and_run(100_000, 10, Duration::from_millis(500));
    let (now, client) = (pair.now, pair.client.get());
    let mtu = client.mtu();
    assert!(mtu > 1400);
    client.on_size_refused(now, mtu);
    assert!(client.mtu() < mtu);
    let mtu = pair.client.log().mtu;
    assert_eq!(mtu, pair.client.get().mtu());
}

#[test]
fn a_controller_that_is_set_steers_at_once() {
    let mut pair = Pair::connected(Setup::default());
    assert_eq!(pair.client.get().congestion_window(), 1 << 20);
    let controller = fixed_window(12_345).0;
    pair.client.get().set_controller(pair.now, controller);
    assert_eq!(pair.client.get().congestion_window(), 12_345);
}

#[test]
fn the_path_report_names_the_signal_that_is_set() {
    let setup = Setup::both(|config| config.signals = signals(&[0, 1]));
    let mut pair = Pair::connected(setup);
    assert!(!pair.client.get().set_signal(Arc::new(TestSignal::shim(2))));
    assert_eq!(pair.client.get().path_report(pair.now).signal, Some(0));
    assert!(pair.client.get().set_signal(Arc::new(TestSignal::shim(1))));
    assert_eq!(pair.client.get().path_report(pair.now).signal, Some(1));
}

/// A router has a number other than 0. The report also contains whether the peer's clock is usable.
#[test]
fn which_router_bounds_the_flow() {
    let mut pair = Pair::connected(Setup::default());
    let (now, client) = (pair.now, pair.client.get());
    for router in [0, 77] {
        let expected = (router > 0).then_some(router);
        let vcp = VcpFeedback {
            router,
            ..VcpFeedback::default()
        };
        client.paths.set_last_feedback(Feedback::Vcp(vcp));
        assert_eq!(client.path_report(now).router, expected);
        let xcp = XcpFeedback {
            router,
            ..XcpFeedback::default()
        };
        client.paths.set_last_feedback(Feedback::Xcp(xcp));
        assert_eq!(client.path_report(now).router, expected);
    }
    assert!(client.path_report(now).clock_used);
}

/// RFC 9000 §10.2.2: an endpoint in the closing state that receives a close drains.
#[test]
fn a_close_that_crosses_the_own_one_is_received() {
    let mut pair = Pair::at_rest(Setup::default());
    let close = ConnectionClose {
        error_code: Code::NO_ERROR,
        frame_type: 0,
        reason: b"",
    };
    for frame in [Frame::Ping, Frame::ConnectionClose(close)] {
        let closes = frame != Frame::Ping;
        pair.client.get().close(pair.now, 1, Bytes::new());
        send_frames(&mut pair, From::Server, &[frame]);
        let received = pair.client.get().stats().packets_received;
        let done = |pair: &mut Pair| pair.client.get().stats().packets_received > received;
        assert!(pair.run_until(Duration::from_millis(15), done));
        let drains = pair.client.get().drains_until().is_some();
        assert_eq!(drains, closes);
    }
}
