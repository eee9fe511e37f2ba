//! Real time for the sans-I/O core.

use std::sync::OnceLock;
use std::time;

use pathmark_transport::{Duration, Instant};

/// Returns the time of the clock that drives this process's connections, which starts at 1 s with
/// the first call.
#[expect(clippy::disallowed_methods, reason = "the driver owns the clock")]
pub fn now() -> Instant {
    static EPOCH: OnceLock<time::Instant> = OnceLock::new();
    let since = EPOCH.get_or_init(time::Instant::now).elapsed();
    // Starting above zero, the epoch, leaves room below for arithmetic.
    Instant::from_nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
        + Duration::from_secs(1)
}

/// Returns the Unix time, which tokens use for their expiry.
#[expect(clippy::disallowed_methods, reason = "the driver owns the clock")]
pub(super) fn unix_time() -> Duration {
    time::SystemTime::now()
        .duration_since(time::UNIX_EPOCH)
        .unwrap_or_default()
}
