use std::collections::VecDeque;

use super::*;

const MAX: u64 = 5 << 30;

#[test]
fn credit_is_spent_and_renewed_and_complains_once_per_limit() {
    // [9000 4.1 limits-never-fall] [9000 13.3 outdated-frames]
    let mut credit = SendCredit::new(100);
    credit.consume(100);
    assert_eq!(credit.available(), 0);
    assert!(!credit.is_blocked() && credit.block() && !credit.block() && credit.is_blocked());
    assert!(!credit.raise(100) && !credit.raise(50));
    assert!(credit.raise(150) && !credit.is_blocked());
    assert_eq!(credit.available(), 50);
    credit.consume(50);
    assert!(credit.block());
}

#[test]
fn more_than_promised_is_refused() {
    let mut window = ReceiveWindow::new(1000, MAX);
    assert_eq!(window.on_received(Instant::ZERO, None, 1000), Ok(()));
    let refused = window.on_received(Instant::ZERO, None, 1);
    assert_eq!(refused, Err(CreditExceeded));
    assert!(!window.update_due());
    window.on_consumed(1000);
    assert!(window.update_due());
    assert!(window.announce(Instant::ZERO, None) >= 2000);
    assert_eq!(window.on_received(Instant::ZERO, None, 1000), Ok(()));
}

#[test]
fn a_waiting_peer_gets_the_little_there_is() {
    let mut window = ReceiveWindow::new(100_000, 100_000);
    window.on_received(Instant::ZERO, None, 100_000).unwrap();
    window.on_consumed(10);
    assert!(!window.update_due());
    window.on_peer_blocked(99_999);
    assert!(!window.update_due(), "it has not seen the last promise yet");
    window.on_peer_blocked(100_000);
    assert!(window.update_due());
    assert_eq!(window.announce(Instant::ZERO, None), 100_010);
    assert!(!window.update_due());
}

#[test]
fn a_window_has_a_cap_and_something_may_be_promised_in_addition() {
    const KIB: u64 = 1024;
    for (cap, extra, promised) in [
        (u64::MAX, 0, 100),
        (u64::MAX, 7, 107),
        (90, 0, 100),
        (90, 17, 107),
    ] {
        let mut window = ReceiveWindow::new(100 * KIB, 100 * KIB);
        let now = Instant::ZERO;
        window.set_cap(cap.saturating_mul(KIB), extra * KIB);
        assert_eq!(window.announce(now, None), promised * KIB, "{cap} {extra}");
        assert_eq!(window.outstanding(), promised * KIB);
        // Credit for read bytes isn't renewed beyond the cap.
        window.on_received(now, None, 50 * KIB).unwrap();
        window.on_read(50 * KIB);
        window.announce(now, None);
        assert_eq!(window.outstanding(), (cap.min(100) + extra) * KIB);
    }
}

/// RFC 9000 §16, §19.9: a limit is a varint, which holds 62 bits.
#[test]
fn a_promise_fits_a_varint() {
    const LARGEST: u64 = (1 << 62) - 1;
    let mut window = ReceiveWindow::new(LARGEST - 10, u64::MAX);
    window.on_received(Instant::ZERO, None, 100).unwrap();
    window.on_read(100);
    window.on_peer_blocked(LARGEST - 10);
    assert_eq!(window.announce(Instant::ZERO, None), LARGEST);
    window.on_peer_blocked(LARGEST);
    assert!(!window.update_due(), "there is no more to promise");
}

/// A path with a sender that would send `demand(round)` bytes in each round trip, evenly.
struct Path {
    rtt: u64,
    window: ReceiveWindow,
    /// Arrivals at the receiver, and promises to the sender, by step.
    data: VecDeque<(u64, u64)>,
    promises: VecDeque<(u64, u64)>,
    sent: u64,
    limit: u64,
    step: u64,
    /// Steps for which in-order delivery waits for a retransmission.
    delay: u64,
    delayed: VecDeque<(u64, u64)>,
    /// Whether the application waits for delayed data.
    awaited: bool,
    /// Bytes that could not be sent immediately.
    held_up: u64,
}

const STEPS: u64 = 400;

impl Path {
    fn new(rtt_ms: u64, initial: u64) -> Self {
        Self {
            rtt: rtt_ms,
            window: ReceiveWindow::new(initial, MAX),
            data: VecDeque::new(),
            promises: VecDeque::new(),
            sent: 0,
            limit: initial,
            step: 0,
            delay: 0,
            delayed: VecDeque::new(),
            awaited: false,
            held_up: 0,
        }
    }

