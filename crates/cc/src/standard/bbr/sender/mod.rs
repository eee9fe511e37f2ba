//! The controller: events update the model and the state, which determine pace and window.

mod congestion;
mod probe_bw;

use super::model::{Aggregation, Bounds, FullPipe, Latest, MinRtt, NONE, State, TwoCycles};
use super::rate::{RateSample, Sampler};
use super::{
    DRAIN_ROUNDS, MIN_PIPE_PACKETS, PACING_MARGIN, PROBE_RTT_CWND_GAIN, STARTUP_PACING_GAIN, UNIT,
};
use crate::base::arith::{MAX_BYTES, mul_div, nanos, rate};
use crate::base::{Duration, Instant, arith};
use crate::law::{Acked, Controller, Lost, PacketState, Sent};
use crate::metrics::{Metrics, Phase};
use congestion::Losses;
use probe_bw::Probe;

/// A round trip for the first pace, before any was measured (`InitPacingRate`).
const FIRST_RTT: Duration = Duration::from_millis(1);
/// Largest `C.send_quantum`.
const MAX_QUANTUM: u64 = 64 * 1024;

/// Round trips, counted by packets (`BBR.round_count`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rounds {
    pub(super) count: u64,
    /// True if the current acknowledgement began a round trip.
    pub(super) started: bool,
    /// The round trip ends when a packet that left after this number of delivered bytes is
    /// acknowledged.
    ends_at: u64,
}

impl Rounds {
    /// `StartRound`: starts a new round trip.
    pub(super) const fn restart(&mut self, delivered: u64) {
        self.ends_at = delivered;
    }

    const fn on_sample(&mut self, prior_delivered: u64, delivered: u64) {
        self.started = prior_delivered >= self.ends_at;
        if self.started {
            self.ends_at = delivered;
            self.count += 1;
        }
    }
}

/// Whether the window was used up in a round trip (`C.is_cwnd_limited`).
#[derive(Clone, Copy, Debug, Default)]
struct Use {
    running: bool,
    last: bool,
}

/// The controller `bbr`. Acknowledgements move its `state` from Startup through Drain to the cycle
/// of ProbeBW and ProbeRTT.
#[derive(Clone, Debug)]
pub struct Bbr {
    pub(super) mtu: u64,
    initial: u64,
    pub(super) window: u64,
    pace: u64,
    pub(super) state: State,
    pub(super) sampler: Sampler,
    pub(super) rounds: Rounds,
    pub(super) max_bw: TwoCycles,
    /// `BBR.bw`.
    pub(super) bw: u64,
    pub(super) min_rtt: MinRtt,
    /// The latest RTT or the smoothed RTT, whichever is longer.
    srtt: Duration,
    pub(super) aggregation: Aggregation,
    pub(super) full: FullPipe,
    pub(super) bounds: Bounds,
    pub(super) latest: Latest,
    probe: Probe,
    losses: Losses,
    /// When the controller last responded to marks.
    pub(super) marked_at: Option<Instant>,
    /// The sample of the latest acknowledgement.
    pub(super) newest: RateSample,
    drain_round: u64,
    /// `BBR.idle_restart`.
    pub(super) restarting: bool,
    /// When ProbeRTT may end, and whether a round trip has passed in it.
    pub(super) probe_rtt_until: Option<Instant>,
    pub(super) probe_rtt_round: bool,
    /// `BBR.prior_cwnd`.
    prior_window: u64,
    /// Loss recovery lasts until a packet after this one is acknowledged.
    pub(super) recovery_end: Option<u64>,
    pub(super) in_flight: u64,
    last_sent: u64,
    used: Use,
}

impl Bbr {
    /// Creates BBR for datagrams of `mtu` bytes of UDP payload on a path that begins at `now`. The
    /// initial window is `initial` datagrams, or that of RFC 9002.
    pub fn new(now: Instant, mtu: u16, initial: Option<u32>) -> Self {
        let mtu = u64::from(mtu.max(1));
        let initial = arith::initial(mtu, initial);
        Self {
            mtu,
            initial,
            window: initial,
            pace: rate(initial, FIRST_RTT, STARTUP_PACING_GAIN, UNIT),
            state: State::Startup,
            sampler: Sampler::new(now),
            rounds: Rounds::default(),
            max_bw: TwoCycles::default(),
            bw: 0,
            min_rtt: MinRtt::new(now),
            srtt: FIRST_RTT,
            aggregation: Aggregation::new(now),
            full: FullPipe::default(),
            bounds: Bounds::default(),
            latest: Latest::default(),
            probe: Probe::new(now),
            losses: Losses::default(),
            marked_at: None,
            newest: RateSample::default(),
            drain_round: 0,
            restarting: false,
            probe_rtt_until: None,
            probe_rtt_round: false,
            prior_window: 0,
            recovery_end: None,
            in_flight: 0,
            last_sent: 0,
            used: Use::default(),
        }
    }

