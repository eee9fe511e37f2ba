//! Probabilities in fixed point.

use super::random::Random;

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

    #[inline]
    pub(super) fn happens(self, random: &mut Random) -> bool {
        u64::from(random.next_u32()) < self.0
    }
}
