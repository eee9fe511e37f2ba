//! The interop runner's cases as tests: all that can be run, in both roles, several at a time. This
//! also tests other stacks besides quinn.

use std::time::Duration;

use super::cases::{NAMES, PATIENCE_WITH_LOSS, Stacks, run};
use super::{STACKS, can};

/// Runs every third case, starting from number `first`, with both pairs of stacks at the same time.
async fn each_third(first: usize) {
    for name in NAMES.into_iter().skip(first).step_by(3) {
        let [one, other] = STACKS.map(|stacks| judge(name, stacks));
        tokio::join!(one, other);
    }
}

async fn judge(name: &str, stacks: Stacks) {
    if can(name, stacks) {
        println!("{name} {stacks:?}");
        let limit = match name {
            "handshakeloss" | "handshakecorruption" => PATIENCE_WITH_LOSS,
            _ => Duration::from_secs(60),
        };
        let done = tokio::time::timeout(limit, run(name, stacks)).await;
        assert!(
            done.is_ok(),
            "{name} {stacks:?} is not done within {limit:?}"
        );
    }
}

#[tokio::test]
async fn a_third_of_the_cases_of_the_interop_runner() {
    each_third(0).await;
}

#[tokio::test]
async fn another_third() {
    each_third(1).await;
}

#[tokio::test]
async fn the_last_third() {
    each_third(2).await;
}
