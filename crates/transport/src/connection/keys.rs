//! The current keys, and packet protection with them, which processes header and payload in one
//! step (RFC 9001 §5).

use crate::crypto::{
    DirectionalKeys, KeyChange, KeyUpdateError, Keys, OneRttKeys, OpenFailure, Phase, SAMPLE_LEN,
    SealFailure,
};
use crate::wire::packet::{PlainHeader, Protected, SAMPLE_OFFSET, Started};
use crate::wire::{PacketType, SpaceId, TransportError, TransportErrorCode};
use crate::{Duration, Instant};

/// Keys of all levels, from when they are installed until they are discarded.
#[derive(Debug, Default)]
pub(super) struct LevelKeys {
    initial: Option<Keys>,
    handshake: Option<Keys>,
    one_rtt: Option<OneRttKeys>,
    zero_rtt: Option<Box<ZeroRttKeys>>,
    /// Packets with long headers that couldn't be decrypted.
    forged: u64,
}

/// Keys of 0-RTT packets, with which a client seals and a server opens.
#[derive(Debug)]
struct ZeroRttKeys {
    keys: DirectionalKeys,
    /// Server: when the keys are discarded.
    drop_at: Option<Instant>,
}

/// A packet that was decrypted.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenedPacket {
    pub(super) number: u64,
    /// Position and size of its frames, in bytes.
    pub(super) payload_at: usize,
    pub(super) payload_len: usize,
    pub(super) reserved_bits_ok: bool,
    /// Number of key phases since the handshake, or 0 for long headers.
    pub(super) generation: u64,
    /// Whether the peer began a key phase with this packet.
    pub(super) peer_updated: bool,
}

/// A packet that couldn't be decrypted.
#[derive(Clone, Debug)]
pub(super) enum Unopened {
    /// Dropped, because there are no keys or the packet isn't authentic.
    Dropped,
    /// The connection must close with this error.
    Fatal(TransportError),
}

fn aead_limit() -> TransportError {
    TransportError::new(
        TransportErrorCode::AEAD_LIMIT_REACHED,
        "too many packets under one key",
    )
}

/// Error for a packet of ours that can't be sealed because of its keys or its buffer.
pub(super) fn unsealed() -> TransportError {
    TransportError::new(
        TransportErrorCode::INTERNAL_ERROR,
        "a packet could not be sealed",
    )
}

impl LevelKeys {
    /// Creates the state with the keys of Initial packets.
    pub(super) fn new(initial: Keys) -> Self {
        Self {
            initial: Some(initial),
            ..Self::default()
        }
    }

    /// Replaces the keys of Initial packets after a Retry.
    pub(super) fn replace_initial(&mut self, keys: Keys) {
        self.initial = Some(keys);
    }

    /// Installs new keys of the session. 1-RTT keys are updated after `update_after` packets.
    pub(super) fn install(&mut self, change: KeyChange, update_after: u64) {
        match change {
            KeyChange::Handshake(keys) => self.handshake = Some(keys),
            KeyChange::OneRtt(keys, source) => {
                let mut keys = OneRttKeys::new(keys, source);
                keys.update_after(update_after);
                keys.count_forged(self.forged);
                self.one_rtt = Some(keys);
            }
        }
    }

    /// Discards the keys of `space`. Returns false if there are none, or if this space keeps its
    /// keys.
    pub(super) fn discard(&mut self, space: SpaceId) -> bool {
        match space {
            // [9001 4.9.1 no-more-initials]
            SpaceId::Initial => self.initial.take().is_some(),
            SpaceId::Handshake => self.handshake.take().is_some(),
            SpaceId::Data => false,
        }
    }

    /// Sets the keys of 0-RTT packets, which are used until [`end_early`](Self::end_early).
    pub(super) fn set_early(&mut self, keys: DirectionalKeys) {
        self.zero_rtt = Some(Box::new(ZeroRttKeys {
            keys,
            drop_at: None,
        }));
    }

    /// Returns true if there are keys of 0-RTT packets.
    pub(super) const fn has_early(&self) -> bool {
        self.zero_rtt.is_some()
    }

    /// Client: discards the keys of 0-RTT packets.
    pub(super) fn discard_early(&mut self) {
        self.zero_rtt = None;
    }

    /// Server: discards the keys of 0-RTT packets at `at`.
    pub(super) fn end_early(&mut self, at: Instant) {
        if let Some(keys) = &mut self.zero_rtt {
            keys.drop_at = Some(at);
        }
    }

