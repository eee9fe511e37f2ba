//! Known answers and properties of the laws; what the sender does with them is in
//! `sender_tests.rs`.

use proptest::prelude::*;

use super::oracle;
use super::params::{AiBase, AiGrowth, VcpParams};
use super::scale::{Clamp, Scaling, alpha_q16, epsilon_q32, log2_gain};
use super::steering::{Moment, Steering};
use super::window::Window;
use crate::testing::ms;
use crate::{Duration, Instant, Load, VcpCode, VcpFeedback};

const KAPPA: u64 = 500_000;
const GAMMA: u64 = 980_000;

// --- The router's decision
// -------------------------------------------------------------------------------------------

#[test]
fn load_gives_the_known_answers() {
    for (lambda, queue, ppb, code) in [
        (1_500_000, 0, 612_244_897, VcpCode::Low),
        (1_959_999, 0, 799_999_591, VcpCode::Low),
        (1_960_000, 0, 800_000_000, VcpCode::High),
        (2_400_000, 99_999, 999_999_795, VcpCode::High),
        (2_400_000, 100_000, 1_000_000_000, VcpCode::Over),
        (2_450_000, 0, 1_000_000_000, VcpCode::Over),
        (0, 5_000_000, 1_020_408_163, VcpCode::Over),
        (0, 0, 0, VcpCode::Low),
    ] {
        let load = Load::new(lambda, queue, KAPPA, GAMMA, 12_500_000, ms(200));
        assert_eq!(
            (load.ppb(), load.code()),
            (ppb, code),
            "λ {lambda} q {queue}"
        );
    }
}

/// The least whole number of bytes that is not below `num/den` of γ·C·T − κ·q, by long division in
/// parts.
fn border(capacity: u64, t_us: u64, queue: u64, num: u128, den: u128) -> Option<u64> {
    // γ·C·T·num/den in 10^-12 bytes, as quotient and remainder of 10^12·den.
    let usable = u128::from(GAMMA) * u128::from(capacity) * u128::from(t_us) * num;
    let queue = u128::from(KAPPA) * u128::from(queue) * 1_000_000 * den;
    u64::try_from(usable.checked_sub(queue)?.div_ceil(1_000_000_000_000 * den)).ok()
}

proptest! {
    /// The codes change exactly where the fraction does.
    #[test]
    fn codes_change_at_the_exact_border(
        capacity_exp in 10u32..40,
        capacity_low in any::<u64>(),
        t_us in 1u64..65_535_000,
        queue in 0u64..1 << 40,
    ) {
        let capacity = ((1u64 << capacity_exp) | (capacity_low & ((1 << capacity_exp) - 1))).clamp(1000, 1_000_000_000_000);
        let interval = Duration::from_micros(t_us);
        let at = |lambda: u64| Load::new(lambda, queue, KAPPA, GAMMA, capacity, interval).code();
        for (num, den, below, from) in [(1, 1, VcpCode::High, VcpCode::Over), (4, 5, VcpCode::Low, VcpCode::High)] {
            if let Some(border) = border(capacity, t_us, queue, num, den) {
                prop_assert!(at(border) >= from);
                if border > 0 {
                    prop_assert!(at(border - 1) <= below);
                }
            }
        }
    }

    /// More load never lowers the code; more capacity or time never raises it.
    #[test]
    fn codes_are_monotone(
        lambda in 0u64..1 << 57,
        queue in 0u64..1 << 57,
        capacity in 1000u64..1_000_000_000_000,
        t_us in 1u64..65_535_000,
        more in 0u64..1 << 50,
    ) {
        let code = |lambda, queue, capacity: u64, t_us: u64| {
            let load = Load::new(lambda, queue, KAPPA, GAMMA, capacity, Duration::from_micros(t_us));
            (load.code(), load.ppb())
        };
        let base = code(lambda, queue, capacity, t_us);
        prop_assert!(code(lambda + more, queue, capacity, t_us) >= base);
        prop_assert!(code(lambda, queue + more, capacity, t_us) >= base);
        prop_assert!(code(lambda, queue, capacity + more % capacity, t_us) <= base);
        prop_assert!(code(lambda, queue, capacity, t_us + more % t_us) <= base);
    }
}