    /// Continues at `now` with `window` bytes per round trip of `srtt`, which the path can carry
    /// according to another law; `least` is the path's minimum RTT. The state becomes ProbeBW, so
    /// that a probe follows within three seconds. Earlier measurements no longer count.
    pub(crate) fn take_over(&mut self, now: Instant, window: u64, least: Duration, srtt: Duration) {
        let window = window.clamp(self.floor(), MAX_BYTES);
        *self = Self {
            mtu: self.mtu,
            initial: self.initial,
            sampler: self.sampler.restarted(now),
            last_sent: self.last_sent,
            in_flight: self.in_flight,
            window,
            srtt,
            ..Self::new(now, 1, None)
        };
        self.min_rtt.start(now, least);
        self.full.reached = true;
        self.bw = rate(window, srtt, 1, 1);
        self.max_bw.add(self.bw);
        self.start_down(now);
        self.state = State::Cruise;
        self.set_pace(UNIT);
    }

    /// `BBR.MinPipeCwnd`, in bytes.
    pub(super) const fn floor(&self) -> u64 {
        self.mtu.saturating_mul(MIN_PIPE_PACKETS)
    }

    /// `BDPMultiple` of a rate in bytes per second, with a gain in hundredths.
    pub(super) fn multiple(&self, bw: u64, gain: u64) -> u64 {
        let Some(min_rtt) = self.min_rtt.get() else {
            return self.initial;
        };
        let bdp = mul_div(bw, nanos(min_rtt), 1_000_000_000);
        mul_div(bdp, gain, UNIT).min(MAX_BYTES)
    }

    /// `BBR.bdp`.
    pub(super) fn bdp(&self) -> u64 {
        self.multiple(self.bw, UNIT)
    }

    /// `QuantizationBudget`.
    fn quantized(&self, in_flight: u64) -> u64 {
        let quantum = (self.pace / 1000).min(MAX_QUANTUM).max(2 * self.mtu);
        let cap = in_flight.max(quantum).max(self.floor());
        match self.state {
            State::Up => cap.saturating_add(2 * self.mtu),
            _ => cap,
        }
    }

    /// `Inflight(bw, 1.0)`.
    pub(super) fn balanced(&self, bw: u64) -> u64 {
        self.quantized(self.multiple(bw, UNIT))
    }

    /// `ProbeRTTCwnd`.
    pub(super) fn probe_rtt_window(&self) -> u64 {
        self.multiple(self.bw, PROBE_RTT_CWND_GAIN)
            .max(self.floor())
    }

    /// `C.is_cwnd_limited`.
    pub(super) const fn window_used(&self) -> bool {
        self.used.last || self.used.running
    }

    /// `SaveCwnd`.
    pub(super) fn save_window(&mut self) {
        let unmodified = self.recovery_end.is_none() && self.state != State::ProbeRtt;
        self.prior_window = if unmodified {
            self.window
        } else {
            self.prior_window.max(self.window)
        };
    }

    /// `RestoreCwnd`.
    pub(super) fn restore_window(&mut self) {
        self.window = self.window.max(self.prior_window);
    }

    /// `CheckFullBWReached`, `CheckStartupDone`, `CheckDrainDone`.
    fn check_start(&mut self, now: Instant, sample: &RateSample) {
        if self.rounds.started && !sample.app_limited {
            self.full.on_round(sample.rate);
        }
        if self.state == State::Startup && self.full.reached {
            self.enter_drain();
        }
        let late = self.rounds.count > self.drain_round + DRAIN_ROUNDS;
        if self.state == State::Drain && (self.in_flight <= self.balanced(self.bw) || late) {
            self.start_down(now);
        }
    }

    pub(super) const fn enter_drain(&mut self) {
        self.state = State::Drain;
        self.drain_round = self.rounds.count;
    }

    fn set_pace(&mut self, gain: u64) {
        if self.bw == 0 {
            return;
        }
        let pace = mul_div(self.bw, gain * (UNIT - PACING_MARGIN), UNIT * UNIT).max(1);
        if self.full.reached || pace > self.pace {
            self.pace = pace;
        }
    }

    /// `HandleRestartFromIdle`.
    fn restart(&mut self, now: Instant) {
        if !self.sampler.is_app_limited() {
            return;
        }
        self.restarting = true;
        self.aggregation.restart(now);
        if self.state.is_probe_bw() {
            self.set_pace(UNIT);
        } else if self.state == State::ProbeRtt {
            self.check_probe_rtt_done(now);
        }
    }

