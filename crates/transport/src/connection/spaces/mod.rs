//! The packet number spaces, each with its keys, its sent and received packets, and the probes that
//! are due, which are sent regardless of the window.

mod sealing;

#[cfg(test)]
mod tests;

use super::building::Carried;
use super::keys::{LevelKeys, OpenedPacket, Unopened};
use super::paths::Others;
use super::received::Received;
use crate::ack::AckRequest;
use crate::cid::RemoteIds;
use crate::config::TransportConfig;
use crate::crypto::{KeyChange, Keys, Random, Side};
use crate::recovery::{Probe, Recovery, SentPacket};
use crate::wire::frame::{Ack, types};
use crate::wire::packet::Protected;
use crate::wire::{SpaceId, TransportError, TransportErrorCode};
use crate::{Duration, Instant};

/// The second probe is sent after this fraction of the time until the next probe timeout, because a
/// full queue drops either both or neither of two packets that arrive together. RFC 9002 §6.2.4
/// doesn't specify when to send the second probe.
const SECOND_PROBE: u32 = 16;

/// Returns the next packet number to skip after `number`. It is drawn from as many numbers as were
/// sent, so that no peer can guess it. Gaps become rarer over time, so they catch a peer early and
/// cost little.
fn next_skipped(number: u64, random: &mut Random) -> u64 {
    number + 1 + random.below(number.max(64))
}

/// All packet number spaces of a connection.
#[derive(Debug)]
pub(in crate::connection) struct PacketSpaces {
    side: Side,
    pub(in crate::connection) keys: LevelKeys,
    pub(in crate::connection) recovery: Recovery<Carried>,
    received: [Received; 3],
    ack_request: AckRequest,
    probes: Probes,
    /// The next packet number to skip, which detects peers that acknowledge packets they haven't
    /// received.
    skip_number: u64,
    /// Upper bound of the probe timeout in all periods that depend on the peer.
    longest_pto: Duration,
}

const fn of<T>(spaces: &[T; 3], space: SpaceId) -> &T {
    let [initial, handshake, data] = spaces;
    match space {
        SpaceId::Initial => initial,
        SpaceId::Handshake => handshake,
        SpaceId::Data => data,
    }
}

const fn of_mut<T>(spaces: &mut [T; 3], space: SpaceId) -> &mut T {
    let [initial, handshake, data] = spaces;
    match space {
        SpaceId::Initial => initial,
        SpaceId::Handshake => handshake,
        SpaceId::Data => data,
    }
}

impl PacketSpaces {
    /// Number of packets of the Data space whose frames the probes of one timeout repeat.
    pub(in crate::connection) const PROBES: usize = Recovery::<Carried>::PROBES as usize;

    /// Creates the spaces with the keys of Initial packets. The first number to skip is drawn from
    /// `random`.
    pub(in crate::connection) fn new(
        now: Instant,
        side: Side,
        initial: Keys,
        config: &TransportConfig,
        max_ack_delay: Duration,
        (idle_timeout, longest_pto): (Option<Duration>, Duration),
        random: &mut Random,
    ) -> Self {
        let mut recovery = Recovery::new(side.is_client(), now);
        recovery.set_idle_timeout(idle_timeout);
        Self {
            side,
            keys: LevelKeys::new(initial),
            recovery,
            received: SpaceId::ALL
                .map(|space| Received::new(space, max_ack_delay, config.max_ack_ranges)),
            // Until the peer's parameters are known, its delay is at most the default (RFC 9000
            // §18.2).
            ack_request: AckRequest::new(Duration::from_millis(25), None),
            probes: Probes::new(),
            skip_number: random.below(100) + 1,
            longest_pto,
        }
    }

    /// Returns the current probe timeout without backoff, which is the unit of other timers. It is
    /// bounded because the peer influences it by delaying its acknowledgements.
    pub(in crate::connection) fn pto(&self) -> Duration {
        self.recovery.pto().min(self.longest_pto)
    }

