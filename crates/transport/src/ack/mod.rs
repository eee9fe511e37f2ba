//! Acknowledgement of received packets.
//!
//! [`ReceivedRanges`] stores the packet numbers received, [`AckDelay`] decides when an ACK is due
//! (RFC 9000 §13.2.1, draft-ietf-quic-ack-frequency §6), and [`AckRequest`] requests a schedule for
//! the peer's ACKs (draft-ietf-quic-ack-frequency §4).

mod ranges;

pub use ranges::ReceivedRanges;

use crate::wire::frame::AckFrequency;
use crate::{Duration, Instant};

/// Decides whether and when an ACK is due in one packet number space.
#[derive(Clone, Debug)]
pub struct AckDelay {
    /// Ack-eliciting packets that may arrive before an ACK is due; 1 acknowledges every second
    /// one (RFC 9000 §13.2.2).
    threshold: u64,
    max_delay: Duration,
    /// Reordering that requires an immediate ACK, in packets; 0: none does.
    reordering: u64,
    /// Sequence number of the last ACK_FREQUENCY frame that was applied.
    sequence: Option<u64>,
    /// Ack-eliciting packets since the last ACK.
    eliciting: u64,
    /// Whether any packet has arrived since the last ACK.
    news: bool,
    due_at: Option<Instant>,
    /// When the largest number arrived, for the frame's delay field.
    largest_at: Instant,
    /// Largest ack-eliciting number received.
    largest_eliciting: Option<u64>,
    /// Largest number reported in an ACK.
    reported: Option<u64>,
    /// Whether the last packet was marked CE. Only the first of a run requires an immediate
    /// ACK.
    marked: bool,
}

impl AckDelay {
    /// Acknowledges every second ack-eliciting packet, after `max_ack_delay` at the latest.
    pub const fn new(max_ack_delay: Duration) -> Self {
        Self {
            threshold: 1,
            max_delay: max_ack_delay,
            reordering: 1,
            sequence: None,
            eliciting: 0,
            news: false,
            due_at: None,
            largest_at: Instant::ZERO,
            largest_eliciting: None,
            reported: None,
            marked: false,
        }
    }

    /// Acknowledges each ack-eliciting packet immediately, for the Initial and Handshake spaces
    /// (RFC 9000 §13.2.1).
    pub const fn immediate() -> Self {
        let mut delay = Self::new(Duration::ZERO);
        delay.threshold = 0;
        delay
    }

    /// Records that packet `number` arrived for the first time, marked CE if `ce`. It must have
    /// been inserted in `ranges`.
    #[inline]
    pub fn on_packet(
        &mut self,
        now: Instant,
        number: u64,
        ack_eliciting: bool,
        ce: bool,
        ranges: &ReceivedRanges,
    ) {
        self.news = true;
        if ranges.largest() == Some(number) {
            self.largest_at = now;
        }
        let newly_marked = ce && !self.marked;
        self.marked = ce;
        // [9000 13.2.1 no-ack-of-acks]
        if !ack_eliciting {
            return;
        }
        let late = self.largest_eliciting.is_some_and(|l| number < l);
        let largest = self.largest_eliciting.map_or(number, |l| l.max(number));
        self.largest_eliciting = Some(largest);
        self.eliciting += 1;
        if self.eliciting > self.threshold || newly_marked || self.reordered(late, largest, ranges)
        {
            self.due_at = Some(now);
        } else if self.due_at.is_none() {
            // [9000 13.2.1 within-max-delay]
            self.due_at = Some(now + self.max_delay);
        }
    }

    /// Returns true if an ACK would let the sender declare a packet lost that no ACK has shown
    /// missing.
    fn reordered(&self, late: bool, largest: u64, ranges: &ReceivedRanges) -> bool {
        match self.reordering {
            0 => false,
            1 if late => true,
            threshold => {
                // Losses that the last ACK revealed don't require a second ACK.
                let from = self
                    .reported
                    .map_or(0, |r| (r + 2).saturating_sub(threshold));
                ranges
                    .first_missing(from)
                    .is_some_and(|missing| largest.saturating_sub(missing) >= threshold)
            }
        }
    }

