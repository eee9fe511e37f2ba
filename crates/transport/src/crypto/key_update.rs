//! 1-RTT packet protection across key phases (RFC 9001 §6).
//!
//! ```text
//!            previous          current              next
//!   receive  kept for 3 PTO    phase bit matches    derived ahead, tried when the bit differs
//!   send     –                 in use               after begin_update, or after the peer's update
//! ```
//!
//! The keys of the first update are derived once a few packets were sealed, or when the bit first
//! differs, if that is earlier. Connections that end sooner never derive them. By sending a forged
//! packet so early, an attacker can therefore learn from its timing that its bit differed, but only
//! once per connection, which RFC 9001 §6.3 allows.
//!
//! The connection provides the phase bit, the packet number and `now`. The receive key for a packet
//! is chosen by its phase bit and by its number relative to the first packet of the current phase.
//! Therefore, old keys never open a packet newer than one that new keys opened (§6.4).

use core::fmt;

use super::{AeadLimitReached, HeaderKey, Keys, PacketKey, PacketKeys, PhaseKeys};
use super::{OpenError, SAMPLE_LEN, SealError};
use crate::{Duration, Instant};

/// Packets sealed in the first phase before the keys of the next phase are derived. A connection
/// that is opened and closed again seals fewer. Deriving takes 3 % of a handshake.
const AHEAD_AFTER: u64 = 8;

/// The Key Phase bit of short headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Phase(pub bool);

impl Phase {
    const fn flipped(self) -> Self {
        Self(!self.0)
    }
}

/// A 1-RTT packet that was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Length of the plaintext, which starts after the header.
    pub len: usize,
    /// Key phase of the key that opened it, counted from the handshake. For
    /// [`OneRttKeys::on_ack`].
    pub generation: u64,
    /// Whether the packet was the first of a new phase that the peer began.
    pub peer_updated: bool,
}

/// Error returned when a 1-RTT packet can't be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenFailure {
    /// The packet isn't authentic and must be dropped. It counts towards the integrity limit.
    #[error("packet failed authentication")]
    Unauthentic,
    /// The packet belongs to the previous phase, whose keys were discarded (or never existed).
    /// It must be dropped.
    #[error("packet of a key phase whose keys are gone")]
    KeysGone,
    /// There were too many forgeries, so the connection must be closed.
    #[error(transparent)]
    LimitReached(#[from] AeadLimitReached),
}

/// Error returned when a packet can't be sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealFailure {
    /// The buffer doesn't fit the cipher.
    #[error(transparent)]
    Buffer(#[from] SealError),
    /// The key's limit is reached and no update was possible, so the connection must be closed.
    #[error(transparent)]
    LimitReached(#[from] AeadLimitReached),
}

/// The peer violated the rules of key updates, so the connection must be closed with
/// [`CODE`](Self::CODE).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("peer acknowledged packets of the new key phase under old keys")]
pub struct KeyUpdateError;

impl KeyUpdateError {
    /// KEY_UPDATE_ERROR (RFC 9000 §20.1).
    pub const CODE: u64 = 0x0e;
}

/// The receive key of the previous phase.
struct Previous {
    key: Box<dyn PacketKey>,
    /// When it is discarded; set once a packet of the current phase has arrived.
    drop_at: Option<Instant>,
}

/// 1-RTT keys of a connection across all phases.
pub struct OneRttKeys {
    header_local: Box<dyn HeaderKey>,
    header_remote: Box<dyn HeaderKey>,
    source: Box<dyn PhaseKeys>,
    previous: Option<Previous>,
    current: PacketKeys,
    /// `None` only in the first phase.
    next: Option<PacketKeys>,
    phase: Phase,
    generation: u64,
    /// Lowest number of the packets opened in the current phase. `None`: the peer hasn't
    /// followed yet.
    first_received: Option<u64>,
    /// First packet number sealed in the current phase.
    first_sent: Option<u64>,
    /// Whether a packet of the current phase was acknowledged.
    acked: bool,
    /// Whether the handshake is confirmed (RFC 9001 §4.1.2).
    confirmed: bool,
    /// Earliest time of the next update by this side.
    not_before: Instant,
    sealed: u64,
    /// Number of packets after which this side should update.
    update_after: u64,
    /// Packets that failed to open, in all phases.
    forged: u64,
}

impl fmt::Debug for OneRttKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OneRttKeys")
            .field("phase", &self.phase)
            .field("generation", &self.generation)
            .field("sealed", &self.sealed)
            .field("forged", &self.forged)
            .finish_non_exhaustive()
    }
}

