//! BBR's constants (draft-ietf-ccwg-bbr, "Terminology" and the table of control behaviour), as
//! integers.

use crate::base::Duration;

/// Gains and shares are in hundredths.
pub(crate) const UNIT: u64 = 100;

/// `BBR.StartupPacingGain`: 4 ln 2, which doubles the rate per round trip.
pub(super) const STARTUP_PACING_GAIN: u64 = 277;
/// `BBR.DrainPacingGain`.
pub(super) const DRAIN_PACING_GAIN: u64 = 50;
/// `ProbeBW_UP` ends after one round trip without growth in which more than this was in flight.
/// The draft waits for three in any case: they fill a buffer of three quarters of a BDP.
pub(super) const QUEUEING_GAIN: u64 = 125;
/// Pacing gains of `ProbeBW_DOWN` and `ProbeBW_UP`.
pub(super) const DOWN_PACING_GAIN: u64 = 90;
pub(super) const UP_PACING_GAIN: u64 = 125;
/// `BBR.DefaultCwndGain`.
pub(super) const CWND_GAIN: u64 = 200;
/// The window's gain in `ProbeBW_UP`.
pub(super) const UP_CWND_GAIN: u64 = 225;
/// `BBR.ProbeRTTCwndGain`.
pub(super) const PROBE_RTT_CWND_GAIN: u64 = 50;
/// `BBR.PacingMarginPercent`.
pub(super) const PACING_MARGIN: u64 = 1;
/// `BBR.LossThresh`: the loss of a round trip that is accepted while the rate is raised.
pub(super) const LOSS_THRESHOLD: u64 = 2;
/// `BBR.Beta`: what a round trip with loss leaves at least, as with CUBIC.
pub(super) const BETA: u64 = 70;
/// `BBR.Headroom`: share of the long-term bound that is left to others.
pub(super) const HEADROOM: u64 = 15;
/// `BBR.MinPipeCwnd`, in packets.
pub(super) const MIN_PIPE_PACKETS: u64 = 4;

/// The rate of a pipe that is not full grows by this share within [`FULL_ROUNDS`] round trips.
pub(super) const FULL_GROWTH: u64 = 125;
pub(super) const FULL_ROUNDS: u32 = 3;
/// `BBRStartupFullLossCnt`: ranges of packets that must be lost in a round trip.
pub(super) const STARTUP_LOSS_RANGES: u64 = 6;
/// Round trips in Drain at most.
pub(super) const DRAIN_ROUNDS: u64 = 3;

/// `BBR.MinRTTFilterLen`.
pub(super) const MIN_RTT_FILTER: Duration = Duration::from_secs(10);
/// `BBR.ProbeRTTInterval`.
pub(super) const PROBE_RTT_INTERVAL: Duration = Duration::from_secs(5);
/// `BBR.ProbeRTTDuration`.
pub(super) const PROBE_RTT_DURATION: Duration = Duration::from_millis(200);
/// `BBR.ExtraAckedFilterLen`, in round trips.
pub(super) const EXTRA_ACKED_ROUNDS: u64 = 10;

/// Between probes of the bandwidth pass 2 to 3 s, or as many round trips as Reno would take to fill
/// the path, at most these.
pub(super) const PROBE_WAIT: Duration = Duration::from_secs(2);
pub(super) const PROBE_WAIT_SPREAD: Duration = Duration::from_secs(1);
pub(super) const RENO_ROUNDS: u64 = 63;
/// The bound's growth doubles per round trip of a probe, so often at most.
pub(super) const MAX_UP_ROUNDS: u32 = 30;
