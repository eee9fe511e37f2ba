//! Transfers over faults that a seed draws: loss, duplication, reordering, corruption, truncation,
//! rebinding, a path that dies for a while, clocks that jump, an end that dies or forgets. Each
//! seed leaves some kinds out; one in ten has TLS.
//!
//! Nothing may arrive that was not sent so, no connection may hang or panic, and every transfer
//! whose ends live is completed.

#[path = "applications.rs"]
mod applications;
#[path = "plan.rs"]
mod plan;
#[path = "world.rs"]
mod world;

use std::panic::AssertUnwindSafe;

pub(crate) use plan::Plan;
pub(crate) use world::{Crypto, Outcome, World};

/// Runs what `seed` stands for; `trace`: prints each datagram.
///
/// # Errors
/// What went wrong, for people.
pub(crate) fn run(crypto: &Crypto, seed: u64, trace: bool) -> Result<Outcome, String> {
    let plan = Plan::new(seed);
    let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| {
        World::new(crypto, plan.clone(), trace).run()
    }));
    let result = outcome.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
        Err(format!("panic: {}", text.unwrap_or_default()))
    });
    result.map_err(|error| format!("seed {seed}: {error}; {plan:?}"))
}
