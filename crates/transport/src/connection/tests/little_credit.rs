//! A new address that sends few bytes gets few, so its challenge is written first.

use super::*;

/// A NAT is rebound during a download, so the client's new address only sends acknowledgements and
/// FEEDBACK. Its first packet permits a datagram of 48 bytes.
#[test]
fn a_nat_that_rebinds_below_a_download_is_followed_at_once() {
    let [short, long] = [TestSignal::shim(0), TestSignal::long_shim(0)];
    for signal in [None, Some(short), Some(long)] {
        let signal = signal.map(|signal| Arc::new(signal) as Arc<dyn Signal>);
        let mut setup = Setup::both(|config| config.signals.extend(signal.clone()));
        setup.server.controller = fixed_window(30_000).0;
        let mut pair = Pair::at_rest(setup);
        let id = pair.server.open();
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
        pair.rebind("10.0.0.9:2000");
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
