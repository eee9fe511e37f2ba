//! Reports to the controller of whether the window limited the sender.

use super::*;

/// Returns how many of the ACKs of `bytes`, sent at once, report that the window limited the
/// sender.
fn limited(window: u64, bytes: usize) -> u64 {
    let mut setup = Setup::with_window(window);
    setup.client.max_mtu = Some(1200);
    let mut pair = Pair::at_rest(setup);
    let before = pair.client.log();
    pair.client.write(&vec![1; bytes]);
    pair.run(Duration::from_millis(500));
    let log = pair.client.log();
    assert!(log.acked_bytes >= before.acked_bytes + bytes as u64);
    log.window_limited_acks - before.window_limited_acks
}

/// A window without room for another packet was full, even if there was nothing more to send.
#[test]
fn a_window_that_was_filled_limits() {
    for (bytes, limits) in [(100, false), (3000, false), (4700, true), (7000, true)] {
        assert_eq!(limited(6000, bytes) > 0, limits, "{bytes}");
    }
}

/// The pacer spreads the window.
#[test]
fn a_pause_of_the_pacer_limits() {
    // [9002 7.7 bursts]
    assert!(limited(200_000, 100_000) > 0);
}

/// Data that waits for the end of the handshake doesn't wait for the window.
#[test]
fn the_handshake_is_no_limit_of_the_window() {
    let mut pair = Pair::new();
    pair.run(Duration::from_millis(15));
    assert!(!pair.server.get().is_established());
    pair.server.write(&[1; 3000]);
    // The end of the client's flight arrives at the second attempt.
    pair.up.faults.loss = 1_000_000;
    pair.run(Duration::from_millis(50));
    pair.up.faults.loss = 0;
    pair.connect();
    pair.run(Duration::from_millis(500));
    let log = pair.server.log();
    assert!(log.acked_bytes > 3000);
    assert_eq!(log.window_limited_acks, 0);
}
