//! XCP packets at a VCP port: expresses the port's code in XCP's rates.
//!
//! Over a measuring interval, an XCP flow changes as a VCP flow with the same rate would. OVER
//! takes as much as a multiplicative decrease, spread over the interval. LOW and HIGH give as much
//! as additive increase, with α as far as senders have grown it since the last OVER. In addition,
//! LOW gives as much as the port's r gives a BISE sender with the same round trip. A port without
//! BISE gives no multiplicative increase.

use crate::base::arith::{PPM, micros, mul_div, saturate};
use crate::base::{Duration, Instant};
use crate::signals::{VcpCode, XcpAnswer, XcpCarried};
use crate::vcp::params::AiGrowth;
use crate::vcp::scale::{AiClock, epsilon_q32, ln_gain};

/// OVER takes one part in `CUT` of a rate (β = 0.875), or half of that at first if BISE keeps the
/// load steady.
const CUT: u64 = 8;
const FIRST_CUT_WITH_BISE: u64 = 16;
/// However far α has grown, AI adds at most a quarter of the window per interval.
const MOST_AI: u128 = 4;
/// Above this r, in 2^-32, MI dominates LOW, so α does not grow.
const MI_RULES_R_Q32: u64 = (1 << 32) / 100;
/// Senders double α per interval without OVER.
const GROWTH: AiGrowth = AiGrowth::Doubling { intervals: 1 };
/// ε_s is tabulated for round trips in 1/`PARTS` of an interval, up to a whole interval, because
/// senders with a large ε use at most one interval. Senders with ε ≤ 1 use up to 2.5 intervals, so
/// XCP flows grow more slowly than these.
const PARTS: u64 = 32;
/// Largest absolute rate change, in 2^-16 bytes per second.
const MOST: u64 = 1 << 62;

/// The AI and cuts of VCP senders at the port, followed over intervals.
#[derive(Clone, Copy, Debug)]
pub(crate) struct XcpFlows {
    ai: AiClock,
    /// α in 2^-16 packets per interval and interval.
    alpha_q16: u64,
    /// OVER takes one part in `cut` of a rate in the current interval.
    cut: u64,
    over: bool,
    /// ε_s per round trip, in 2^-32, indexed by the round trip in parts of an interval.
    steps: [u64; PARTS as usize + 1],
}

impl XcpFlows {
    /// `epsilon_ppm` is the ε in 10^-6 with which senders follow r, if they do.
    pub(crate) fn new(now: Instant, epsilon_ppm: Option<u64>) -> Self {
        let gain = ln_gain(epsilon_ppm.unwrap_or(0));
        let mut steps = [0; PARTS as usize + 1];
        for (part, step) in (0..).zip(&mut steps) {
            *step = epsilon_q32(gain, part, PARTS, None);
        }
        Self {
            steps,
            ai: AiClock::new(now),
            alpha_q16: 1 << 16,
            cut: CUT,
            over: false,
        }
    }

