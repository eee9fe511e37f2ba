//! Known answers of the laws; `sender_tests` tests how the sender uses them.

mod properties;
mod window;

use proptest::prelude::*;

use super::load::Load;
use super::oracle;
use super::params::VcpParams;
use super::scale::{Scaling, alpha_q16, epsilon_q32, ln_gain};
use crate::base::Duration;
use crate::signals::VcpCode;
use crate::testing::ms;

const KAPPA: u64 = 500_000;
const GAMMA: u64 = 980_000;

// The router's decision.

/// [VCP-ext eq. 1] and [VCP-ext table I].
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
        let found = (load.ppb(), load.code());
        assert_eq!(found, (ppb, code), "λ {lambda} q {queue}");
    }
}

/// The smallest number of bytes that is not below `num/den` of γ·C·T − κ·q, by long division in
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
        let low = capacity_low & ((1 << capacity_exp) - 1);
        let capacity = ((1u64 << capacity_exp) | low).clamp(1000, 1_000_000_000_000);
        let interval = Duration::from_micros(t_us);
        let at = |lambda: u64| Load::new(lambda, queue, KAPPA, GAMMA, capacity, interval).code();
        let borders =
            [(1, 1, VcpCode::High, VcpCode::Over), (4, 5, VcpCode::Low, VcpCode::High)];
        for (num, den, below, from) in borders {
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
            let interval = Duration::from_micros(t_us);
            let load = Load::new(lambda, queue, KAPPA, GAMMA, capacity, interval);
            (load.code(), load.ppb())
        };
        let base = code(lambda, queue, capacity, t_us);
        prop_assert!(code(lambda + more, queue, capacity, t_us) >= base);
        prop_assert!(code(lambda, queue + more, capacity, t_us) >= base);
        prop_assert!(code(lambda, queue, capacity + more % capacity, t_us) <= base);
        prop_assert!(code(lambda, queue, capacity, t_us + more % t_us) <= base);
    }
}

// Scaling.

/// Converts a natural logarithm in 2^-60 to a binary logarithm.
fn log2(ln_q60: u64) -> f64 {
    ln_q60 as f64 / 2f64.powi(60) / core::f64::consts::LN_2
}

/// [VCP-ext eq. 5] and [VCP-ext eq. 6].
#[test]
fn scaling_gives_the_known_answers() {
    let mild = ln_gain(62_500);
    assert!((log2(mild) - 0.087_462_841_250_339_4).abs() < 1e-15);
    for (rtt_ms, epsilon, q32, alpha) in [
        (20, 0.006_080_876_097_912_08, 26_117_163, 0.01),
        (100, 0.030_776_406_404_415_146, 132_183_658, 0.25),
        (200, 0.0625, 268_435_456, 1.0),
        (400, 0.128_906_25, 553_648_128, 4.0),
        (800, 0.163_649_927_542_484_3, 702_871_086, 16.0),
    ] {
        let seconds = rtt_ms as f64 / 1e3;
        assert!((oracle::epsilon_s(0.0625, seconds, 0.2, 2.5) - epsilon).abs() < 1e-15);
        let got = epsilon_q32(mild, rtt_ms * 1000, 200_000, Some(2_500_000));
        assert_eq!(got, q32, "{rtt_ms} ms");
        assert!((oracle::alpha_s(1.0, seconds, 0.2) - alpha).abs() < 1e-12);
        let got = alpha_q16(1_000_000, rtt_ms * 1000, 200_000, false);
        assert_eq!(got, (alpha * 65_536.0) as u64, "{rtt_ms} ms");
    }
}

#[test]
fn steep_scaling_gives_the_known_answers() {
    let steep = ln_gain(10_000_000);
    assert!((log2(steep) - 3.459_431_618_637_297_3).abs() < 1e-14);
    let got = epsilon_q32(steep, 500_000, 1_250_000, Some(1_000_000));
    assert!((6_912_744_000..=6_912_744_001).contains(&got), "{got}");
    let tenth = epsilon_q32(steep, 100_000, 1_250_000, Some(1_000_000)) as f64 / 4_294_967_296.0;
    assert!((tenth - 0.211_466_515_268_381_9).abs() < 1e-9);
    // Above one interval per round trip, the gain remains ε.
    let of = |rtt_us| epsilon_q32(steep, rtt_us, 1_250_000, Some(1_000_000)) >> 32;
    assert_eq!(of(3_000_000), of(1_250_000));
}

/// With five intervals per round trip, equation 6 gives 1.0625^5 − 1, and equation 5 gives α · 25.
/// The bounds are from the authors' simulator and from this library, not from the paper.
#[test]
fn the_papers_form_has_no_bounds_on_its_gains() {
    let (rtt, t_rho) = (Duration::from_millis(1000), Duration::from_millis(200));
    let ours = VcpParams::default();
    let mut paper = VcpParams::default();
    paper.as_published();
    let growth = |params: &VcpParams| {
        let gains = Scaling::new(params).gains(params, rtt, t_rho);
        let mild = gains.mild_q32 as f64 / 4_294_967_296.0;
        (mild, gains.alpha_q16 >> 16)
    };
    let (epsilon, alpha) = growth(&paper);
    assert!((epsilon - 0.354_081_15).abs() < 1e-6, "{epsilon}");
    assert_eq!(alpha, 25);
    let (epsilon, _) = growth(&ours);
    assert!((epsilon - 0.163_649_93).abs() < 1e-6, "{epsilon}");
    // The gain is limited to a factor of a thousand per round trip.
    let far = Scaling::new(&paper).gains(&paper, Duration::from_secs(1000), t_rho);
    assert_eq!(far.mild_q32, 1000 << 32);
}

#[test]
fn the_simulators_ai_scaling() {
    for (rtt_ms, expected) in [(10, 0.01), (100, 1.0), (500, 25.0), (600, 26.0)] {
        let got = alpha_q16(1_000_000, rtt_ms * 1000, 100_000, true);
        assert_eq!(got, (expected * 65_536.0) as u64, "{rtt_ms} ms");
    }
}
