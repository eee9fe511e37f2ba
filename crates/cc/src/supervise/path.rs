//! State of a path that doesn't depend on the routers' protocol.

use super::fallback::{Fallback, FallbackLaw};
use super::mode::ModeSelector;
use crate::base::{Duration, Instant};
use crate::bottleneck::{HiddenHop, Step};
use crate::law::{Acked, Limits, PacketState, Sent};
use crate::signals::Carrier;

/// RTT assumed before a measurement, which is the typical RTT in the VCP papers' simulator.
pub(crate) const TYPICAL_RTT: Duration = Duration::from_millis(100);

/// Knowledge about a path, regardless of the law that controls the window.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    /// Largest datagram in bytes of UDP payload.
    pub(crate) mtu: u64,
    pub(crate) fallback: Fallback,
    /// Whether routers answer.
    pub(crate) mode: ModeSelector,
    /// Losses and delays as evidence of hops without feedback.
    pub(crate) hidden: HiddenHop,
    /// Smoothed RTT, limited by recent samples.
    pub(crate) srtt: Option<Duration>,
    /// The transport's smoothed RTT.
    pub(crate) smoothed: Option<Duration>,
    recent: RecentRtt,
    pub(crate) min_rtt: Option<Duration>,
    /// Largest packet number sent.
    pub(crate) last_sent: u64,
    /// Current limits of the sender other than the window.
    pub(crate) limits: Limits,
    /// True if the acknowledgement being processed carried feedback.
    pub(super) fed: bool,
}

impl Path {
    /// Creates the state of a path that begins at `now` with datagrams of `mtu` bytes. The initial
    /// window is `initial` datagrams, or RFC 9002's with `None`. `step` limits how fast the law's
    /// window may grow.
    pub(crate) fn new(
        now: Instant,
        mtu: u16,
        initial: Option<u32>,
        fallback: FallbackLaw,
        carrier: Carrier,
        step: Step,
    ) -> Self {
        Self {
            mtu: u64::from(mtu.max(1)),
            fallback: Fallback::new(fallback, now, mtu, initial),
            mode: ModeSelector::new(now, carrier),
            hidden: HiddenHop::new(now, u64::from(mtu.max(1)), step),
            srtt: None,
            smoothed: None,
            recent: RecentRtt::new(now),
            min_rtt: None,
            last_sent: 0,
            limits: Limits::NONE,
            fed: false,
        }
    }

    /// Returns the smoothed RTT, or a typical RTT before a measurement.
    #[inline]
    pub(crate) fn rtt(&self) -> Duration {
        self.srtt.unwrap_or(TYPICAL_RTT)
    }

    /// Returns true while routers answer and the bottleneck isn't a hop without feedback.
    #[inline]
    pub(crate) const fn answered(&self) -> bool {
        self.mode.routers() && !self.hidden.rules()
    }

    /// Switches to another law, whose window may grow by `step`. Feedback received for the previous
    /// law doesn't count for it.
    pub(crate) const fn exchange(&mut self, step: Step) {
        self.hidden.set_step(step);
        self.fed = false;
    }

    /// Notes feedback that counts as an answer, whatever its protocol.
    pub(crate) const fn note_feedback(&mut self) {
        self.fed = true;
    }

    #[inline]
    pub(super) fn on_sent(&mut self, now: Instant, sent: &Sent) -> PacketState {
        self.last_sent = self.last_sent.max(sent.packet_number);
        self.hidden.on_sent(sent.packet_number);
        self.fallback.on_sent(now, sent)
    }

    #[inline]
    pub(super) fn on_rtt(&mut self, now: Instant, rtt: Option<Duration>) {
        if let Some(rtt) = rtt {
            self.recent.on_sample(now, rtt);
        }
    }

    #[inline]
    pub(super) fn set_srtt(&mut self, srtt: Duration) {
        self.smoothed = Some(srtt);
        self.srtt = Some(self.recent.bound(srtt));
    }

    #[inline]
    pub(super) fn on_ack(&mut self, now: Instant, acked: &Acked) {
        self.on_rtt(now, acked.rtt);
        self.set_srtt(acked.srtt);
        self.min_rtt = Some(acked.min_rtt);
    }