// --- Scaling
// -------------------------------------------------------------------------------------------------

#[test]
fn scaling_gives_the_known_answers() {
    let mild = log2_gain(62_500);
    assert!((mild - 0.087_462_841_250_339_4).abs() < 1e-15);
    for (rtt_ms, epsilon, q32, alpha) in [
        (20, 0.006_080_876_097_912_08, 26_117_163, 0.01),
        (100, 0.030_776_406_404_415_146, 132_183_658, 0.25),
        (200, 0.0625, 268_435_456, 1.0),
        (400, 0.128_906_25, 553_648_128, 4.0),
        (800, 0.163_649_927_542_484_3, 702_871_086, 16.0),
    ] {
        let seconds = rtt_ms as f64 / 1e3;
        assert!((oracle::epsilon_s(0.0625, seconds, 0.2, 2.5) - epsilon).abs() < 1e-15);
        let got = epsilon_q32(mild, rtt_ms * 1000, 200_000, 2.5);
        // Rounded down; where ε_s·2^32 is whole, the last bit of the logarithm may cost one.
        assert!((q32 - 1..=q32).contains(&got), "{rtt_ms} ms: {got}");
        assert!((oracle::alpha_s(1.0, seconds, 0.2) - alpha).abs() < 1e-12);
        let got = alpha_q16(1_000_000, rtt_ms * 1000, 200_000, Clamp::None);
        assert_eq!(got, (alpha * 65_536.0) as u64, "{rtt_ms} ms");
    }
}

#[test]
fn steep_scaling_gives_the_known_answers() {
    let steep = log2_gain(10_000_000);
    assert!((steep - 3.459_431_618_637_297_3).abs() < 1e-14);
    let got = epsilon_q32(steep, 500_000, 1_250_000, 1.0);
    assert!((6_912_744_000..=6_912_744_001).contains(&got), "{got}");
    let tenth = epsilon_q32(steep, 100_000, 1_250_000, 1.0) as f64 / 4_294_967_296.0;
    assert!((tenth - 0.211_466_515_268_381_9).abs() < 1e-9);
    // Beyond one interval per round trip the gain stays at ε.
    assert_eq!(
        epsilon_q32(steep, 3_000_000, 1_250_000, 1.0) >> 32,
        epsilon_q32(steep, 1_250_000, 1_250_000, 1.0) >> 32
    );
}

/// Five intervals per round trip: equation 5 has 1.0625^5 − 1, equation 6 α · 25. The bounds are
/// the authors' simulator's and the library's, not the paper's form's.
#[test]
fn the_papers_form_has_no_bounds_on_its_gains() {
    let (rtt, t_rho) = (Duration::from_millis(1000), Duration::from_millis(200));
    let ours = VcpParams::default();
    let mut paper = VcpParams::default();
    paper.as_published();
    let growth = |params: &VcpParams| {
        let gains = Scaling::new(params).gains(params, rtt, t_rho);
        (
            gains.mild_q32 as f64 / 4_294_967_296.0,
            gains.alpha_q16 >> 16,
        )
    };
    let (epsilon, alpha) = growth(&paper);
    assert!((epsilon - 0.354_081_15).abs() < 1e-6, "{epsilon}");
    assert_eq!(alpha, 25);
    let (epsilon, _) = growth(&ours);
    assert!((epsilon - 0.163_649_93).abs() < 1e-6, "{epsilon}");
    // A window times a thousand per round trip is the end of it for anybody.
    let far = Scaling::new(&paper).gains(&paper, Duration::from_secs(1000), t_rho);
    assert_eq!(far.mild_q32, 1000 << 32);
}

#[test]
fn the_simulators_ai_scaling() {
    for (rtt_ms, expected) in [(10, 0.02), (20, 0.04), (100, 1.0), (500, 25.0), (600, 26.0)] {
        let got = alpha_q16(1_000_000, rtt_ms * 1000, 100_000, Clamp::Both);
        assert_eq!(got, (expected * 65_536.0) as u64, "{rtt_ms} ms");
    }
}

