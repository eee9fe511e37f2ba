//! BBR, version 3 (draft-ietf-ccwg-bbr): a model of the path, made of delivery rates, round trips
//! and losses, sets rate and window.
//!
//! ```text
//!   sent, acked, lost ─► rate      delivery rate samples
//!                        model     max_bw, min_rtt, extra_acked and what losses bound
//!                        cycle     Startup ─► Drain ─► ProbeBW: DOWN, CRUISE, REFILL, UP; ProbeRTT
//!                        sender    pace = gain · bw, window = gain · bw · min_rtt + extra_acked
//! ```
//!
//! Names in comments are the draft's. Everything is in bytes, nanoseconds and bytes per second, in
//! integers; gains are in hundredths.
//!
//! Where this departs from the draft: snapshots of packets are taken at most 32 times per round
//! trip ([`rate`]); packets lost together are taken for evenly spread between the first and the
//! last; persistent congestion (RFC 9002 §7.6) stands for a retransmission timeout; what the draft
//! draws at random is made of the time and the bytes delivered, since laws draw nothing; there is
//! no offload budget beyond the send quantum. What a CE mark does is left open there: see
//! `sender/marks.rs`.

mod aggregation;
mod bounds;
mod cycle;
mod filters;
mod full_pipe;
mod min_rtt;
mod params;
mod rate;
mod sender;
#[cfg(test)]
mod tests;

pub use sender::Bbr;
