//! Flow control while the data to be read next is missing.

use super::*;

/// 5 % loss, 160 Mbit/s, 550 ms: from the first flight on, most of the received data waits for a
/// retransmission.
#[test]
fn a_flight_with_losses_is_not_held_up_by_the_receive_window() {
    let time = |initial: Option<u64>| {
        let mut setup = Setup {
            seed: 5,
            latency: Duration::from_millis(275),
            ..Setup::with_window(11 << 20)
        };
        if let Some(window) = initial {
            setup.server.streams.initial_connection_window = window;
            setup.server.streams.initial_stream_window = window;
        }
        let mut pair = Pair::connected(setup);
        pair.up.rate = Some(20_000_000);
        pair.up.faults.loss = 50_000;
        pair.upload(40 << 20, Duration::from_secs(60))
    };
    let (wide, grown) = (time(Some(1 << 30)), time(None));
    assert!(
        grown <= wide + Duration::from_millis(1100),
        "{grown:?} {wide:?}"
    );
}