impl OneRttKeys {
    /// Creates the state with the keys of the handshake's
    /// [`KeyChange::OneRtt`](super::KeyChange::OneRtt).
    pub fn new(keys: Keys, source: Box<dyn PhaseKeys>) -> Self {
        let (local, remote) = (keys.local, keys.remote);
        // By updating well before the limit, we leave time for the acknowledgement.
        let update_after = local.packet.confidentiality_limit() / 2;
        Self {
            header_local: local.header,
            header_remote: remote.header,
            source,
            previous: None,
            current: PacketKeys {
                local: local.packet,
                remote: remote.packet,
            },
            next: None,
            phase: Phase::default(),
            generation: 0,
            first_received: None,
            first_sent: None,
            acked: false,
            confirmed: false,
            not_before: Instant::ZERO,
            sealed: 0,
            update_after,
            forged: 0,
        }
    }

    /// Lowers the number of packets after which [`wants_update`](Self::wants_update) returns
    /// true (never above half the cipher's confidentiality limit).
    pub fn update_after(&mut self, packets: u64) {
        self.update_after = packets
            .min(self.current.local.confidentiality_limit() / 2)
            .max(1);
    }

    /// Returns the Key Phase bit for packets sealed now.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Returns the number of key phases since the handshake.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the number of bytes that sealing adds.
    pub fn tag_len(&self) -> usize {
        self.current.local.tag_len()
    }

    /// Returns the mask for the header of a packet that this side has sealed.
    pub fn mask_sent(&self, sample: &[u8; SAMPLE_LEN]) -> [u8; 5] {
        self.header_local.mask(sample)
    }

    /// Returns the mask for the header of a received packet.
    pub fn mask_received(&self, sample: &[u8; SAMPLE_LEN]) -> [u8; 5] {
        self.header_remote.mask(sample)
    }

    /// Seals a packet whose header contains [`phase`](Self::phase); see [`PacketKey::seal`].
    ///
    /// # Errors
    /// [`SealFailure`].
    pub fn seal(
        &mut self,
        pn: u64,
        packet: &mut [u8],
        header_len: usize,
    ) -> Result<(), SealFailure> {
        // [9001 6.6 confidentiality]
        if self.sealed >= self.current.local.confidentiality_limit() {
            return Err(AeadLimitReached.into());
        }
        // [9001 6.4 ascending]
        self.current.local.seal(pn, packet, header_len)?;
        // [9001 6.6 count-sealed]
        self.sealed += 1;
        self.first_sent.get_or_insert(pn);
        // [9001 6.3 even-timing] [9001 6.3 two-sets]
        if self.sealed == AHEAD_AFTER {
            self.next_keys();
        }
        Ok(())
    }

    /// Opens a packet, given the phase bit in its header; see [`PacketKey::open`]. If the peer
    /// has just begun this phase, both directions change to it. `pto` is the current probe
    /// timeout; old keys are kept for three probe timeouts.
    ///
    /// # Errors
    /// [`OpenFailure`]. The packet must be dropped, and with [`OpenFailure::LimitReached`], the
    /// connection must be closed.
    pub fn open(
        &mut self,
        now: Instant,
        pto: Duration,
        phase: Phase,
        pn: u64,
        packet: &mut [u8],
        header_len: usize,
    ) -> Result<Opened, OpenFailure> {
        if phase == self.phase {
            let opened = self.current.remote.open(pn, packet, header_len);
            let len = opened.or_else(|e| self.on_failure(e))?;
            match self.first_received {
                Some(first) => self.first_received = Some(first.min(pn)),
                None => self.on_peer_followed(now, pto, pn),
            }
            return Ok(Opened {
                len,
                generation: self.generation,
                peer_updated: false,
            });
        }
        self.open_other_phase(now, pto, pn, packet, header_len)
    }

    #[cold]
    fn open_other_phase(
        &mut self,
        now: Instant,
        pto: Duration,
        pn: u64,
        packet: &mut [u8],
        header_len: usize,
    ) -> Result<Opened, OpenFailure> {
        self.on_time(now);
        // Until a packet of the current phase arrives, the other bit can only mean the previous
        // phase.
        // [9001 5.5 later-packets] [9001 6.4 old-keys-later]
        if self.first_received.is_none_or(|first| pn < first) {
            let Some(previous) = &self.previous else {
                return Err(OpenFailure::KeysGone);
            };
            let opened = previous.key.open(pn, packet, header_len);
            let len = opened.or_else(|e| self.on_failure(e))?;
            return Ok(Opened {
                len,
                generation: self.generation - 1,
                peer_updated: false,
            });
        }
        self.open_next(now, pto, pn, packet, header_len)
    }