    /// Returns when keys are next discarded.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.zero_rtt.as_ref()?.drop_at
    }

    /// Discards keys whose time has passed.
    pub(super) fn on_time(&mut self, now: Instant) {
        if let Some(keys) = &mut self.one_rtt {
            keys.on_time(now);
        }
        if self.deadline().is_some_and(|at| at <= now) {
            self.zero_rtt = None;
        }
    }

    /// Permits key updates, because the handshake is confirmed.
    pub(super) fn on_confirmed(&mut self) {
        if let Some(keys) = &mut self.one_rtt {
            keys.on_confirmed();
        }
    }

    /// Processes the acknowledgement of packets up to `largest`, in a packet of `generation`.
    ///
    /// # Errors
    /// Returns [`KeyUpdateError`] if the peer acknowledges packets under keys that it doesn't use.
    pub(super) fn on_ack(&mut self, largest: u64, generation: u64) -> Result<(), KeyUpdateError> {
        match &mut self.one_rtt {
            Some(keys) => keys.on_ack(largest, generation),
            None => Ok(()),
        }
    }

    /// Updates the 1-RTT keys (RFC 9001 §6). Returns false if it is too early.
    pub(super) fn begin_update(&mut self, now: Instant) -> bool {
        let keys = self.one_rtt.as_mut();
        keys.is_some_and(|keys| keys.begin_update(now))
    }

    /// Updates the 1-RTT keys if they have sealed enough packets. Returns true if it did.
    pub(super) fn renew(&mut self, now: Instant) -> bool {
        let keys = self.one_rtt.as_mut();
        keys.is_some_and(|keys| keys.wants_update(now) && keys.begin_update(now))
    }

    /// Returns the key phase of 1-RTT packets, once there are keys.
    pub(super) fn phase(&self) -> Option<bool> {
        self.one_rtt.as_ref().map(|keys| keys.phase().0)
    }

    /// Returns true if packets of this space can be sealed and opened.
    pub(super) fn has(&self, space: SpaceId) -> bool {
        match space {
            SpaceId::Initial => self.initial.is_some(),
            SpaceId::Handshake => self.handshake.is_some(),
            SpaceId::Data => self.one_rtt.is_some(),
        }
    }

    /// Returns the keys that seal packets with long headers.
    fn local(&self, space: SpaceId) -> Option<&DirectionalKeys> {
        match space {
            SpaceId::Initial => self.initial.as_ref().map(|keys| &keys.local),
            SpaceId::Handshake => self.handshake.as_ref().map(|keys| &keys.local),
            SpaceId::Data => self.zero_rtt.as_ref().map(|zero_rtt| &zero_rtt.keys),
        }
    }

    /// Returns the keys that open packets with long headers.
    fn remote(&self, ty: PacketType) -> Option<&DirectionalKeys> {
        match ty {
            PacketType::Initial => self.initial.as_ref().map(|keys| &keys.remote),
            PacketType::Handshake => self.handshake.as_ref().map(|keys| &keys.remote),
            // [9001 4.6.2 refused]
            PacketType::ZeroRtt => self.zero_rtt.as_ref().map(|zero_rtt| &zero_rtt.keys),
            PacketType::OneRtt => None,
        }
    }

    /// Returns the number of bytes that sealing adds.
    pub(super) fn tag_len(&self, space: SpaceId) -> usize {
        match (space, &self.one_rtt) {
            (SpaceId::Data, Some(keys)) => keys.tag_len(),
            _ => self
                .local(space)
                .map_or(crate::wire::packet::TAG_LEN, |k| k.packet.tag_len()),
        }
    }

    /// Decrypts a packet in place. `expected` is one more than the largest number decrypted in its
    /// space.
    pub(super) fn open(
        &mut self,
        now: Instant,
        pto: Duration,
        expected: u64,
        found: &Protected,
        packet: &mut [u8],
    ) -> Result<OpenedPacket, Unopened> {
        let short = !found.ty.is_long();
        // [9001 5.4.2 short-sample]
        let sample = found.sample().ok_or(Unopened::Dropped)?;
        let sample: &[u8; SAMPLE_LEN] = packet
            .get(sample)
            .and_then(|s| s.first_chunk())
            .ok_or(Unopened::Dropped)?;
        let mask = match (short, &self.one_rtt) {
            (true, Some(keys)) => keys.mask_received(sample),
            (true, None) => return Err(Unopened::Dropped),
            (false, _) => {
                let keys = self.remote(found.ty).ok_or(Unopened::Dropped)?;
                keys.header.mask(sample)
            }
        };
        unmask(packet, found.number_at, mask, short).ok_or(Unopened::Dropped)?;
        let header = PlainHeader::decode(packet, found).map_err(|_| Unopened::Dropped)?;
        let number = header.number.expand(expected);
        let packet = packet.get_mut(..found.len).ok_or(Unopened::Dropped)?;
        let (len, generation, peer_updated) = match (short, &mut self.one_rtt) {
            (true, Some(keys)) => {
                let phase = Phase(header.key_phase);
                let opened = keys
                    .open(now, pto, phase, number, packet, header.payload_at)
                    .map_err(|failure| match failure {
                        OpenFailure::LimitReached(_) => Unopened::Fatal(aead_limit()),
                        OpenFailure::Unauthentic | OpenFailure::KeysGone => Unopened::Dropped,
                    })?;
                (opened.len, opened.generation, opened.peer_updated)
            }
            _ => {
                let keys = self.remote(found.ty).ok_or(Unopened::Dropped)?;
                match keys.packet.open(number, packet, header.payload_at) {
                    Ok(len) => (len, 0, false),
                    Err(_) => {
                        let most = keys.packet.integrity_limit();
                        return Err(self.on_forged(most));
                    }
                }
            }
        };
        Ok(OpenedPacket {
            number,
            payload_at: header.payload_at,
            payload_len: len,
            reserved_bits_ok: header.reserved_bits_ok,
            generation,
            peer_updated,
        })
    }

    /// Counts a packet with a long header that couldn't be decrypted. Its keys permit `most`
    /// such packets (RFC 9001 §6.6).
    #[cold]
    fn on_forged(&mut self, most: u64) -> Unopened {
        // [9001 6.6 count-forged]
        self.forged += 1;
        if let Some(keys) = &mut self.one_rtt {
            keys.count_forged(1);
        }
        if self.forged > most {
            Unopened::Fatal(aead_limit())
        } else {
            Unopened::Dropped
        }
    }

    /// Seals a finished packet in place, first the payload and then the header.
    pub(super) fn seal(
        &mut self,
        space: SpaceId,
        number: u64,
        started: &Started,
        packet: &mut [u8],
    ) -> Result<(), TransportError> {
        let header_len = started.payload_at() - started.start();
        let number_at = started.number_at() - started.start();
        let sample = |packet: &[u8]| -> Option<[u8; SAMPLE_LEN]> {
            packet
                .get(number_at + SAMPLE_OFFSET..)?
                .first_chunk()
                .copied()
        };
        let mask = match (space, &mut self.one_rtt) {
            (SpaceId::Data, Some(keys)) => {
                keys.seal(number, packet, header_len)
                    .map_err(|failure| match failure {
                        SealFailure::LimitReached(_) => aead_limit(),
                        SealFailure::Buffer(_) => unsealed(),
                    })?;
                keys.mask_sent(&sample(packet).ok_or_else(unsealed)?)
            }
            _ => {
                let keys = self.local(space).ok_or_else(unsealed)?;
                keys.packet
                    .seal(number, packet, header_len)
                    .map_err(|_| unsealed())?;
                keys.header.mask(&sample(packet).ok_or_else(unsealed)?)
            }
        };
        mask_header(packet, number_at, mask, !started.ty().is_long());
        Ok(())
    }
}

