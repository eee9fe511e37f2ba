use proptest::prelude::*;

use super::*;
use crate::base::rtt_sketch::STRETCH;
use crate::testing::{at, ms};

const CAPACITY: u64 = 2_500_000;

fn auto() -> TRho {
    let ceiling = Duration::from_secs(10);
    TRho::new(Instant::ZERO, Interval::Auto { ceiling }, CAPACITY)
}

/// A port that packets pass at even intervals.
struct Port {
    t_rho: TRho,
    now: Instant,
    began: Instant,
    looked: Instant,
    intervals: u32,
}

impl Port {
    fn new() -> Self {
        Self {
            t_rho: auto(),
            now: Instant::ZERO,
            began: Instant::ZERO,
            looked: Instant::ZERO,
            intervals: 0,
        }
    }

    /// Lets `flows` send for `time`: bytes per millisecond and the RTT stated in their packets.
    fn run(&mut self, time: Duration, capacity: u64, flows: &[(u32, Duration)]) {
        for _ in 0..time.as_millis() {
            self.now += ms(1);
            for (bytes, rtt) in flows {
                if self.t_rho.see(self.now, *bytes, Some(*rtt)) {
                    let _ = self.t_rho.review(self.now);
                }
            }
            if self.now - self.looked >= self.t_rho.current() / 8 {
                let _ = self.t_rho.review(self.now);
                self.looked = self.now;
            }
            self.tick(capacity);
        }
    }

    fn tick(&mut self, capacity: u64) {
        let elapsed = self.now - self.began;
        if elapsed >= self.t_rho.current() {
            let before = self.t_rho.current();
            let _ = self.t_rho.on_interval(self.now, elapsed, capacity);
            assert!(self.t_rho.current() <= before * 2 + ms(1));
            self.began = self.now;
            self.intervals += 1;
        }
    }

    fn millis(&self) -> u128 {
        self.t_rho.current().as_millis()
    }
}

/// A share of 2500 bytes per millisecond, in percent.
fn of(share: u32, rtt_ms: u64) -> (u32, Duration) {
    (25 * share, ms(rtt_ms))
}

#[test]
fn the_first_flow_replaces_the_assumption() {
    let mut t_rho = auto();
    assert_eq!(t_rho.current(), ms(1000));
    assert!(t_rho.see(Instant::ZERO, 1500, Some(ms(40))));
    assert!(t_rho.review(Instant::ZERO));
    assert_eq!((t_rho.current(), t_rho.advertised_ms()), (ms(92), 92));
    // A flow with a longer RTT that sends as much does not change the interval, because the
    // shortest RTTs decide.
    assert!(t_rho.see(Instant::ZERO, 1500, Some(ms(400))));
    assert!(!t_rho.review(Instant::ZERO));
    assert_eq!(t_rho.current(), ms(92));
}

/// Below half of the capacity, the first packets of a flow with a short RTT determine the interval,
/// however long the RTTs of other flows are.
#[test]
fn the_shortest_rule_a_light_port() {
    for share in [2, 12, 40] {
        let mut port = Port::new();
        port.run(ms(60_000), CAPACITY, &[of(share, 88_000)]);
        assert_eq!(port.millis(), 10_000);
        port.run(ms(100), CAPACITY, &[of(share, 88_000), of(10, 40)]);
        assert_eq!(port.millis(), 92, "{share}");
        port.run(ms(5000), CAPACITY, &[of(share, 88_000), of(8, 40)]);
        assert_eq!(port.millis(), 92, "{share}");
    }
}

/// Above half of the capacity, less than a tenth of the bytes does not lengthen the interval, and
/// less than a third lengthens it by at most STRETCH, whatever RTT their packets state and however
/// long they continue.
#[test]
fn a_share_stretches_it_by_so_much() {
    let rest = [
        (8, 92),
        (12, 92 * STRETCH),
        (30, 92 * STRETCH),
        (40, 10_000),
    ];
    for (share, most) in rest {
        let mut port = Port::new();
        port.run(ms(2000), CAPACITY, &[of(100, 40)]);
        let flows = [of(share, 88_000), of(100 - share, 40)];
        port.run(ms(200_000), CAPACITY, &flows);
        let found = port.millis();
        assert!(found <= u128::from(most) * 102 / 100, "{share}: {found}");
        assert!(found >= u128::from(most) * 95 / 100, "{share}: {found}");
    }
}

#[test]
fn rises_twofold_per_interval_at_most_and_falls_within_seconds() {
    let mut port = Port::new();
    port.run(ms(3000), CAPACITY, &[of(100, 40)]);
    assert_eq!(port.millis(), 92);
    // The path becomes long: 92, 184, … once a tenth of the recent bytes states the longer RTT.
    port.intervals = 0;
    while port.millis() < 1147 {
        port.run(ms(1), CAPACITY, &[of(100, 500)]);
        assert!(port.intervals < 12, "{}", port.millis());
    }
    assert_eq!(port.millis(), 1147);
    // The path becomes short again.
    port.run(ms(5000), CAPACITY, &[of(100, 40)]);
    assert!(port.millis() < 230, "{}", port.millis());
    port.run(ms(2000), CAPACITY, &[of(100, 40)]);
    assert!(port.millis() < 110, "{}", port.millis());
}

