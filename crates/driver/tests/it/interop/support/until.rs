//! Waiting for other stacks.

use std::time::Duration;

/// Waits for a condition without an event: counters of the other stacks, which are polled. The
/// caller bounds the whole.
pub(crate) async fn until(condition: impl Fn() -> bool) {
    while !condition() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
