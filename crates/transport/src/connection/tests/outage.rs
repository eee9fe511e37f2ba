//! Paths that carry nothing for a while.

use super::*;

/// For every RTT and outage of up to 20 s, the transfer continues soon after the outage.
#[test]
fn a_transfer_outlives_an_outage_of_twenty_seconds() {
    for (latency, outage) in [(1, 20), (10, 20), (35, 20), (10, 10), (150, 15), (400, 20)] {
        // A quarter of the idle timeout of 30 s, plus the time for the rest.
        outlives(latency, outage, false, Duration::from_secs(10));
    }
}

/// The same if the client tries another address one second into the outage. Both windows are filled
/// by lost packets, but the challenges of each turn are nevertheless sent, a second apart.
#[test]
fn a_transfer_outlives_an_outage_in_which_its_client_moves() {
    for outage in 3..=28 {
        outlives(10, outage, true, Duration::from_secs(1));
    }
}

/// Uploads 6 MB over a path of `latency` ms in each direction. An outage of `outage` seconds begins
/// after 100,000 bytes have arrived. The last byte must arrive within `after` of its end.
fn outlives(latency: u64, outage: u64, mut moves: bool, after: Duration) {
    let mut pair = Pair::connected(Setup::with_latency(latency));
    pair.run(Duration::from_secs(2));
    let outage = Duration::from_secs(outage);
    let mut begun = None;
    let limit = outage + Duration::from_secs(30);
    pair.transfer(true, 6_000_000, limit, |pair, got| {
        if begun.is_none() && got >= 100_000 {
            begun = Some(pair.now);
        }
        let dark = begun.map(|begun| pair.now.saturating_since(begun));
        let lost = u32::from(dark.is_some_and(|dark| dark < outage)) * 1_000_000;
        pair.up.faults.loss = lost;
        pair.down.faults.loss = lost;
        if moves && dark.is_some_and(|dark| dark >= Duration::from_secs(1)) {
            moves = false;
            let local = "10.1.0.1".parse().unwrap();
            assert!(pair.client.get().try_address(pair.now, Some(local)));
        }
    });
    let took = pair.now.saturating_since(begun.unwrap());
    let in_time = took > outage && took <= outage + after;
    assert!(in_time, "{latency} ms: {took:?} after {outage:?}");
}
