//! Runs blocking work on the runtime's threads for this purpose.

use std::io;

/// Runs `work` on a blocking thread.
///
/// # Errors
/// Fails if the work panics, or if the runtime shuts down before it begins.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(io::Error::other)
}