// --- The window
// -------------------------------------------------------------------------------------------------

const MTU: u64 = 1500;

fn packets(window: &Window) -> f64 {
    window.q16() as f64 / 65_536.0 / MTU as f64
}

#[test]
fn ten_rounds_of_low_and_of_high() {
    let epsilon = epsilon_q32(log2_gain(62_500), 100_000, 200_000, 2.5);
    let alpha = alpha_q16(1_000_000, 100_000, 200_000, Clamp::Long);
    let mut low = Window::new(10 * MTU);
    let mut high = Window::new(10 * MTU);
    for _ in 0..10 {
        for _ in 0..low.bytes() / MTU {
            low.add(Window::mi(MTU, epsilon));
        }
        for _ in 0..high.bytes() / MTU {
            let ai = high.ai(MTU, alpha, MTU);
            high.add(ai);
        }
    }
    assert!(
        (packets(&low) - 13.354_628_298_081).abs() < 1e-6,
        "{}",
        packets(&low)
    );
    // AI divides by whole bytes of the window, hence the wider margin.
    assert!(
        (packets(&high) - 12.371_469_444_820).abs() < 1e-4,
        "{}",
        packets(&high)
    );
}

fn params() -> VcpParams {
    VcpParams {
        ai_growth: AiGrowth::Constant,
        ai_base: AiBase::TRho,
        ..VcpParams::default()
    }
}

fn moment(now_ms: u64) -> Moment {
    Moment {
        now: Instant::from_millis(now_ms),
        srtt: ms(100),
        mtu: MTU,
        limited: true,
        braked: false,
    }
}

fn codes(low: u64, high: u64, over: u64) -> VcpFeedback {
    VcpFeedback {
        packets: [0, low, high, over],
        bytes: [0, low * MTU, high * MTU, over * MTU],
        sum_r: low << 16,
        ..VcpFeedback::default()
    }
}

#[test]
fn one_cut_then_freeze_then_grace() {
    let params = params();
    let mut steering = Steering::new(Instant::ZERO, 100 * MTU, &params);
    steering.apply(&params, moment(0), &codes(0, 0, 1));
    assert_eq!(steering.bytes(), 87 * MTU + MTU / 2);
    for now in [1, 100, 199] {
        steering.apply(&params, moment(now), &codes(0, 0, 5));
    }
    assert_eq!(steering.bytes(), 87 * MTU + MTU / 2, "FREEZE absorbs OVER");
    for _ in 0..87 {
        steering.apply(&params, moment(250), &codes(0, 0, 1));
    }
    let window = steering.bytes() as f64 / MTU as f64;
    assert!(
        (window - 87.748_223_390_660).abs() < 1e-3,
        "GRACE takes OVER as HIGH: {window}"
    );
    steering.apply(&params, moment(301), &codes(0, 0, 1));
    assert!((steering.bytes() as f64 / MTU as f64 - window * 0.875).abs() < 1e-3);
}

#[test]
fn a_batch_is_mi_then_ai_then_md() {
    // At rtt = t_ρ, ε_s = 0.0625 and α_s = 1.
    let params = params();
    let mut steering = Steering::new(Instant::ZERO, 20 * MTU, &params);
    let moment = Moment {
        srtt: ms(200),
        ..moment(0)
    };
    steering.apply(&params, moment, &codes(10, 5, 0));
    let window = steering.bytes() as f64 / MTU as f64;
    assert!((window - 20.867_424_242).abs() < 1e-3, "{window}");
    steering.apply(&params, moment, &codes(0, 0, 3));
    let window = steering.bytes() as f64 / MTU as f64;
    assert!((window - 20.867_424_242 * 0.875).abs() < 2e-3, "{window}");
}

