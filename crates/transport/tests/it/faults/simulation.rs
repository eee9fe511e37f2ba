//! Transfers over faults that a seed determines: loss, duplication, reordering, corruption,
//! truncation, NAT rebinding, a path that is dead for a while, a killed router, clocks that jump,
//! an end that dies or loses its state, a client that migrates, and scarce memory. Some resume a
//! session with early data, or send datagrams as well as streams. Each seed omits some kinds, and
//! one in ten uses TLS.
//!
//! All data must arrive as it was sent, no connection may hang or panic, and every transfer whose
//! ends stay alive must complete.

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

/// The result of a seed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report {
    pub(crate) outcome: Outcome,
    pub(crate) struck: Struck,
    /// Number of shims into which routers wrote.
    pub(crate) marked: u64,
}

/// Runs the plan of `seed`, and counts how often each kind of fault occurred. `trace` prints each
/// datagram.
///
/// # Errors
/// A description of the failure.
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
