//! The three packet number spaces over one path (RFC 9002 §6, Appendix A).

use core::ops::RangeInclusive;

use pathmark_cc::{Acked, Lost};

use super::pacer::WindowUse;
use super::rtt::Outage;
use super::{
    AckError, Fate, LossDetector, Newly, NewlyLost, PathNumber, ProbeTimeout, RttEstimator,
    SentPacket,
};
use crate::{Duration, Instant, wire::SpaceId};

/// The result of an ACK frame. Pass `acked` to the controller first, and then the losses.
#[derive(Clone, Copy, Debug)]
pub struct AckOutcome {
    /// All newly acknowledged packets, including those that congestion control does not count.
    pub newly: Newly,
    /// For the controller, if anything that it counts was acknowledged.
    pub acked: Option<Acked>,
    /// RTT sample, with the acknowledgement delay subtracted.
    pub rtt: Option<Duration>,
    /// The packets that were declared lost because of this frame.
    pub loss: LossOutcome,
}

/// Packets declared lost in one pass.
#[derive(Clone, Copy, Debug)]
pub struct LossOutcome {
    /// Number of packets, including those that congestion control does not count.
    pub packets: u64,
    /// For the controller, if anything that it counts was lost.
    pub lost: Option<Lost>,
    /// For the controller, before `lost`: the latest lost question for a starting rate.
    pub question: Option<u64>,
    /// True if persistent congestion must be reported to the controller, after the loss.
    pub persistent_congestion: bool,
}

/// The effect of a timeout.
#[derive(Clone, Copy, Debug)]
pub enum Timeout {
    /// Nothing is due yet.
    None,
    /// Packets were lost by the time threshold.
    Lost(LossOutcome),
    /// A probe timeout: send [`PROBES`](Recovery::PROBES) ack-eliciting packets in this space,
    /// regardless of the window. They carry new data or repeat the oldest unresolved packets
    /// (RFC 9002 §6.2.4). Nothing is declared lost yet.
    Probe(SpaceId),
}

/// Loss recovery of a connection on its current path.
///
/// `F` describes the contents of a packet. Each packet that enters through
/// [`on_sent`](Self::on_sent) leaves exactly once through a `sink`: acknowledged, lost, or
/// drained with its space. Only packets that are neither ack-eliciting nor in flight may be
/// forgotten instead.
#[derive(Debug)]
pub struct Recovery<F> {
    spaces: [LossDetector<F>; 3],
    rtt: RttEstimator,
    pto: ProbeTimeout,
    outage: Outage,
    /// The peer's `max_ack_delay`, or the delay that an ACK_FREQUENCY frame requested instead.
    max_ack_delay: Duration,
    /// False for a client until it has learned that the server validated its address; until
    /// then it must keep probing (§6.2.2.1).
    peer_validated: bool,
    has_handshake_keys: bool,
    handshake_confirmed: bool,
    /// A server at its amplification limit cannot probe, so it must not arm the timer
    /// (§6.2.2.1).
    amplification_blocked: bool,
    /// Last time that something was sent or acknowledged, from which a client's anti-deadlock
    /// timer runs.
    last_activity: Instant,
    /// Whether the window or its pacer has limited the sender since the previous ACK.
    window_use: WindowUse,
    /// The current path, the one that the connection may return to, and the newest one.
    path: PathNumber,
    kept_path: Option<PathNumber>,
    newest_path: PathNumber,
}

/// The recovery state of a path that is not the current one: its number, its round-trip times,
/// and the backoff of its probe timeout.
#[derive(Debug)]
pub struct PathRecovery {
    path: PathNumber,
    rtt: RttEstimator,
    outage: Outage,
    probe_timeouts: u32,
}

impl<F> Recovery<F> {
    /// Packets to send on a probe timeout: two, because the first may be lost as well (RFC 9002
    /// §6.2.4). During a handshake, the second one is delayed.
    pub const PROBES: u8 = 2;

    /// Creates the state of a new connection. The peer's `max_ack_delay` is 25 ms until its
    /// transport parameters say otherwise.
    pub fn new(is_client: bool, now: Instant) -> Self {
        Self {
            spaces: core::array::from_fn(|_| LossDetector::new()),
            rtt: RttEstimator::new(),
            pto: ProbeTimeout::new(),
            outage: Outage::default(),
            max_ack_delay: Duration::from_millis(25),
            peer_validated: !is_client,
            has_handshake_keys: false,
            handshake_confirmed: false,
            amplification_blocked: false,
            last_activity: now,
            window_use: WindowUse::default(),
            path: PathNumber::default(),
            kept_path: None,
            newest_path: PathNumber::default(),
        }
    }