#[test]
fn an_over_that_is_meant_for_others_begins_a_cycle_without_a_cut() {
    // After 10 intervals of HIGH α is 2^10 times what it was; an OVER leaves half of the doublings.
    let params = VcpParams {
        ai_growth: AiGrowth::Doubling { intervals: 1 },
        ..params()
    };
    let window = 100_000 * MTU;
    let added = |word: VcpFeedback| {
        let mut steering = Steering::new(Instant::ZERO, window, &params);
        steering.apply(&params, moment(2000), &word);
        let before = steering.bytes();
        // A window's worth of HIGH: α_s, a quarter of α, packets.
        steering.apply(&params, moment(2001), &codes(0, before / MTU, 0));
        (before, (steering.bytes() - before) / MTU)
    };
    let high = codes(0, 1, 0);
    let full = |word| VcpFeedback {
        load_128: 130,
        ..word
    };
    let (before, grown) = added(high);
    assert!(before >= window && (255..=257).contains(&grown), "{grown}");
    let (before, spared) = added(full(high));
    assert!(before >= window, "no cut");
    assert!((7..=9).contains(&spared), "{spared}");
    let (before, cut) = added(full(codes(0, 0, 1)));
    assert_eq!((before, cut), (window / 8 * 7, spared));
}

#[test]
fn feedback_that_was_away_counts_for_one_round_trip() {
    let params = params();
    let mut steering = Steering::new(Instant::ZERO, 20 * MTU, &params);
    steering.apply(&params, moment(0), &codes(1, 0, 0));
    let before = steering.bytes();
    steering.apply(&params, moment(1000), &codes(5000, 0, 0));
    // 20 packets × ε_s(100 ms) = 0.6 packets, not 150.
    assert!(
        steering.bytes() - before <= MTU * 2 / 3,
        "{}",
        steering.bytes()
    );
    // And never more than double from one acknowledgement.
    let mut steering = Steering::new(Instant::ZERO, 20 * MTU, &params);
    steering.apply(&params, moment(0), &codes(1_000_000, 0, 0));
    assert_eq!(steering.bytes(), 40 * MTU);
}

#[test]
fn an_unused_window_grows_by_no_code_but_is_cut_by_over() {
    let params = params();
    let mut steering = Steering::new(Instant::ZERO, 20 * MTU, &params);
    let unused = Moment {
        limited: false,
        ..moment(0)
    };
    steering.apply(&params, unused, &codes(100, 100, 0));
    assert_eq!(steering.bytes(), 20 * MTU);
    steering.apply(&params, unused, &codes(0, 0, 1));
    assert_eq!(steering.bytes(), 20 * MTU * 7 / 8);
}

#[test]
fn r_splits_low_between_mi_and_ai() {
    let params = VcpParams {
        ai_growth: AiGrowth::Constant,
        ..VcpParams::with_bise()
    };
    let mut steering = Steering::new(Instant::ZERO, 100 * MTU, &params);
    steering.hear_t_rho(ms(250));
    let feedback = VcpFeedback {
        sum_r: 100 * (1 << 14),
        bise: true,
        ..codes(100, 0, 0)
    };
    steering.apply(&params, moment(0), &feedback);
    // r = ¼: 100 packets × (11^0.4 − 1)/4, then 75 packets of AI at α_s = 0.16.
    let mi = 25.0 * (11f64.powf(0.4) - 1.0);
    let expected = 100.0 + mi + 75.0 * 0.16 / (100.0 + mi);
    let window = steering.bytes() as f64 / MTU as f64;
    assert!((window - expected).abs() < 1e-3, "{window} {expected}");
    // Where a router on the way runs no BISE, neither its MI nor r is exceeded.
    let mut mixed = Steering::new(Instant::ZERO, 100 * MTU, &params);
    mixed.hear_t_rho(ms(250));
    let feedback = VcpFeedback {
        bise: false,
        ..feedback
    };
    mixed.apply(&params, moment(0), &feedback);
    let expected = 100.0 * 1.0625f64.powf(0.4);
    let window = mixed.bytes() as f64 / MTU as f64;
    assert!((window - expected).abs() < 1e-2, "{window} {expected}");
}