    /// Delays an ACK that would be out of proportion for as long as possible. `before` is the
    /// deadline before the last packet.
    pub fn postpone(&mut self, now: Instant, before: Option<Instant>) {
        if self.due(now) {
            self.due_at = before.or(Some(now + self.max_delay));
        }
    }

    /// Processes an IMMEDIATE_ACK frame.
    pub const fn on_immediate_ack(&mut self, now: Instant) {
        self.due_at = Some(now);
        self.news = true;
    }

    /// Processes an ACK_FREQUENCY frame. Returns false if it is ignored because a newer frame was
    /// received before.
    pub fn on_ack_frequency(&mut self, now: Instant, frequency: &AckFrequency) -> bool {
        if self.sequence.is_some_and(|s| frequency.sequence <= s) {
            return false;
        }
        self.sequence = Some(frequency.sequence);
        self.threshold = frequency.ack_eliciting_threshold;
        self.max_delay = frequency.max_ack_delay;
        self.reordering = frequency.reordering_threshold;
        self.due_at = self.due_at.map(|at| at.min(now + self.max_delay));
        true
    }

    /// Returns the latest time for sending an ACK. Unless this is after `now`, the next
    /// datagram must contain it immediately.
    pub const fn deadline(&self) -> Option<Instant> {
        self.due_at
    }

    /// Returns true if an ACK is due.
    pub fn due(&self, now: Instant) -> bool {
        self.due_at.is_some_and(|at| at <= now)
    }

    /// Returns true if an ACK would report anything new, so that it is worth adding to any
    /// packet.
    pub const fn news(&self) -> bool {
        self.news
    }

    /// Returns how long ago the largest packet arrived: the delay field of the ACK frame.
    pub const fn held(&self, now: Instant) -> Duration {
        // [9000 13.2.5 own-delay]
        now.saturating_since(self.largest_at)
    }

    /// Returns the largest number reported in an ACK.
    pub const fn reported(&self) -> Option<u64> {
        self.reported
    }

    /// Records that an ACK frame with this largest number was sent.
    pub const fn on_ack_sent(&mut self, largest: u64) {
        self.reported = Some(largest);
        self.eliciting = 0;
        self.news = false;
        // [9000 13.2.1 one-ack-packet]
        self.due_at = None;
    }
}

/// ACKs requested per round trip and per control interval (SPEC: feedback every min(srtt,
/// t_ρ)/8), and per window.
const PER_INTERVAL: u32 = 8;
const PER_WINDOW: u64 = 16;
/// Maximum threshold, regardless of the window: at 5 % loss, the new ranges of an ACK then take
/// only a fraction of a packet.
const MAX_THRESHOLD: u64 = 256;
/// Maximum delay requested, because it is added to every probe timeout.
const MAX_DELAY: Duration = Duration::from_millis(100);

/// Requests that the peer send fewer ACKs on paths with a large window, and timely ACKs on slow
/// paths.
#[derive(Clone, Debug)]
pub struct AckRequest {
    /// The peer's `min_ack_delay`; `None`: it doesn't support the extension.
    min_delay: Option<Duration>,
    /// The peer's current delay, as far as known.
    in_force: Duration,
    asked: Option<AckFrequency>,
    asked_at: Instant,
    lost: bool,
    next_sequence: u64,
}

impl AckRequest {
    /// Creates the state from the peer's transport parameters.
    pub const fn new(max_ack_delay: Duration, min_ack_delay: Option<Duration>) -> Self {
        Self {
            min_delay: min_ack_delay,
            in_force: max_ack_delay,
            asked: None,
            asked_at: Instant::ZERO,
            lost: false,
            next_sequence: 0,
        }
    }

