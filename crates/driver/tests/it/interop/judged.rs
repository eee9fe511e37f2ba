//! The interop runner's cases in the test command: all that can be run, in both roles, several at a
//! time. Tests with another stack than quinn are these, too.

use std::time::Duration;

use super::cases::{NAMES, run};
use super::{STACKS, can};

/// Each case must be done in it, as the runner's must.
const PATIENCE: Duration = Duration::from_secs(60);

/// Every third case, from number `first` on.
async fn each_third(first: usize) {
    for name in NAMES.into_iter().skip(first).step_by(3) {
        for stacks in STACKS {
            if can(name, stacks) {
                println!("{name} {stacks:?}");
                let done = tokio::time::timeout(PATIENCE, run(name, stacks)).await;
                done.expect("it is done within a minute");
            }
        }
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
