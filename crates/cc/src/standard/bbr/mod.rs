//! BBR, version 3 (draft-ietf-ccwg-bbr): sets rate and window according to a model of the path,
//! which consists of delivery rates, round trips and losses.
//!
//! ```text
//!   sent, acked, lost ─► rate      delivery rate samples
//!                        model     max_bw, min_rtt, extra_acked and bounds from losses
//!                                  Startup ─► Drain ─► ProbeBW: DOWN, CRUISE, REFILL, UP; ProbeRTT
//!                        sender    pace = gain · bw, window = gain · bw · min_rtt + extra_acked
//! ```
//!
//! Names in comments are from the draft. All values are integers in bytes, nanoseconds and bytes
//! per second; gains are in hundredths.
//!
//! This implementation differs from the draft in the following points. Snapshots of packets are
//! taken at most 32 times per round trip ([`rate`]). Packets lost together are assumed to be evenly
//! spread between the first and the last. Persistent congestion (RFC 9002 §7.6) replaces a
//! retransmission timeout. Because laws use no random numbers, the values that the draft draws at
//! random are computed from the time and the bytes delivered. There is no offload budget beyond the
//! send quantum. The draft leaves the response to a CE mark open: see `sender/congestion.rs`.

mod model;
mod rate;
mod sender;
#[cfg(test)]
mod tests;

use crate::base::Duration;
pub use sender::Bbr;

// BBR's constants (draft-ietf-ccwg-bbr, "Terminology" and the table of control behaviour), as
// integers.

/// Gains and shares are in hundredths.
pub(crate) const UNIT: u64 = 100;

/// `BBR.StartupPacingGain`: 4 ln 2, which doubles the rate per round trip.
const STARTUP_PACING_GAIN: u64 = 277;
/// `BBR.DrainPacingGain`.
const DRAIN_PACING_GAIN: u64 = 50;
/// `ProbeBW_UP` ends after one round trip without growth in which more than this was in flight. The
/// draft always waits for three round trips, which fill a buffer of three quarters of a BDP.
const QUEUEING_GAIN: u64 = 125;
/// Pacing gains of `ProbeBW_DOWN` and `ProbeBW_UP`.
const DOWN_PACING_GAIN: u64 = 90;
const UP_PACING_GAIN: u64 = 125;
/// `BBR.DefaultCwndGain`.
const CWND_GAIN: u64 = 200;
/// The window's gain in `ProbeBW_UP`.
const UP_CWND_GAIN: u64 = 225;
/// `BBR.ProbeRTTCwndGain`.
const PROBE_RTT_CWND_GAIN: u64 = 50;
/// `BBR.PacingMarginPercent`.
const PACING_MARGIN: u64 = 1;
/// `BBR.LossThresh`: the loss per round trip that is accepted while the rate is raised.
const LOSS_THRESHOLD: u64 = 2;
/// `BBR.Beta`: the smallest share that a round trip with loss leaves, as with CUBIC.
const BETA: u64 = 70;
/// `BBR.Headroom`: the share of the long-term bound that is left to others.
const HEADROOM: u64 = 15;
/// `BBR.MinPipeCwnd`, in packets.
const MIN_PIPE_PACKETS: u64 = 4;

/// Until a pipe is full, its rate grows by this share within [`FULL_ROUNDS`] round trips.
const FULL_GROWTH: u64 = 125;
const FULL_ROUNDS: u32 = 3;
/// `BBRStartupFullLossCnt`: number of packet ranges that must be lost in a round trip.
const STARTUP_LOSS_RANGES: u64 = 6;
/// Maximum number of round trips in Drain.
const DRAIN_ROUNDS: u64 = 3;

/// `BBR.MinRTTFilterLen`.
const MIN_RTT_FILTER: Duration = Duration::from_secs(10);
/// `BBR.ProbeRTTInterval`.
const PROBE_RTT_INTERVAL: Duration = Duration::from_secs(5);
/// `BBR.ProbeRTTDuration`.
const PROBE_RTT_DURATION: Duration = Duration::from_millis(200);
/// `BBR.ExtraAckedFilterLen`, in round trips.
const EXTRA_ACKED_ROUNDS: u64 = 10;

/// The time between bandwidth probes is 2 to 3 s, or the round trips that Reno would take to fill
/// the path, up to `RENO_ROUNDS`.
const PROBE_WAIT: Duration = Duration::from_secs(2);
const PROBE_WAIT_SPREAD: Duration = Duration::from_secs(1);
const RENO_ROUNDS: u64 = 63;
/// The growth of the bound doubles per round trip of a probe, up to this number of times.
const MAX_UP_ROUNDS: u32 = 30;
