//! Timers: what is due, and the next deadline.

use super::carried::Carried;
use super::timers::Timer;
use super::{Connection, ConnectionError, of};
use crate::Instant;
use crate::recovery::{Probe, SentPacket};
use crate::wire::SpaceId;

/// The second probe leaves after this share of the time until the next probe timeout. A queue that
/// is full drops packets that come at once both or none; RFC 9002 §6.2.4 does not say when the
/// second is sent.
const SECOND_PROBE: u32 = 16;

/// The earlier of two deadlines.
#[inline]
fn sooner(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

impl Connection {
    /// Does what is due at `now`: call it at or after [`deadline`](Self::deadline). Early calls do
    /// no harm.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(timer) = self.timers.take_due(now) {
            match timer {
                // Nothing but the next poll_transmit has to happen.
                Timer::Pacing => {}
                Timer::Idle => self.lose(now, ConnectionError::TimedOut),
                Timer::KeepAlive => {
                    if self.lifecycle.is_open() && self.is_complete() {
                        self.control.ping = true;
                    }
                }
                Timer::Close => self.forget(),
                Timer::Handshake => self.lose(now, ConnectionError::HandshakeTimedOut),
                Timer::SecondProbe => self.probe_again(now),
            }
        }
        if !self.lifecycle.is_open() {
            return;
        }
        // Losses by time are taken out, space by space. A probe timeout asks for packets; the next
        // one counts from those, also where it has backed off as far as it may.
        for _ in 0..8 {
            if self.recovery.deadline().is_none_or(|at| at > now) {
                break;
            }
            let probes = self.recovery.pto_count();
            self.on_recovery_timeout(now);
            if self.recovery.pto_count() != probes {
                break;
            }
        }
        let (paths, others) = self.paths();
        let moved = paths.check_validation(now, others);
        self.on_move(moved);
        if let Some(keys) = &mut self.keys.one_rtt {
            keys.on_time(now);
        }
        if self.early_keys_go().is_some_and(|at| at <= now) {
            self.keys.zero_rtt = None;
        }
    }

    /// The earliest of all deadlines.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        if !self.lifecycle.is_open() {
            return self.timers.next();
        }
        // What only poll_transmit can do and what it could not do just now (the amplification limit
        // forbids it, say) waits for something else.
        let polled_at = self.timers.polled_at();
        let later = |at: &Instant| *at > polled_at;
        let acks = SpaceId::ALL.into_iter().filter_map(|space| {
            let at = self.received(space).delay.deadline()?;
            self.keys.has(space).then_some(at)
        });
        let mut next = acks.filter(later).min();
        next = sooner(next, self.paths.deadline(polled_at));
        next = sooner(next, self.early_keys_go());
        next = sooner(next, self.recovery.deadline());
        sooner(next, self.timers.next())
    }

    /// A probe timeout fired in `space`: there must be something to send, best what is missing the
    /// longest.
    pub(super) fn prepare_probes(&mut self, now: Instant, space: SpaceId) {
        self.repeat_early_data();
        *of(&mut self.probes, space) = 1;
        self.probed = (space, false);
        let later = self.recovery.probe_period() / SECOND_PROBE;
        self.timers.set(Timer::SecondProbe, now + later);
        if space == SpaceId::Data {
            self.fill_data_probe(now);
        }
    }

    /// The second probe is due: it leaves if nothing has come back.
    fn probe_again(&mut self, now: Instant) {
        if self.recovery.pto_count() == 0 {
            return;
        }
        let Some(space) = self.recovery.probe_space() else {
            return;
        };
        if space == SpaceId::Data {
            if self.probed.0 == space {
                *of(&mut self.probes, space) = 1;
                self.probed.1 = true;
                self.fill_data_probe(now);
            }
            return;
        }
        *of(&mut self.probes, space) = 1;
        self.probed.1 = self.probed.0 == space;
        if let Some(other) = self.same_datagram(space) {
            *of(&mut self.probes, other) = 1;
        }
    }

    /// What a probe of the Data space is to carry. A client's holds a PING in any case: where a NAT
    /// has rebound, a server follows no packet that has probing frames alone (RFC 9000 §9.1), as
    /// repeats of NEW_CONNECTION_ID are, and its answers go to the address before.
    fn fill_data_probe(&mut self, now: Instant) {
        if self.handshake.can_send(SpaceId::Data) {
            return;
        }
        self.control.ping |= self.side.is_client();
        let again = self.probes_again();
        if again {
            self.streams.repeat_first(u64::from(self.mtu()));
            self.streams.serve_lowest_first();
        }
        if again || !self.wants_data(now) {
            self.repeat_oldest(SpaceId::Data, 0, super::Recovered::PROBES.into());
        }
    }

    /// The other packet number space of the handshake, if what is missing of both fits into one
    /// datagram, as it did when it was sent first (RFC 9002 §6.2.4).
    fn same_datagram(&self, space: SpaceId) -> Option<SpaceId> {
        let other = match space {
            SpaceId::Initial => SpaceId::Handshake,
            _ => SpaceId::Initial,
        };
        if !self.keys.has(other) {
            return None;
        }
        let size = |space| {
            let mut sent = self.recovery.space(space).sent().iter();
            let oldest = sent.find(|(_, packet)| !packet.frames.crypto().is_empty());
            oldest.map(|(_, packet)| packet.size)
        };
        let both = size(space)?.saturating_add(size(other)?);
        (both <= self.datagram_limit()).then_some(other)
    }

    /// True if probes of the Data space leave, and others before them got no answer. New data may
    /// be of no use to the peer: it waits for what comes first in a stream, say, and has no memory
    /// for what is behind. So new data fills the first probes only.
    pub(super) const fn probes_again(&self) -> bool {
        let [.., data] = self.probes;
        data > 0 && self.recovery.pto_count() > 1
    }

    /// Each probe of a handshake carries what is missing, also if another has just carried it: the
    /// handshake cannot go on without, and a server may refuse a client whose first packet to
    /// arrive has no CRYPTO frame. That is one datagram, and two for each timeout (RFC 9002
    /// §6.2.4): of a flight of several packets the second probe carries the second, together with
    /// what is missing of the other packet number space.
    pub(super) fn fill_probe(&mut self, space: SpaceId) {
        if space != SpaceId::Data
            && *of(&mut self.probes, space) > 0
            && !self.handshake.can_send(space)
        {
            let later = usize::from(self.probed == (space, true));
            self.repeat_oldest(space, later, 1);
        }
    }

    /// What the oldest packets carried is due again: those from place `from` on, `packets` of them.
    /// In a handshake only those with CRYPTO frames count.
    fn repeat_oldest(&mut self, space: SpaceId, from: usize, packets: usize) {
        let oldest = self.recovery.space(space).sent().iter();
        let counts = |packet: &SentPacket<Carried>| match space {
            SpaceId::Data => packet.ack_eliciting && packet.probe != Probe::Mtu,
            SpaceId::Initial | SpaceId::Handshake => !packet.frames.crypto().is_empty(),
        };
        for (_, packet) in oldest
            .filter(|(_, packet)| counts(packet))
            .skip(from)
            .take(packets)
        {
            self.streams.on_lost(&packet.frames.streams);
            for range in packet.frames.crypto() {
                self.handshake.on_loss(space, range.clone());
            }
            for frame in packet.frames.control() {
                self.control.on_lost(*frame);
            }
        }
    }
}
