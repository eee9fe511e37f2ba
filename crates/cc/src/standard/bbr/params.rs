//! BBR's constants (draft-ietf-ccwg-bbr, "Terminology" and the table of control behaviour), as
//! integers.

use crate::base::Duration;

/// Gains and shares are in hundredths.
pub(crate) const UNIT: u64 = 100;

/// `BBR.StartupPacingGain`: 4 ln 2, which doubles the rate per round trip.
pub(super) const STARTUP_PACING_GAIN: u64 = 277;
/// `BBR.DrainPacingGain`.
pub(super) const DRAIN_PACING_GAIN: u64 = 50;
/// `ProbeBW_UP` ends after one round trip without growth in which more than this was in flight. The
/// draft always waits for three round trips, which fill a buffer of three quarters of a BDP.
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
/// `BBR.LossThresh`: the loss per round trip that is accepted while the rate is raised.
pub(super) const LOSS_THRESHOLD: u64 = 2;
/// `BBR.Beta`: the smallest share that a round trip with loss leaves, as with CUBIC.
pub(super) const BETA: u64 = 70;
/// `BBR.Headroom`: the share of the long-term bound that is left to others.
pub(super) const HEADROOM: u64 = 15;
/// `BBR.MinPipeCwnd`, in packets.
pub(super) const MIN_PIPE_PACKETS: u64 = 4;

/// Until a pipe is full, its rate grows by this share within [`FULL_ROUNDS`] round trips.
pub(super) const FULL_GROWTH: u64 = 125;
pub(super) const FULL_ROUNDS: u32 = 3;
/// `BBRStartupFullLossCnt`: number of packet ranges that must be lost in a round trip.
pub(super) const STARTUP_LOSS_RANGES: u64 = 6;
/// Maximum number of round trips in Drain.
pub(super) const DRAIN_ROUNDS: u64 = 3;

/// `BBR.MinRTTFilterLen`.
pub(super) const MIN_RTT_FILTER: Duration = Duration::from_secs(10);
/// `BBR.ProbeRTTInterval`.
pub(super) const PROBE_RTT_INTERVAL: Duration = Duration::from_secs(5);
/// `BBR.ProbeRTTDuration`.
pub(super) const PROBE_RTT_DURATION: Duration = Duration::from_millis(200);
/// `BBR.ExtraAckedFilterLen`, in round trips.
pub(super) const EXTRA_ACKED_ROUNDS: u64 = 10;

/// The time between bandwidth probes is 2 to 3 s, or the round trips that Reno would take to fill
/// the path, up to `RENO_ROUNDS`.
pub(super) const PROBE_WAIT: Duration = Duration::from_secs(2);
pub(super) const PROBE_WAIT_SPREAD: Duration = Duration::from_secs(1);
pub(super) const RENO_ROUNDS: u64 = 63;
/// The growth of the bound doubles per round trip of a probe, up to this number of times.
pub(super) const MAX_UP_ROUNDS: u32 = 30;
