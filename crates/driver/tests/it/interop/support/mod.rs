//! Shared by the tests: a common interface to both implementations, data with its hash, and an
//! unreliable path.

pub(crate) mod capture;
pub(crate) mod data;
pub(crate) mod peers;
pub(crate) mod proxy;
pub(crate) mod streams;
mod until;

use std::time::Duration;

use peers::Stack;
pub(crate) use until::until;

/// Time limit for every test. On an idle machine, no test needs a tenth of this time.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs `test` to completion within the time limit.
pub(crate) async fn bounded<T>(test: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(PATIENCE, test).await;
    done.unwrap_or_else(|_| panic!("not done within {PATIENCE:?}"))
}

/// Runs a test within the time limit, in a runtime of this thread.
pub(crate) fn in_time<T>(test: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().unwrap();
    runtime.block_on(bounded(test))
}

/// Like [`each`], in a runtime of this thread.
pub(crate) fn for_each<const N: usize>(
    pairs: [(Stack, Stack); N],
    test: impl AsyncFn((Stack, Stack)),
) {
    in_time(each(pairs, test));
}

/// Runs `test` for each (client, server), one after the other, within the time limit.
pub(crate) async fn each<const N: usize>(
    pairs: [(Stack, Stack); N],
    test: impl AsyncFn((Stack, Stack)),
) {
    let all = async {
        for stacks in pairs {
            println!("{stacks:?}");
            test(stacks).await;
        }
    };
    bounded(all).await;
}