    /// Sets how long the peer may delay an acknowledgement: its transport parameter, or the
    /// delay that an ACK_FREQUENCY frame requested.
    pub const fn set_max_ack_delay(&mut self, delay: Duration) {
        self.max_ack_delay = delay;
    }

    /// Records that Handshake keys are available for sending.
    pub const fn on_handshake_keys(&mut self) {
        self.has_handshake_keys = true;
    }

    /// Client: records that the server has validated this address, because it acknowledged a
    /// Handshake packet.
    pub const fn on_peer_validated(&mut self) {
        self.peer_validated = true;
    }

    /// Records that the handshake is confirmed (RFC 9001 §4.1.2).
    pub const fn on_handshake_confirmed(&mut self) {
        self.handshake_confirmed = true;
        self.peer_validated = true;
    }

    /// Sets the idle timeout (`None`: never), so that several probes are sent before it
    /// expires.
    pub fn set_idle_timeout(&mut self, timeout: Option<Duration>) {
        self.pto.set_idle_timeout(timeout);
    }

    /// Server: sets whether the amplification limit forbids sending.
    pub fn set_amplification_blocked(&mut self, now: Instant, blocked: bool) {
        if self.amplification_blocked && !blocked {
            self.last_activity = now;
        }
        self.amplification_blocked = blocked;
    }

    /// Records that the window or its pacer limits the sender, for the next [`Acked`].
    pub const fn note_window_limited(&mut self) {
        self.window_use.limited();
    }

    /// Records that something else limits the sender. The next [`Acked`] reports this unless the
    /// window has limited the sender as well since the previous [`Acked`].
    pub const fn note_not_window_limited(&mut self) {
        self.window_use.otherwise();
    }

    /// Records a sent packet. Numbers must ascend within a space; otherwise this returns false
    /// and records nothing.
    pub fn on_sent(&mut self, space: SpaceId, number: u64, packet: SentPacket<F>) -> bool {
        self.last_activity = self.last_activity.max(packet.sent_at);
        self.space_mut(space).on_sent(number, packet)
    }

    /// Processes an ACK frame with descending `ranges`, which the peer claims to have delayed
    /// by `ack_delay`. Each resolved packet goes to `sink`.
    ///
    /// # Errors
    /// [`AckError`] if no honest peer could have sent the frame. The connection should be
    /// closed.
    pub fn on_ack(
        &mut self,
        now: Instant,
        space: SpaceId,
        ranges: impl IntoIterator<Item = RangeInclusive<u64>>,
        ack_delay: Duration,
        mut sink: impl FnMut(Fate, u64, SentPacket<F>),
    ) -> Result<AckOutcome, AckError> {
        let in_flight_before = self.bytes_in_flight();
        let newly = self
            .space_mut(space)
            .on_ack(ranges, |number, packet| sink(Fate::Acked, number, packet))?;
        let rtt = newly
            .largest_sent_at
            // [9002 5.1 sample-of-eliciting]
            .filter(|_| newly.ack_eliciting)
            .map(|sent_at| {
                let delay = match space {
                    // [9002 5.3 ack-delay-limit]
                    SpaceId::Data if self.handshake_confirmed => ack_delay.min(self.max_ack_delay),
                    SpaceId::Data => ack_delay,
                    SpaceId::Initial | SpaceId::Handshake => Duration::ZERO,
                };
                let sample = self.rtt.update(now, now - sent_at, delay);
                self.outage.on_sample(now, sent_at, sample, &mut self.rtt);
                sample
            });
        if newly.packets > 0 {
            self.last_activity = self.last_activity.max(now);
            // A server's ACKs of Initial packets prove nothing: it may still be blocked (§6.2.1).
            if newly.ack_eliciting && self.peer_validated {
                self.pto.reset();
            }
        }
        let acked = newly.largest.map(|(largest, sent_at, state)| Acked {
            bytes: newly.bytes,
            packets: newly.counted,
            marked: 0,
            largest,
            sent_at,
            state,
            rtt,
            forward_delay: None,
            srtt: self.rtt.srtt_or_initial(),
            min_rtt: self.rtt.min().unwrap_or(self.rtt.srtt_or_initial()),
            in_flight_before,
            window_limited: self.window_use.report(),
        });
        let loss = self.detect(now, space, sink);
        if loss.packets > 0 && self.peer_validated {
            // A peer that dropped data for lack of memory requests it again by acknowledging
            // only a packet that is not ack-eliciting, so such a loss also shows that the path
            // works.
            self.pto.reset();
        }
        Ok(AckOutcome {
            newly,
            acked,
            rtt,
            loss,
        })
    }