#[test]
fn alpha_doubles_per_interval_and_starts_over_at_half_the_way() {
    let params = VcpParams {
        ai_growth: AiGrowth::Doubling { intervals: 1 },
        ..VcpParams::default()
    };
    // A round trip of HIGH at rtt = t_ρ adds α packets, far below a quarter of the window.
    let mut steering = Steering::new(Instant::ZERO, 10_000 * MTU, &params);
    let mut added = |now_ms: u64, over: bool| {
        let moment = Moment {
            srtt: ms(200),
            ..moment(now_ms)
        };
        let before = steering.bytes();
        let round = before / MTU;
        steering.apply(&params, moment, &codes(0, round, 0));
        let grown = (steering.bytes() - before) as f64 / MTU as f64;
        if over {
            steering.apply(&params, moment, &codes(0, 0, 1));
        }
        grown
    };
    for (now, alpha) in [(0, 1.0), (200, 2.0), (400, 4.0), (500, 5.656)] {
        let got = added(now, false);
        assert!((got - alpha).abs() < 0.02 * alpha, "{now}: {got} {alpha}");
    }
    // After four doublings and an OVER: two are kept.
    let got = added(800, true);
    assert!((got - 16.0).abs() < 0.3, "{got}");
    let got = added(800, false);
    assert!((got - 4.0).abs() < 0.1, "{got}");
}

#[test]
fn grown_alpha_stays_below_a_quarter_of_the_window_per_interval() {
    let params = VcpParams::default();
    let mut steering = Steering::new(Instant::ZERO, 20 * MTU, &params);
    let at_rtt = |now_ms: u64| Moment {
        srtt: ms(200),
        ..moment(now_ms)
    };
    steering.apply(&params, at_rtt(0), &codes(0, 1, 0));
    for round in 1..30 {
        let before = steering.bytes();
        steering.apply(&params, at_rtt(200 * round), &codes(0, before / MTU, 0));
        assert!(steering.bytes() <= before + before / 4 + 1, "round {round}");
    }
    assert!(steering.bytes() > 1000 * MTU);
}

/// After an outage, or a long time without OVER, α is large; taken for HIGH in GRACE, OVER would
/// give back what the cut took, for good.
#[test]
fn an_overload_that_lasts_is_cut_however_far_alpha_had_grown() {
    let params = VcpParams::default();
    for gap in [true, false] {
        let mut steering = Steering::new(Instant::ZERO, 100 * MTU, &params);
        steering.apply(&params, moment(0), &codes(0, 1, 0));
        for round in 1..50 {
            if !gap {
                steering.apply(&params, moment(100 * round), &codes(0, 1, 0));
            }
        }
        let before = steering.bytes();
        for step in 0..500 {
            let acked = steering.bytes() / MTU / 10;
            steering.apply(&params, moment(5000 + 10 * step), &codes(0, 0, acked));
        }
        let left = steering.bytes();
        assert!(left < before / 2, "{gap}: {left} of {before}");
    }
}