    /// Runs one round trip. `consume` is the percentage of arriving bytes that the application
    /// reads.
    fn round(&mut self, demand: u64, consume: u64) {
        let rtt = Some(Duration::from_millis(self.rtt));
        for i in 0..STEPS {
            let now = Instant::from_nanos(self.step * self.rtt * 1_000_000 / STEPS);
            while let Some((_, limit)) = self.promises.pop_front_if(|(at, _)| *at <= self.step) {
                self.limit = limit;
            }
            let wanted = demand * (i + 1) / STEPS - demand * i / STEPS + self.held_up;
            let sending = wanted.min(self.limit - self.sent);
            self.held_up = wanted - sending;
            self.sent += sending;
            self.data.push_back((self.step + STEPS / 2, sending));
            while let Some((_, bytes)) = self.data.pop_front_if(|(at, _)| *at <= self.step) {
                self.window.on_received(now, rtt, bytes).unwrap();
                if self.awaited && self.delay > 0 {
                    self.window.on_held_up(bytes);
                }
                self.delayed
                    .push_back((self.step + self.delay, bytes * consume / 100));
            }
            while let Some((_, bytes)) = self.delayed.pop_front_if(|(at, _)| *at <= self.step) {
                self.window.on_read(bytes);
            }
            if self.window.update_due() {
                let limit = self.window.announce(now, rtt);
                self.promises.push_back((self.step + STEPS / 2, limit));
            }
            self.step += 1;
        }
    }

    /// Runs this many round trips in which everything is read, without holding the sender up.
    fn flows(&mut self, rounds: u32, demand: u64) {
        for round in 0..rounds {
            self.round(demand, 100);
            let rtt = self.rtt;
            assert_eq!(self.held_up, 0, "round {round} of {demand} in {rtt} ms");
        }
    }
}

/// 10 Gbit/s over 720 ms and shorter paths, from ten packets, for each growth rate: the peer is
/// never blocked.
#[test]
fn never_holds_up_a_sender_that_speeds_up() {
    for rtt in [1, 20, 200, 720] {
        for factor in [2, 3, 5, 8, 11] {
            let bdp = 1_250_000 * rtt;
            let mut path = Path::new(rtt, 1 << 20);
            let mut demand = 12_000;
            while demand < bdp {
                path.round(demand, 100);
                assert_eq!(path.held_up, 0, "x{factor} per {rtt} ms at {demand}");
                demand = (demand * factor).min(bdp);
            }
            for _ in 0..5 {
                path.round(bdp, 100);
                assert_eq!(path.held_up, 0, "x{factor} per {rtt} ms, full");
            }
            assert!(path.window.window() >= 5 * bdp.min(MAX / 5));
        }
    }
}

/// Slow start doubles the bytes in each round trip, and may turn into something faster.
#[test]
fn a_sender_that_speeds_up_may_do_so_faster() {
    let mut path = Path::new(100, 1 << 20);
    let mut demand = 100_000;
    for _ in 0..6 {
        path.round(demand, 100);
        demand *= 2;
    }
    path.flows(1, demand / 2 * 11);
}

/// Grows by 3 % in each round trip, up to 10 MB in one.
fn slow_growth() -> Path {
    let mut path = Path::new(100, 1 << 20);
    let mut demand = 200_000;
    while demand < 10_000_000 {
        path.flows(1, demand);
        demand = demand * 103 / 100;
    }
    path
}

/// A promise is also a risk, so a sender that never speeds up is only promised as much as
/// a steady flow needs.
#[test]
fn slow_growth_is_promised_five_round_trips_worth() {
    let window = slow_growth().window.window();
    // At least 9.7 MB arrived in the last round trip.
    assert!((48_500_000..=50_000_000).contains(&window), "{window}");
}

/// At 30 % loss, in-order delivery waits for ten round trips.
#[test]
fn a_steady_flow_is_not_held_up_by_long_gaps() {
    let mut path = slow_growth();
    (path.delay, path.awaited) = (10 * STEPS, true);
    path.flows(20, 10_000_000);
}

/// At full rate, in-order delivery begins to wait for three round trips.
#[test]
fn covers_waiting_for_retransmissions() {
    let bdp = 1_250_000 * 200;
    let mut path = Path::new(200, 1 << 20);
    let mut demand = 12_000;
    for _ in 0..20 {
        path.round(demand, 100);
        demand = (demand * 2).min(bdp);
    }
    path.delay = 3 * STEPS;
    path.flows(10, bdp);
}

