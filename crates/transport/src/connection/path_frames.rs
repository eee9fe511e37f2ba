//! PATH_CHALLENGE and PATH_RESPONSE (RFC 9000 §8.2): on the path in use, and on others.

use super::building::{Building, Contents, Permit};
use super::{Connection, Transmit};
use crate::wire::packet::TAG_LEN;
use crate::wire::{ConnectionId, Frame, SpaceId, Writer};
use crate::{Ecn, Instant};

/// Size of a datagram with a response to a challenge that did not fill its own.
const SMALL: usize = 64;

/// Bytes of a PATH_CHALLENGE or PATH_RESPONSE frame.
const PATH_FRAME: usize = 9;

impl Connection {
    /// Size of the datagrams that prove that a path carries QUIC.
    pub(super) fn full_datagram(&self) -> usize {
        self.config.full_datagram()
    }

    /// A PATH_CHALLENGE over the path that was left.
    pub(super) fn transmit_old_path(
        &mut self,
        now: Instant,
        buffer: &mut [u8],
    ) -> Option<Transmit> {
        let old = self.fallback.as_ref()?;
        let validation = old.address.validation.as_ref()?;
        if !validation.wants_challenge(now) || !self.keys.has(SpaceId::Data) {
            return None;
        }
        let (remote, local, id) = (old.address.remote, old.address.local, old.id);
        let remote_ids = &self.control.remote_ids;
        let dcid = match id {
            None => remote_ids.current().id,
            Some(id) if remote_ids.is_held(id.sequence) => id.id,
            // The peer asked for it back.
            Some(_) => {
                let fallback = self.fallback.as_mut()?;
                fallback.address.validation = None;
                return None;
            }
        };
        let data = self.random.bytes();
        let challenge = Frame::PathChallenge(data);
        let full = self.full_datagram();
        // Where the peer's last return was not proved, challenges are part of what it is lent.
        let available = usize::try_from(old.address.limit.available()).unwrap_or(usize::MAX);
        let size = full.min(available);
        if size < SMALL {
            return None;
        }
        let transmit = self.transmit_probe(now, buffer, size, &dcid, &challenge)?;
        let address = &mut self.fallback.as_mut()?.address;
        address.limit.on_sent(transmit.len as u64);
        address.challenged_at = Some(now);
        if let Some(validation) = &mut address.validation {
            validation.on_challenge_sent(now, data, size >= full);
        }
        Some(Transmit {
            remote,
            local,
            ..transmit
        })
    }

    /// Bytes of a datagram with a PATH_CHALLENGE alone, at most: first byte, id, number, frame,
    /// tag.
    pub(super) fn least_challenge(&self) -> usize {
        1 + self.control.remote_ids.current().id.len() + 4 + PATH_FRAME + TAG_LEN
    }

    /// True if a challenge is due of an address that is not validated. That may get so few bytes
    /// that the challenge alone fits: it comes before acknowledgements, feedback on shims, and a
    /// shim. Without an answer nothing else will ever have room there.
    pub(super) fn challenges_first(&self, now: Instant) -> bool {
        let validation = self.address.validation.as_ref();
        !self.address.limit.is_validated() && validation.is_some_and(|v| v.wants_challenge(now))
    }

    /// PATH_CHALLENGE and PATH_RESPONSE of the current path. Some want the datagram to be of full
    /// size (RFC 9000 §8.2.1, §8.2.2).
    pub(super) fn write_path_frames(
        &mut self,
        now: Instant,
        w: &mut Writer<'_>,
        contents: &mut Contents,
    ) {
        let start = w.position();
        let mut pads = false;
        let full_size = w.limit() + TAG_LEN >= self.full_datagram();
        if let Some(validation) = &mut self.address.validation
            && validation.wants_challenge(now)
        {
            let data = self.random.bytes();
            if Frame::PathChallenge(data).encode(w).is_ok() {
                validation.on_challenge_sent(now, data, full_size);
                self.address.challenged_at = Some(now);
                pads = true;
                self.feedback.on_challenge_sent();
            }
        }
        while w.remaining() >= PATH_FRAME
            && let Some(owed) = self.address.responses.pop()
        {
            pads |= owed.full_size;
            let _ = Frame::PathResponse(owed.data).encode(w);
        }
        contents.padded |= full_size && pads;
        contents.eliciting |= w.position() > start;
    }

    /// A response over another path than the current one.
    pub(super) fn transmit_off_path(
        &mut self,
        now: Instant,
        buffer: &mut [u8],
    ) -> Option<Transmit> {
        let full = self.full_datagram();
        let off = self.off_path.as_mut()?;
        let available = usize::try_from(off.limit.available()).unwrap_or(usize::MAX);
        if off.responses.is_empty() || available < SMALL || !self.keys.has(SpaceId::Data) {
            return None;
        }
        if !self.control.remote_ids.is_held(off.id.sequence) {
            // The peer asked for that id back.
            let Some(id) = self.control.remote_ids.allot() else {
                self.off_path = None;
                return None;
            };
            off.id = id;
            self.tokens_moved = true;
        }
        let (remote, local, dcid) = (off.remote, off.local, off.id.id);
        let owed = off.responses.pop()?;
        let size = if owed.full_size { full } else { SMALL };
        let size = size.min(available);
        let response = Frame::PathResponse(owed.data);
        let transmit = self.transmit_probe(now, buffer, size, &dcid, &response)?;
        if let Some(off) = &mut self.off_path {
            off.limit.on_sent(transmit.len as u64);
        }
        Some(Transmit {
            remote,
            local,
            ..transmit
        })
    }

    /// A datagram of `size` bytes with `frame` and padding, for another path than the current one.
    fn transmit_probe(
        &mut self,
        now: Instant,
        buffer: &mut [u8],
        size: usize,
        dcid: &ConnectionId,
        frame: &Frame<'_>,
    ) -> Option<Transmit> {
        let room = buffer.get_mut(..size)?;
        let mut building = Building::new(room, Permit::All);
        let open = self.start_packet(SpaceId::Data, dcid, &mut building.w)?;
        frame.encode(&mut building.w).ok()?;
        let rest = building.w.remaining();
        building.w.put_zeros(rest).ok()?;
        let contents = Contents {
            eliciting: true,
            padded: true,
            off_path: true,
            ..Contents::default()
        };
        self.finish_packet(now, &open, contents, &mut building.w)?;
        let len = building.len();
        self.stats.datagrams_sent += 1;
        self.stats.bytes_sent += len as u64;
        Some(Transmit {
            remote: self.address.remote,
            local: self.address.local,
            ecn: Ecn::NotEct,
            len,
            segment_size: len,
        })
    }
}
