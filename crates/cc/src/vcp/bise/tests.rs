//! Known answers and properties of the ratio, the lottery and the marks.

use proptest::prelude::*;

use super::{Bise, BiseParams, Draw, Lottery, Marking, ONE_Q32, oracle, ratio_at, ratio_q32};
use crate::signals::{VcpCarried, VcpCode};
use crate::testing::ms;
use crate::vcp::load::{LinkRule, Load};

fn params() -> BiseParams {
    BiseParams::default()
}

/// The ratio at a load of ρ.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "ρ below 1"
)]
fn ratio_of(params: &BiseParams, rho: f64) -> f64 {
    ratio_q32(params, (rho * 1e9).ceil() as u64) as f64 / ONE_Q32 as f64
}

/// A load of ρ·10^-9 at a port whose γ·C·T is 10^9 bytes.
fn load(ppb: u64) -> Load {
    Load::new(ppb, 0, 0, 1_000_000, 1_000_000_000, ms(1000))
}

/// [VCP-ext eq. 11].
#[test]
fn ratio_gives_the_known_answers() {
    for (ppb, q32) in [
        (0, ONE_Q32),
        (10_000_000, ONE_Q32),
        (31_945_788, ONE_Q32),
        (31_945_789, 4_294_967_291),
        (110_000_000, 1_146_756_268),
        (400_000_000, 212_600_881),
        (600_000_000, 94_489_280),
        (799_999_999, 35_433_480),
        (1_000_000_000, 0),
        (u64::MAX, 0),
    ] {
        assert_eq!(ratio_q32(&params(), ppb), q32, "ρ = {ppb} ppb");
    }
}

#[test]
fn a_shorter_reference_gives_the_known_answers() {
    let params = BiseParams {
        x_ref_ppm: 400_000,
        ..params()
    };
    for (ppb, r) in [
        (20_000_000, 1.0),
        (110_000_000, 0.423_831_739_926_861_6),
        (400_000_000, 0.108_424_662_461_369_39),
        (600_000_000, 0.051_437_907_643_599_96),
        (800_000_000, 0.020_017_020_735_762_104),
    ] {
        let exact = oracle::exact_ratio(10.0, 0.33, 1.0, ppb as f64 / 1e9, 0.4);
        assert!((exact - r).abs() < 1e-14, "oracle at {ppb}: {exact}");
        let got = ratio_q32(&params, ppb) as f64 / ONE_Q32 as f64;
        assert!(got <= r && r - got < 1e-9, "{ppb}: {got}");
    }
}

/// [VCP-ext eq. 12] gives the ideal track. During the start, once r is below 1, each load is the
/// target of [VCP-ext eq. 10], and follows from r by [VCP-ext eq. 9].
#[test]
fn the_ideal_track_and_the_fluid_start() {
    for (n, rho) in [
        (1, 0.0),
        (2, 0.33),
        (3, 0.5511),
        (4, 0.699_237),
        (5, 0.798_488_79),
        (6, 0.864_987_489_3),
        (7, 0.909_541_617_831),
    ] {
        assert!((oracle::ideal_track(0.33, 1.0, n) - rho).abs() < 1e-12);
    }
    // rtt = t_ρ, starting at ρ = 0.01, with the integer ratio.
    let mut rho: f64 = 0.01;
    for (next, r) in [
        (0.11, 1.0),
        (0.4037, 0.267),
        (0.600_479, 0.048_744),
        (0.732_320_93, 0.021_956),
        (0.820_655, 0.012_062),
    ] {
        let got = ratio_of(&params(), rho);
        assert!((got - r).abs() < 1e-6, "r {got} {r}");
        rho *= 1.0 + 10.0 * got;
        assert!((rho - next).abs() < 1e-6, "ρ {rho} {next}");
    }
}

#[test]
fn the_sampled_map_gives_the_known_track() {
    // 100 Mbit/s, RTT 0.5 s, t_ρ 1.25 s, 1040 B, initial window 2, γ = 0.98.
    let start = 2.0 * 1040.0 / (0.98 * 12.5e6 * 0.5);
    let short = [
        0.003_736, 0.041_091, 0.357_531, 0.569_546, 0.711_596, 0.806_769,
    ];
    let long = [
        0.003_736, 0.041_091, 0.308_397, 0.408_595, 0.491_709, 0.562_006, 0.621_983, 0.673_399,
        0.717_608, 0.755_695, 0.788_553, 0.816_931,
    ];
    for (x_ref_ppm, track) in [(400_000, &short[..]), (1_000_000, &long)] {
        let params = BiseParams {
            x_ref_ppm,
            ..params()
        };
        let mut rho: f64 = start;
        for expected in track {
            rho *= oracle::growth(ratio_of(&params, rho), 0.4, 10.0);
            let close = (rho - expected).abs() < 2e-5 * expected.max(0.05);
            assert!(close, "{rho} {expected}");
        }
    }
}

#[test]
fn weyl_marks_are_as_computed_by_hand() {
    let mut lottery = Lottery::weyl_from(0);
    let take = |_| if lottery.take(1 << 30) { 'M' } else { 'a' };
    let marks: String = (0..32).map(take).collect();
    assert_eq!(marks, "aMaaMaaaaMaaMaaaaMaaaaMaaMaaaaMa");
}

