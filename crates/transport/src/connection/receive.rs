//! Processing of datagrams: the shim is removed, coalesced packets are decrypted in place, and
//! their frames are processed.

use super::Received;
use super::fates::Fates;
use super::handshake::{self, RetryAnswer};
use super::keys::{OpenedPacket, Unopened};
use super::lifecycle::Lifecycle;
use super::outbox::Outbox;
use super::paths::{Paths, ShimPrefix, strip};
use super::sources::Sources;
use super::spaces::PacketSpaces;
use super::start::Levels;
use super::timers::Timer;
use crate::Instant;
use crate::cid::LOCAL_ID_LEN;
use crate::config::TransportConfig;
use crate::crypto::{Random, ResetToken, Side};
use crate::observe::{ConnectionError, Stats, TraceEvent, TracedPacket, Tracing};
use crate::wire::packet::{DecodeError, Protected, Retry, VersionNegotiation};
use crate::wire::{PacketType, PartialDecode, SpaceId, TransportError};
use std::net::IpAddr;

/// Properties of the datagram that contained a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Carrier<'a> {
    pub(super) received: Received,
    pub(super) prefix: ShimPrefix<'a>,
    /// Bytes of UDP payload, including the shim.
    pub(super) bytes: usize,
    /// Whether the packet is the first of its datagram.
    pub(super) first: bool,
}

/// The parts that datagrams, deadlines and calls of the application change, for one pass.
pub(super) struct Receiving<'a> {
    pub(super) now: Instant,
    pub(super) side: Side,
    pub(super) config: &'a TransportConfig,
    pub(super) sources: &'a mut Sources,
    pub(super) spaces: &'a mut PacketSpaces,
    pub(super) paths: &'a mut Paths,
    pub(super) lifecycle: &'a mut Lifecycle,
    pub(super) stats: &'a mut Stats,
    pub(super) tracing: &'a mut Tracing,
    pub(super) outbox: &'a mut Outbox,
    pub(super) random: &'a mut Random,
}

