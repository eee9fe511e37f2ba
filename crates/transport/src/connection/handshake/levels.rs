//! CRYPTO streams of the three encryption levels, which are sent and received in frames.

use std::ops::Range;

use super::crypto_stream::CryptoSend;
use crate::streams::Reassembly;
use crate::wire::frame::types;
use crate::wire::{SpaceId, Writer};

/// Number of the client's packets for which a flight is repeated before a probe timeout, because
/// RFC 9002 §6.2.3 requires a bound. These are the probes of four timeouts.
const REPEATS: u8 = 8;

/// A level with both directions of its CRYPTO stream.
#[derive(Debug, Default)]
pub(super) struct Level {
    pub(super) send: CryptoSend,
    pub(super) receive: Reassembly,
    /// Whether the level was discarded, so that nothing more is sent or read.
    pub(super) discarded: bool,
}

/// CRYPTO streams of the three levels.
#[derive(Debug)]
pub(in crate::connection) struct CryptoLevels {
    levels: [Level; 3],
    /// Number of times that a flight may still be repeated before a probe timeout.
    repeats: u8,
}

impl Default for CryptoLevels {
    fn default() -> Self {
        Self {
            levels: Default::default(),
            repeats: REPEATS,
        }
    }
}

impl CryptoLevels {
    pub(super) fn level(&mut self, space: SpaceId) -> &mut Level {
        let [initial, handshake, data] = &mut self.levels;
        match space {
            SpaceId::Initial => initial,
            SpaceId::Handshake => handshake,
            SpaceId::Data => data,
        }
    }

    /// Returns true if CRYPTO data of this level is due.
    #[inline]
    pub(in crate::connection) fn can_send(&self, space: SpaceId) -> bool {
        let [initial, handshake, data] = &self.levels;
        match space {
            SpaceId::Initial => initial.send.can_send(),
            SpaceId::Handshake => handshake.send.can_send(),
            SpaceId::Data => data.send.can_send(),
        }
    }

    /// Writes one CRYPTO frame with as much data as fits. Returns the range of the stream in it.
    pub(in crate::connection) fn write_frame(
        &mut self,
        space: SpaceId,
        w: &mut Writer<'_>,
    ) -> Option<Range<u64>> {
        // Type, offset and length take at most 1 + 8 + 2 bytes.
        let room = w.remaining().checked_sub(11).filter(|&room| room >= 16)?;
        let send = &mut self.level(space).send;
        let range = send.poll(room)?;
        let bytes = send.bytes(&range);
        let written = w.all_or_nothing(|w| {
            w.put_varint(types::CRYPTO)?;
            w.put_varint(range.start)?;
            w.put_varint(bytes.len() as u64)?;
            w.put_slice(bytes)
        });
        match written {
            Ok(()) => Some(range),
            Err(_) => {
                send.on_loss(range);
                None
            }
        }
    }

    pub(in crate::connection) fn on_ack(&mut self, space: SpaceId, range: Range<u64>) {
        self.level(space).send.on_ack(range);
    }

    pub(in crate::connection) fn on_loss(&mut self, space: SpaceId, range: Range<u64>) {
        let level = self.level(space);
        if !level.discarded {
            // [9001 4 retransmit-same-keys]
            level.send.on_loss(range);
        }
    }

    /// Returns true while a flight may be repeated before a probe timeout.
    pub(in crate::connection) const fn may_repeat(&self) -> bool {
        self.repeats > 0
    }

    /// Records that a flight was repeated, at least in part.
    pub(in crate::connection) const fn on_repeated(&mut self) {
        self.repeats = self.repeats.saturating_sub(1);
    }

    /// Repeats this range, which may be lost, after data that hasn't been sent yet. Returns false
    /// if it is already due or acknowledged.
    pub(in crate::connection) fn repeat(&mut self, space: SpaceId, range: Range<u64>) -> bool {
        let level = self.level(space);
        !level.discarded && level.send.repeat(range)
    }

    /// Makes all unacknowledged data due again.
    pub(in crate::connection) fn resend(&mut self, space: SpaceId) {
        self.level(space).send.resend();
    }

    /// Discards the level, so that none of its data is sent or read anymore.
    pub(in crate::connection) fn discard(&mut self, space: SpaceId) {
        *self.level(space) = Level {
            discarded: true,
            ..Level::default()
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_without_keys_sends_nothing_again() {
        let mut levels = CryptoLevels::default();
        levels.level(SpaceId::Initial).send.write(&[7; 30]);
        let frame = |levels: &mut CryptoLevels, space| {
            let mut room = [0; 100];
            levels.write_frame(space, &mut Writer::new(&mut room))
        };
        assert!(levels.can_send(SpaceId::Initial) && !levels.can_send(SpaceId::Handshake));
        assert_eq!(frame(&mut levels, SpaceId::Handshake), None);
        assert_eq!(frame(&mut levels, SpaceId::Initial), Some(0..30));
        levels.on_loss(SpaceId::Initial, 0..30);
        assert_eq!(frame(&mut levels, SpaceId::Initial), Some(0..30));
        levels.discard(SpaceId::Initial);
        levels.on_loss(SpaceId::Initial, 0..30);
        assert!(!levels.repeat(SpaceId::Initial, 0..30));
        assert_eq!(frame(&mut levels, SpaceId::Initial), None);
        assert!(!levels.can_send(SpaceId::Initial));
    }

    #[test]
    fn a_retry_repeats_all_and_an_acknowledgement_ends_that() {
        let mut levels = CryptoLevels::default();
        levels.level(SpaceId::Initial).send.write(&[7; 30]);
        let mut room = [0; 100];
        let mut frame = |levels: &mut CryptoLevels| {
            levels.write_frame(SpaceId::Initial, &mut Writer::new(&mut room))
        };
        assert_eq!(frame(&mut levels), Some(0..30));
        assert_eq!(frame(&mut levels), None);
        levels.resend(SpaceId::Initial);
        assert_eq!(frame(&mut levels), Some(0..30));
        assert!(levels.repeat(SpaceId::Initial, 0..30));
        assert!(!levels.repeat(SpaceId::Initial, 0..30), "it is due");
        assert_eq!(frame(&mut levels), Some(0..30));
        levels.on_ack(SpaceId::Initial, 0..30);
        levels.resend(SpaceId::Initial);
        assert_eq!(frame(&mut levels), None);
        assert!(!levels.repeat(SpaceId::Initial, 0..30));
    }

    /// RFC 9002 §6.2.3: packets sent before a probe timeout are limited, here to those of four
    /// timeouts.
    #[test]
    fn flights_are_repeated_a_few_times() {
        let mut levels = CryptoLevels::default();
        for _ in 0..8 {
            assert!(levels.may_repeat());
            levels.on_repeated();
        }
        assert!(!levels.may_repeat());
        levels.on_repeated();
        assert!(!levels.may_repeat());
    }
}
