//! The effects of losses, and how spurious losses are undone (draft-ietf-ccwg-bbr, "Updating the
//! Model Upon Packet Loss").

use super::Bbr;
use crate::base::Instant;
use crate::base::arith::mul_div;
use crate::law::Lost;
use crate::standard::bbr::model::{
    Bounds, Latest, NONE, State, crossing, in_flight_at_loss, too_high,
};
use crate::standard::bbr::rate::RateSample;
use crate::standard::bbr::{BETA, STARTUP_LOSS_RANGES, UNIT};

/// The round trip for counting losses, and the state to restore.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Losses {
    /// `BBR.loss_round_delivered`.
    ends_at: u64,
    /// `BBR.loss_round_start`.
    started: bool,
    /// `BBR.is_loss_in_round`.
    lossy: bool,
    /// Number of packet ranges that were lost in the current round trip.
    ranges: u64,
    /// The bounds before the first loss of the round trip.
    bounds: Bounds,
    /// `BBR.undo_state`: the state that losses have ended since then.
    state: Option<State>,
    /// Marks have arrived since then, so nothing may be undone.
    pub(super) marked: bool,
}

impl Bbr {
    /// `UpdateLatestDeliverySignals`, `UpdateCongestionSignals`.
    pub(super) fn note_delivery(&mut self, sample: &RateSample) {
        self.latest.add(sample);
        self.losses.started = sample.prior_delivered >= self.losses.ends_at;
        if sample.rate > 0 && (sample.rate >= self.max_bw.max() || !sample.app_limited) {
            self.max_bw.add(sample.rate);
        }
        if !self.losses.started {
            return;
        }
        self.losses.ends_at = self.sampler.delivered();
        if self.losses.lossy && !self.state.accelerates() {
            self.bounds
                .lower(self.max_bw.max(), self.window, &self.latest);
        }
        self.check_startup_losses(sample);
        self.losses.lossy = false;
        self.losses.ranges = 0;
    }

    /// `AdvanceLatestDeliverySignals`.
    pub(super) fn end_delivery_round(&mut self, sample: &RateSample) {
        if self.losses.started {
            self.latest = Latest::default();
            self.latest.add(sample);
        }
    }

    /// `ResetCongestionSignals`.
    pub(super) fn reset_congestion(&mut self) {
        self.losses.lossy = false;
        self.latest = Latest::default();
    }

    /// `CheckStartupHighLoss`, at the end of a round trip.
    fn check_startup_losses(&mut self, sample: &RateSample) {
        if self.full.reached
            || self.recovery_end.is_none()
            || self.losses.ranges < STARTUP_LOSS_RANGES
            || !too_high(sample)
        {
            return;
        }
        self.losses.state = Some(State::Startup);
        self.fill_pipe();
    }

    /// Ends Startup at the latest delivered rate.
    pub(super) fn fill_pipe(&mut self) {
        self.full.reached = true;
        self.full.now = true;
        self.bounds.long = self.bdp().max(self.latest.delivered);
    }

    /// `NoteLoss`, `SaveStateUponLoss`.
    pub(super) fn begin_lossy_round(&mut self) {
        if !self.losses.lossy {
            self.losses.ends_at = self.sampler.delivered();
            self.save_window();
            self.losses.bounds = self.bounds;
            self.losses.state = None;
            self.losses.marked = false;
        }
        self.losses.lossy = true;
    }

    /// `HandleLostPacket`.
    pub(super) fn note_loss(&mut self, now: Instant, lost: &Lost) {
        self.begin_lossy_round();
        self.losses.ranges = self.losses.ranges.saturating_add(lost.ranges);
        self.recovery_end.get_or_insert(lost.last_sent);
        let Some((oldest, newest)) = self.sampler.on_loss(lost) else {
            return;
        };
        if !self.probe.sampling {
            return;
        }
        if let Some(mut sample) = crossing(&oldest, &newest, lost.packets) {
            let size = lost.bytes / lost.packets.max(1);
            sample.tx_in_flight = in_flight_at_loss(&sample, size);
            self.too_much(now, &sample);
        }
    }

    /// `HandleInflightTooHigh`.
    pub(super) fn too_much(&mut self, now: Instant, sample: &RateSample) {
        self.probe.too_high = true;
        self.probe.sampling = false;
        if !sample.app_limited {
            let least = mul_div(self.target(), BETA, UNIT);
            self.bounds.long = sample.tx_in_flight.max(least);
        }
        if self.state == State::Up {
            self.losses.state = Some(State::Up);
            self.start_down(now);
        }
    }

    /// `HandleSpuriousLossDetection`.
    pub(super) fn undo_loss(&mut self) {
        if self.losses.marked {
            return;
        }
        self.restore_window();
        self.losses.lossy = false;
        self.full.reset(0);
        let before = self.losses.bounds;
        self.bounds.restore(&before);
        match self.losses.state.take() {
            Some(State::Startup) if self.state != State::Startup => {
                self.full.reached = false;
                self.bounds.long = NONE;
                if self.state != State::ProbeRtt {
                    self.state = State::Startup;
                }
            }
            Some(State::Up) if !matches!(self.state, State::Up | State::ProbeRtt) => {
                self.start_refill();
            }
            _ => {}
        }
    }
}

// Congestion Experienced in the IP header.
//
// The draft leaves the response open, but "the congestion controller response MUST treat any CE
// marks as congestion" (draft-ietf-ccwg-bbr, "ECN"). Here a mark is equivalent to a round trip
// with more losses than accepted. One mark is enough, because a queue that marks drops nothing.
// All marks of one round trip count once, and a spurious loss does not undo their effects.

impl Bbr {
    /// Handles the mark of a packet that was sent at `sent_at`, or of an earlier packet.
    pub(super) fn note_mark(&mut self, now: Instant, sent_at: Instant) {
        if self.marked_at.is_some_and(|at| sent_at <= at) {
            return;
        }
        self.marked_at = Some(now);
        self.begin_lossy_round();
        self.losses.marked = true;
        let newest = self.newest;
        match self.state {
            State::Startup => self.fill_pipe(),
            // Marks are for the probe's packets or, in its first round trip, for those it adds to.
            State::Refill => self.too_much(now, &newest),
            _ if self.probe.sampling => self.too_much(now, &newest),
            // The end of the round trip lowers the short-term bounds.
            _ => {}
        }
    }
}
