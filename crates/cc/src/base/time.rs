//! Points in time as nanoseconds since an epoch that the driver chooses.

use core::ops::{Add, AddAssign, Sub};

pub use core::time::Duration;

/// A point in time: nanoseconds since the driver's epoch (process start, or 0 in the emulator).
///
/// Arithmetic saturates: time that goes nowhere or overflows never panics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The driver's epoch.
    pub const ZERO: Self = Self(0);
    /// Later than everything: a deadline that never comes.
    pub const FAR_FUTURE: Self = Self(u64::MAX);

    /// The instant `nanos` nanoseconds after the epoch.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// The instant `micros` microseconds after the epoch.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// The instant `millis` milliseconds after the epoch.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// Nanoseconds since the epoch.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Time since `earlier`, zero if `earlier` is later.
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Saturating, and without the 128 bits that `as_nanos` takes.
#[inline]
fn nanos(d: Duration) -> u64 {
    match d.as_secs().checked_mul(1_000_000_000) {
        Some(whole) => whole.saturating_add(d.subsec_nanos().into()),
        None => u64::MAX,
    }
}

impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, rhs: Duration) -> Self {
        Self(self.0.saturating_add(nanos(rhs)))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, rhs: Duration) {
        *self = *self + rhs;
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;
    fn sub(self, rhs: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(rhs)))
    }
}

impl Sub for Instant {
    type Output = Duration;
    /// Time since `rhs`, zero if `rhs` is later.
    fn sub(self, rhs: Self) -> Duration {
        self.saturating_since(rhs)
    }
}