    pub(super) fn on_handshake_rtt(&mut self, now: Instant, srtt: Duration) {
        self.smoothed.get_or_insert(srtt);
        self.srtt.get_or_insert(srtt);
        self.fallback.law_mut().on_handshake_rtt(now, srtt);
    }

    pub(super) fn on_mtu(&mut self, mtu: u16) {
        self.fallback.on_mtu(mtu);
        self.mtu = u64::from(mtu.max(1));
        self.hidden.set_mtu(self.mtu);
    }
}

// Recent RTTs, for laws that scale with the smoothed RTT.
//
// Each sample only replaces an eighth of the smoothed RTT. After an interruption with packets
// delayed by seconds, it therefore remains long for many round trips, and a law that scales with
// it would grow too fast. Therefore these laws use at most the longest of the latest samples, and
// at most twice the very latest sample, because the first packets without delay show that the
// interruption is over.

/// Minimum number of samples in a span, which also lasts for at least a round trip. The longest
/// sample of the current and of the previous span counts.
const SPAN: u8 = 4;

/// The smoothed RTT counts up to this multiple of the latest sample.
const MOST_TIMES: u32 = 2;

/// The longest of the latest RTT samples.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecentRtt {
    most: [Duration; 2],
    last: Duration,
    at: Option<Instant>,
    samples: u8,
    since: Instant,
}

impl RecentRtt {
    pub(crate) const fn new(now: Instant) -> Self {
        Self {
            most: [Duration::ZERO; 2],
            last: Duration::ZERO,
            at: None,
            samples: 0,
            since: now,
        }
    }

    /// Adds an RTT sample. A sample reported twice, with an acknowledgement and with its feedback,
    /// only counts once.
    #[inline]
    pub(crate) fn on_sample(&mut self, now: Instant, rtt: Duration) {
        if self.at.replace(now) == Some(now) && self.last == rtt {
            return;
        }
        if self.samples >= SPAN && now - self.since >= rtt {
            self.samples = 0;
            self.since = now;
            self.most = [Duration::ZERO, self.most[0]];
        }
        self.samples = self.samples.saturating_add(1);
        self.most[0] = self.most[0].max(rtt);
        self.last = rtt;
    }

    /// Returns the smoothed RTT, limited by recent samples.
    #[inline]
    pub(crate) fn bound(&self, srtt: Duration) -> Duration {
        let longest = self.most[0].max(self.most[1]);
        if longest.is_zero() {
            srtt
        } else {
            srtt.min(longest).min(self.last.saturating_mul(MOST_TIMES))
        }
    }
}

#[cfg(test)]
mod recent_rtt_tests {
    use super::*;
    use crate::testing::ms;

    #[test]
    fn a_smoothed_round_trip_of_an_interruption_is_forgotten_after_two_spans() {
        let mut now = Instant::ZERO;
        let mut recent = RecentRtt::new(now);
        assert_eq!(recent.bound(ms(100)), ms(100));
        now += ms(5000);
        for n in 0..10 {
            recent.on_sample(now, ms(4991 + n));
        }
        for n in 0..10 {
            now += ms(5);
            recent.on_sample(now, ms(20));
            let forgotten = n >= 7;
            assert_eq!(recent.bound(ms(1500)) == ms(20), forgotten, "{n}");
            assert!(recent.bound(ms(1500)) <= ms(40), "{n}");
        }
        assert_eq!(recent.bound(ms(18)), ms(18));
    }

    #[test]
    fn a_sample_that_is_told_twice_counts_once() {
        let tell = |times: u8| {
            let mut now = Instant::ZERO;
            let mut recent = RecentRtt::new(now);
            recent.on_sample(now, ms(5000));
            for _ in 0..9 {
                now += ms(5);
                for _ in 0..times {
                    recent.on_sample(now, ms(20));
                }
            }
            (recent.samples, recent.most)
        };
        assert_eq!(tell(1), tell(2));
    }

    #[test]
    fn jitter_changes_nothing() {
        let mut now = Instant::ZERO;
        let mut recent = RecentRtt::new(now);
        for n in 0..1000 {
            now += ms(1);
            recent.on_sample(now, ms(40 + n * 7 % 41));
            assert!(n < 41 || recent.bound(ms(65)) == ms(65), "{n}");
        }
    }
}