/// A tenth of the bytes gets its interval, after several more intervals, but a twentieth does not.
#[test]
fn bytes_decide() {
    let mut port = Port::new();
    port.run(ms(2000), CAPACITY, &[of(100, 40)]);
    port.run(ms(10_000), CAPACITY, &[of(95, 40), of(5, 400)]);
    assert_eq!(port.millis(), 92);
    port.run(ms(10_000), CAPACITY, &[of(85, 40), of(15, 400)]);
    assert_eq!(port.millis(), 918);
    // With slightly fewer bytes, it keeps its interval.
    port.run(ms(10_000), CAPACITY, &[of(92, 40), of(8, 400)]);
    assert_eq!(port.millis(), 918);
    port.run(ms(10_000), CAPACITY, &[of(97, 40), of(3, 400)]);
    assert!(port.millis() < 110, "{}", port.millis());
}

/// One forged packet, one per second, or one as the very first packet: classes 80 and 1, small and
/// large.
#[test]
fn single_packets_do_not_count() {
    let longest = Duration::from_secs(88);
    let shortest = Duration::from_micros(100);
    for (forged, first) in [(longest, true), (longest, false), (shortest, true)] {
        for bytes in [84, 1500, 9000] {
            let mut port = Port::new();
            if first {
                port.run(ms(1), CAPACITY, &[(bytes, forged)]);
            }
            port.run(ms(3000), CAPACITY, &[of(100, 80)]);
            let honest = port.millis();
            assert_eq!(honest, 184);
            for _ in 0..60 {
                port.run(ms(1), CAPACITY, &[(bytes, forged)]);
                port.run(ms(999), CAPACITY, &[of(100, 80)]);
                assert_eq!(port.millis(), honest, "{forged:?} {bytes}");
            }
        }
    }
}

/// One packet per second and nothing else for a minute: an idle port keeps its interval.
#[test]
fn a_packet_now_and_then_leaves_an_idle_port_alone() {
    let mut port = Port::new();
    for _ in 0..60 {
        port.run(ms(1), CAPACITY, &[(1500, Duration::from_secs(88))]);
        port.run(ms(999), CAPACITY, &[]);
    }
    assert_eq!(port.millis(), 1000);
    port.run(ms(2000), CAPACITY, &[of(100, 80)]);
    assert_eq!(port.millis(), 184);
}

/// An outage does not lengthen the interval much: the minimum of 64 packets is computed from the
/// mean capacity, and a link with pauses is measured over a short time.
#[test]
fn outages_and_slow_links() {
    for (outage, most) in [(300, 200), (5000, 200)] {
        let mut port = Port::new();
        port.run(ms(20_000), CAPACITY, &[of(100, 40)]);
        assert_eq!(port.millis(), 92);
        // Nothing leaves, and packets arrive occasionally.
        for _ in 0..outage / 100 {
            port.run(ms(1), 0, &[(1500, ms(40))]);
            port.run(ms(99), 0, &[]);
            assert!(port.millis() <= most, "{}", port.millis());
        }
        port.run(ms(6000), CAPACITY, &[of(100, 40)]);
        assert!(port.millis() < 110, "{}", port.millis());
    }
    // A link that remains slow measures over enough packets.
    let mut port = Port::new();
    port.run(ms(60_000), 50_000, &[(50, ms(40))]);
    // 96 000 bytes at 50 000 per second, or slightly less while the mean still includes a higher
    // capacity.
    assert!((1700..1921).contains(&port.millis()), "{}", port.millis());
}

#[test]
fn never_beyond_the_ceiling_nor_below_the_floor() {
    let mut port = Port::new();
    port.run(ms(120_000), CAPACITY, &[of(100, 60_000)]);
    assert_eq!(port.millis(), 10_000);
    // The interval falls within seconds.
    port.run(ms(20_000), CAPACITY, &[(2500, Duration::from_micros(100))]);
    assert!((50..60).contains(&port.millis()), "{}", port.millis());
    // Silent flows are forgotten, so that nothing is known again.
    port.run(ms(11_000), CAPACITY, &[]);
    assert_eq!(port.millis(), 1000);
}

#[test]
fn a_fixed_interval_stays() {
    let mut t_rho = TRho::new(Instant::ZERO, Interval::Fixed(ms(200)), CAPACITY);
    assert!(!t_rho.see(Instant::ZERO, 1500, Some(ms(5000))));
    assert!(!t_rho.on_interval(at(200), ms(200), CAPACITY));
    assert_eq!((t_rho.current(), t_rho.advertised_ms()), (ms(200), 200));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Forgers with less than a share x of the bytes lengthen no interval by more than x, whatever
    /// RTT they state.
    #[test]
    fn a_share_of_bytes_moves_it_by_no_more(
        share in 1u32..50,
        rtt_ms in 1u64..88_000,
        honest_ms in 20u64..400,
    ) {
        let mut port = Port::new();
        port.run(ms(6000), CAPACITY, &[of(100, honest_ms)]);
        for _ in 0..20 {
            let before = port.millis();
            let intervals = port.intervals;
            while port.intervals == intervals {
                port.run(ms(1), CAPACITY, &[of(share, rtt_ms), of(100 - share, honest_ms)]);
            }
            let most = before * u128::from(100 + share) / 100;
            prop_assert!(port.millis() <= most + 1, "{before} {} {share}", port.millis());
        }
    }

    #[test]
    fn any_packets(
        packets in prop::collection::vec(
            (any::<u32>(), any::<Option<Duration>>(), 0u64..1 << 40, any::<u64>()),
            0..100,
        ),
    ) {
        let mut t_rho = auto();
        let mut now = Instant::ZERO;
        for (bytes, rtt, pause, capacity) in packets {
            now += Duration::from_nanos(pause);
            let _ = t_rho.see(now, bytes, rtt);
            let _ = t_rho.review(now);
            let _ = t_rho.on_interval(now, Duration::from_nanos(pause), capacity);
            prop_assert!((LEAST..=Duration::from_secs(10)).contains(&t_rho.current()));
        }
    }
}
