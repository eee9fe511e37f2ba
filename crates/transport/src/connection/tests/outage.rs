//! Paths that carry nothing for a while.

use super::pair::{Pair, Setup, drain};
use crate::Duration;
use crate::streams::{Dir, WriteError};

/// Whatever the RTT and the length of an outage of up to 20 s: the transfer goes on soon after it.
#[test]
fn a_transfer_outlives_an_outage_of_twenty_seconds() {
    for (latency, outage) in [(1, 20), (10, 20), (35, 20), (10, 10), (150, 15), (400, 20)] {
        let mut pair = Pair::connected(Setup {
            latency: Duration::from_millis(latency),
            ..Setup::default()
        });
        pair.run(Duration::from_secs(2));
        let id = pair.client.get().streams().open(Dir::Uni).unwrap();
        let data = super::pair::pattern(600_000, 1);
        let (mut written, mut got) = (0, Vec::new());
        let begun = pair.now;
        let (dark, light) = (
            begun + Duration::from_millis(2 * latency),
            begun + Duration::from_secs(outage),
        );
        let done = pair.run_until(Duration::from_secs(outage + 30), |pair| {
            let lost = if (dark..light).contains(&pair.now) {
                1_000_000
            } else {
                0
            };
            pair.up.faults.loss = lost;
            pair.down.faults.loss = lost;
            while written < data.len() {
                match pair.client.get().streams().write(id, &data[written..]) {
                    Ok(n) => written += n,
                    Err(WriteError::Blocked) => break,
                    Err(error) => panic!("{error}: {:?}", pair.client.error()),
                }
                if written == data.len() {
                    pair.client.get().streams().finish(id).unwrap();
                }
            }
            drain(pair.server.get(), id, &mut got)
        });
        let error = (pair.client.error(), pair.server.error());
        assert!(
            done,
            "{latency} ms, {outage} s: {} bytes, {error:?}",
            got.len()
        );
        assert!(got == data);
        // A quarter of the idle timeout of 30 s, and the time that the rest takes.
        let after = pair.now.saturating_since(light);
        assert!(
            after <= Duration::from_secs(10),
            "{after:?} after {outage} s"
        );
    }
}
