//! Tests how codes change the window.

use crate::base::Instant;
use crate::signals::VcpFeedback;
use crate::testing::{at, ms};
use crate::vcp::params::{AiGrowth, VcpParams};
use crate::vcp::scale::{alpha_q16, epsilon_q32, ln_gain};
use crate::vcp::sender::Window;
use crate::vcp::sender::steering::{Moment, Steering};

pub(super) const MTU: u64 = 1500;

fn packets(window: &Window) -> f64 {
    window.q16() as f64 / 65_536.0 / MTU as f64
}

/// [VCP-ext eq. 4] and [VCP-ext eq. 3].
#[test]
fn ten_rounds_of_low_and_of_high() {
    let epsilon = epsilon_q32(ln_gain(62_500), 100_000, 200_000, Some(2_500_000));
    let alpha = alpha_q16(1_000_000, 100_000, 200_000, true);
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
    let low = packets(&low);
    assert!((low - 13.354_628_298_081).abs() < 1e-6, "{low}");
    // AI divides by whole bytes of the window, so the margin is wider.
    let high = packets(&high);
    assert!((high - 12.371_469_444_820).abs() < 1e-4, "{high}");
}

fn params() -> VcpParams {
    VcpParams {
        ai_growth: AiGrowth::Constant,
        ..VcpParams::default()
    }
}

pub(super) fn moment(now_ms: u64) -> Moment {
    Moment {
        now: at(now_ms),
        srtt: ms(100),
        mtu: MTU,
        limited: true,
        braked: false,
    }
}

/// The same with an RTT of t_ρ.
fn slow(now_ms: u64) -> Moment {
    Moment {
        srtt: ms(200),
        ..moment(now_ms)
    }
}

fn in_packets(steering: &Steering) -> f64 {
    steering.bytes() as f64 / MTU as f64
}

pub(super) fn codes(low: u64, high: u64, over: u64) -> VcpFeedback {
    crate::testing::codes([0, low, high, over], MTU)
}

/// The cut is [VCP-ext eq. 2].
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
    let window = in_packets(&steering);
    // GRACE takes OVER as HIGH.
    assert!((window - 87.748_223_390_660).abs() < 1e-3, "{window}");
    steering.apply(&params, moment(301), &codes(0, 0, 1));
    assert!((in_packets(&steering) - window * 0.875).abs() < 1e-3);
}

#[test]
fn a_batch_is_mi_then_ai_then_md() {
    // With rtt = t_ρ, ε_s = 0.0625 and α_s = 1.
    let params = params();
    let mut steering = Steering::new(Instant::ZERO, 20 * MTU, &params);
    let moment = slow(0);
    steering.apply(&params, moment, &codes(10, 5, 0));
    let window = in_packets(&steering);
    assert!((window - 20.867_424_242).abs() < 1e-3, "{window}");
    steering.apply(&params, moment, &codes(0, 0, 3));
    let window = in_packets(&steering);
    assert!((window - 20.867_424_242 * 0.875).abs() < 2e-3, "{window}");
}

#[test]
fn an_over_that_is_meant_for_others_begins_a_cycle_without_a_cut() {
    // After 10 intervals of HIGH, α has grown by a factor of 2^10; an OVER leaves half of the
    // doublings.
    let params = VcpParams {
        ai_growth: AiGrowth::Doubling { intervals: 1 },
        ..params()
    };
    let window = 100_000 * MTU;
    let added = |word: VcpFeedback| {
        let mut steering = Steering::new(Instant::ZERO, window, &params);
        steering.apply(&params, moment(2000), &word);
        let before = steering.bytes();
        // A window's worth of HIGH: α_s packets, which is a quarter of α.
        steering.apply(&params, moment(2001), &codes(0, before / MTU, 0));
        (before, (steering.bytes() - before) / MTU)
    };
    let high = codes(0, 1, 0);
    let full = |mut word: VcpFeedback| {
        word.load_128 = 130;
        word
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
    let grown = steering.bytes() - before;
    assert!(grown <= MTU * 2 / 3, "{grown}");
    // One acknowledgement can at most double the window.
    let mut steering = Steering::new(Instant::ZERO, 20 * MTU, &params);
    steering.apply(&params, moment(0), &codes(1_000_000, 0, 0));
    assert_eq!(steering.bytes(), 40 * MTU);
}

#[test]
fn an_unused_window_grows_by_no_code_but_is_cut_by_over() {
    let params = params();
    let mut steering = Steering::new(Instant::ZERO, 20 * MTU, &params);
    let mut unused = moment(0);
    unused.limited = false;
    steering.apply(&params, unused, &codes(100, 100, 0));
    assert_eq!(steering.bytes(), 20 * MTU);
    steering.apply(&params, unused, &codes(0, 0, 1));
    assert_eq!(steering.bytes(), 20 * MTU * 7 / 8);
}

/// [VCP-ext eq. 8].
#[test]
fn r_splits_low_between_mi_and_ai() {
    let params = VcpParams {
        ai_growth: AiGrowth::Constant,
        ..VcpParams::with_bise()
    };
    let mut feedback = VcpFeedback {
        sum_r: 100 * (1 << 14),
        bise: true,
        ..codes(100, 0, 0)
    };
    let after = |feedback: &VcpFeedback| {
        let mut steering = Steering::new(Instant::ZERO, 100 * MTU, &params);
        steering.hear_t_rho(ms(250));
        steering.apply(&params, moment(0), feedback);
        in_packets(&steering)
    };
    // r = ¼: 100 packets × (11^0.4 − 1)/4, followed by 75 packets of AI at α_s = 0.16.
    let mi = 25.0 * (11f64.powf(0.4) - 1.0);
    let expected = 100.0 + mi + 75.0 * 0.16 / (100.0 + mi);
    let window = after(&feedback);
    assert!((window - expected).abs() < 1e-3, "{window} {expected}");
    // If a router on the way does not run BISE, neither its MI nor r is exceeded.
    feedback.bise = false;
    let expected = 100.0 * 1.0625f64.powf(0.4);
    let window = after(&feedback);
    assert!((window - expected).abs() < 1e-2, "{window} {expected}");
}

#[test]
fn alpha_doubles_per_interval_and_starts_over_at_half_the_way() {
    let params = VcpParams {
        ai_growth: AiGrowth::Doubling { intervals: 1 },
        ..VcpParams::default()
    };
    // With rtt = t_ρ, a round trip of HIGH adds α packets, far below a quarter of the window.
    let mut steering = Steering::new(Instant::ZERO, 10_000 * MTU, &params);
    let mut added = |now_ms: u64, over: bool| {
        let moment = slow(now_ms);
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
    // After four doublings and an OVER, two doublings are kept.
    for (over, alpha, off) in [(true, 16.0, 0.3), (false, 4.0, 0.1)] {
        let got = added(800, over);
        assert!((got - alpha).abs() < off, "{over}: {got} {alpha}");
    }
}

#[test]
fn grown_alpha_stays_below_a_quarter_of_the_window_per_interval() {
    let params = VcpParams::default();
    let mut steering = Steering::new(Instant::ZERO, 20 * MTU, &params);
    steering.apply(&params, slow(0), &codes(0, 1, 0));
    for round in 1..30 {
        let before = steering.bytes();
        steering.apply(&params, slow(200 * round), &codes(0, before / MTU, 0));
        assert!(steering.bytes() <= before + before / 4 + 1, "round {round}");
    }
    assert!(steering.bytes() > 1000 * MTU);
}

/// After an outage, or a long time without OVER, α is large. If OVER were treated as HIGH in GRACE,
/// it would permanently undo the cut.
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
