//! States and their gains (draft-ietf-ccwg-bbr, "Summary of Control Behavior in the State
//! Machine").

use super::params::{
    CWND_GAIN, DOWN_PACING_GAIN, DRAIN_PACING_GAIN, PROBE_RTT_CWND_GAIN, STARTUP_PACING_GAIN, UNIT,
    UP_CWND_GAIN, UP_PACING_GAIN,
};

/// `BBR.state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

impl State {
    /// `BBR.pacing_gain`, in hundredths.
    pub(super) const fn pacing_gain(self) -> u64 {
        match self {
            Self::Startup => STARTUP_PACING_GAIN,
            Self::Drain => DRAIN_PACING_GAIN,
            Self::Down => DOWN_PACING_GAIN,
            Self::Up => UP_PACING_GAIN,
            Self::Cruise | Self::Refill | Self::ProbeRtt => UNIT,
        }
    }

    /// `BBR.cwnd_gain`, in hundredths.
    pub(super) const fn cwnd_gain(self) -> u64 {
        match self {
            Self::Up => UP_CWND_GAIN,
            Self::ProbeRtt => PROBE_RTT_CWND_GAIN,
            _ => CWND_GAIN,
        }
    }

    pub(super) const fn is_probe_bw(self) -> bool {
        matches!(self, Self::Down | Self::Cruise | Self::Refill | Self::Up)
    }

    /// `IsProbingBW`: the rate is being raised, so losses affect only the long-term bound.
    pub(super) const fn accelerates(self) -> bool {
        matches!(self, Self::Startup | Self::Refill | Self::Up)
    }
}

/// `BBR.ack_phase`: the part of a probe to which acknowledgements belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AckPhase {
    /// No probe.
    Init,
    /// The pipe is being filled.
    Refilling,
    /// The probe has begun.
    Starting,
    /// The acknowledgements are for packets of the probe.
    Feedback,
    /// The probe is over, but acknowledgements for its packets still arrive.
    Stopping,
}
