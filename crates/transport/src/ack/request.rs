//! The acknowledgement frequency that a sender requests (draft-ietf-quic-ack-frequency §4).

use crate::{Duration, Instant, wire::frame::AckFrequency};

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
