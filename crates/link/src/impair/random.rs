//! One seeded generator per component.

use rand_pcg::Pcg32;
use rand_pcg::rand_core::Rng;

/// A generator whose stream depends on a seed and on the name of the component that uses it.
/// Adding a component therefore does not change the numbers of others. The same seed produces
/// the same stream on every machine.
#[derive(Clone, Debug)]
pub struct Random(Pcg32);

impl Random {
    /// The generator of component `name` under `seed`.
    pub fn new(seed: u64, name: &str) -> Self {
        // FNV-1a. Any fixed hash would do, but std's may change between releases.
        let stream = name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self(Pcg32::new(seed, stream))
    }

    /// 32 uniform bits.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        self.0.next_u32()
    }

    /// A uniform number below `bound`; 0 if `bound` is 0. The bias is less than `bound` / 2^64.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.0.next_u64()) * u128::from(bound);
        u64::try_from(wide >> 64).unwrap_or(0)
    }
}
