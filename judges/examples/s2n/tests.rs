//! All cases in the test command, in both roles, several at a time.

use std::time::Duration;

use crate::NOT_RUN;
use crate::cases::{NAMES, run};
use crate::roles::{STACKS, can};

/// Each case must be done in it, as the runner's must.
const PATIENCE: Duration = Duration::from_secs(60);

async fn all(names: &[&'static str]) {
    for name in names {
        for stacks in STACKS {
            if can(&NOT_RUN, name, stacks) {
                println!("{name} {stacks:?}");
                let done = tokio::time::timeout(PATIENCE, run(name, stacks)).await;
                done.expect("it is done within a minute");
            }
        }
    }
}

#[tokio::test]
async fn the_first_cases_of_the_interop_runner() {
    all(&NAMES[..8]).await;
}

#[tokio::test]
async fn the_cases_in_its_middle() {
    all(&NAMES[8..13]).await;
}

#[tokio::test]
async fn its_last_cases() {
    all(&NAMES[13..]).await;
}