    /// Returns the frame to send now, if the last frame was lost or the desired values have changed
    /// enough since (at most once per round trip). `interval` is the controller's (t_ρ), `window`
    /// is in packets, and `reordering` is the packet threshold of loss detection.
    pub fn poll(
        &mut self,
        now: Instant,
        srtt: Option<Duration>,
        interval: Option<Duration>,
        window: u64,
        reordering: u64,
    ) -> Option<AckFrequency> {
        let (min_delay, srtt) = (self.min_delay?, srtt?);
        if self.asked.is_some() && !self.lost && now - self.asked_at < srtt {
            return None;
        }
        let max_ack_delay = (interval.map_or(srtt, |i| i.min(srtt)) / PER_INTERVAL)
            .min(MAX_DELAY)
            .max(min_delay);
        let threshold = (window / PER_WINDOW).clamp(1, MAX_THRESHOLD);
        let unchanged = self.asked.is_some_and(|asked| {
            near(asked.ack_eliciting_threshold, threshold)
                && near(micros(asked.max_ack_delay), micros(max_ack_delay))
                && asked.reordering_threshold == reordering
        });
        if unchanged && !self.lost {
            return None;
        }
        let frequency = AckFrequency {
            sequence: self.next_sequence,
            ack_eliciting_threshold: threshold,
            max_ack_delay,
            reordering_threshold: reordering,
        };
        self.next_sequence += 1;
        self.asked = Some(frequency);
        self.asked_at = now;
        self.lost = false;
        self.in_force = self.in_force.max(max_ack_delay);
        Some(frequency)
    }

    /// Records that the frame with this sequence number was acknowledged.
    pub fn on_acked(&mut self, sequence: u64) {
        if let Some(asked) = self.asked.filter(|a| a.sequence == sequence) {
            self.in_force = asked.max_ack_delay;
        }
    }

    /// Records that the frame with this sequence number was lost. If no later frame was sent, the
    /// next poll repeats the request.
    pub fn on_lost(&mut self, sequence: u64) {
        self.lost |= self.asked.is_some_and(|a| a.sequence == sequence);
    }

    /// Returns the maximum time for which the peer may currently delay an ACK, as part of probe
    /// timeouts.
    pub const fn max_ack_delay(&self) -> Duration {
        self.in_force
    }
}

fn micros(d: Duration) -> u64 {
    u64::try_from(d.as_micros()).unwrap_or(u64::MAX)
}

