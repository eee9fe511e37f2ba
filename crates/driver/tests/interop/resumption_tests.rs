//! Resumption among all stacks at hand.

use crate::resumption::resumes;
use crate::support::bounded;
use crate::support::peers::PAIRINGS;

#[tokio::test]
async fn either_client_resumes_at_either_server() {
    bounded(async {
        for stacks in PAIRINGS {
            resumes(stacks).await;
        }
    })
    .await;
}
