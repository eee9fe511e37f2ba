//! PATH_CHALLENGE and PATH_RESPONSE frames (RFC 9000 §8.2) in both directions, on the current path
//! and on others, and arrived bytes, which raise the limits on the bytes sent to an address.

use std::net::{IpAddr, SocketAddr};

use super::path::Path;
use super::{Address, OffPath, Others, Paths};
use crate::Instant;
use crate::cid::RemoteIds;
use crate::connection::Received;
use crate::crypto::Random;
use crate::path::{AmplificationLimit, PathResponses};
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
    pub(in crate::connection) fn wants_challenge(&self, now: Instant) -> bool {
        self.address.wants_challenge(now)
    }

    /// Returns true if a PATH_CHALLENGE or PATH_RESPONSE is due.
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

    /// Counts a datagram of `bytes` for the amplification limit of its address. Returns true if it
    /// arrived on the current path.
    pub(in crate::connection) fn on_datagram(&mut self, received: &Received, bytes: u64) -> bool {
        let in_use = self.path.brought(received);
        if in_use {
            // [9000 8.1 counted-bytes]
            self.path.address.limit.on_received(bytes);
        } else if let Some(off) = &mut self.off_path
            && off.remote == received.remote
        {
            off.limit.on_received(bytes);
        } else {
            self.unknown_source = Some((received.remote, bytes));
        }
        in_use
    }

    /// Returns the bytes of the current datagram if it is from `remote` and hasn't been counted for
    /// a limit.
    pub(super) fn take_credit(&mut self, remote: SocketAddr) -> u64 {
        let source = self.unknown_source.take();
        source
            .filter(|(from, _)| *from == remote)
            .map_or(0, |(_, bytes)| bytes)
    }

    /// Processes a PATH_CHALLENGE in a datagram of `bytes`.
    pub(in crate::connection) fn on_challenge(
        &mut self,
        received: &Received,
        data: [u8; 8],
        bytes: usize,
        ids: &mut RemoteIds,
    ) {
        // [9000 8.2.1 small-challenge-read]
        let full_size = bytes >= self.full_datagram();
        if self.path.brought(received) {
            self.path.address.responses.on_challenge(data, full_size);
            // A peer that sends on a new path challenges it, so its later shims describe this path.
            self.path.feedback.on_new_incoming_path();
            return;
        }
        let known = self
            .off_path
            .as_ref()
            .is_some_and(|off| off.remote == received.remote);
        if !known {
            if let Some(old) = self.off_path.take() {
                ids.give_up(old.id.sequence);
            }
            let Some(id) = ids.allot() else {
                return;
            };
            self.tokens_moved = true;
            let mut limit = AmplificationLimit::new();
            limit.on_received(self.take_credit(received.remote));
            self.off_path = Some(OffPath {
                remote: received.remote,
                local: received.local,
                limit,
                responses: PathResponses::new(),
                id,
            });
        }
        if let Some(off) = &mut self.off_path {
            off.responses.on_challenge(data, full_size);
        }
    }

    /// Processes a PATH_RESPONSE, which arrives at the address from which the challenge was sent
    /// (RFC 9000 §8.2.2). Returns true if the current path is now validated.
    pub(in crate::connection) fn on_response<F>(
        &mut self,
        now: Instant,
        received: &Received,
        data: [u8; 8],
        others: &mut Others<'_, F>,
    ) -> bool {
        let answered = |address: &Address| {
            let validation = address.validation.as_ref();
            validation.and_then(|validation| validation.on_response(now, data))
        };
        let Some(validated) = answered(&self.path.address) else {
            if let Some(old) = &mut self.fallback
                && answered(&old.address).is_some()
            {
                old.address.validation = None;
                old.address.prove(now);
            }
            return false;
        };
        let address = &mut self.path.address;
        address.local = address.local.or(received.local);
        address.prove(now);
        others.recovery.set_amplification_blocked(now, false);
        // A challenge that was too small proves the address, but not that the path carries QUIC
        // (RFC 9000 §8.2.1).
        // [9000 8.2.1 second-challenge]
        address.validation = (!validated.full_size).then(|| others.validation(now));
        if validated.full_size && self.side.is_client() {
            self.fallback = None;
        }
        // [9000 14 narrow-path]
        validated.full_size
    }
}
