//! Random bytes for one component, from a seed that its driver provides.

use core::fmt;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// A cryptographically secure generator. With a seed from the operating system, its output is
/// suitable for connection ids, challenges and nonces. With a fixed seed, an emulation is
/// reproducible byte for byte.
pub struct Random(StdRng);

impl Random {
    /// Creates a generator from `seed`.
    pub fn from_seed(seed: [u8; 32]) -> Self {
        Self(StdRng::from_seed(seed))
    }

    /// Creates a generator from a short seed, for emulations and tests.
    pub fn from_u64(seed: u64) -> Self {
        Self(StdRng::seed_from_u64(seed))
    }

    /// Creates a separate generator for a component, seeded from this one.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self::from_seed(self.bytes())
    }

    /// Fills `out`.
    pub fn fill(&mut self, out: &mut [u8]) {
        self.0.fill_bytes(out);
    }

    /// Returns `N` random bytes.
    #[must_use]
    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut out = [0; N];
        self.fill(&mut out);
        out
    }

    /// Returns 64 random bits.
    #[must_use]
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a number below `bound`, uniformly distributed except for a bias of at most
    /// `bound` / 2^64, or 0 if `bound` is 0.
    #[must_use]
    pub fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.next_u64()) * u128::from(bound);
        u64::try_from(wide >> 64).unwrap_or(0)
    }
}

impl fmt::Debug for Random {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Random(..)")
    }
}
