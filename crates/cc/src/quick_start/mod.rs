//! Quick-Start (RFC 4782): one question for a starting rate, in place of many round trips of slow
//! start.
//!
//! ```text
//!   sender                     routers                        sender, one RTT later
//!   request of a rate ──────►  each lowers it to what is  ──► rate × RTT at once, paced over
//!                              free, and remembers it         one RTT, then its own law
//! ```
//!
//! [`QuickStartLink`] puts a router's part beside any law of a port, [`QuickStart`] a sender's
//! around any law that is [`Startable`].

mod approval;
mod exchange;
mod granted;
mod kept;
#[cfg(test)]
mod law_tests;
mod link;
#[cfg(test)]
mod link_tests;
mod params;
mod pending;
mod sender;
#[cfg(test)]
mod sender_tests;
mod sources;
mod startable;
mod usage;

pub use exchange::{QuickStartAnswer, QuickStartCarried, QuickStartFeedback, QuickStartRequest};
pub(crate) use granted::Granted;
pub use link::{GrantMetrics, QuickStartLink};
pub use sender::{QuickStart, QuickStartMetrics};
pub use startable::{AfterGrant, Startable};
