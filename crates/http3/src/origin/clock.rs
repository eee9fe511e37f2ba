//! The clocks of an origin.

use std::time::SystemTime;

/// The time by which durations are measured.
#[expect(clippy::disallowed_methods, reason = "this driver owns the clock")]
pub(super) fn instant() -> std::time::Instant {
    std::time::Instant::now()
}

/// The time for fields and entity tags.
#[expect(clippy::disallowed_methods, reason = "this driver owns the clock")]
pub(super) fn now() -> SystemTime {
    SystemTime::now()
}
