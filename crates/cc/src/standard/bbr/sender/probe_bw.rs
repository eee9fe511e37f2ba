//! ProbeBW: the cycle that raises the rate for a while, lowers it, and then keeps it
//! (draft-ietf-ccwg-bbr, "ProbeBW Algorithm Details").

use super::Bbr;
use crate::base::arith::{nanos, scramble};
use crate::base::{Duration, Instant};
use crate::standard::bbr::model::{AckPhase, NONE, State, too_high};
use crate::standard::bbr::rate::RateSample;
use crate::standard::bbr::{
    MAX_UP_ROUNDS, PROBE_RTT_DURATION, PROBE_WAIT, PROBE_WAIT_SPREAD, QUEUEING_GAIN, RENO_ROUNDS,
};

#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    pub(super) acks: AckPhase,
    /// `BBR.is_bw_probe_sample`.
    pub(super) sampling: bool,
    /// `BBR.prev_probe_too_high`, `BBR.prev_probe_precautionary`.
    pub(super) too_high: bool,
    precautionary: bool,
    /// `BBR.rounds_since_probe_up`.
    pub(super) rounds: u64,
    /// The filter of the rate has not advanced yet since the end of the last cycle.
    cycle_over: bool,
    /// `BBR.cycle_stamp`, `BBR.bw_probe_wait`.
    cycle_began: Instant,
    wait: Duration,
    /// `BBR.bw_probe_up_rounds`, `BBR.bw_probe_up_acked`, `BBR.probe_up_acked_per_inc`.
    up_rounds: u32,
    up_acked: u64,
    acked_per_packet: u64,
}

impl Probe {
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            acks: AckPhase::Init,
            sampling: false,
            too_high: false,
            precautionary: false,
            rounds: 0,
            cycle_over: false,
            cycle_began: now,
            wait: PROBE_WAIT,
            up_rounds: 0,
            up_acked: 0,
            acked_per_packet: NONE,
        }
    }
}

impl Bbr {
    /// `TargetInflight`.
    pub(crate) fn target(&self) -> u64 {
        self.bdp().min(self.window)
    }

    /// `StartProbeBW_DOWN`.
    pub(super) fn start_down(&mut self, now: Instant) {
        self.reset_congestion();
        self.probe.acked_per_packet = NONE;
        // `PickProbeWait`: time and bytes differ between flows that share a path.
        let drawn = scramble(now.as_nanos() ^ self.sampler.delivered().rotate_left(32));
        self.probe.rounds = drawn & 1;
        let spread = (drawn >> 1) % nanos(PROBE_WAIT_SPREAD);
        self.probe.wait = PROBE_WAIT + Duration::from_nanos(spread);
        self.probe.cycle_began = now;
        self.probe.acks = AckPhase::Stopping;
        self.rounds.restart(self.sampler.delivered());
        self.state = State::Down;
    }

    /// `StartProbeBW_REFILL`.
    pub(super) fn start_refill(&mut self) {
        self.bounds.reset_short();
        self.probe.up_rounds = 0;
        self.probe.up_acked = 0;
        self.probe.precautionary = false;
        self.probe.acks = AckPhase::Refilling;
        self.rounds.restart(self.sampler.delivered());
        self.state = State::Refill;
    }

    /// `StartProbeBW_UP`.
    fn start_up(&mut self, sample: &RateSample) {
        self.probe.acks = AckPhase::Starting;
        self.rounds.restart(self.sampler.delivered());
        self.full.reset(sample.rate);
        self.state = State::Up;
        self.raise_slope();
    }

    /// `UpdateProbeBWCyclePhase`.
    pub(super) fn update_cycle(&mut self, now: Instant, sample: &RateSample) {
        if !self.full.reached || self.adapt_long_term(sample) {
            return;
        }
        if self.state == State::Up && self.is_time_to_go_down(sample) {
            self.probe.too_high = false;
            self.start_down(now);
            return;
        }
        match self.state {
            State::Down | State::Cruise if self.is_time_to_probe(now) => self.start_refill(),
            State::Down if self.is_time_to_cruise() => self.state = State::Cruise,
            State::Refill if self.rounds.started => {
                self.probe.sampling = true;
                self.start_up(sample);
            }
            _ => {}
        }
    }

