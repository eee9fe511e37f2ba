//! Transfers over faults that a seed draws: loss, duplication, reordering, corruption, truncation,
//! rebinding, a path that dies for a while, a router that is killed, clocks that jump, an end that
//! dies or forgets, a client that moves, memory that is short. Some resume a session with early
//! data, or send datagrams as well as streams. Each seed leaves some kinds out; one in ten has
//! TLS.
//!
//! Nothing may arrive that was not sent so, no connection may hang or panic, and every transfer
//! whose ends live is completed.

#[path = "addresses.rs"]
mod addresses;
#[path = "applications.rs"]
mod applications;
#[path = "crypto.rs"]
mod crypto;
#[path = "ends.rs"]
mod ends;
#[path = "incidents.rs"]
mod incidents;
#[path = "messages.rs"]
mod messages;
#[path = "path.rs"]
mod path;
#[path = "plan.rs"]
mod plan;
#[path = "world.rs"]
mod world;

use std::panic::AssertUnwindSafe;

pub(crate) use crypto::Crypto;
pub(crate) use path::Struck;
pub(crate) use plan::{KINDS, Plan};
pub(crate) use world::{Outcome, World};

/// What came of a seed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report {
    pub(crate) outcome: Outcome,
    pub(crate) struck: Struck,
    /// Shims that routers wrote into.
    pub(crate) marked: u64,
}

/// Runs what `seed` stands for, and counts how often each kind of fault struck; `trace`: prints
/// each datagram.
///
/// # Errors
/// What went wrong, for people.
pub(crate) fn run(crypto: &Crypto, seed: u64, trace: bool) -> Result<Report, String> {
    let plan = Plan::new(seed);
    let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| {
        let both = crypto.of(&plan, &ends::transport(&plan))?;
        let mut world = World::new(both, plan.clone()).traced(trace);
        world.run().map(|outcome| Report {
            outcome,
            struck: world.struck(),
            marked: world.marked(),
        })
    }));
    let result = outcome.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
        Err(format!("panic: {}", text.unwrap_or_default()))
    });
    result.map_err(|error| format!("seed {seed}: {error}; {plan:?}"))
}
