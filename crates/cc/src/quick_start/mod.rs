//! Quick-Start (RFC 4782): a question for a starting rate, instead of up to ten round trips of slow
//! start.
//!
//! ```text
//!   sender                     routers                        sender, one RTT later
//!   request of a rate ──────►  each lowers it to what is  ──► rate × RTT at once, paced over
//!                              free, and remembers it         one RTT, then its own law
//! ```
//!
//! [`QuickStartLink`] adds the router's part to any law of a port, and [`QuickStart`] adds the
//! sender's part to any law that is [`Startable`].

#[cfg(test)]
mod ahead_tests;
mod granted;
#[cfg(test)]
mod keep_tests;
#[cfg(test)]
mod law_tests;
#[cfg(test)]
mod link_tests;
#[cfg(test)]
mod lost_tests;
#[cfg(test)]
mod oracle_tests;
mod params;
mod port;
mod sender;
#[cfg(test)]
mod sender_tests;
mod startable;
#[cfg(test)]
mod steered_tests;

pub(crate) use granted::Granted;
pub(crate) use params::FIRST_WINDOW;
pub use port::QuickStartLink;
pub use sender::QuickStart;
pub use startable::{AfterGrant, Startable};
