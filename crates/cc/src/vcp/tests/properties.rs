//! Properties of the window for arbitrary codes.

use proptest::prelude::*;

use super::window::{MTU, codes, moment};
use crate::base::Instant;
use crate::signals::VcpFeedback;
use crate::testing::ms;
use crate::vcp::oracle;
use crate::vcp::params::VcpParams;
use crate::vcp::scale::{alpha_q16, epsilon_q32, ln_gain};
use crate::vcp::sender::Window;
use crate::vcp::sender::steering::Steering;

proptest! {
    /// MI rounds down by less than 2^-32 bytes per acknowledged byte and one unit, and up by less
    /// than 2^-44, to which powers are rounded.
    #[test]
    fn mi_is_within_its_bound(
        acked in 1u64..1 << 40,
        rtt_us in 1u64..65_535_000,
        t_rho_us in 1000u64..65_535_000,
        steep: bool,
    ) {
        let (epsilon, ppm, cap) = [(0.0625, 62_500, 2.5), (10.0, 10_000_000, 1.0)]
            [usize::from(steep)];
        let cap_ppm = (cap * 1e6) as u64;
        let q32 = epsilon_q32(ln_gain(ppm), rtt_us, t_rho_us, Some(cap_ppm));
        let got = Window::mi(acked, q32) as f64 / 65_536.0;
        let exact = acked as f64 * oracle::epsilon_s(epsilon, rtt_us as f64, t_rho_us as f64, cap);
        // The oracle's 2^x − 1 is accurate to 2^-52 of the power, not of the difference.
        let (acked, own) = (acked as f64, exact * 1e-12);
        let up = acked * 2f64.powi(-44) + own;
        let tolerance = acked * 2f64.powi(-32) + 2f64.powi(-16) + up;
        prop_assert!(got <= exact + up, "{} {}", got, exact);
        prop_assert!((got - exact).abs() <= tolerance, "{} {} ± {}", got, exact, tolerance);
    }

    /// At a fixed window, AI adds up to the exact sum within one unit.
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

    /// Compares many rounds with the oracle, which stores the growth separately.
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
        let epsilon = epsilon_q32(ln_gain(62_500), rtt_us, t_rho_us, Some(2_500_000));
        let alpha = alpha_q16(1_000_000, rtt_us, t_rho_us, false);
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
        // α_s itself is rounded down to 2^-16 packets, and the divisor to whole bytes.
        let alpha_exact = oracle::alpha_s(1.0, rtt_us as f64, t_rho_us as f64) * 65_536.0;
        let rounding = if low {
            1e-6
        } else {
            1.0 / alpha_exact.max(1.0) + 2.0 / (start * mtu) as f64
        };
        let tolerance = expected * rounding + acks as f64 * 2f64.powi(-15) + 1e-3;
        let near = got <= expected + tolerance && got + tolerance >= expected;
        prop_assert!(near, "{} {} ± {}", got, expected, tolerance);
        prop_assert!(exact.packets() >= start as f64);
    }

    /// For any codes, the window is at least a packet, at most doubles per acknowledgement, and is
    /// cut at most once per interval and round trip.
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
