//! Streams over whole connections.

use super::pair::{Pair, Setup};
use crate::Duration;

#[test]
fn a_megabyte_arrives() {
    let mut pair = Pair::connected(Setup::default());
    pair.upload(1 << 20, Duration::from_secs(30));
    assert_eq!(pair.client.get().stats().packets_lost, 0);
}