    /// Borrows the parts that take part in a change of path. `ids` are the peer's.
    pub(in crate::connection) const fn others<'a>(
        &'a mut self,
        ids: &'a mut RemoteIds,
    ) -> Others<'a, Carried> {
        Others {
            ids,
            recovery: &mut self.recovery,
            longest_pto: self.longest_pto,
        }
    }

    pub(in crate::connection) const fn received(&self, space: SpaceId) -> &Received {
        of(&self.received, space)
    }

    pub(in crate::connection) const fn received_mut(&mut self, space: SpaceId) -> &mut Received {
        of_mut(&mut self.received, space)
    }

    /// Borrows recovery together with the parts that need the fates of packets in `space`.
    pub(in crate::connection) const fn split(
        &mut self,
        space: SpaceId,
    ) -> (&mut Recovery<Carried>, &mut Received, &mut AckRequest) {
        let received = of_mut(&mut self.received, space);
        (&mut self.recovery, received, &mut self.ack_request)
    }

    /// Installs new keys of the session.
    pub(in crate::connection) fn install(&mut self, change: KeyChange, update_after: u64) {
        if matches!(change, KeyChange::Handshake(_)) {
            self.recovery.on_handshake_keys();
        }
        self.keys.install(change, update_after);
    }

    /// Discards the keys of `space` and everything that waits for them (RFC 9001 §4.9). Returns
    /// false if they were already discarded.
    pub(in crate::connection) fn discard(&mut self, now: Instant, space: SpaceId) -> bool {
        let discards = self.keys.discard(space);
        if discards {
            self.probes.clear(space);
            self.recovery.drain(now, space, |_, _| {});
        }
        discards
    }

    /// Client: starts sending Initial packets again, with these keys.
    pub(in crate::connection) fn on_retry(&mut self, now: Instant, initial: Keys) {
        self.keys.replace_initial(initial);
        // [9000 17.2.5.3 numbers-go-on]
        self.recovery.drain(now, SpaceId::Initial, |_, _| {});
    }

    /// Handles the confirmation of the handshake (RFC 9001 §4.1.2).
    pub(in crate::connection) fn on_confirmed(&mut self) {
        self.recovery.on_handshake_confirmed();
        self.keys.on_confirmed();
    }

    /// Sets the peer's maximum acknowledgement delay, and the minimum that it accepts in a request.
    pub(in crate::connection) const fn on_peer_parameters(
        &mut self,
        max_ack_delay: Duration,
        min_ack_delay: Option<Duration>,
    ) {
        self.ack_request = AckRequest::new(max_ack_delay, min_ack_delay);
        self.recovery.set_max_ack_delay(max_ack_delay);
    }

    /// Decrypts a packet in place.
    pub(in crate::connection) fn open(
        &mut self,
        now: Instant,
        found: &Protected,
        packet: &mut [u8],
    ) -> Result<OpenedPacket, Unopened> {
        let pto = self.pto();
        let expected = self.received(found.ty.space()).expected();
        self.keys.open(now, pto, expected, found, packet)
    }

    /// Returns the number of the next packet of the Data space, disregarding skipped numbers.
    pub(in crate::connection) fn next_number(&self) -> u64 {
        self.recovery.space(SpaceId::Data).sent().next_number()
    }

    /// Records that packet `number` was sent.
    pub(in crate::connection) fn on_sent(
        &mut self,
        space: SpaceId,
        number: u64,
        packet: SentPacket<Carried>,
        random: &mut Random,
    ) {
        if space == SpaceId::Data && number > self.skip_number {
            self.skip_number = next_skipped(number, random);
        }
        if packet.ack_eliciting {
            self.probes.clear(space);
        }
        self.recovery.on_sent(space, number, packet);
    }

    /// Processes the keys of an ACK frame, whose packet was sealed with keys of `generation`.
    ///
    /// # Errors
    /// Returns KEY_UPDATE_ERROR if the peer acknowledges packets under keys that it doesn't use.
    pub(in crate::connection) fn on_ack_frame(
        &mut self,
        space: SpaceId,
        generation: u64,
        ack: &Ack<'_>,
    ) -> Result<(), TransportError> {
        match space {
            SpaceId::Initial => {}
            // The server has validated our address (RFC 9002 §6.2.2.1).
            SpaceId::Handshake => self.recovery.on_peer_validated(),
            SpaceId::Data => self.keys.on_ack(ack.largest, generation).map_err(|error| {
                TransportError::new(TransportErrorCode::KEY_UPDATE_ERROR, error.to_string())
                    .in_frame(types::ACK)
            })?,
        }
        Ok(())
    }

    /// Cancels the probes after an ACK frame, because the peer has answered.
    pub(in crate::connection) const fn after_ack(&mut self) {
        if self.recovery.pto_count() == 0 {
            self.probes.clear_all();
        }
    }

    /// Updates the maximum acknowledgement delay after an ACK frame of the Data space, because the
    /// peer may have received our request.
    pub(in crate::connection) const fn after_data_ack(&mut self) {
        self.recovery
            .set_max_ack_delay(self.ack_request.max_ack_delay());
    }

    /// Returns true if a probe is due in any space.
    pub(in crate::connection) fn is_probing(&self) -> bool {
        self.probes.any()
    }

    /// Returns true if a probe is due in `space`.
    pub(in crate::connection) const fn probes(&self, space: SpaceId) -> bool {
        self.probes.is_due(space)
    }

    /// Returns the index of the probe that is due, 0 or 1, if any. One probe has no shim.
    pub(in crate::connection) fn probe_index(&self, space: SpaceId) -> Option<u8> {
        self.probes.index(space)
    }

    /// Returns true if probes of the Data space are due and earlier probes weren't answered. The
    /// peer may not be able to use new data, for example because it waits for earlier data of the
    /// stream. Therefore, only the first probes are filled with new data.
    pub(in crate::connection) const fn probes_again(&self) -> bool {
        self.probes.is_due(SpaceId::Data) && self.recovery.pto_count() > 1
    }

    /// Starts the probes after a probe timeout in `space`, whose first probe is now due. Returns
    /// the time after which the second one is.
    pub(in crate::connection) fn begin_probes(&mut self, space: SpaceId) -> Duration {
        self.probes.on_timeout(space);
        self.recovery.probe_period() / SECOND_PROBE
    }

    /// Makes the second probe due unless the peer has answered, and returns its space. A datagram
    /// has at most `limit` bytes.
    pub(in crate::connection) fn second_probe(&mut self, limit: u16) -> Option<SpaceId> {
        if self.recovery.pto_count() == 0 {
            return None;
        }
        let space = self.recovery.probe_space()?;
        if !self.probes.on_second(space) {
            return None;
        }
        if space != SpaceId::Data
            && let Some(other) = self.same_datagram(space, limit)
        {
            self.probes.add(other);
        }
        Some(space)
    }

    /// Returns the other packet number space of the handshake if the missing packets of both fit
    /// into one datagram, as they did when first sent (RFC 9002 §6.2.4).
    fn same_datagram(&self, space: SpaceId, limit: u16) -> Option<SpaceId> {
        let other = match space {
            SpaceId::Initial => SpaceId::Handshake,
            _ => SpaceId::Initial,
        };
        if !self.keys.has(other) {
            return None;
        }
        let size = |space| self.repeatable(space).next().map(|packet| packet.size);
        let both = size(space)?.saturating_add(size(other)?);
        (both <= limit).then_some(other)
    }

    /// Returns the packets whose frames a probe may repeat, oldest first. In a handshake, these are
    /// only those with CRYPTO frames.
    pub(in crate::connection) fn repeatable(
        &self,
        space: SpaceId,
    ) -> impl Iterator<Item = &SentPacket<Carried>> {
        let counts = move |packet: &&SentPacket<Carried>| match space {
            SpaceId::Data => packet.ack_eliciting && packet.probe != Probe::Mtu,
            SpaceId::Initial | SpaceId::Handshake => !packet.frames.crypto().is_empty(),
        };
        let sent = self.recovery.space(space).sent().iter();
        sent.map(|(_, packet)| packet).filter(counts)
    }

    /// Returns the handshake packets older than a round trip, whose CRYPTO frames may be repeated
    /// without a probe timeout: all of those packets if the last packet is also older, otherwise
    /// only the oldest.
    pub(in crate::connection) fn overdue(
        &self,
        now: Instant,
        space: SpaceId,
    ) -> impl Iterator<Item = &SentPacket<Carried>> {
        let rtt = self.recovery.rtt();
        let (known, likely) = (rtt.srtt().unwrap_or_default(), rtt.srtt_or_initial());
        let last = self.recovery.space(space).last_ack_eliciting();
        let packets = if last.is_some_and(|at| at + likely < now) {
            usize::MAX
        } else {
            1
        };
        self.repeatable(space)
            .filter(move |packet| packet.sent_at + known < now)
            .take(packets)
    }

    /// Returns when one of the spaces next needs attention. Acknowledgements that couldn't be sent
    /// at `polled_at` wait for another event.
    pub(in crate::connection) fn deadline(&self, polled_at: Instant) -> Option<Instant> {
        let acks = SpaceId::ALL.into_iter().filter_map(|space| {
            let at = self.received(space).deadline()?;
            self.keys.has(space).then_some(at)
        });
        acks.filter(|at| *at > polled_at)
            .chain(self.keys.deadline())
            .chain(self.recovery.deadline())
            .min()
    }
}