proptest! {
    /// MI rounds down by less than a byte's 2^-32 per acknowledged byte and one unit.
    #[test]
    fn mi_is_within_its_bound(
        acked in 1u64..1 << 40,
        rtt_us in 1u64..65_535_000,
        t_rho_us in 1000u64..65_535_000,
        steep: bool,
    ) {
        let (epsilon, ppm, cap) = if steep { (10.0, 10_000_000, 1.0) } else { (0.0625, 62_500, 2.5) };
        let q32 = epsilon_q32(log2_gain(ppm), rtt_us, t_rho_us, cap);
        let got = Window::mi(acked, q32) as f64 / 65_536.0;
        let exact = acked as f64 * oracle::epsilon_s(epsilon, rtt_us as f64, t_rho_us as f64, cap);
        // The oracle's own 2^x − 1 is good to 2^-52 of the power, not of the difference.
        let tolerance = acked as f64 * (2f64.powi(-32) + 2f64.powi(-50)) + 2f64.powi(-16) + exact * 1e-12;
        prop_assert!(got <= exact + exact * 1e-12 + acked as f64 * 2f64.powi(-50), "{} {}", got, exact);
        prop_assert!((got - exact).abs() <= tolerance, "{} {} ± {}", got, exact, tolerance);
    }

    /// AI at a fixed window adds up to the exact sum within one unit.
    #[test]
    fn ai_adds_up(
        mtu in 512u64..=9000,
        window_packets in 1u64..1 << 30,
        alpha_q16 in 1u64..1 << 30,
        acks in prop::collection::vec(1u64..1 << 20, 1..100),
    ) {
        let mut window = Window::new(mtu * window_packets);
        let divisor = u128::from(mtu * window_packets);
        let mut sum = 0u128;
        let mut exact = 0u128;
        for acked in acks {
            sum += u128::from(window.ai(acked, alpha_q16, mtu));
            exact += u128::from(alpha_q16) * u128::from(mtu) * u128::from(acked);
        }
        prop_assert_eq!(sum, exact / divisor);
    }

    /// Many rounds against the oracle, with the growth kept apart.
    #[test]
    fn windows_follow_the_oracle(
        mtu in 512u64..=9000,
        start in 1u64..1 << 20,
        rtt_us in 100u64..1_000_000,
        low: bool,
        acks in 1u64..2000,
    ) {
        let t_rho_us = 200_000;
        let mut window = Window::new(start * mtu);
        let mut exact = oracle::Window::new(start as f64);
        let epsilon = epsilon_q32(log2_gain(62_500), rtt_us, t_rho_us, 2.5);
        let alpha = alpha_q16(1_000_000, rtt_us, t_rho_us, Clamp::None);
        for _ in 0..acks {
            if low {
                window.add(Window::mi(mtu, epsilon));
                exact.low(oracle::epsilon_s(0.0625, rtt_us as f64, t_rho_us as f64, 2.5));
            } else {
                let ai = window.ai(mtu, alpha, mtu);
                window.add(ai);
                exact.high(oracle::alpha_s(1.0, rtt_us as f64, t_rho_us as f64));
            }
        }
        let got = (window.q16() - ((start * mtu) << 16)) as f64 / 65_536.0;
        let expected = exact.grown() * mtu as f64;
        // α_s itself is rounded down to 2^-16 packets; the divisor to whole bytes.
        let alpha_exact = oracle::alpha_s(1.0, rtt_us as f64, t_rho_us as f64) * 65_536.0;
        let rounding = if low { 1e-6 } else { 1.0 / alpha_exact.max(1.0) + 2.0 / (start * mtu) as f64 };
        let tolerance = expected * rounding + acks as f64 * 2f64.powi(-15) + 1e-3;
        prop_assert!(got <= expected + tolerance && got + tolerance >= expected, "{} {} ± {}", got, expected, tolerance);
        prop_assert!(exact.packets() >= start as f64);
    }

    /// Whatever codes come, the window stays at or above a packet, never more than doubles per
    /// acknowledgement, and is cut once per interval and round trip at most.
    #[test]
    fn any_codes_keep_the_window_sane(
        batches in prop::collection::vec((0u64..50, 0u64..50, 0u64..50, 0u64..400), 1..200),
        t_rho_ms in 1u64..2000,
        bise: bool,
    ) {
        let params = if bise { VcpParams::with_bise() } else { VcpParams::default() };
        let mut steering = Steering::new(Instant::ZERO, 10 * MTU, &params);
        steering.hear_t_rho(ms(t_rho_ms));
        let mut now = 0;
        let mut last_cut: Option<u64> = None;
        for (low, high, over, gap) in batches {
            now += gap;
            let feedback = VcpFeedback { bise, ..codes(low, high, over) };
            let before = steering.bytes();
            let cut_before = steering.is_cut();
            steering.apply(&params, moment(now), &feedback);
            prop_assert!(steering.bytes() >= MTU);
            prop_assert!(steering.bytes() <= before * 2);
            if steering.bytes() < before && low + high == 0 {
                if let Some(last) = last_cut {
                    prop_assert!(now - last >= t_rho_ms + 100, "cut at {} and {}", last, now);
                }
                last_cut = Some(now);
            } else if !cut_before && steering.is_cut() {
                last_cut = Some(now);
            }
        }
    }
}