    fn detect(
        &mut self,
        now: Instant,
        space: SpaceId,
        mut sink: impl FnMut(Fate, u64, SentPacket<F>),
    ) -> LossOutcome {
        let in_flight_before = self.bytes_in_flight();
        let max_ack_delay = self.max_ack_delay;
        let [initial, handshake, data] = &mut self.spaces;
        let detector = match space {
            SpaceId::Initial => initial,
            SpaceId::Handshake => handshake,
            SpaceId::Data => data,
        };
        let NewlyLost {
            packets,
            counted,
            bytes,
            ranges,
            first_state,
            largest,
            question,
            persistent_congestion,
        } = detector.detect(now, &self.rtt, max_ack_delay, |number, packet| {
            sink(Fate::Lost, number, packet);
        });
        let last_sent = detector.sent().next_number().saturating_sub(1);
        LossOutcome {
            packets,
            question,
            persistent_congestion,
            lost: largest.map(|(largest, sent_at, state)| Lost {
                bytes,
                packets: counted,
                ranges,
                first_state,
                largest,
                sent_at,
                state,
                last_sent,
                srtt: self.rtt.srtt_or_initial(),
                min_rtt: self.rtt.min().unwrap_or(self.rtt.srtt_or_initial()),
                in_flight_before,
            }),
        }
    }

    /// Returns when [`on_timeout`](Self::on_timeout) must be called, unless something else
    /// happens first.
    pub fn deadline(&self) -> Option<Instant> {
        match self.loss_time() {
            // [9002 6.2.1 loss-timer-first]
            Some((at, _)) => Some(at),
            None => self.probe_time().map(|(at, _)| at),
        }
    }

    /// Returns the space that the next [`on_timeout`](Self::on_timeout) will concern.
    pub fn timeout_space(&self) -> Option<SpaceId> {
        let due = self.loss_time().or_else(|| self.probe_time());
        due.map(|(_, space)| space)
    }

    /// Handles an expired timer by declaring packets lost or by requesting probes.
    pub fn on_timeout(
        &mut self,
        now: Instant,
        sink: impl FnMut(Fate, u64, SentPacket<F>),
    ) -> Timeout {
        if let Some((at, space)) = self.loss_time() {
            if at > now {
                return Timeout::None;
            }
            return Timeout::Lost(self.detect(now, space, sink));
        }
        match self.probe_time() {
            Some((at, space)) if at <= now => {
                // [9002 6.2 timeout-loses-nothing]
                self.pto.on_timeout();
                self.outage.on_probe_timeout(&self.rtt);
                self.last_activity = self.last_activity.max(now);
                Timeout::Probe(space)
            }
            _ => Timeout::None,
        }
    }

    /// Returns the space of the next probe timeout.
    pub fn probe_space(&self) -> Option<SpaceId> {
        self.probe_time().map(|(_, space)| space)
    }

    /// Returns how long after a handshake probe the next probe timeout fires.
    pub fn probe_period(&self) -> Duration {
        let armed = Instant::ZERO;
        let base = self.outage.pto_base(&self.rtt);
        self.pto.deadline(armed, base) - armed
    }

    fn loss_time(&self) -> Option<(Instant, SpaceId)> {
        SpaceId::ALL
            .into_iter()
            .filter_map(|space| Some((self.space(space).loss_time()?, space)))
            .min()
    }

    fn probe_time(&self) -> Option<(Instant, SpaceId)> {
        // [9002 6.2.2.1 blocked-server]
        if self.amplification_blocked {
            return None;
        }
        let mut spaces = self.spaces.iter();
        if self.peer_validated && spaces.all(|space| space.last_ack_eliciting().is_none()) {
            // Fast path: a connection that only receives gets here after every packet.
            return None;
        }
        let base = self.outage.pto_base(&self.rtt);
        // [9002 6.2.1 earliest-space]
        let waiting = SpaceId::ALL
            .into_iter()
            // [9002 6.2.1 data-after-confirmation]
            .filter(|&space| space != SpaceId::Data || self.handshake_confirmed)
            .filter_map(|space| {
                let since = self.space(space).last_ack_eliciting()?;
                let period = match space {
                    SpaceId::Data => base + self.max_ack_delay,
                    SpaceId::Initial | SpaceId::Handshake => base,
                };
                Some((self.pto.deadline(since, period), space))
            })
            .min();
        // [9002 6.2.2.1 client-keeps-probing]
        if waiting.is_some() || self.peer_validated {
            return waiting;
        }
        // [9002 6.2.2.1 client-probe-space]
        let space = if self.has_handshake_keys {
            SpaceId::Handshake
        } else {
            SpaceId::Initial
        };
        Some((self.pto.deadline(self.last_activity, base), space))
    }

