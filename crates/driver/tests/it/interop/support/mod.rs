//! What the tests share: both implementations behind one face, data with its hash, a path that
//! misbehaves.

pub(crate) mod capture;
pub(crate) mod data;
pub(crate) mod peers;
pub(crate) mod proxy;
pub(crate) mod streams;
mod until;

use std::future::Future;
use std::time::Duration;

pub(crate) use until::until;

/// What every test must be done in; none needs a tenth of it on an idle machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs `test` to its end, within bounds.
pub(crate) async fn bounded<T>(test: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, test)
        .await
        .unwrap_or_else(|_| panic!("not done within {PATIENCE:?}"))
}