    fn is_time_to_probe(&self, now: Instant) -> bool {
        let reno_rounds = (self.target() / self.mtu).clamp(1, RENO_ROUNDS);
        now > self.probe.cycle_began + self.probe.wait || self.probe.rounds >= reno_rounds
    }

    fn is_time_to_cruise(&self) -> bool {
        self.in_flight <= self.bounds.with_headroom(self.mtu, self.floor())
            && self.in_flight <= self.balanced(self.max_bw.max())
    }

    fn is_time_to_go_down(&mut self, sample: &RateSample) -> bool {
        if self.probe.too_high && self.in_flight >= self.bounds.long {
            self.probe.precautionary = true;
            return true;
        }
        if self.window_used() && self.window >= self.bounds.long {
            // The bound is the limit, and not the path.
            self.full.reset(sample.rate);
            return false;
        }
        self.full.now || self.queues()
    }

    /// True if the path's rate has not grown, and more is in flight than the path holds.
    fn queues(&self) -> bool {
        let rate = self.max_bw.max();
        self.full.stands_at(rate) && self.in_flight > self.multiple(rate, QUEUEING_GAIN)
    }

    /// `AdaptLongTermModel`. Returns true if the state has changed.
    fn adapt_long_term(&mut self, sample: &RateSample) -> bool {
        if self.rounds.started && self.probe.acks == AckPhase::Starting {
            self.probe.acks = AckPhase::Feedback;
        }
        if self.rounds.started && self.probe.acks == AckPhase::Stopping {
            self.probe.sampling = false;
            self.probe.acks = AckPhase::Init;
            self.probe.cycle_over = true;
            if self.state.is_probe_bw() && self.probe.precautionary && !self.probe.too_high {
                self.advance_filter(sample);
                self.start_refill();
                return true;
            }
        }
        self.advance_filter(sample);
        if too_high(sample) || self.bounds.long == NONE {
            return false;
        }
        self.bounds.long = self.bounds.long.max(sample.tx_in_flight);
        if self.state == State::Up {
            self.raise_bound(sample);
        }
        false
    }

    /// `AdvanceMaxBwFilter`, with the first round trip after a cycle in which the application is
    /// not the limit. The draft skips the advance if this round trip is not the last of the cycle,
    /// but then an outdated rate would persist if ProbeRTT ended each cycle.
    fn advance_filter(&mut self, sample: &RateSample) {
        let says = self.rounds.started && self.state.is_probe_bw() && !sample.app_limited;
        if self.probe.cycle_over && says {
            self.probe.cycle_over = false;
            self.max_bw.advance();
        }
    }

    /// `RaiseInflightLongtermSlope`.
    fn raise_slope(&mut self) {
        let growth = 1u64 << self.probe.up_rounds;
        self.probe.up_rounds = (self.probe.up_rounds + 1).min(MAX_UP_ROUNDS);
        self.probe.acked_per_packet = (self.window / growth).max(self.mtu);
    }

    /// `ProbeInflightLongtermUpward`.
    fn raise_bound(&mut self, sample: &RateSample) {
        if !self.window_used() || self.window < self.bounds.long {
            return;
        }
        self.probe.up_acked = self.probe.up_acked.saturating_add(sample.acked);
        let per_packet = self.probe.acked_per_packet.max(1);
        let packets = self.probe.up_acked / per_packet;
        self.probe.up_acked %= per_packet;
        self.bounds.long = self
            .bounds
            .long
            .saturating_add(packets.saturating_mul(self.mtu));
        if self.rounds.started {
            self.raise_slope();
        }
    }
}

// ProbeRTT: for a short time, keeps so little in flight that this sender causes no queue
// (draft-ietf-ccwg-bbr, "ProbeRTT Logic").

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
