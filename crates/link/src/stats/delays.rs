//! Queueing delays at a port.

/// Exponent of the first bound: 2^16 ns.
const FIRST: u32 = 16;
/// Bounds, each twice the one before: 2^16 ns (66 µs) to 2^32 ns (4.3 s).
const BOUNDS: usize = 17;

/// A histogram of queueing delays, in nanoseconds. Counting only takes one increment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// Number of packets up to each bound and above the previous one; the last entry is above
    /// all bounds.
    counts: [u64; BOUNDS + 1],
    sum_nanos: u64,
}

impl Delays {
    /// Counts packets that waited for this long.
    #[inline]
    pub fn count(&mut self, nanos: u64, packets: u32) {
        // Bounds are inclusive, as in Prometheus: 2^16 belongs to the first.
        let exponent = u64::BITS - nanos.saturating_sub(1).leading_zeros();
        let index = exponent.saturating_sub(FIRST) as usize;
        if let Some(count) = self.counts.get_mut(index.min(BOUNDS)) {
            *count += u64::from(packets);
        }
        let sum = nanos.saturating_mul(packets.into());
        self.sum_nanos = self.sum_nanos.wrapping_add(sum);
    }

    /// Bounds in seconds, each with the number of packets that waited no longer.
    pub fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        let mut below = 0;
        (FIRST..)
            .zip(&self.counts[..BOUNDS])
            .map(move |(exponent, count)| {
                below += count;
                ((1u64 << exponent) as f64 / 1e9, below)
            })
    }

    /// Number of all packets.
    pub fn packets(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Sum of all delays in seconds.
    pub fn seconds(&self) -> f64 {
        self.sum_nanos as f64 / 1e9
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_belongs_to_its_own_bucket() {
        let mut delays = Delays::default();
        for (nanos, packets) in [
            (0, 1),
            (1 << 16, 2),
            ((1 << 16) + 1, 4),
            (1 << 32, 8),
            (u64::MAX, 16),
        ] {
            delays.count(nanos, packets);
        }
        let counts: Vec<_> = delays.cumulative().collect();
        assert_eq!(counts.len(), BOUNDS);
        assert_eq!(counts[0], (65_536e-9, 3));
        assert_eq!(counts[1], (131_072e-9, 7));
        assert_eq!((counts[15].1, counts[16]), (7, (4.294_967_296, 15)));
        assert_eq!(delays.packets(), 31);
    }
}
