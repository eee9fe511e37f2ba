//! Quick-Start (RFC 4782): one question for a starting rate, in place of up to ten round trips of
//! slow start.
//!
//! ```text
//!   sender                     routers                        sender, one RTT later
//!   request of a rate ──────►  each lowers it to what is  ──► rate × RTT at once, paced over
//!                              free, and remembers it         one RTT, then its own law
//! ```
//!
//! [`QuickStartLink`] adds a router's part to any law of a port, [`QuickStart`] adds a sender's to
//! any law that is [`Startable`].

mod ahead;
#[cfg(test)]
mod ahead_tests;
mod answers;
mod approval;
mod burst;
mod exchange;
mod flight;
mod granted;
mod keep;
#[cfg(test)]
mod keep_tests;
mod kept;
#[cfg(test)]
mod law_tests;
mod link;
#[cfg(test)]
mod link_tests;
#[cfg(test)]
mod lost_tests;
mod metrics;
#[cfg(test)]
mod oracle_tests;
mod params;
mod pending;
mod question;
mod sender;
#[cfg(test)]
mod sender_tests;
mod sources;
mod startable;
#[cfg(test)]
mod steered_tests;
mod usage;
mod waiting;

pub use exchange::{
    KnownPath, QuickStartAnswer, QuickStartCarried, QuickStartFeedback, QuickStartPurpose,
    QuickStartRequest,
};
pub(crate) use granted::Granted;
pub use link::{GrantMetrics, QuickStartLink};
pub use metrics::{QuickStartMetrics, QuickStartOutcome};
pub(crate) use params::FIRST_WINDOW;
pub use sender::QuickStart;
pub use startable::{AfterGrant, Startable};
