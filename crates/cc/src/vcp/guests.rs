//! XCP packets at a VCP port: the port's code, said in XCP's rates.
//!
//! Over a measuring interval an XCP flow changes as a VCP flow of the same rate would: OVER takes
//! what a multiplicative decrease takes, spread over the interval; LOW and HIGH give what additive
//! increase would, with α as far as senders have grown it since the last OVER; LOW also gives what
//! the port's r gives a BISE sender. A port without BISE gives no multiplicative increase.

use super::ai::AiClock;
use super::params::{AiGrowth, PPM};
use crate::arith::{micros, saturate};
use crate::{Duration, Instant, VcpCode, XcpAnswer, XcpCarried};

/// What an OVER takes of a rate: an eighth (β = 0.875), or half of that at first where BISE keeps
/// the load steady.
const CUT: u64 = 8;
const FIRST_CUT_BESIDE_BISE: u64 = 16;
/// Senders add at most a quarter of their window per interval by AI, however far α has grown.
const MOST_AI: u128 = 4;
/// r from which on LOW is MI's more than AI's, in 2^-32: α does not grow meanwhile.
const MI_RULES_R_Q32: u64 = (1 << 32) / 100;
/// Senders double α per interval without OVER.
const GROWTH: AiGrowth = AiGrowth::Doubling { intervals: 1 };
/// No rate change is larger, in 2^-16 bytes per second.
const MOST: u64 = 1 << 62;

/// What VCP senders at the port do, followed from interval to interval.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guests {
    ai: AiClock,
    /// α in 2^-16 packets per interval and interval.
    alpha_q16: u64,
    /// What an OVER takes in the running interval is the rate over this.
    cut: u64,
    over: bool,
}

impl Guests {
    pub(crate) const fn new(now: Instant) -> Self {
        Self {
            ai: AiClock::new(now),
            alpha_q16: 1 << 16,
            cut: CUT,
            over: false,
        }
    }

    /// An interval of length `t_rho` is over, with this code and r.
    pub(crate) fn on_interval(
        &mut self,
        now: Instant,
        t_rho: Duration,
        code: VcpCode,
        r_q32: Option<u64>,
    ) {
        let over = code == VcpCode::Over;
        if over {
            self.ai.on_over(now, t_rho, GROWTH);
        } else if code == VcpCode::Low && r_q32.is_none_or(|r| r > MI_RULES_R_Q32) {
            self.ai.hold(now);
        }
        self.alpha_q16 = self.ai.alpha_q16(now, t_rho, GROWTH, 1 << 16);
        self.cut = if r_q32.is_some() && !self.over {
            FIRST_CUT_BESIDE_BISE
        } else {
            CUT
        };
        self.over = over;
    }
}

/// What a port says at the moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Said {
    pub(crate) code: VcpCode,
    /// r in 2^-16 for this packet's flow, and the ε that it goes with in 10^-6. `None`: no BISE.
    pub(crate) mix: Option<(u16, u64)>,
    pub(crate) t_rho: Duration,
}

/// A header's RTT as a class, an eighth of an octave wide at most: the least value of a sender's
/// RTT in classes is what intervals follow, and a smoothed RTT moves with each packet.
#[inline]
pub(crate) const fn rtt_class(header: &XcpCarried) -> Option<Duration> {
    if header.rtt_us == 0 {
        return None;
    }
    let bits = u32::BITS - header.rtt_us.leading_zeros();
    let step = bits.saturating_sub(4);
    let class = (header.rtt_us >> step) + 1;
    Some(Duration::from_micros((class as u64) << step))
}

