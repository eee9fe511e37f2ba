//! Waiting for other stacks.

use std::time::Duration;

/// Polls a condition that has no event, such as the counters of other stacks. The caller limits the
/// time.
pub(crate) async fn until(condition: impl Fn() -> bool) {
    while !condition() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
