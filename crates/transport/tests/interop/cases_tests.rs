//! The interop runner's cases in the test command: all of them, in both roles, several at a time.

use crate::cases::{NAMES, run};
use crate::resumption::resumes;
use crate::support::bounded;
use crate::support::peers::{PAIRINGS, STRANGERS};

async fn all(names: &[&'static str]) {
    for name in names {
        for stacks in STRANGERS {
            println!("{name} {stacks:?}");
            bounded(run(name, stacks)).await;
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

#[tokio::test]
async fn either_client_resumes_at_either_server() {
    bounded(async {
        for stacks in PAIRINGS {
            resumes(stacks).await;
        }
    })
    .await;
}
