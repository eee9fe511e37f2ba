//! Waiting for other stacks.

use std::time::Duration;

/// Waits for what no event tells of: figures of the stacks beside ours, which are asked for and do
/// not announce themselves. Whoever waits bounds the whole.
pub(crate) async fn until(condition: impl Fn() -> bool) {
    while !condition() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