/// The spaces in which a probe is due, and the space of the last timeout.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probes {
    due: [bool; 3],
    /// The space of the last probe timeout.
    space: SpaceId,
    /// Whether the next probe in this space is the second one.
    second: bool,
}

impl Probes {
    /// Creates a state without due probes.
    pub(super) const fn new() -> Self {
        Self {
            due: [false; 3],
            space: SpaceId::Initial,
            second: false,
        }
    }

    /// Returns true if a probe is due in any space.
    pub(super) fn any(&self) -> bool {
        self.due != [false; 3]
    }

    /// Returns true if a probe is due in `space`.
    pub(super) const fn is_due(&self, space: SpaceId) -> bool {
        let [initial, handshake, data] = self.due;
        match space {
            SpaceId::Initial => initial,
            SpaceId::Handshake => handshake,
            SpaceId::Data => data,
        }
    }

    /// Returns which of the two probes is due, 0 or 1, if any.
    pub(super) fn index(&self, space: SpaceId) -> Option<u8> {
        self.is_due(space)
            .then(|| u8::from(self.second && self.space == space))
    }

    /// Makes the first probe due after a probe timeout in `space`.
    pub(super) const fn on_timeout(&mut self, space: SpaceId) {
        self.set(space, true);
        self.space = space;
        self.second = false;
    }

    /// Makes the second probe due in `space`. This may only differ from the space of the timeout
    /// during a handshake; otherwise, this does nothing and returns false.
    pub(super) fn on_second(&mut self, space: SpaceId) -> bool {
        let same = self.space == space;
        if space == SpaceId::Data && !same {
            return false;
        }
        self.set(space, true);
        self.second = same;
        true
    }

    /// Makes another probe due, in the same datagram as the second one.
    pub(super) const fn add(&mut self, space: SpaceId) {
        self.set(space, true);
    }

    /// Clears the probe of `space`, because it was sent or isn't needed.
    pub(super) const fn clear(&mut self, space: SpaceId) {
        self.set(space, false);
    }

    /// Clears all probes, because the peer has answered.
    pub(super) const fn clear_all(&mut self) {
        self.due = [false; 3];
    }

    const fn set(&mut self, space: SpaceId, due: bool) {
        let [initial, handshake, data] = &mut self.due;
        *match space {
            SpaceId::Initial => initial,
            SpaceId::Handshake => handshake,
            SpaceId::Data => data,
        } = due;
    }
}
