//! The three packet number spaces over one path (RFC 9002 §6, Appendix A).

use core::ops::RangeInclusive;

use pathmark_cc::{Acked, Lost};

use super::outage::Outage;
use super::window_use::WindowUse;
use super::{
    AckError, Fate, LossDetector, Newly, NewlyLost, PathNumber, ProbeTimeout, RttEstimator,
    SentPacket,
};
use crate::{Duration, Instant, wire::SpaceId};

/// What followed from an ACK frame. Tell the controller `acked`, then `lost` and what is below.
#[derive(Clone, Copy, Debug)]
pub struct AckOutcome {
    /// What was newly acknowledged, also beyond what congestion control counts.
    pub newly: Newly,
    /// For the controller, if anything that it counts was acknowledged.
    pub acked: Option<Acked>,
    /// RTT sample, acknowledgement delay taken off.
    pub rtt: Option<Duration>,
    /// What was declared lost because of it.
    pub loss: LossOutcome,
}

/// What was declared lost.
#[derive(Clone, Copy, Debug)]
pub struct LossOutcome {
    /// Packets, also those that congestion control does not count.
    pub packets: u64,
    /// For the controller, if anything that it counts was lost.
    pub lost: Option<Lost>,
    /// For the controller, before that: the latest question for a starting rate that was lost.
    pub question: Option<u64>,
    /// Tell the controller of persistent congestion, after the loss.
    pub persistent_congestion: bool,
}

/// What a timeout was.
#[derive(Clone, Copy, Debug)]
pub enum Timeout {
    /// Nothing is due yet.
    None,
    /// Packets were lost by time.
    Lost(LossOutcome),
    /// A probe timeout: send [`PROBES`](Recovery::PROBES) ack-eliciting packets in this space,
    /// whatever the window is, with new data or what the oldest unresolved packets carried (RFC
    /// 9002 §6.2.4). Nothing is lost yet.
    Probe(SpaceId),
}

/// Loss recovery of a connection on its current path.
///
/// `F` is what a packet carried. A packet goes in through [`on_sent`](Self::on_sent) and comes out
/// once through a `sink`: acknowledged, lost, or drained with its space. Only packets that are
/// neither ack-eliciting nor in flight may be forgotten on the way.
#[derive(Debug)]
pub struct Recovery<F> {
    spaces: [LossDetector<F>; 3],
    rtt: RttEstimator,
    pto: ProbeTimeout,
    outage: Outage,
    /// The peer's `max_ack_delay`, or what an ACK_FREQUENCY frame asked for instead.
    max_ack_delay: Duration,
    /// A client must keep probing until the server is known to have validated its address
    /// (§6.2.2.1).
    peer_validated: bool,
    has_handshake_keys: bool,
    handshake_confirmed: bool,
    /// A server at its amplification limit cannot probe, so it must not wait to (§6.2.2.1).
    amplification_blocked: bool,
    /// Last time that something was sent or acknowledged: where a client's anti-deadlock timer
    /// starts.
    last_activity: Instant,
    /// The window or its pacer bounded the sender since the previous ACK.
    window_use: WindowUse,
    /// The current path, the one that the connection may return to, and the one begun last.
    path: PathNumber,
    kept_path: Option<PathNumber>,
    newest_path: PathNumber,
}

/// What belongs to a path that is not the current one: which packets are its own, its round-trip
/// times, and how far its probe timeout has backed off.
#[derive(Debug)]
pub struct PathRecovery {
    path: PathNumber,
    rtt: RttEstimator,
    outage: Outage,
    probe_timeouts: u32,
}

impl<F> Recovery<F> {
    /// Packets to send on a probe timeout: two, as the first may be lost as well (RFC 9002 §6.2.4).
    /// In a handshake the second leaves later than the first.
    pub const PROBES: u8 = 2;

    /// A fresh connection. The peer's `max_ack_delay` is 25 ms until its transport parameters say
    /// otherwise.
    #[must_use]
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

    /// How long the peer may hold back an acknowledgement: its transport parameter, or what it was
    /// asked for.
    pub const fn set_max_ack_delay(&mut self, delay: Duration) {
        self.max_ack_delay = delay;
    }

    /// Keys to send Handshake packets exist.
    pub const fn on_handshake_keys(&mut self) {
        self.has_handshake_keys = true;
    }

    /// Client: the server acknowledged a Handshake packet, so it has validated this address.
    pub const fn on_peer_validated(&mut self) {
        self.peer_validated = true;
    }

    /// The handshake is confirmed (RFC 9001 §4.1.2).
    pub const fn on_handshake_confirmed(&mut self) {
        self.handshake_confirmed = true;
        self.peer_validated = true;
    }

    /// The connection ends after `timeout` of silence (`None`: never): probes are sent several
    /// times within it.
    pub fn set_idle_timeout(&mut self, timeout: Option<Duration>) {
        self.pto.set_idle_timeout(timeout);
    }

    /// Server: the amplification limit forbids sending (true), or no longer does.
    pub fn set_amplification_blocked(&mut self, now: Instant, blocked: bool) {
        if self.amplification_blocked && !blocked {
            self.last_activity = now;
        }
        self.amplification_blocked = blocked;
    }

