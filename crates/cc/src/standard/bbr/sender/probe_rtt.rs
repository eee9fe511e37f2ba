//! ProbeRTT: for a short time, keeps so little in flight that this sender causes no queue
//! (draft-ietf-ccwg-bbr, "ProbeRTT Logic").

use super::Bbr;
use crate::base::Instant;
use crate::standard::bbr::cycle::{AckPhase, State};
use crate::standard::bbr::params::PROBE_RTT_DURATION;
use crate::standard::bbr::rate::RateSample;

impl Bbr {
    /// `CheckProbeRTT`.
    pub(super) fn check_probe_rtt(&mut self, now: Instant, sample: &RateSample) {
        if self.state != State::ProbeRtt && self.min_rtt.expired() && !self.restarting {
            self.save_window();
            self.state = State::ProbeRtt;
            self.probe_rtt_until = None;
            self.probe.acks = AckPhase::Stopping;
            self.rounds.restart(self.sampler.delivered());
        }
        if self.state == State::ProbeRtt {
            self.hold(now);
        }
        if sample.delivered > 0 {
            self.restarting = false;
        }
    }

    /// `HandleProbeRTT`.
    fn hold(&mut self, now: Instant) {
        // ProbeRTT itself causes the low rates.
        self.sampler.mark_app_limited(self.in_flight);
        if self.probe_rtt_until.is_none() {
            if self.in_flight <= self.probe_rtt_window() {
                self.probe_rtt_until = Some(now + PROBE_RTT_DURATION);
                self.probe_rtt_round = false;
                self.rounds.restart(self.sampler.delivered());
            }
            return;
        }
        self.probe_rtt_round |= self.rounds.started;
        if self.probe_rtt_round {
            self.check_probe_rtt_done(now);
        }
    }

    /// `CheckProbeRTTDone`, `ExitProbeRTT`.
    pub(super) fn check_probe_rtt_done(&mut self, now: Instant) {
        if self.probe_rtt_until.is_none_or(|until| now <= until) {
            return;
        }
        self.min_rtt.schedule(now);
        self.restore_window();
        self.bounds.reset_short();
        if self.full.reached {
            self.start_down(now);
            self.state = State::Cruise;
        } else {
            self.state = State::Startup;
        }
    }
}