impl Receiving<'_> {
    /// Processes a datagram, decrypting its bytes in place.
    pub(super) fn datagram(&mut self, received: Received, datagram: &mut [u8]) {
        self.take(received, datagram);
        while let Some((received, mut datagram)) = self.sources.handshake.take_kept() {
            self.take(received, &mut datagram);
        }
    }

    /// Processes a datagram, or keeps it until it can be decrypted.
    fn take(&mut self, received: Received, datagram: &mut [u8]) {
        if self.lifecycle.ignores_input() || self.is_from_a_stranger(&received) {
            return;
        }
        if self.sources.handshake.keep(&received, datagram) {
            return;
        }
        let now = self.now;
        let bytes = datagram.len();
        // Decrypting a packet destroys it, and a stateless reset looks like a packet.
        let reset = ResetToken::at_end_of(datagram);
        if self.paths.on_datagram(&received, bytes as u64) {
            let recovery = &mut self.spaces.recovery;
            recovery.set_amplification_blocked(now, false);
        }
        let (prefix, rest) = if self.paths.path.feedback.offered() {
            strip(datagram)
        } else {
            (ShimPrefix::Plain, datagram)
        };
        if matches!(prefix, ShimPrefix::Bad) {
            self.stats.shims_bad += 1;
        }
        let carrier = Carrier {
            received,
            prefix,
            bytes,
            first: true,
        };
        if self.packets(carrier, rest) {
            self.lifecycle
                .on_datagram(now, self.spaces.recovery.rtt().min());
            self.stats.datagrams_received += 1;
            self.stats.bytes_received += bytes as u64;
            let control = &mut self.sources.control;
            if control.local_ids.is_short() {
                control.issue_ids(self.random, self.outbox, self.stats.bytes_received);
            }
        // [9000 10.3.1 compared]
        } else if let Some(token) = reset
            && self.sources.control.remote_ids.is_reset(&token)
        {
            self.lose(ConnectionError::Reset);
        }
    }

    /// Processes the packets of a datagram. Returns true if at least one packet was decrypted.
    fn packets(&mut self, mut carrier: Carrier<'_>, mut rest: &mut [u8]) -> bool {
        let mut opened_any = false;
        let mut first_id = None;
        while !rest.is_empty() {
            let found = match PartialDecode::new(rest, LOCAL_ID_LEN) {
                Ok(PartialDecode::Protected(found)) => found,
                Ok(PartialDecode::Retry(retry)) if carrier.first => {
                    self.on_retry(rest, &retry);
                    break;
                }
                Ok(PartialDecode::VersionNegotiation) if carrier.first => {
                    self.on_version_negotiation(rest);
                    break;
                }
                // [9000 5.2.1 other-version]
                Ok(_)
                | Err(
                    DecodeError::Truncated | DecodeError::FixedBit | DecodeError::ConnectionId(_),
                ) => {
                    // [9000 14 odd-sizes]
                    self.stats.packets_dropped += 1;
                    break;
                }
            };
            // All packets of a datagram belong to the same connection (RFC 9000 §12.2).
            if *first_id.get_or_insert(found.dcid) != found.dcid {
                self.stats.packets_dropped += 1;
                break;
            }
            let (packet, behind) = rest.split_at_mut(found.len.min(rest.len()));
            // [9000 12.2 coalesced]
            opened_any |= self.packet(&carrier, &found, packet);
            carrier.first = false;
            rest = behind;
        }
        opened_any
    }

    /// Returns true if a client received a datagram from an address other than its server's (RFC
    /// 9000 §9).
    fn is_from_a_stranger(&self, received: &Received) -> bool {
        // [9000 9 unknown-server-address]
        self.side.is_client() && received.remote != self.paths.path.remote()
    }

    /// Processes a packet. Returns true if it was decrypted.
    fn packet(&mut self, carrier: &Carrier<'_>, found: &Protected, packet: &mut [u8]) -> bool {
        if self.side.is_server()
            && found.ty == PacketType::Initial
            // [9000 14.1 short-initials-dropped]
            && carrier.bytes < self.paths.full_datagram()
        {
            // RFC 9000 §14.1, which only applies to servers. The endpoint checks datagrams that
            // begin connections.
            self.stats.packets_dropped += 1;
            return false;
        }
        match self.open(found, packet) {
            Ok(opened) => {
                self.stats.packets_received += 1;
                self.tracing.record(self.now, || {
                    TraceEvent::Received(TracedPacket {
                        ty: found.ty,
                        number: opened.number,
                        bytes: found.len as u64,
                        shim: false,
                        mtu_probe: false,
                        ack_only: false,
                    })
                });
                // [9000 5.2 no-half-packets]
                if let Err(error) = self.on_opened(carrier, found, &opened, packet) {
                    self.fail(error);
                }
                true
            }
            Err(Unopened::Dropped) => {
                self.stats.packets_dropped += 1;
                let early = found.ty == PacketType::ZeroRtt;
                self.stats.early_packets_dropped += u64::from(early);
                false
            }
            Err(Unopened::Fatal(error)) => {
                self.fail(error);
                false
            }
        }
    }

    fn open(&mut self, found: &Protected, packet: &mut [u8]) -> Result<OpenedPacket, Unopened> {
        if self.sources.handshake.accepts(found) {
            self.spaces.open(self.now, found, packet)
        } else {
            Err(Unopened::Dropped)
        }
    }

    fn on_opened(
        &mut self,
        carrier: &Carrier<'_>,
        found: &Protected,
        opened: &OpenedPacket,
        packet: &[u8],
    ) -> Result<(), TransportError> {
        let space = found.ty.space();
        if found.ty.is_long() && self.sources.handshake.on_source(found.scid) {
            self.sources.control.remote_ids.set_first(found.scid);
        }
        // [9000 17.2 reserved-bits]
        if !opened.reserved_bits_ok {
            return Err(TransportError::violation(
                "reserved bits of a packet header are set",
            ));
        }
        // [9000 12.3 duplicates]
        if self.spaces.received(space).is_duplicate(opened.number) {
            self.stats.packets_duplicate += 1;
            return Ok(());
        }
        self.stats.key_updates += u64::from(opened.peer_updated);
        self.stats.early_packets_received += u64::from(found.ty == PacketType::ZeroRtt);
        // [9001 4.9.1 server-initial-keys]
        if self.side.is_server() && space == SpaceId::Handshake {
            // The client is at its address and has the Handshake keys (RFC 9000 §8.1, RFC 9001
            // §4.9.1).
            self.paths.path.address.validate();
            self.sources
                .discard(self.now, SpaceId::Initial, self.spaces);
        }
        let payload = packet
            .get(opened.payload_at..opened.payload_at + opened.payload_len)
            .unwrap_or(&[]);
        self.on_payload(carrier, found, opened, payload)
    }

    fn on_version_negotiation(&mut self, datagram: &[u8]) {
        let Ok(packet) = VersionNegotiation::decode(datagram) else {
            return;
        };
        let ids = self.sources.control.local_ids.iter();
        if self.sources.handshake.is_refusal(&packet, ids) {
            // [9000 6.2 abandon]
            self.lose(ConnectionError::VersionMismatch);
        }
    }

    fn on_retry(&mut self, datagram: &[u8], retry: &Retry) {
        let longest = handshake::longest_token(self.config);
        let sources = &mut *self.sources;
        match sources.handshake.on_retry(datagram, retry, longest) {
            None => {}
            Some(RetryAnswer::Drop) => self.stats.packets_dropped += 1,
            Some(RetryAnswer::TooLong(bytes)) => {
                self.lose(ConnectionError::TokenTooLong(bytes));
            }
            Some(RetryAnswer::Again(keys, id)) => {
                // [9000 17.2.5.1 retry-id]
                sources.control.remote_ids.set_first(id);
                self.spaces.on_retry(self.now, keys);
                sources.handshake.crypto.resend(SpaceId::Initial);
                if self.spaces.keys.has_early() {
                    // The server hasn't seen any early data, so it is sent again (RFC 9000
                    // §17.2.5.3).
                    let path = &mut self.paths.path;
                    sources.take_back_early_data(self.now, self.spaces, path);
                }
            }
        }
    }

    /// Client: sends datagrams from another of our addresses from now on. If `back` is true, the
    /// former one is still ours. Returns false if migrating isn't possible.
    pub(super) fn move_to(&mut self, local: Option<IpAddr>, back: bool) -> bool {
        let handshake = &self.sources.handshake;
        // [9000 9 confirmed-first] [9000 9 disabled]
        if !handshake.is_confirmed() || handshake.is_migration_forbidden() {
            return false;
        }
        let others = self.spaces.others(&mut self.sources.control.remote_ids);
        let moved = self.paths.move_to(self.now, local, back, others);
        let path = &self.paths.path;
        self.sources.on_move(moved, path, self.outbox)
    }

    /// Borrows the parts that need the fates of our packets.
    pub(super) const fn fates(&mut self) -> Fates<'_> {
        Fates {
            now: self.now,
            sources: self.sources,
            spaces: self.spaces,
            paths: self.paths,
            stats: self.stats,
            tracing: self.tracing,
        }
    }

    /// Borrows the parts that depend on the progress of the handshake.
    pub(super) const fn levels(&mut self) -> Levels<'_> {
        Levels {
            now: self.now,
            update_after: self.config.key_update_after,
            sources: self.sources,
            spaces: self.spaces,
            paths: self.paths,
            lifecycle: self.lifecycle,
            outbox: self.outbox,
            random: self.random,
        }
    }

    /// Closes the connection with this error.
    pub(super) fn fail(&mut self, error: TransportError) {
        let pto = self.spaces.pto();
        let ending = self.lifecycle.fail(self.now, pto, error);
        self.sources.on_ending(ending, self.outbox);
    }

    /// Stops sending, because the peer closed the connection (RFC 9000 §10.2.2).
    pub(super) fn drain(&mut self, error: ConnectionError) {
        let pto = self.spaces.pto();
        let ending = self.lifecycle.drain(self.now, pto, error);
        self.sources.on_ending(ending, self.outbox);
    }

    /// Ends the connection without a CONNECTION_CLOSE.
    pub(super) fn lose(&mut self, error: ConnectionError) {
        let pto = self.spaces.pto();
        let ending = self.lifecycle.lose(self.now, pto, error);
        self.sources.on_ending(ending, self.outbox);
    }

    /// Performs everything that is due.
    pub(super) fn timeout(&mut self) {
        let now = self.now;
        while let Some(timer) = self.lifecycle.timers.take_due(now) {
            self.on_timer(timer);
        }
        if !self.lifecycle.is_open() {
            return;
        }
        // Losses by timeout are removed one space at a time. After a probe timeout, packets must be
        // sent before the next one is calculated, even if the backoff is at its limit.
        for _ in 0..8 {
            if self.spaces.recovery.deadline().is_none_or(|at| at > now) {
                break;
            }
            let probes = self.spaces.recovery.pto_count();
            if let Some(later) = self.fates().on_timeout() {
                let timers = &mut self.lifecycle.timers;
                timers.set(Timer::SecondProbe, now + later);
            }
            if self.spaces.recovery.pto_count() != probes {
                break;
            }
        }
        let others = self.spaces.others(&mut self.sources.control.remote_ids);
        let moved = self.paths.check_validation(now, others);
        let path = &self.paths.path;
        self.sources.on_move(moved, path, self.outbox);
        self.spaces.keys.on_time(now);
    }

    fn on_timer(&mut self, timer: Timer) {
        match timer {
            // This only requires the next poll_transmit.
            Timer::Pacing => {}
            Timer::Idle => self.lose(ConnectionError::TimedOut),
            Timer::KeepAlive => {
                let established = self.sources.handshake.is_complete() && self.lifecycle.is_open();
                let wanted = self.lifecycle.keeps_alive()
                    || self.sources.streams.limit() == pathmark_cc::Limit::Peer;
                self.sources.control.ping |= established && wanted;
            }
            Timer::Close => {
                self.lifecycle.forget();
                self.sources.control.remove_ids(self.outbox);
            }
            Timer::Handshake => self.lose(ConnectionError::HandshakeTimedOut),
            Timer::SecondProbe => self.probe_again(),
        }
    }

    /// Sends the second probe unless the peer has answered.
    fn probe_again(&mut self) {
        let path = &self.paths.path;
        let limit = path.route.probe_limit(self.spaces.recovery.pto_count());
        if self.spaces.second_probe(limit) == Some(SpaceId::Data) {
            self.sources.fill_data_probe(self.now, self.spaces, path);
        }
    }
}