    /// The window, or the pacer that spreads it, keeps the sender from sending: the next [`Acked`]
    /// says so.
    #[inline]
    pub const fn note_window_limited(&mut self) {
        self.window_use.limited();
    }

    /// Something else keeps the sender from sending: the next [`Acked`] reports it, unless the
    /// window did, too, since the one before.
    #[inline]
    pub const fn note_not_window_limited(&mut self) {
        self.window_use.otherwise();
    }

    /// A packet was sent. Numbers ascend within a space; one that does not is not recorded (false).
    #[inline]
    pub fn on_sent(&mut self, space: SpaceId, number: u64, packet: SentPacket<F>) -> bool {
        self.last_activity = self.last_activity.max(packet.sent_at);
        self.space_mut(space).on_sent(number, packet)
    }

    /// An ACK frame with `ranges`, descending, arrived in `space`; the peer claims to have held it
    /// back for `ack_delay`. Each resolved packet goes to `sink`.
    ///
    /// # Errors
    /// [`AckError`] if no honest peer could have sent it: close the connection.
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
            // A server's ACKs of Initials prove nothing yet: it may still be stuck (§6.2.1).
            if newly.ack_eliciting && self.peer_validated {
                self.pto.reset();
            }
        }
        let acked = newly.largest.map(|(largest, sent_at, state)| Acked {
            bytes: newly.bytes,
            packets: newly.counted,
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
            // A peer that refused data for want of memory asks for it by acknowledging a packet
            // that asked for nothing.
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

    /// When [`on_timeout`](Self::on_timeout) has to be called, if nothing happens before.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        match self.loss_time() {
            // [9002 6.2.1 loss-timer-first]
            Some((at, _)) => Some(at),
            None => self.probe_time().map(|(at, _)| at),
        }
    }

    /// The space that [`on_timeout`](Self::on_timeout) will be about.
    #[must_use]
    pub fn timeout_space(&self) -> Option<SpaceId> {
        let due = self.loss_time().or_else(|| self.probe_time());
        due.map(|(_, space)| space)
    }

    /// Does what is due: declares packets lost by time, or asks for probes.
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

    /// The space that the next probe timeout is of.
    #[must_use]
    pub fn probe_space(&self) -> Option<SpaceId> {
        self.probe_time().map(|(_, space)| space)
    }

    /// How long after a probe of a handshake the next probe timeout comes.
    #[must_use]
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
            // A receiver is asked after each packet.
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

    /// The space's keys are discarded: its packets count no longer (RFC 9002 §6.4). Also for
    /// Initial after a Retry and Data after refused 0-RTT; what comes out has then to be sent
    /// again.
    pub fn drain(&mut self, now: Instant, space: SpaceId, sink: impl FnMut(u64, SentPacket<F>)) {
        // [9002 6.2.2 discarded-keys-reset] [9002 6.4 discarded-packets]
        self.space_mut(space).drain(sink);
        self.pto.reset();
        self.last_activity = self.last_activity.max(now);
    }

    /// The connection moves to another path (RFC 9000 §9.4): `back` is what was learnt of it, if it
    /// was the current one before. Of a path that is new, RTT and reordering are to be learnt. What
    /// is in flight stays with the path that it left by; returns what belongs to that one, for
    /// `keep` if the connection may return to it.
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

    /// A number that no path has and no packet bears. Numbers are few, since each packet in flight
    /// has one; once in 250 changes all packets are looked at.
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

    /// The fate of what is in flight does not concern the path any more: it counts no longer,
    /// though it is still acknowledged or lost. The RTT stands.
    pub fn disown_in_flight(&mut self) {
        self.path = self.unused_path();
        for space in &mut self.spaces {
            space.change_path(self.path, false);
        }
    }

    /// Bytes in flight on the current path.
    #[must_use]
    #[inline]
    pub fn bytes_in_flight(&self) -> u64 {
        self.spaces.iter().map(|s| s.sent().bytes_in_flight()).sum()
    }

    /// Round-trip times of the current path.
    #[must_use]
    #[inline]
    pub const fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }

    /// Probe timeouts in a row without an acknowledgement.
    #[must_use]
    #[inline]
    pub const fn pto_count(&self) -> u32 {
        self.pto.count()
    }

    /// The probe timeout of the Data space without backoff: unit of other timers (RFC 9000 §10.1,
    /// §8.2.4).
    #[must_use]
    pub fn pto(&self) -> Duration {
        self.rtt.pto_base() + self.max_ack_delay
    }

    /// What probe timeouts back off to at most: a share of the idle timeout.
    #[must_use]
    pub const fn longest_pto(&self) -> Duration {
        self.pto.longest()
    }

    /// One packet number space, to look at.
    #[must_use]
    #[inline]
    pub const fn space(&self, space: SpaceId) -> &LossDetector<F> {
        let [initial, handshake, data] = &self.spaces;
        match space {
            SpaceId::Initial => initial,
            SpaceId::Handshake => handshake,
            SpaceId::Data => data,
        }
    }

    #[inline]
    const fn space_mut(&mut self, space: SpaceId) -> &mut LossDetector<F> {
        let [initial, handshake, data] = &mut self.spaces;
        match space {
            SpaceId::Initial => initial,
            SpaceId::Handshake => handshake,
            SpaceId::Data => data,
        }
    }
}
