//! The clocks of an origin.

use std::time::SystemTime;

/// Returns the time for measuring durations.
#[expect(clippy::disallowed_methods, reason = "this driver owns the clock")]
pub(super) fn instant() -> std::time::Instant {
    std::time::Instant::now()
}

/// Returns the time for fields and entity tags.
#[expect(clippy::disallowed_methods, reason = "this driver owns the clock")]
pub(super) fn now() -> SystemTime {
    SystemTime::now()
}
