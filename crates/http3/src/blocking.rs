//! Work that blocks, on threads for it.

use std::io;

/// Runs `work` on a thread that may block.
///
/// # Errors
/// If the work panics, or the runtime ends before it has begun.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(io::Error::other)
}