impl Guests {
    /// The answer to an XCP header in a packet of `bytes`.
    #[inline]
    pub(crate) fn answer(&self, said: Said, header: &XcpCarried, bytes: u32) -> XcpAnswer {
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

    /// The packet's part of the change, in 2^-16 bytes per second. The header's packets are X of an
    /// interval's t_ρ, and a rate of s/X.
    #[inline]
    fn share(&self, said: Said, header: &XcpCarried, bytes: u32) -> i64 {
        let (million, t_us) = (u128::from(PPM), u128::from(micros(said.t_rho).max(1)));
        let covered = u128::from(bytes) * u128::from(header.covers.max(1));
        // s/t_ρ: the whole rate per interval, per packet.
        let whole = (covered << 16) * million;
        if said.code == VcpCode::Over {
            let taken = saturate(whole.div_ceil(t_us * u128::from(self.cut))).min(MOST);
            return -taken.cast_signed();
        }
        // α packets per interval and interval, as α scaled by (rtt/t_ρ)² per round trip:
        // α·s·X/t_ρ².
        let x = u128::from(header.x.min(1 << 47));
        let packet = (u128::from(bytes) * u128::from(self.alpha_q16)) >> 16;
        let per_interval = ((packet * x) >> 24) * million / t_us;
        let ai = (per_interval.saturating_mul(million) / t_us).min(whole / (t_us * MOST_AI));
        let mi = match said.mix {
            // s·ε·r/t_ρ, with ε in 10^-6 and r in 2^-16.
            Some((r, epsilon_ppm)) if said.code == VcpCode::Low => {
                covered * u128::from(r) * u128::from(epsilon_ppm.min(100 * PPM)) / t_us
            }
            _ => 0,
        };
        saturate(ai + mi).min(MOST).cast_signed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: XcpCarried = XcpCarried {
        rtt_us: 100_000,
        // 100 packets per round trip.
        x: 1 << 30,
        delta: 1 << 50,
        covers: 1,
        cloud: None,
    };

    fn said(code: VcpCode, mix: Option<(u16, u64)>) -> Said {
        Said {
            code,
            mix,
            t_rho: Duration::from_millis(200),
        }
    }

    #[test]
    fn over_an_interval_a_flow_changes_as_vcp_would() {
        // X = 2^-10 s: 204.8 packets per interval, 1 536 000 B/s.
        let rate = 1_536_000.0;
        let packets = 204.8;
        let mut guests = Guests::new(Instant::ZERO);
        let sum = |guests: &Guests, code, mix| {
            let answer = guests.answer(said(code, mix), &HEADER, 1500);
            assert!(answer.bounding);
            answer.delta as f64 / 65_536.0 * packets
        };
        let near = |got: f64, want: f64| assert!((got / want - 1.0).abs() < 1e-3, "{got} {want}");
        near(sum(&guests, VcpCode::Over, None), -rate / 8.0);
        // One packet per interval and interval.
        near(sum(&guests, VcpCode::High, None), 7500.0);
        // r · ε = 1 % more.
        let mix = Some((66, 10_000_000));
        let mixed = sum(&guests, VcpCode::Low, mix);
        near(mixed, rate * 66.0 / 65_536.0 * 10.0 + 7500.0);
        // α doubles per interval …
        let t_rho = Duration::from_millis(200);
        let at = Instant::from_millis;
        guests.on_interval(at(600), t_rho, VcpCode::High, Some(0));
        near(sum(&guests, VcpCode::High, None), 8.0 * 7500.0);
        // … and the first OVER beside BISE takes half.
        guests.on_interval(at(800), t_rho, VcpCode::Over, Some(0));
        near(sum(&guests, VcpCode::Over, None), -rate / 16.0);
        guests.on_interval(at(1000), t_rho, VcpCode::Over, Some(0));
        near(sum(&guests, VcpCode::Over, None), -rate / 8.0);
        // However long, a quarter of the rate per interval at most.
        guests.on_interval(at(60_000), t_rho, VcpCode::High, Some(0));
        near(sum(&guests, VcpCode::High, None), rate / 4.0);
    }

    #[test]
    fn round_trips_fall_into_classes() {
        let class =
            |rtt_us| rtt_class(&XcpCarried { rtt_us, ..HEADER }).map(|class| class.as_micros());
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
        let guests = Guests::new(Instant::ZERO);
        let low = guests.answer(said(VcpCode::Low, None), &modest, 1500);
        assert_eq!((low.delta, low.bounding), (-5, false));
        let silent = XcpCarried { x: 0, ..HEADER };
        let silent = guests.answer(said(VcpCode::Low, None), &silent, 1500);
        assert_eq!(silent.delta, 0);
        let extreme = XcpCarried {
            rtt_us: u32::MAX,
            x: u64::MAX,
            delta: i64::MAX,
            covers: u16::MAX,
            cloud: None,
        };
        for code in [VcpCode::Low, VcpCode::High, VcpCode::Over] {
            let said = Said {
                t_rho: Duration::from_millis(1),
                ..said(code, Some((u16::MAX, u64::MAX)))
            };
            let delta = guests.answer(said, &extreme, u32::MAX).delta;
            assert!(delta.unsigned_abs() <= MOST);
        }
    }
}
