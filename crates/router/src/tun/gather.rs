//! How long the loop sleeps so that packets gather: each wake-up costs several system calls, and
//! packets that are handled together share them.

use pathmark_cc::{Duration, Instant};

/// The longest sleep; it is also the longest delay that a packet gets by it.
const LONGEST: Duration = Duration::from_micros(500);
/// A shorter sleep gains nothing: at such a rate packets gather while others are handled.
const SHORTEST: Duration = Duration::from_micros(100);
/// Packets that one sleep waits for, by the rate of the last ones.
const PACKETS: u32 = 8;
/// A super-packet counts as packets of this many bytes.
const BYTES: usize = 1500;
/// Weight of the newest wake-up in the mean time between packets is one in this many.
const WEIGHT: u32 = 4;

/// The time between packets, as the loop's wake-ups show it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gather {
    /// The last wake-up that read packets.
    read_at: Instant,
    /// Packets that this wake-up has read.
    packets: u32,
    /// Mean time between two packets.
    interval: Duration,
}

impl Gather {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            read_at: now,
            packets: 0,
            interval: Duration::MAX,
        }
    }

    /// A packet or super-packet of `bytes` was read.
    pub(super) fn on_packet(&mut self, bytes: usize) {
        let packets = u32::try_from(bytes.div_ceil(BYTES)).unwrap_or(u32::MAX);
        self.packets = self.packets.saturating_add(packets.max(1));
    }

    /// All interfaces that were ready are read, at `now`. A pause in the traffic counts at once, a
    /// rate that rises by and by.
    pub(super) fn on_all_read(&mut self, now: Instant) {
        let packets = std::mem::take(&mut self.packets);
        if packets == 0 {
            return;
        }
        let each = now.saturating_since(self.read_at) / packets;
        self.read_at = now;
        self.interval = match each > LONGEST || self.interval > LONGEST {
            true => each,
            false => (self.interval * (WEIGHT - 1) + each) / WEIGHT,
        };
    }

    /// How long to sleep before the next packets are read. Not at all where fewer than three would
    /// come meanwhile: the sleep costs about as much as two wake-ups.
    pub(super) fn pause(&self) -> Duration {
        if self.interval > LONGEST / 3 {
            return Duration::ZERO;
        }
        let pause = (self.interval * PACKETS).min(LONGEST);
        match pause < SHORTEST {
            true => Duration::ZERO,
            false => pause,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pause in microseconds after wake-ups: the time since the one before in microseconds, its
    /// packets, and their size in bytes.
    fn pause(wakeups: &[(u64, u32, usize)]) -> u128 {
        let mut now = Instant::ZERO;
        let mut gather = Gather::new(now);
        for (micros, packets, bytes) in wakeups {
            now += Duration::from_micros(*micros);
            for _ in 0..*packets {
                gather.on_packet(*bytes);
            }
            gather.on_all_read(now);
        }
        gather.pause().as_micros()
    }

    #[test]
    fn eight_packets_or_half_a_millisecond() {
        for (each, expected) in [(20, 160), (50, 400), (100, 500), (166, 500), (167, 0)] {
            assert_eq!(pause(&[(each, 1, 1200); 50]), expected, "{each} us");
        }
        assert_eq!(pause(&[(400, 8, 40); 50]), 400, "batches");
    }

    #[test]
    fn what_gathers_by_itself_does_not_wait() {
        assert_eq!(pause(&[(12, 1, 1500); 50]), 0, "1 Gbit/s");
        assert_eq!(pause(&[(50, 1, 64_000); 50]), 0, "super-packets");
    }

    #[test]
    fn a_lone_packet_does_not_wait() {
        assert_eq!(pause(&[]), 0);
        assert_eq!(pause(&[(20, 1, 100), (10_000, 1, 100)]), 0);
        assert_eq!(pause(&[(1_000_000, 1, 100)]), 0);
        assert_eq!(pause(&[(20, 0, 0)]), 0);
    }
}