    fn set_window(&mut self, acked: u64) {
        let wanted = self
            .multiple(self.bw, self.state.cwnd_gain())
            .saturating_add(self.aggregation.extra());
        let most = self.quantized(wanted);
        if self.full.reached {
            self.window = self.window.saturating_add(acked).min(most);
        } else if self.window < most || self.sampler.delivered() < self.initial {
            self.window = self.window.saturating_add(acked);
        }
        self.window = self.window.clamp(self.floor(), MAX_BYTES);
        if self.state == State::ProbeRtt {
            self.window = self.window.min(self.probe_rtt_window());
        }
        self.bound_window();
    }

    /// `BoundCwndForModel`.
    fn bound_window(&mut self) {
        let floor = self.floor();
        let long = match self.state {
            State::Down | State::Refill | State::Up => self.bounds.long,
            State::Cruise | State::ProbeRtt => self.bounds.with_headroom(self.mtu, floor),
            State::Startup | State::Drain => NONE,
        };
        self.window = self.window.min(long.min(self.bounds.short).max(floor));
    }
}

impl Controller for Bbr {
    fn on_sent(&mut self, now: Instant, sent: &Sent) -> PacketState {
        self.last_sent = self.last_sent.max(sent.packet_number);
        self.in_flight = sent.in_flight;
        if sent.in_flight <= sent.bytes {
            self.restart(now);
        }
        let used = sent.in_flight.saturating_add(self.mtu) > self.window;
        self.used.running |= used;
        let state = self.sampler.on_sent(now, sent, self.srtt);
        if sent.limit == crate::law::Limit::Application && !used {
            self.sampler.mark_app_limited(sent.in_flight);
        }
        state
    }

    fn on_ack(&mut self, now: Instant, acked: &Acked) {
        self.in_flight = acked.in_flight_before.saturating_sub(acked.bytes);
        self.srtt = acked.srtt.max(acked.rtt.unwrap_or_default());
        let recovered = self.recovery_end.is_some_and(|end| acked.largest > end);
        if recovered {
            self.restore_window();
        }
        let sample = self.sampler.on_ack(now, acked);
        let sample = sample.unwrap_or(RateSample {
            acked: acked.bytes,
            app_limited: true,
            ..RateSample::default()
        });
        self.newest = sample;
        self.rounds
            .on_sample(sample.prior_delivered, self.sampler.delivered());
        if self.rounds.started {
            self.probe.rounds += 1;
            self.used = Use {
                running: false,
                last: self.used.running,
            };
        }
        // The round trip is judged before the recovery that it belongs to ends.
        self.note_delivery(&sample);
        if recovered {
            self.recovery_end = None;
        }
        self.aggregation.on_ack(
            now,
            sample.acked,
            self.bw,
            self.window,
            self.rounds.count,
            self.full.reached,
        );
        self.check_start(now, &sample);
        self.update_cycle(now, &sample);
        self.min_rtt.on_ack(now, acked.rtt);
        self.check_probe_rtt(now, &sample);
        self.end_delivery_round(&sample);
        self.bw = self.max_bw.max().min(self.bounds.rate);
        self.set_pace(self.state.pacing_gain());
        self.set_window(sample.acked);
    }

    fn on_loss(&mut self, now: Instant, lost: &Lost) {
        self.in_flight = lost.in_flight_before.saturating_sub(lost.bytes);
        self.note_loss(now, lost);
    }

    fn on_congestion_experienced(&mut self, now: Instant, sent_at: Instant, _last_sent: u64) {
        self.note_mark(now, sent_at);
    }

    fn on_persistent_congestion(&mut self, _now: Instant) {
        self.save_window();
        self.recovery_end = Some(self.last_sent);
        self.window = self.floor();
    }

    fn on_spurious_loss(&mut self, _now: Instant) {
        self.undo_loss();
    }

    /// Called before the first packet, because that packet's pace depends on it.
    fn on_restart(&mut self, now: Instant, _idle: Duration) {
        self.restart(now);
    }

    fn on_mtu(&mut self, mtu: u16) {
        self.mtu = u64::from(mtu.max(1));
        self.window = self.window.max(self.floor());
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn pacing_rate(&self) -> Option<u64> {
        Some(self.pace)
    }

    fn on_handshake_rtt(&mut self, now: Instant, srtt: Duration) {
        if self.bw == 0 {
            self.min_rtt.start(now, srtt);
            self.srtt = srtt;
            self.pace = rate(self.initial, srtt, STARTUP_PACING_GAIN, UNIT);
        }
    }

    fn metrics(&self) -> Metrics {
        let phase = match self.state {
            State::Startup => Phase::Startup,
            _ if self.recovery_end.is_some() => Phase::Recovery,
            _ => Phase::Avoidance,
        };
        Metrics::new("bbr", phase, self.window)
    }
}
