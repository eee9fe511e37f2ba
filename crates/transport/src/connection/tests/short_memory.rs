//! Transfers to a server without memory for what comes behind a gap.

use std::sync::Arc;

use super::link::Faults;
use super::pair::{Pair, Setup};
use crate::Duration;
use crate::streams::ReceiveMemory;

/// A receiver acknowledges no packet in which there is data that it has no memory for, also where
/// it took the rest. So probes that carry new data, or what it waits for beside other data, would
/// get no answer however often they are repeated.
#[test]
fn probes_bring_what_the_receiver_waits_for() {
    for seed in 0..50 {
        let mut pair = Pair::connected(Setup {
            seed,
            latency: Duration::from_millis(50),
            ..Setup::default()
        });
        let memory = Arc::new(ReceiveMemory::new(0));
        pair.server.get().streams().share_memory(memory);
        pair.up.faults = Faults {
            loss: 200_000,
            ..Faults::default()
        };
        pair.down.faults = pair.up.faults.clone();
        pair.upload(200_000, Duration::from_secs(120));
    }
}