    /// Ends an interval of length `t_rho`, with this code and r.
    pub(crate) fn on_interval(
        &mut self,
        now: Instant,
        t_rho: Duration,
        code: VcpCode,
        r_q32: Option<u64>,
    ) {
        let over = code == VcpCode::Over;
        let mi_rules = code == VcpCode::Low && r_q32.is_none_or(|r| r > MI_RULES_R_Q32);
        match (over, self.over) {
            (true, false) => self.ai.on_over(now, t_rho, GROWTH),
            // The senders' first cut has been given back meanwhile.
            (true, true) => {
                self.ai.halve();
                self.ai.hold(now);
            }
            // They have received OVER until now.
            (false, true) => self.ai.hold(now),
            (false, false) if mi_rules => self.ai.hold(now),
            (false, false) => {}
        }
        // Senders' α continues to grow during the interval, so use the value at its midpoint.
        let at = if over || mi_rules {
            now
        } else {
            now + t_rho / 2
        };
        self.alpha_q16 = self.ai.alpha_q16(at, t_rho, GROWTH, 1 << 16);
        self.cut = if r_q32.is_some() && !self.over {
            FIRST_CUT_WITH_BISE
        } else {
            CUT
        };
        self.over = over;
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct PortState {
    pub(crate) code: VcpCode,
    /// r in 2^-16 for this packet's flow. `None`: no BISE.
    pub(crate) r: Option<u16>,
    pub(crate) t_rho: Duration,
}

/// A header's RTT rounded up to a class, at most an eighth of an octave wide, because intervals
/// follow the minimum of a sender's RTT in classes, while a smoothed RTT changes with each packet.
pub(crate) const fn rtt_class(header: &XcpCarried) -> Option<Duration> {
    if header.rtt_us == 0 {
        return None;
    }
    let bits = u32::BITS - header.rtt_us.leading_zeros();
    let step = bits.saturating_sub(4);
    let class = (header.rtt_us >> step) + 1;
    Some(Duration::from_micros((class as u64) << step))
}

impl XcpFlows {
    pub(crate) fn answer(&self, said: PortState, header: &XcpCarried, bytes: u32) -> XcpAnswer {
        let share = if header.x == 0 || header.rtt_us == 0 {
            0
        } else {
            self.share(said, header, bytes)
        };
        XcpAnswer {
            delta: header.delta.min(share),
            bounding: header.delta > share,
            translated: true,
            ..XcpAnswer::default()
        }
    }

    /// ε_s in 2^-32 for a round trip of `rtt_us` µs and an interval of `t_us` µs.
    fn step_q32(&self, rtt_us: u32, t_us: u128) -> u64 {
        let rtt = u128::from(rtt_us).min(t_us);
        // In 2^-16 of a part.
        let parts = u64::try_from((rtt << 16) * u128::from(PARTS) / t_us).unwrap_or(0);
        let index = usize::try_from(parts >> 16).unwrap_or(0);
        let at = |index: usize| self.steps.get(index).or(self.steps.last());
        let (below, above) = (at(index).unwrap_or(&0), at(index + 1).unwrap_or(&0));
        below + mul_div(above - below, parts & 0xFFFF, 1 << 16)
    }

    /// The packet's part of the change, in 2^-16 bytes per second. The packets of a header are X of
    /// an interval's t_ρ, and have a rate of s/X.
    fn share(&self, said: PortState, header: &XcpCarried, bytes: u32) -> i64 {
        let (million, t_us) = (u128::from(PPM), u128::from(micros(said.t_rho).max(1)));
        let covered = u128::from(bytes) * u128::from(header.covers.max(1));
        // s/t_ρ: the whole rate per interval, per packet.
        let whole = (covered << 16) * million;
        if said.code == VcpCode::Over {
            let taken = saturate(whole.div_ceil(t_us * u128::from(self.cut))).min(MOST);
            return -taken.cast_signed();
        }
        // α packets per interval and interval, which corresponds to α scaled by (rtt/t_ρ)² per
        // round trip: α·s·X/t_ρ².
        let x = u128::from(header.x.min(1 << 47));
        let packet = (u128::from(bytes) * u128::from(self.alpha_q16)) >> 16;
        let per_interval = ((packet * x) >> 24) * million / t_us;
        let ai = (per_interval.saturating_mul(million) / t_us).min(whole / (t_us * MOST_AI));
        let mi = match said.r {
            Some(r) if said.code == VcpCode::Low => {
                // A BISE sender's window grows by ε_s·r per round trip: s·ε_s·r/rtt.
                let gain = u128::from(r) * u128::from(self.step_q32(header.rtt_us, t_us));
                ((covered * gain) >> 32) * million / u128::from(header.rtt_us)
            }
            _ => 0,
        };
        saturate(ai + mi).min(MOST).cast_signed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at, header};

    /// 100 packets per round trip.
    const HEADER: XcpCarried = header(100_000, 1 << 30, 1 << 50);

    const EPSILON: Option<u64> = Some(10_000_000);

    fn said(code: VcpCode, r: Option<u16>) -> PortState {
        PortState {
            code,
            r,
            t_rho: Duration::from_millis(200),
        }
    }

    #[test]
    fn over_an_interval_a_flow_changes_as_vcp_would() {
        // X = 2^-10 s: 204.8 packets per interval, 1 536 000 B/s.
        let rate = 1_536_000.0;
        let packets = 204.8;
        let mut flows = XcpFlows::new(Instant::ZERO, EPSILON);
        let sum = |flows: &XcpFlows, code, r| {
            let answer = flows.answer(said(code, r), &HEADER, 1500);
            assert!(answer.bounding);
            answer.delta as f64 / 65_536.0 * packets
        };
        let near = |got: f64, want: f64| assert!((got / want - 1.0).abs() < 1e-3, "{got} {want}");
        near(sum(&flows, VcpCode::Over, None), -rate / 8.0);
        // One packet per interval and interval.
        near(sum(&flows, VcpCode::High, None), 7500.0);
        // r = 66/65 536 and ε_s = √11 − 1 in each of two round trips.
        let mixed = sum(&flows, VcpCode::Low, Some(66));
        let growth = 2.0 * (11f64.sqrt() - 1.0) * 66.0 / 65_536.0;
        near(mixed, rate * growth + 7500.0);
        // α doubles per interval, and its value at the middle of the new interval counts.
        let t_rho = Duration::from_millis(200);
        flows.on_interval(at(600), t_rho, VcpCode::High, Some(0));
        near(sum(&flows, VcpCode::High, None), 8.0 * 2f64.sqrt() * 7500.0);
        // The first OVER with BISE takes half.
        flows.on_interval(at(800), t_rho, VcpCode::Over, Some(0));
        near(sum(&flows, VcpCode::Over, None), -rate / 16.0);
        flows.on_interval(at(1000), t_rho, VcpCode::Over, Some(0));
        near(sum(&flows, VcpCode::Over, None), -rate / 8.0);
        // Even after a long time, AI adds at most a quarter of the rate per interval.
        flows.on_interval(at(1200), t_rho, VcpCode::High, Some(0));
        flows.on_interval(at(60_000), t_rho, VcpCode::High, Some(0));
        near(sum(&flows, VcpCode::High, None), rate / 4.0);
    }

    #[test]
    fn after_an_over_additive_increase_is_that_of_senders() {
        let t_rho = Duration::from_millis(200);
        let at = |interval: u64| Instant::from_millis(200 * interval);
        let mut flows = XcpFlows::new(Instant::ZERO, EPSILON);
        flows.on_interval(at(0), t_rho, VcpCode::Over, Some(0));
        let alpha = (1..=4).map(|interval| {
            flows.on_interval(at(interval), t_rho, VcpCode::High, Some(0));
            flows.alpha_q16 as f64 / 65_536.0
        });
        // Senders receive OVER for one interval. From then on α is 2^t per interval: ∫ 2^t dt.
        let (sum, senders) = (alpha.sum::<f64>(), 15.0 / 2f64.ln());
        assert!((sum / senders - 1.0).abs() < 0.03, "{sum} {senders}");
        // Senders whose cut was given back keep half of the doublings.
        flows.on_interval(at(5), t_rho, VcpCode::Over, Some(0));
        let before = flows.alpha_q16;
        flows.on_interval(at(6), t_rho, VcpCode::Over, Some(0));
        assert!(flows.alpha_q16 < before, "{} {before}", flows.alpha_q16);
    }

    #[test]
    fn multiplicative_increase_is_that_of_senders_of_the_same_round_trip() {
        let flows = XcpFlows::new(Instant::ZERO, EPSILON);
        let t_us = 200_000;
        for rtt_us in [1, 5_000, 12_500, 80_000, 123_456, 199_999, 200_000, 800_000] {
            let share = f64::from(rtt_us.min(200_000)) / 200_000.0;
            let exact = 11f64.powf(share) - 1.0;
            let got = flows.step_q32(rtt_us, t_us) as f64 / 4_294_967_296.0;
            let close = (got - exact).abs() < 0.04 * exact;
            assert!(close, "{rtt_us}: {got} {exact}");
        }
    }

    #[test]
    fn round_trips_fall_into_classes() {
        let class = |rtt_us| rtt_class(&XcpCarried { rtt_us, ..HEADER });
        let class = |rtt_us| class(rtt_us).map(|class| class.as_micros());
        assert_eq!(class(0), None);
        assert_eq!(class(100_000), Some(106_496));
        assert_eq!(class(100_000), class(105_000));
        for rtt_us in [1u32, 7, 15, 16, 1000, 65_535_000, u32::MAX] {
            let class = class(rtt_us).unwrap();
            assert!(class >= u128::from(rtt_us) && class <= u128::from(rtt_us) * 9 / 8 + 1);
        }
    }

    #[test]
    fn wishes_only_shrink_and_the_silent_get_nothing() {
        let modest = XcpCarried {
            delta: -5,
            ..HEADER
        };
        let flows = XcpFlows::new(Instant::ZERO, EPSILON);
        let low = flows.answer(said(VcpCode::Low, None), &modest, 1500);
        assert_eq!((low.delta, low.bounding), (-5, false));
        let silent = XcpCarried { x: 0, ..HEADER };
        let silent = flows.answer(said(VcpCode::Low, None), &silent, 1500);
        assert_eq!(silent.delta, 0);
        let extreme = XcpCarried {
            covers: u16::MAX,
            ..header(u32::MAX, u64::MAX, i64::MAX)
        };
        for code in [VcpCode::Low, VcpCode::High, VcpCode::Over] {
            let said = PortState {
                t_rho: Duration::from_millis(1),
                ..said(code, Some(u16::MAX))
            };
            let delta = flows.answer(said, &extreme, u32::MAX).delta;
            assert!(delta.unsigned_abs() <= MOST);
        }
    }
}
