//! PATH_CHALLENGE and PATH_RESPONSE (RFC 9000 §8.2): on the path in use, and on others.

use std::net::{IpAddr, SocketAddr};

use super::Paths;
use super::path::Path;
use crate::Instant;
use crate::cid::RemoteIds;
use crate::crypto::Random;
use crate::wire::packet::TAG_LEN;
use crate::wire::{ConnectionId, Frame, Writer};

/// Size of a datagram with a response to a challenge that did not fill its own.
const SMALL: usize = 64;

/// Bytes of a PATH_CHALLENGE or PATH_RESPONSE frame.
const PATH_FRAME: usize = 9;

/// Bytes of a datagram with a PATH_CHALLENGE alone, at most: first byte, id, number, frame,
/// tag.
pub(in crate::connection) const fn least_challenge(id_len: usize) -> usize {
    1 + id_len + 4 + PATH_FRAME + TAG_LEN
}

/// What was written of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::connection) struct PathFrames {
    /// At least one.
    pub(in crate::connection) written: bool,
    /// One needs a datagram of full size (RFC 9000 §8.2.1, §8.2.2), and it can be.
    pub(in crate::connection) padded: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    Challenge([u8; 8]),
    Response([u8; 8]),
}

/// A datagram for another path than the one in use: one frame, and padding up to `size` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::connection) struct OffPathFrame {
    pub(in crate::connection) remote: SocketAddr,
    pub(in crate::connection) local: Option<IpAddr>,
    pub(in crate::connection) dcid: ConnectionId,
    pub(in crate::connection) size: usize,
    content: Content,
}

impl OffPathFrame {
    /// Its frame.
    pub(in crate::connection) const fn frame(&self) -> Frame<'static> {
        match self.content {
            Content::Challenge(data) => Frame::PathChallenge(data),
            Content::Response(data) => Frame::PathResponse(data),
        }
    }
}

impl Path {
    /// True if a challenge is due of an address that is not validated. That may get so few bytes
    /// that the challenge alone fits: it comes before acknowledgements, feedback on shims, and a
    /// shim. Without an answer nothing else will ever have room there.
    pub(in crate::connection) fn challenges_first(&self, now: Instant) -> bool {
        !self.is_validated() && self.wants_challenge(now)
    }

    /// True if a PATH_CHALLENGE is due.
    #[inline]
    pub(in crate::connection) fn wants_challenge(&self, now: Instant) -> bool {
        self.address.wants_challenge(now)
    }

    /// True if a PATH_CHALLENGE or PATH_RESPONSE is due.
    #[inline]
    pub(in crate::connection) fn wants_frames(&self, now: Instant) -> bool {
        !self.address.responses.is_empty() || self.wants_challenge(now)
    }

    /// Writes those that are due, as far as they fit. `full`: size of the datagrams that prove that
    /// a path carries QUIC.
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
    /// A response over the path that the peer probes, if one is due.
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
            // The peer asked for that id back.
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

    /// A challenge over the path that was left, if one is due.
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
            // The peer asked for it back.
            Some(_) => {
                old.address.validation = None;
                return None;
            }
        };
        let data = random.bytes();
        // Where the peer's last return was not proved, challenges are part of what it is lent.
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

    /// It left, in a datagram of `bytes`.
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
