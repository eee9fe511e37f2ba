//! Whole connections, two at a time, over links under a virtual clock.

mod acks;
mod ahead;
mod bad_peers;
mod closing;
mod datagrams;
mod ecn;
mod ending;
mod feedback;
pub(crate) mod fixed_window;
mod floods;
mod followed;
mod fuzz_live;
mod gaps;
mod handshake;
mod handshake_probes;
mod ids;
pub(crate) mod inject;
mod key_update;
mod lies;
mod limits;
mod link;
mod little_credit;
mod long_headers;
mod long_silences;
mod memory;
mod mtu;
mod no_parameters;
mod odd_configurations;
mod outage;
mod pair;
mod paths;
mod probed;
pub(crate) mod questions;
mod recovery;
mod sealed;
mod short_memory;
mod signal;
mod small_datagrams;
mod soak;
mod streams;
#[cfg(feature = "rustls")]
mod tls;
mod warm_return;
mod window_limited;
#[cfg(feature = "rustls")]
mod zero_rtt;
