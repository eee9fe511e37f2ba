//! Points in time as nanoseconds since an epoch chosen by the driver.

use core::ops::{Add, AddAssign, Sub};

pub use core::time::Duration;

/// A point in time in nanoseconds since the driver's epoch, which is the start of the process, or 0
/// in the emulator.
///
/// Arithmetic saturates, so negative and overflowing times never panic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The driver's epoch.
    pub const ZERO: Self = Self(0);
    /// Later than any other time, for deadlines that never arrive.
    pub const FAR_FUTURE: Self = Self(u64::MAX);

    /// Returns the time `nanos` nanoseconds after the epoch.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Returns the time `micros` microseconds after the epoch.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// Returns the time `millis` milliseconds after the epoch.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// Returns the nanoseconds since the epoch.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the time since `earlier`, or zero if `earlier` is later.
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Returns the nanoseconds, saturating, without the 128 bits of `as_nanos`.
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
    /// Returns the time since `rhs`, or zero if `rhs` is later.
    fn sub(self, rhs: Self) -> Duration {
        self.saturating_since(rhs)
    }
}