/// Returns true if both values are within a factor of 1.5.
const fn near(a: u64, b: u64) -> bool {
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    high.saturating_mul(2) <= low.saturating_mul(3)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: Duration = Duration::from_millis(25);

    struct Receiver {
        ranges: ReceivedRanges,
        delay: AckDelay,
        now: Instant,
    }

    impl Receiver {
        fn new() -> Self {
            Self {
                ranges: ReceivedRanges::default(),
                delay: AckDelay::new(MAX),
                now: Instant::from_millis(1),
            }
        }

        /// Returns true if `number` makes an ACK due, which is then sent.
        fn gets(&mut self, number: u64, eliciting: bool, ce: bool) -> bool {
            assert!(self.ranges.insert(number));
            self.delay
                .on_packet(self.now, number, eliciting, ce, &self.ranges);
            let due = self.delay.due(self.now);
            if due {
                self.delay.on_ack_sent(self.ranges.largest().unwrap());
            }
            due
        }
    }

    #[test]
    fn every_second_and_after_the_delay() {
        // [9000 13.2.1 within-max-delay] [9000 13.2.1 no-ack-of-acks] [9000 13.2.1 one-ack-packet]
        let mut r = Receiver::new();
        assert!(!r.gets(0, true, false));
        assert_eq!(r.delay.deadline(), Some(r.now + MAX));
        assert!(r.gets(1, true, false));
        assert_eq!(r.delay.deadline(), None);
        assert!(!r.gets(2, false, false));
        // ACKs of ACKs never stand alone.
        assert!(r.delay.news() && r.delay.deadline().is_none());
        assert!(!r.gets(3, true, false));
        assert!(r.delay.due(r.now + MAX));
        assert_eq!(r.delay.held(r.now + MAX), MAX);
    }

    #[test]
    fn gaps_late_packets_and_marks_are_urgent() {
        let mut r = Receiver::new();
        assert!(r.gets(1, true, false), "0 is missing");
        assert!(r.gets(0, true, false), "late");
        assert!(r.gets(3, true, false), "2 is missing");
        assert!(!r.gets(4, true, false), "2 has been reported");
        assert!(r.gets(5, true, false));
        assert!(r.gets(6, true, true), "first mark");
        assert!(!r.gets(7, true, true), "one of a run");
        r.delay.on_immediate_ack(r.now);
        assert!(r.delay.due(r.now));
    }

    /// The example with a reordering threshold of 3 in draft-ietf-quic-ack-frequency, §6.2.1.
    #[test]
    fn reordering_threshold_of_three() {
        let mut r = Receiver::new();
        let frequency = AckFrequency {
            sequence: 0,
            ack_eliciting_threshold: 100,
            max_ack_delay: MAX,
            reordering_threshold: 3,
        };
        assert!(r.delay.on_ack_frequency(r.now, &frequency));
        assert!(!r.delay.on_ack_frequency(r.now, &frequency), "seen before");
        let mut urgent = vec![0, 1, 3, 4, 5, 8, 9, 10];
        urgent.retain(|&n| r.gets(n, true, false));
        assert_eq!(urgent, [5, 9]);
    }

    #[test]
    fn handshake_packets_are_acknowledged_at_once() {
        // [9000 13.2.1 within-max-delay]
        let mut delay = AckDelay::immediate();
        let mut ranges = ReceivedRanges::default();
        ranges.insert(0);
        delay.on_packet(Instant::ZERO, 0, true, false, &ranges);
        assert!(delay.due(Instant::ZERO));
    }

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn asks_when_the_path_is_known_and_again_when_it_changed() {
        let mut request = AckRequest::new(ms(25), Some(ms(1)));
        let poll = |request: &mut AckRequest, at, srtt: Option<u64>, packets| {
            request.poll(Instant::from_millis(at), srtt.map(ms), None, packets, 3)
        };
        assert_eq!(poll(&mut request, 0, None, 10), None);
        let first = poll(&mut request, 100, Some(80), 10).unwrap();
        assert_eq!(first.ack_eliciting_threshold, 1);
        assert_eq!(first.max_ack_delay, ms(10));
        assert_eq!(request.max_ack_delay(), ms(25), "until it is acknowledged");
        request.on_acked(first.sequence);
        assert_eq!(request.max_ack_delay(), ms(10));
        assert_eq!(poll(&mut request, 120, Some(80), 1000), None, "too soon");
        let second = poll(&mut request, 200, Some(85), 1000).unwrap();
        assert_eq!((second.sequence, second.ack_eliciting_threshold), (1, 62));
        assert_eq!(poll(&mut request, 400, Some(80), 900), None, "near enough");
        request.on_lost(0);
        assert_eq!(poll(&mut request, 500, Some(80), 900), None);
        request.on_lost(1);
        let third = poll(&mut request, 500, Some(80), 900);
        assert_eq!(third.map(|f| f.sequence), Some(2));
    }

    #[test]
    fn bounds() {
        let mut request = AckRequest::new(ms(25), Some(ms(1)));
        let mut asked = |at, srtt, min_rtt, packets, reordering| {
            let at = Instant::from_millis(at);
            let asked = request.poll(at, Some(srtt), min_rtt, packets, reordering);
            asked.unwrap()
        };
        let wide = asked(0, ms(2000), Some(ms(200)), 600_000, 20);
        assert_eq!(wide.ack_eliciting_threshold, MAX_THRESHOLD);
        assert_eq!(wide.max_ack_delay, ms(25));
        assert_eq!(wide.reordering_threshold, 20);
        let slow = asked(5000, ms(2000), None, 5, 3);
        assert_eq!(slow.ack_eliciting_threshold, 1);
        assert_eq!(slow.max_ack_delay, MAX_DELAY);
        let quick = asked(9000, Duration::from_micros(100), None, 5, 3);
        let least = quick.max_ack_delay;
        assert_eq!(least, ms(1), "never below what the peer can do");
        let mut plain = AckRequest::new(ms(25), None);
        assert_eq!(plain.poll(Instant::ZERO, Some(ms(80)), None, 99, 3), None);
    }
}
