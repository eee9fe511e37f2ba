//! PATH_CHALLENGE and PATH_RESPONSE frames (RFC 9000 §8.2), on the current path and on others.

use std::net::{IpAddr, SocketAddr};

use super::Paths;
use super::path::Path;
use crate::Instant;
use crate::cid::RemoteIds;
use crate::crypto::Random;
use crate::wire::packet::TAG_LEN;
use crate::wire::{ConnectionId, Frame, Writer};

/// Size of a datagram that responds to a challenge in a datagram of less than full size.
const SMALL: usize = 64;

/// Size of a PATH_CHALLENGE or PATH_RESPONSE frame, in bytes.
const PATH_FRAME: usize = 9;

/// Returns the maximum size of a datagram with only a PATH_CHALLENGE, in bytes: first byte, ID,
/// packet number, frame, and tag.
pub(in crate::connection) const fn least_challenge(id_len: usize) -> usize {
    1 + id_len + 4 + PATH_FRAME + TAG_LEN
}

/// Result of writing PATH_CHALLENGE and PATH_RESPONSE frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::connection) struct PathFrames {
    /// Whether at least one was written.
    pub(in crate::connection) written: bool,
    /// Whether one needs a datagram of full size (RFC 9000 §8.2.1, §8.2.2), and this size is
    /// possible.
    pub(in crate::connection) padded: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    Challenge([u8; 8]),
    Response([u8; 8]),
}

/// A datagram for a path other than the current one: one frame, and padding up to `size` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::connection) struct OffPathFrame {
    pub(in crate::connection) remote: SocketAddr,
    pub(in crate::connection) local: Option<IpAddr>,
    pub(in crate::connection) dcid: ConnectionId,
    pub(in crate::connection) size: usize,
    content: Content,
}

impl OffPathFrame {
    pub(in crate::connection) const fn frame(&self) -> Frame<'static> {
        match self.content {
            Content::Challenge(data) => Frame::PathChallenge(data),
            Content::Response(data) => Frame::PathResponse(data),
        }
    }
}

impl Path {
    /// Returns true if a challenge is due for an address that isn't validated. Because only the
    /// challenge may fit into the bytes permitted there, it is written before acknowledgements,
    /// feedback and a shim. Until it is answered, nothing else would ever have room.
    pub(in crate::connection) fn challenges_first(&self, now: Instant) -> bool {
        !self.is_validated() && self.wants_challenge(now)
    }

    /// Returns true if a PATH_CHALLENGE is due.
    #[inline]
    pub(in crate::connection) fn wants_challenge(&self, now: Instant) -> bool {
        self.address.wants_challenge(now)
    }

    /// Returns true if a PATH_CHALLENGE or PATH_RESPONSE is due.
    #[inline]
    pub(in crate::connection) fn wants_frames(&self, now: Instant) -> bool {
        !self.address.responses.is_empty() || self.wants_challenge(now)
    }

    /// Writes the frames that are due, as far as they fit. `full` is the size of datagrams that
    /// prove that a path carries QUIC.
    pub(in crate::connection) fn write_frames(
        &mut self,
        now: Instant,
        full: usize,
        random: &mut Random,
        w: &mut Writer<'_>,
    ) -> PathFrames {
        let start = w.position();
        let mut pads = false;
        let full_size = w.limit() + TAG_LEN >= full;
        if let Some(validation) = &mut self.address.validation
            && validation.wants_challenge(now)
        {
            // [9000 8.2.1 unpredictable]
            let data = random.bytes();
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
        PathFrames {
            written: w.position() > start,
            // [9000 8.2.1 full-challenge] [9000 8.2.2 full-response] [9000 8.2.2 response-limited]
            padded: full_size && pads,
        }
    }
}

impl Paths {
    /// Returns a response on the path that the peer probes, if one is due.
    pub(in crate::connection) fn poll_response(
        &mut self,
        ids: &mut RemoteIds,
    ) -> Option<OffPathFrame> {
        let full = self.full_datagram();
        let off = self.off_path.as_mut()?;
        let available = usize::try_from(off.limit.available()).unwrap_or(usize::MAX);
        if off.responses.is_empty() || available < SMALL {
            return None;
        }
        if !ids.is_held(off.id.sequence) {
            // The peer has retired this ID.
            let Some(id) = ids.allot() else {
                self.off_path = None;
                return None;
            };
            off.id = id;
            self.tokens_moved = true;
        }
        let owed = off.responses.pop()?;
        let size = if owed.full_size { full } else { SMALL };
        Some(OffPathFrame {
            // [9000 8.2.2 same-path]
            remote: off.remote,
            local: off.local,
            dcid: off.id.id,
            // [9000 8.2.2 response-limited]
            size: size.min(available),
            content: Content::Response(owed.data),
        })
    }

    /// Returns a challenge on the path that was left, if one is due.
    pub(in crate::connection) fn poll_challenge(
        &mut self,
        now: Instant,
        ids: &RemoteIds,
        random: &mut Random,
    ) -> Option<OffPathFrame> {
        let full = self.full_datagram();
        let old = self.fallback.as_mut()?;
        if !old.address.wants_challenge(now) {
            return None;
        }
        let dcid = match old.id {
            None => ids.current().id,
            Some(id) if ids.is_held(id.sequence) => id.id,
            // The peer has retired this ID.
            Some(_) => {
                old.address.validation = None;
                return None;
            }
        };
        let data = random.bytes();
        // If the peer's last return wasn't proved, challenges count towards the limit on bytes sent
        // there.
        let available = usize::try_from(old.address.limit.available()).unwrap_or(usize::MAX);
        let size = full.min(available);
        (size >= SMALL).then_some(OffPathFrame {
            remote: old.address.remote,
            local: old.address.local,
            dcid,
            size,
            content: Content::Challenge(data),
        })
    }

    /// Records that the frame was sent, in a datagram of `bytes`.
    pub(in crate::connection) fn on_off_path_sent(
        &mut self,
        now: Instant,
        sent: &OffPathFrame,
        bytes: u64,
    ) {
        let full = self.full_datagram();
        match sent.content {
            Content::Response(_) => {
                if let Some(off) = &mut self.off_path {
                    off.limit.on_sent(bytes);
                }
            }
            Content::Challenge(data) => {
                if let Some(old) = &mut self.fallback {
                    old.address.limit.on_sent(bytes);
                    old.address.challenged_at = Some(now);
                    if let Some(validation) = &mut old.address.validation {
                        validation.on_challenge_sent(now, data, sent.size >= full);
                    }
                }
            }
        }
    }
}