    fn open_next(
        &mut self,
        now: Instant,
        pto: Duration,
        pn: u64,
        packet: &mut [u8],
        header_len: usize,
    ) -> Result<Opened, OpenFailure> {
        // [9001 5.5 false-update]
        let opened = self.next_keys().remote.open(pn, packet, header_len);
        let len = opened.or_else(|e| self.on_failure(e))?;
        // [9001 6.2 follow] [9001 6.2 follow-before-ack]
        self.rotate();
        self.on_peer_followed(now, pto, pn);
        Ok(Opened {
            len,
            generation: self.generation,
            peer_updated: true,
        })
    }

    /// Records the first packet of the current phase. For three PTOs, the previous key is kept,
    /// and this side begins no other update (RFC 9001 §6.5).
    fn on_peer_followed(&mut self, now: Instant, pto: Duration, pn: u64) {
        self.first_received = Some(pn);
        let until = now + pto.saturating_mul(3);
        if let Some(previous) = &mut self.previous {
            previous.drop_at = Some(until);
            self.not_before = until;
        }
    }

    /// Counts `packets` that failed to open with other keys of the connection towards the
    /// integrity limit.
    pub const fn count_forged(&mut self, packets: u64) {
        self.forged = self.forged.saturating_add(packets);
    }

    fn on_failure(&mut self, _: OpenError) -> Result<usize, OpenFailure> {
        // [9001 6.6 count-forged]
        self.forged += 1;
        // [9001 6.6 integrity]
        if self.forged > self.current.remote.integrity_limit() {
            return Err(AeadLimitReached.into());
        }
        Err(OpenFailure::Unauthentic)
    }

    /// Returns the keys of the next phase, deriving them if necessary.
    fn next_keys(&mut self) -> &PacketKeys {
        let Self { next, source, .. } = self;
        next.get_or_insert_with(|| source.next_phase())
    }

    fn rotate(&mut self) {
        let next = self.next.take();
        let next = next.unwrap_or_else(|| self.source.next_phase());
        let old = core::mem::replace(&mut self.current, next);
        self.next_keys();
        // [9001 6.1 old-keys-stay]
        self.previous = Some(Previous {
            key: old.remote,
            drop_at: None,
        });
        self.phase = self.phase.flipped();
        self.generation += 1;
        self.first_received = None;
        self.first_sent = None;
        self.acked = false;
        self.sealed = 0;
    }

    /// Records that the handshake is confirmed, after which this side may begin updates (RFC
    /// 9001 §6).
    pub fn on_confirmed(&mut self) {
        self.confirmed = true;
    }

    /// Processes an ACK of 1-RTT packets. `generation` is the key generation of the packet that
    /// contained it.
    ///
    /// # Errors
    /// [`KeyUpdateError`] if it acknowledges packets of the current phase from an older phase (RFC
    /// 9001 §6.2).
    pub fn on_ack(&mut self, largest_acked: u64, generation: u64) -> Result<(), KeyUpdateError> {
        if self.acked || self.first_sent.is_none_or(|first| largest_acked < first) {
            return Ok(());
        }
        if generation < self.generation {
            return Err(KeyUpdateError);
        }
        self.acked = true;
        Ok(())
    }

    /// Returns true if this side may begin an update: the handshake is confirmed, a packet of
    /// the current phase was acknowledged, and three PTOs have elapsed since the last change
    /// (RFC 9001 §6.1, §6.5).
    pub fn may_update(&self, now: Instant) -> bool {
        // [9001 6.1 confirmed-first] [9001 6.1 acknowledged-first]
        self.confirmed && self.acked && now >= self.not_before
    }

    /// Returns true if the current key has sealed enough packets and
    /// [`begin_update`](Self::begin_update) would succeed.
    pub fn wants_update(&self, now: Instant) -> bool {
        // [9001 5.3 update-before-limit]
        self.sealed >= self.update_after && self.may_update(now)
    }

    /// Begins the next phase. While [`may_update`](Self::may_update) is false, this returns
    /// false and changes nothing.
    pub fn begin_update(&mut self, now: Instant) -> bool {
        if !self.may_update(now) {
            return false;
        }
        self.rotate();
        true
    }

    /// Returns when [`on_time`](Self::on_time) should be called. This may be late, because
    /// [`open`](Self::open) discards old keys as well.
    pub fn deadline(&self) -> Option<Instant> {
        self.previous.as_ref().and_then(|p| p.drop_at)
    }

    /// Discards expired old keys.
    pub fn on_time(&mut self, now: Instant) {
        if self.deadline().is_some_and(|at| at <= now) {
            self.previous = None;
        }
    }
}