/// Returns the bits of the first byte that are masked (RFC 9001 §5.4.1).
const fn first_byte_bits(short: bool) -> u8 {
    if short { 0x1f } else { 0x0f }
}

/// Removes header protection. The length of the packet number is only readable afterwards.
fn unmask(packet: &mut [u8], number_at: usize, mask: [u8; 5], short: bool) -> Option<()> {
    let [first_mask, number_mask @ ..] = mask;
    let first = packet.first_mut()?;
    *first ^= first_mask & first_byte_bits(short);
    let len = usize::from(*first & 3) + 1;
    let number = packet.get_mut(number_at..number_at + len)?;
    number
        .iter_mut()
        .zip(number_mask)
        .for_each(|(byte, mask)| *byte ^= mask);
    Some(())
}

/// Applies header protection.
fn mask_header(packet: &mut [u8], number_at: usize, mask: [u8; 5], short: bool) {
    let [first_mask, number_mask @ ..] = mask;
    let Some(first) = packet.first_mut() else {
        return;
    };
    let len = usize::from(*first & 3) + 1;
    *first ^= first_mask & first_byte_bits(short);
    if let Some(number) = packet.get_mut(number_at..number_at + len) {
        number
            .iter_mut()
            .zip(number_mask)
            .for_each(|(byte, mask)| *byte ^= mask);
    }
}