fn steep() -> VcpCarried {
    VcpCarried {
        code: VcpCode::Low,
        bise: true,
        carries_r: true,
        min_rtt: None,
    }
}

#[test]
fn carried_marks_stay_low_up_to_the_ceiling() {
    let mut bise = Bise::new(params(), 1);
    let mark = bise.mark(VcpCode::Low, &steep());
    assert_eq!((mark.code, mark.r), (VcpCode::Low, Some(u16::MAX)));
    bise.on_load(&load(900_000_000));
    let mark = bise.mark(VcpCode::High, &steep());
    assert_eq!(mark.code, VcpCode::Low);
    // r = 0.33 × 0.1 / (10 × 0.9), rounded down.
    assert_eq!(mark.r, Some(240));
    // A sender that does not follow r gets VCP's own code, carried or not.
    for carries_r in [true, false] {
        let other = VcpCarried {
            bise: false,
            carries_r,
            ..steep()
        };
        assert_eq!(bise.mark(VcpCode::High, &other).code, VcpCode::High);
    }
    bise.on_load(&load(980_000_000));
    assert_eq!(bise.mark(VcpCode::High, &steep()).code, VcpCode::High);
    assert_eq!(bise.r_q32(), Some(0));
    bise.on_load(&load(1_000_000_000));
    assert_eq!(bise.mark(VcpCode::Over, &steep()).code, VcpCode::Over);
}

/// [VCP-ext eq. 7].
#[test]
fn lottery_marks_share_r_of_the_packets() {
    for draw in [Draw::Weyl, Draw::Diffusion, Draw::Random] {
        let params = BiseParams {
            marking: Marking::Lottery(draw),
            ceiling_ppm: 800_000,
            ..params()
        };
        let mut bise = Bise::new(params, 7);
        bise.on_load(&load(110_000_000));
        let mut is_low = |_: &u32| bise.mark(VcpCode::Low, &steep()).code == VcpCode::Low;
        let low = (0..10_000).filter(|n| is_low(n)).count();
        assert!((2540..=2800).contains(&low), "{draw:?}: {low} of 2670");
        // Above the ceiling, nothing is mixed.
        bise.on_load(&load(900_000_000));
        assert_eq!(bise.mark(VcpCode::High, &steep()).code, VcpCode::High);
        bise.on_load(&load(1_100_000_000));
        assert_eq!(bise.mark(VcpCode::Over, &steep()).code, VcpCode::Over);
    }
}

proptest! {
    #[test]
    fn ratio_follows_the_oracle_and_falls_with_load(
        ppb in 1u64..1_200_000_000,
        more in 0u64..1_000_000,
    ) {
        let r = ratio_q32(&params(), ppb);
        prop_assert!(r <= ONE_Q32);
        prop_assert!(ratio_q32(&params(), ppb + more) <= r);
        let rho = ppb as f64 / 1e9;
        let exact = oracle::ratio(10.0, 0.33, 1.0, rho);
        let got = r as f64 / ONE_Q32 as f64;
        let tolerance = 2f64.powi(-31) + 2e-9 * 0.33 / (10.0 * rho) / rho;
        prop_assert!((got - exact).abs() <= tolerance, "{} {}", got, exact);
        prop_assert!(got <= exact + 1e-12);
    }

    #[test]
    fn no_flow_up_to_the_reference_outgrows_the_target(
        ppb in 32_000_000u64..999_000_000,
        x in 0.01f64..1.0,
        x_ref in 1u64..=100,
    ) {
        let params = BiseParams { x_ref_ppm: x_ref * 10_000, ..params() };
        let x = x * x_ref as f64 / 100.0;
        let rho = ppb as f64 / 1e9;
        let r = ratio_q32(&params, ppb) as f64 / ONE_Q32 as f64;
        let wanted = 1.0 + 0.33 * (1.0 - rho) / rho;
        prop_assert!(oracle::growth(r, x, 10.0) <= wanted * (1.0 + 1e-9));
    }

    #[test]
    fn ratio_is_nothing_from_the_ceiling_on(
        ppb in 0u64..2_000_000_000,
        ceiling in 500_000u64..1_000_000,
    ) {
        let params = BiseParams { ceiling_ppm: ceiling, ..params() };
        let r = ratio_at(&params, &load(ppb));
        prop_assert_eq!(r == 0, ppb >= ceiling * 1000);
    }

    /// In every run of N packets, Weyl is within ±(4 + log2 N / 2), and diffusion within ±1.
    #[test]
    fn lotteries_count_right(
        r_q32 in 0u64..=ONE_Q32,
        seed in any::<u64>(), skip in 0usize..500, n in 1usize..5000,
    ) {
        for (draw, bound) in [
            (Draw::Weyl, 4.0 + (n as f64).log2() / 2.0),
            (Draw::Diffusion, 1.0 + 1e-6),
        ] {
            let mut lottery = Lottery::new(draw, seed);
            for _ in 0..skip {
                let _ = lottery.take(r_q32);
            }
            let low = (0..n).filter(|_| lottery.take(r_q32)).count() as f64;
            let expected = n as f64 * r_q32 as f64 / ONE_Q32 as f64;
            prop_assert!((low - expected).abs() <= bound, "{:?}: {} of {}", draw, low, expected);
        }
    }
}
