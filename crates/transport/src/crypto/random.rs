//! The random bytes of one component, from a seed that its driver chose.

use core::fmt;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// A cryptographically strong generator. With a seed from the operating system its output is fit
/// for connection ids, challenges and nonces; with a fixed one an emulation repeats itself byte for
/// byte.
pub struct Random(StdRng);

impl Random {
    /// The generator that `seed` determines.
    #[must_use]
    pub fn from_seed(seed: [u8; 32]) -> Self {
        Self(StdRng::from_seed(seed))
    }

    /// The generator that a short seed determines. For emulations and tests.
    #[must_use]
    pub fn from_u64(seed: u64) -> Self {
        Self(StdRng::seed_from_u64(seed))
    }

    /// A generator of its own for a part, seeded from this one.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self::from_seed(self.bytes())
    }

    /// Fills `out`.
    pub fn fill(&mut self, out: &mut [u8]) {
        self.0.fill_bytes(out);
    }

    /// `N` random bytes.
    #[must_use]
    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut out = [0; N];
        self.fill(&mut out);
        out
    }

    /// 64 random bits.
    #[must_use]
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `bound`, uniform but for a bias of at most `bound` / 2^64. 0 if `bound` is 0.
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
