//! Resumption in all pairings of the available stacks.

use super::resumption::resumes;
use super::support::bounded;
use super::support::peers::PAIRINGS;

#[tokio::test]
async fn either_client_resumes_at_either_server() {
    bounded(async {
        for stacks in PAIRINGS {
            resumes(stacks).await;
        }
    })
    .await;
}
