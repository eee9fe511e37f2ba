//! The queue in a cloud, from the delay of small packets.
//!
//! Because only differences count, the two routers' clocks need not agree. The shortest delay of
//! the last 8 to 16 s, the *base*, is assumed to mean an empty queue. During this time, clocks may
//! drift: 100 ppm result in about 1 ms. Trains detect whether the path has become longer
//! ([`doubt`](super::doubt)); the base is then computed again from the last packets. A router that
//! restarts may reset its clock, so that a packet has a sending time more than 1 s before that of
//! an earlier arrival. All samples are then discarded.

use pathmark_cc::{Duration, Instant};

/// Number of samples that are evaluated together.
const LOOKED_AT: usize = 5;
/// The shortest delay is remembered for one to two of these periods.
const REMEMBERED: Duration = Duration::from_secs(8);

/// The difference between the delays of consecutive packets is averaged with a weight of 1 /
/// `SCATTER_WEIGHT`.
const SCATTER_WEIGHT: u64 = 16;

/// A sending time that is this much before that of an earlier arrival shows that the sender has
/// reset its clock, ns. Reordering is shorter.
const CLOCK_BACK: u64 = 1_000_000_000;

/// The one-way delay of a packet.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Instant,
    /// Measured by two clocks, so that only differences are meaningful. ns.
    delay: i64,
    own: u64,
}

/// A period in which the link was busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full {
    /// The bytes that it carried minus those that arrived, per second.
    pub(crate) drain: i64,
    /// Own traffic that arrived, bytes per second.
    pub(crate) own: i64,
    /// True if none of its packets belongs to the previous period.
    pub(crate) is_new: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Delay {
    samples: [Option<Sample>; LOOKED_AT],
    count: u64,
    /// Shortest delays of the current period and the previous one.
    shortest: [Option<i64>; 2],
    since: Instant,
    /// Sending time of the last packet by its sender's clock, ns.
    sent: u64,
    /// Mean difference between the delays of consecutive packets, ns.
    scatter: u64,
}

impl Delay {
    pub(crate) fn on_probe(&mut self, now: Instant, sent: u64, own: u64) {
        if self.sent > sent.saturating_add(CLOCK_BACK) {
            *self = Self {
                since: now,
                ..Self::default()
            };
        }
        self.sent = sent;
        let delay = now.as_nanos().wrapping_sub(sent).cast_signed();
        if now - self.since >= REMEMBERED {
            self.shortest = [None, self.shortest[0]];
            self.since = now;
        }
        let [shortest, _] = &mut self.shortest;
        *shortest = Some(shortest.map_or(delay, |before| before.min(delay)));
        if let [.., Some(last)] = &self.samples {
            let differs = last.delay.abs_diff(delay);
            self.scatter = self.scatter - self.scatter / SCATTER_WEIGHT + differs / SCATTER_WEIGHT;
        }
        self.samples.rotate_left(1);
        if let Some(place) = self.samples.last_mut() {
            *place = Some(Sample {
                at: now,
                delay,
                own,
            });
        }
        self.count += 1;
    }

    /// Mean difference between the delays of consecutive packets, ns.
    pub(crate) const fn scatter(&self) -> u64 {
        self.scatter
    }

    /// Resets the base to the shortest of the last samples, because the path has become longer.
    pub(crate) fn reset_base(&mut self) {
        let samples = || self.samples.iter().flatten();
        self.shortest = [samples().map(|sample| sample.delay).min(), None];
        self.since = samples().last().map_or(self.since, |last| last.at);
    }

    fn base(&self) -> Option<i64> {
        self.shortest.iter().flatten().min().copied()
    }

    /// Minimum waiting time of the last packets, ns; 0 if it is within the noise.
    fn waits(&self, packets: usize, noise: u64) -> i64 {
        let Some(base) = self.base() else {
            return 0;
        };
        let samples = self.samples.iter().rev().take(packets).flatten();
        let least = samples
            .map(|sample| sample.delay.saturating_sub(base))
            .min();
        let noise = i64::try_from(noise).unwrap_or(i64::MAX);
        least.filter(|waits| *waits > noise).unwrap_or(0)
    }

    /// Minimum waiting time of the last packets, ns; `None` if a packet did not wait.
    pub(crate) fn waiting(&self, noise: u64) -> Option<u64> {
        let waits = self.waits(LOOKED_AT, noise);
        (waits > 0).then(|| waits.unsigned_abs())
    }

    /// Bytes that are queued without draining.
    pub(crate) fn queue(&self, capacity: u64, noise: u64) -> u64 {
        let waits = u128::from(self.waits(3, noise).unsigned_abs());
        u64::try_from(waits * u128::from(capacity) / 1_000_000_000).unwrap_or(0)
    }

    /// Returns whether the link was busy over the last packets, with its rates. If no packet has
    /// arrived since for as long as this period, it is too old.
    pub(crate) fn full(&self, now: Instant, capacity: u64, noise: u64) -> Option<Full> {
        let [Some(first), .., Some(last)] = self.samples else {
            return None;
        };
        let took = last.at - first.at;
        if self.waits(LOOKED_AT, noise) == 0 || now - last.at > took {
            return None;
        }
        let took = i128::try_from(took.as_nanos()).ok()?;
        if took == 0 {
            return None;
        }
        // An additional packet of delay is an additional packet in the queue.
        let grew = i128::from(last.delay) - i128::from(first.delay);
        let drain = -(i128::from(capacity) * grew / took);
        let own = i128::from(last.own.saturating_sub(first.own)) * 1_000_000_000 / took;
        Some(Full {
            drain: i64::try_from(drain).ok()?,
            own: i64::try_from(own).ok()?,
            is_new: self.count.is_multiple_of(LOOKED_AT as u64),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Five packets 20 ms apart wait longer and longer, so the link is full. This remains valid
    /// for another 80 ms without a packet.
    #[test]
    fn a_full_link_is_not_full_for_ever() {
        let mut delay = Delay::default();
        for packet in 0..6 {
            let sent = Instant::from_millis(1000 + 20 * packet);
            let waits = Duration::from_millis(if packet == 0 { 0 } else { 10 + packet });
            delay.on_probe(sent + waits, sent.as_nanos(), 0);
        }
        let last = Instant::from_millis(1000 + 100 + 15);
        let full = |after| delay.full(last + Duration::from_millis(after), 1_000_000, 1_000_000);
        assert!(full(0).is_some_and(|full| full.drain < 0));
        assert_eq!((full(80).is_some(), full(90)), (true, None));
    }
}
