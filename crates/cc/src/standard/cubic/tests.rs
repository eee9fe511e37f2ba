//! Known answers of RFC 9438's formulas, and a comparison of the integer rule with the oracle.

use proptest::prelude::*;

use super::{Cubic, CubicController, Curve, oracle};
use crate::base::{Duration, Instant};
use crate::law::Controller;
use crate::standard::loss_based::{Avoidance, Cause};
use crate::testing::{acked, lost, ms};

const MSS: u64 = 1500;

fn us(micros: u64) -> Instant {
    Instant::from_micros(micros)
}

#[test]
fn oracle_gives_the_known_answers() {
    let k = oracle::k(100.0, 70.0);
    assert!((k - 4.217_163_326_508_746).abs() < 1e-12);
    let near = |t: f64, expected: f64| assert!((oracle::w(t, k, 100.0) - expected).abs() < 1e-9);
    near(0.0, 70.0);
    near(1.0, 86.680_763_835_129_88);
    near(2.0, 95.640_335_686_638_78);
    near(k + 1.0, 100.4);
    near(6.0, 102.266_703_256_464_42);
}

#[test]
fn curve_gives_the_known_answers() {
    let curve = Curve::new(100 * MSS, 70 * MSS, MSS);
    assert_eq!(curve.k_us, 4_217_163);
    for (t, bytes) in [
        (0, 105_001),
        (1_000_000, 130_022),
        (2_000_000, 143_461),
        (4_217_163, 150_000),
        (6_000_000, 153_400),
    ] {
        assert_eq!(curve.at(t, MSS), bytes, "W({t} µs)");
    }
}

#[test]
fn one_ack_moves_towards_the_target() {
    let mut rule = Cubic::default();
    // A cut from 100 packets, followed by avoidance at 70.
    let window = rule.on_congestion(us(0), 100 * MSS, MSS, Cause::Loss);
    assert_eq!(window, 70 * MSS);
    let _ = rule.on_ack(us(0), &acked(1, 0, ms(100)), window, MSS);
    let mut ack = acked(1, MSS, ms(100));
    ack.srtt = ms(100);
    let added = rule.on_ack(us(1_000_000), &ack, window, MSS);
    // 0.25549392370776736 packets.
    assert_eq!(added, 383);
}

#[test]
fn fast_convergence_remembers_less() {
    let mut rule = Cubic::default();
    let _ = rule.on_congestion(us(0), 100 * MSS, MSS, Cause::Loss);
    let window = rule.on_congestion(us(1), 90 * MSS, MSS, Cause::Loss);
    assert_eq!(window, 63 * MSS);
    let _ = rule.on_ack(us(2), &acked(1, 0, ms(1)), window, MSS);
    // W_max = 76.5 packets: K = cbrt(13.5 / 0.4) s.
    let expected = Curve::new(76 * MSS + MSS / 2, window, MSS);
    assert_eq!(expected.k_us, 3_231_652);
    let mut ack = acked(1, window, Duration::from_micros(1));
    ack.srtt = Duration::ZERO;
    let added = rule.on_ack(us(2 + expected.k_us), &ack, window, MSS);
    assert_eq!(window + added, 76 * MSS + MSS / 2);
}

#[test]
fn reno_estimate_grows_by_nine_seventeenths_per_round() {
    let mut rule = Cubic::default();
    let window = rule.on_congestion(us(0), 100 * MSS, MSS, Cause::Loss);
    // With a tiny RTT the cubic curve is constant, so the estimate determines the window:
    // 70.52941176 after one round of 70.
    for _ in 0..70 {
        let _ = rule.on_ack(us(0), &acked(1, MSS, Duration::ZERO), window, MSS);
    }
    let last = rule.on_ack(us(0), &acked(1, 0, Duration::ZERO), window, MSS);
    assert_eq!(last, MSS * 9 / 17);
}

#[test]
fn avoidance_without_a_loss_starts_on_its_plateau() {
    let mut controller = CubicController::cubic(1500, Some(100));
    controller.take_over(100 * MSS);
    controller.on_ack(us(0), &acked(1, MSS, ms(100)));
    // K = 0: W = 100.4 after a second.
    let mut now = 0;
    for n in 0..1000u64 {
        now += 1000;
        controller.on_ack(us(now), &acked(n + 2, MSS, Duration::from_micros(1)));
    }
    let window = controller.window();
    assert!((100 * MSS..=110 * MSS).contains(&window), "{window}");
}

