//! The cost of measuring on links of various rates.

use pathmark_cc::{Duration, Instant};

use super::*;

const PACKET: u16 = 1452;

/// Share of a link of `capacity` bytes per second that trains and small packets use, in 10^-6,
/// over 600 s after the first trains.
fn taken_ppm(capacity: u64) -> u64 {
    let mut now = Instant::ZERO;
    let mut estimator = Estimator::new(now, PACKET);
    for _ in 0..12 {
        estimator.capacity.note(capacity);
    }
    estimator.asked = FIRST_TRAINS;
    let end = now + Duration::from_secs(600);
    let mut train = Estimator::first_train(PACKET);
    let (mut bytes, mut number) = (0, 0);
    while now < end {
        bytes += (u64::from(train.bytes) + HEADERS) * u64::from(train.packets);
        let ask = estimator.coming(now, number, &train, Duration::ZERO);
        let span = Duration::from_nanos(train.span());
        assert!(span <= Duration::from_secs(4), "a router refuses {span:?}");
        // No packet of the train is lost.
        for index in 0..train.packets {
            estimator.arrivals.on_packet(
                number,
                Arrived {
                    index,
                    ..Arrived::default()
                },
            );
        }
        now = (now + span).max(now + Duration::from_millis(1));
        (train, number) = (ask.train, number + 1);
    }
    bytes * 1_000_000 / (capacity * 600)
}

#[test]
fn measuring_takes_a_hundredth_of_thin_links_too() {
    // 1, 2, 5, 10, 30, 100 and 1000 Mbit/s. Below these rates, small packets are still at most
    // half a second apart.
    for kbit in [1000, 2000, 5000, 10_000, 30_000, 100_000, 1_000_000] {
        let taken = taken_ppm(kbit * 125);
        assert!(taken <= 10_500, "{kbit} kbit/s: {taken}");
    }
}
