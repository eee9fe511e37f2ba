//! What the tests share: both implementations behind one face, data with its hash, a path that
//! misbehaves.

pub(crate) mod capture;
pub(crate) mod data;
pub(crate) mod peers;
pub(crate) mod proxy;
pub(crate) mod streams;

use std::future::Future;
use std::time::Duration;

/// What every test must be done in; none needs a tenth of it on an idle machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs `test` to its end, within bounds.
pub(crate) async fn bounded<T>(test: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, test)
        .await
        .unwrap_or_else(|_| panic!("not done within {PATIENCE:?}"))
}

/// Waits for what no event tells of: figures of the stacks beside ours, which are asked for and do
/// not announce themselves. `bounded` ends it where it never comes.
pub(crate) async fn until(condition: impl Fn() -> bool) {
    while !condition() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