    /// Forgets the packets of a space whose keys are discarded (RFC 9002 §6.4). Also used for
    /// Initial after a Retry and for Data after rejected 0-RTT, when the contents of the
    /// drained packets must be sent again.
    pub fn drain(&mut self, now: Instant, space: SpaceId, sink: impl FnMut(u64, SentPacket<F>)) {
        // [9002 6.2.2 discarded-keys-reset] [9002 6.4 discarded-packets]
        self.space_mut(space).drain(sink);
        self.pto.reset();
        self.last_activity = self.last_activity.max(now);
    }

    /// Moves the connection to another path (RFC 9000 §9.4). `back` is the state that was kept
    /// for that path if the connection returns to it; on a new path, RTT and reordering must be
    /// learned again. Packets in flight still belong to the path that they were sent on.
    /// Returns the state of the path that was left, and `keep` says whether the connection may
    /// return to it.
    pub fn change_path(
        &mut self,
        now: Instant,
        back: Option<PathRecovery>,
        keep: bool,
    ) -> PathRecovery {
        let next = back.unwrap_or_else(|| PathRecovery {
            path: self.unused_path(),
            rtt: RttEstimator::new(),
            outage: Outage::default(),
            probe_timeouts: 0,
        });
        let left = PathRecovery {
            path: core::mem::replace(&mut self.path, next.path),
            rtt: core::mem::replace(&mut self.rtt, next.rtt),
            outage: core::mem::replace(&mut self.outage, next.outage),
            probe_timeouts: self.pto.count(),
        };
        self.kept_path.take_if(|kept| *kept == next.path);
        if keep {
            self.kept_path = Some(left.path);
        }
        self.pto.set_count(next.probe_timeouts);
        for space in &mut self.spaces {
            space.change_path(next.path, keep);
        }
        self.last_activity = self.last_activity.max(now);
        left
    }

    /// Returns a path number that no path and no packet uses. Since every packet in flight
    /// stores its number, numbers are a single byte; about once in 250 changes, all packets
    /// must be visited.
    fn unused_path(&mut self) -> PathNumber {
        loop {
            let first = PathNumber::default();
            self.newest_path = self.newest_path.next();
            if self.newest_path == first {
                for space in &mut self.spaces {
                    space.forget_left();
                }
            }
            if self.newest_path != self.path && Some(self.newest_path) != self.kept_path {
                return self.newest_path;
            }
        }
    }

    /// Stops counting the packets in flight, because their fate no longer concerns this path.
    /// They are still acknowledged or declared lost. RTT estimates are kept.
    pub fn disown_in_flight(&mut self) {
        self.path = self.unused_path();
        for space in &mut self.spaces {
            space.change_path(self.path, false);
        }
    }

    /// Returns the bytes in flight on the current path.
    pub fn bytes_in_flight(&self) -> u64 {
        self.spaces.iter().map(|s| s.sent().bytes_in_flight()).sum()
    }

    /// Returns the round-trip times of the current path.
    pub const fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }

    /// Returns the number of consecutive probe timeouts without an acknowledgement.
    pub const fn pto_count(&self) -> u32 {
        self.pto.count()
    }

    /// Returns the probe timeout of the Data space without backoff. Other timers are multiples
    /// of this timeout (RFC 9000 §10.1, §8.2.4).
    pub fn pto(&self) -> Duration {
        self.rtt.pto_base() + self.max_ack_delay
    }

    /// Returns the upper bound of the probe timeout's backoff, a share of the idle timeout.
    pub const fn longest_pto(&self) -> Duration {
        self.pto.longest()
    }

    /// Returns a packet number space for inspection.
    pub const fn space(&self, space: SpaceId) -> &LossDetector<F> {
        let [initial, handshake, data] = &self.spaces;
        match space {
            SpaceId::Initial => initial,
            SpaceId::Handshake => handshake,
            SpaceId::Data => data,
        }
    }

    const fn space_mut(&mut self, space: SpaceId) -> &mut LossDetector<F> {
        let [initial, handshake, data] = &mut self.spaces;
        match space {
            SpaceId::Initial => initial,
            SpaceId::Handshake => handshake,
            SpaceId::Data => data,
        }
    }
}