/// A first flight of the whole promise, 16 MiB, then 1 Gbit/s over 1 s: in-order delivery waits
/// for four round trips from the first packet.
#[test]
fn grows_while_the_application_waits_at_a_gap() {
    let bdp = 125_000_000;
    let mut path = Path::new(1000, 16 << 20);
    path.delay = 4 * STEPS;
    path.awaited = true;
    path.round(16 << 20, 100);
    path.flows(8, bdp);
    assert!(path.window.earned() >= 4 * bdp, "{}", path.window.earned());
    assert!(path.window.window() <= SPEEDING_UP * bdp * 11 / 10);
}

/// A gap that is never closed: bytes that arrived before the last few round trips earn no
/// memory, and the window is proportional to the bytes of a round trip.
#[test]
fn a_gap_that_stays_earns_no_more_than_the_last_round_trips() {
    let mut path = Path::new(100, 1 << 20);
    path.delay = 1 << 40;
    path.awaited = true;
    for round in 0..30 {
        path.round(1_000_000, 100);
        let earned = path.window.earned();
        assert!(earned <= 4_100_000, "{earned}");
        // As long as more may be sent.
        assert!(earned >= 3_000_000 || !(4..12).contains(&round), "{earned}");
        let window = path.window.window();
        assert!(window <= SPEEDING_UP * 1_000_000 * 11 / 10, "{window}");
    }
    for _ in 0..6 {
        path.round(0, 100);
    }
    let now = Instant::from_nanos(path.step * path.rtt * 1_000_000 / STEPS);
    path.window.measure(now, Some(Duration::from_millis(100)));
    assert_eq!(path.window.earned(), 0);
}

/// Over a short path, an application reads in bursts when it is scheduled, so it reads nothing
/// in most round trips. The bytes of two milliseconds count 16 times.
#[test]
fn reading_in_bursts_earns_as_much_as_reading_evenly() {
    let rtt = Some(Duration::from_micros(100));
    let mut window = ReceiveWindow::new(1 << 30, MAX);
    let mut least = u64::MAX;
    for ms in 0..1000 {
        let now = Instant::from_millis(ms);
        window.on_received(now, rtt, 100_000).unwrap();
        if ms % 30 == 29 {
            window.on_read(3_000_000);
        }
        window.measure(now, rtt);
        if ms > 100 {
            least = least.min(window.earned());
        }
    }
    assert!(least >= SPEEDING_UP * 200_000, "{least}");
    // The last read bytes count for at most 200 ms.
    window.measure(Instant::from_millis(1201), rtt);
    assert_eq!(window.earned(), 0);
}

/// Offsets are only claims: if 1 MB of offsets contains one byte of data per kilobyte, it
/// counts as a thousand bytes.
#[test]
fn offsets_without_bytes_grow_no_window() {
    let mut window = ReceiveWindow::new(16 << 20, MAX);
    let rtt = Some(Duration::from_millis(100));
    for ms in 0..1000 {
        window.on_held_up(16);
        let now = Instant::from_millis(ms);
        window.on_received(now, rtt, 16 << 10).unwrap();
        window.measure(now, rtt);
    }
    assert_eq!(window.window(), 16 << 20);
    assert!(window.earned() <= 16 * 400, "{}", window.earned());
}

/// An application that doesn't read, one at rest or with a thin flow, and the maximum.
#[test]
fn a_window_grows_with_what_is_read_up_to_its_maximum() {
    for (initial, most, demand, consumed, expected) in [
        (1 << 20, MAX, 100_000_000, 0, 1 << 20),
        (1 << 20, MAX, 20_000, 100, 1 << 20),
        (10_000, 50_000, 1_000_000, 100, 50_000),
    ] {
        let mut path = Path::new(50, initial);
        path.window = ReceiveWindow::new(initial, most);
        for _ in 0..20 {
            path.round(demand, consumed);
        }
        assert_eq!(path.window.window(), expected);
        assert!(consumed > 0 || path.sent == initial);
    }
}

/// The window of a steady flow becomes a few bandwidth-delay products, not the maximum.
#[test]
fn a_steady_flow_has_a_window_in_proportion() {
    let bdp = 5_000_000;
    let mut path = Path::new(100, 1 << 20);
    let mut demand = 12_000;
    for _ in 0..200 {
        path.round(demand, 100);
        demand = (demand * 2).min(bdp);
    }
    let window = path.window.window();
    let proportion = 5 * bdp..=SPEEDING_UP * bdp * 11 / 10;
    assert!(proportion.contains(&window), "{window}");
}
