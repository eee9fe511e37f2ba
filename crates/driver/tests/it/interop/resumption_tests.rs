//! Resumption in all pairings of the available stacks.

use super::resumption::resumes;
use super::support::each;
use super::support::peers::PAIRINGS;

#[tokio::test]
async fn either_client_resumes_at_either_server() {
    each(PAIRINGS, resumes).await;
}