#[test]
fn unused_time_does_not_count() {
    let grown = |pause: bool| {
        let mut rule = Cubic::default();
        let window = rule.on_congestion(us(0), 100 * MSS, MSS, Cause::Loss);
        let _ = rule.on_ack(us(0), &acked(1, 0, ms(100)), window, MSS);
        if pause {
            rule.on_unused(us(500_000));
            rule.on_unused(us(9_000_000));
        }
        let shift = if pause { 19_500_000 } else { 0 };
        // The pause lasts from 0.5 s to the next use.
        let resumed = 500_000 + shift;
        let _ = rule.on_ack(us(resumed), &acked(1, 0, ms(100)), window, MSS);
        rule.on_ack(us(resumed + 500_000), &acked(1, MSS, ms(100)), window, MSS)
    };
    assert_eq!(grown(true), grown(false));
}

#[test]
fn marked_packets_cut_as_losses_do() {
    let mut controller = CubicController::cubic(1500, Some(100));
    controller.on_congestion_experienced(us(10), us(0), 99);
    assert_eq!(controller.window(), 105_000);
    controller.on_loss(us(11), &lost(5, 99, ms(100)));
    assert_eq!(controller.window(), 105_000);
}

proptest! {
    /// W(t) differs from the real function by at most 10^-8 and 2 bytes.
    #[test]
    fn curve_equals_the_function(
        mtu in 512u64..=9000,
        packets in 2u64..1 << 33,
        share in 0.0f64..1.0,
        t_us in 0u64..1 << 34,
    ) {
        let w_max = packets * mtu;
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of w_max"
        )]
        let window = (w_max as f64 * share) as u64;
        let curve = Curve::new(w_max, window, mtu);
        let m = mtu as f64;
        let k = oracle::k(w_max as f64 / m, window as f64 / m);
        prop_assert!(curve.k_us as f64 <= k * 1e6 * (1.0 + 1e-12) + 1e-6);
        prop_assert!(curve.k_us as f64 >= k * 1e6 * (1.0 - 1e-12) - 1.0 - 1e-6);
        let exact = oracle::w(t_us as f64 / 1e6, curve.k_us as f64 / 1e6, w_max as f64 / m) * m;
        let exact = exact.clamp(0.0, crate::base::arith::MAX_BYTES as f64);
        let got = curve.at(t_us, mtu) as f64;
        let close = (got - exact).abs() <= exact.abs().max(w_max as f64) * 1e-8 + 2.0;
        prop_assert!(close, "{} {}", got, exact);
        prop_assert_eq!(curve.at(curve.k_us, mtu), w_max);
    }

    /// A stage of avoidance follows the oracle. It never shrinks, and grows by at most half a
    /// window per round.
    #[test]
    fn stage_follows_the_oracle(
        mtu in 512u64..=9000,
        packets in 10u64..1 << 24,
        rtt_us in 100u64..10_000_000,
        rounds in 1u64..60,
        (beta_ppm, beta) in prop::sample::select(vec![(700_000, 0.7), (800_000, 0.8)]),
    ) {
        let before = packets * mtu;
        let mut rule = Cubic::with_beta(beta_ppm);
        let mut window = rule.on_congestion(us(0), before, mtu, Cause::Loss);
        let start = window;
        let m = mtu as f64;
        prop_assert_eq!(window, before * beta_ppm / 1_000_000);
        let (exact, before) = (window as f64 / m, before as f64 / m);
        let mut stage = oracle::Stage::new(beta, exact, before, before);
        let mut now = 0;
        let mut ack = acked(1, 0, Duration::from_micros(rtt_us));
        let _ = rule.on_ack(us(now), &ack, window, mtu);
        for _ in 0..rounds {
            for _ in 0..8 {
                now += rtt_us / 8;
                ack.bytes = window / 8;
                let added = rule.on_ack(us(now), &ack, window, mtu);
                prop_assert!(added <= window / 16 + 1 + mtu);
                stage.on_ack(now as f64 / 1e6, rtt_us as f64 / 1e6, ack.bytes as f64 / m);
                window += added;
            }
        }
        let expected = stage.grown * m;
        let got = (window - start) as f64;
        // K is rounded down to 1 µs, and each acknowledgement may round by a byte.
        let tolerance = expected * 1e-4 + 1e-6 * window as f64 + 8.0 * rounds as f64 * 2.0;
        prop_assert!((got - expected).abs() <= tolerance, "{} {} ± {}", got, expected, tolerance);
    }
}
