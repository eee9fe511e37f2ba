//! Impairments of a link: loss, delay, and reordering, with their random numbers and probabilities.

mod bits;
mod code;
mod loss;

use rand_pcg::Pcg32;
use rand_pcg::rand_core::Rng;

pub use bits::{Antennas, BitErrors, BitRates, bit_error_rate};
pub use code::{Code, Redundancy, Short};
pub use loss::{GilbertElliott, Loss, TimedGilbertElliott};

/// A probability in 2^-32; 2^32 means certainty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Probability(u64);

impl Probability {
    /// Never.
    pub const ZERO: Self = Self(0);
    /// Always.
    pub const ONE: Self = Self(1 << 32);

    /// ⌊p·2^32⌋ for p between 0 and 1; `None` outside this range.
    pub fn new(p: f64) -> Option<Self> {
        // The product is at most 2^32, so the cast is exact except for the intended floor.
        (0.0..=1.0)
            .contains(&p)
            .then_some(Self((p * 4_294_967_296.0) as u64))
    }

    /// `part` / `whole`, rounded down, at most 1; 0 if `whole` is 0.
    pub fn ratio(part: u64, whole: u64) -> Self {
        let scaled = (u128::from(part) << 32)
            .checked_div(u128::from(whole))
            .unwrap_or(0);
        Self(u64::try_from(scaled).unwrap_or(u64::MAX).min(1 << 32))
    }

    /// The value in 2^-32.
    pub const fn q32(self) -> u64 {
        self.0
    }

    fn happens(self, random: &mut Random) -> bool {
        u64::from(random.next_u32()) < self.0
    }
}

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
    pub fn next_u32(&mut self) -> u32 {
        self.0.next_u32()
    }

    /// A uniform number below `bound`; 0 if `bound` is 0. The bias is less than `bound` / 2^64.
    pub fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.0.next_u64()) * u128::from(bound);
        u64::try_from(wide >> 64).unwrap_or(0)
    }
}
