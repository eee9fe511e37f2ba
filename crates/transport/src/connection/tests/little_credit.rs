//! A new address that sends few bytes gets few, so its challenge is written first.

use std::sync::Arc;

use super::pair::{Pair, Setup, pattern};
use super::signal::TestSignal;
use crate::streams::Dir;
use crate::{Duration, Signal};

/// A NAT is rebound during a download, so the client's new address only sends acknowledgements and
/// FEEDBACK. Its first packet permits a datagram of 48 bytes.
#[test]
fn a_nat_that_rebinds_below_a_download_is_followed_at_once() {
    for signal in [
        None,
        Some(TestSignal::shim(0)),
        Some(TestSignal::long_shim(0)),
    ] {
        let signal = signal.map(|signal| Arc::new(signal) as Arc<dyn Signal>);
        let mut setup = Setup::default();
        setup.client.signals.extend(signal.clone());
        setup.server.signals.extend(signal.clone());
        setup.server.controller = super::fixed_window::fixed_window(30_000).0;
        let mut pair = Pair::connected(setup);
        pair.run(Duration::from_millis(500));
        let id = pair.server.get().streams().open(Dir::Uni).unwrap();
        let data = pattern(2_000_000, 1);
        let mut written = 0;
        let mut write = |pair: &mut Pair| {
            let streams = pair.server.get().streams();
            while let Ok(n @ 1..) = streams.write(id, &data[written..]) {
                written += n;
            }
        };
        let read = |pair: &mut Pair| while pair.client.get().streams().skip(id).is_ok() {};
        for _ in 0..30 {
            write(&mut pair);
            pair.run(Duration::from_millis(10));
            read(&mut pair);
        }
        // Data that has just arrived is acknowledged from the new address.
        let received = |pair: &mut Pair| pair.client.get().stats().bytes_received;
        let before = received(&mut pair);
        write(&mut pair);
        assert!(pair.run_until(Duration::from_secs(1), |pair| received(pair) > before));
        pair.client.address = "10.0.0.9:2000".parse().unwrap();
        let moved = pair.now;
        let validated = pair.run_until(Duration::from_secs(20), |pair| {
            write(pair);
            read(pair);
            pair.server.get().stats().migrations == 1
        });
        let took = pair.now - moved;
        assert!(validated, "{signal:?}");
        // The first acknowledgement, the challenge, and its response, then the same with full size.
        assert!(took <= Duration::from_millis(100), "{took:?} {signal:?}");
        let more = pair.run_until(Duration::from_secs(5), |pair| {
            write(pair);
            read(pair);
            received(pair) > before + 200_000
        });
        assert!(more, "{signal:?}");
    }
}
