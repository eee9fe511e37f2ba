//! The parts that send and receive frames: handshake, control frames, streams and datagrams.
//! [`Sources::write`] defines the order in which they fill a packet. Each source uses the same
//! state to report that it has frames and to write them, and is notified of the fates of its
//! frames.

use super::Event;
use super::building::Carried;
use super::building::Contents;
use super::control::{Control, ControlFrame};
use super::handshake::Handshake;
use super::lifecycle::Ending;
use super::outbox::Outbox;
use super::paths::{Move, Path};
use super::spaces::PacketSpaces;
use crate::crypto::Random;
use crate::datagrams::Datagrams;
use crate::recovery::Probe;
use crate::streams::{AckedRun, Streams};
use crate::wire::{SpaceId, Writer};
use crate::{Duration, Instant};

/// The other parts that sources need.
pub(super) struct Asked<'a> {
    pub(super) now: Instant,
    /// The packet number space of the packet.
    pub(super) space: SpaceId,
    pub(super) spaces: &'a mut PacketSpaces,
    pub(super) path: &'a mut Path,
    /// Size of the datagrams that prove that a path carries QUIC.
    pub(super) full: usize,
    pub(super) random: &'a mut Random,
}

impl Asked<'_> {
    /// Writes PATH_CHALLENGE and PATH_RESPONSE.
    #[inline]
    pub(super) fn write_path(&mut self, w: &mut Writer<'_>, contents: &mut Contents) {
        let frames = self.path.write_frames(self.now, self.full, self.random, w);
        contents.padded |= frames.padded;
        contents.eliciting |= frames.written;
    }

    /// Writes ACK_FREQUENCY and returns its sequence number.
    fn write_ack_request(&mut self, w: &mut Writer<'_>) -> Option<u64> {
        let interval = self.path.measuring_interval();
        let window = self.path.window() / u64::from(self.path.mtu().max(1));
        self.spaces.write_ack_request(self.now, interval, window, w)
    }
}

/// The parts that send and receive frames.
#[derive(Debug)]
pub(super) struct Sources {
    pub(super) handshake: Handshake,
    pub(super) control: Control,
    pub(super) streams: Streams,
    pub(super) datagrams: Datagrams,
}

impl Sources {
    /// Returns true if the application has data to send, on a stream or in a datagram.
    pub(super) fn has_data(&mut self) -> bool {
        self.datagrams.wants_to_send() || self.streams.wants_to_send()
    }

    /// Returns the current limit of the sender.
    pub(super) fn limit(&mut self) -> pathmark_cc::Limit {
        if self.datagrams.wants_to_send() {
            pathmark_cc::Limit::Window
        } else {
            self.streams.limit()
        }
    }

    /// Returns true if a source has frames for a packet of `space`.
    pub(super) fn have_frames(&mut self, now: Instant, space: SpaceId, path: &Path) -> bool {
        // Data is checked first because it is the most frequent.
        let in_data = space == SpaceId::Data
            && (self.has_data() || self.control.is_due() || path.wants_frames(now));
        in_data || self.handshake.crypto.can_send(space)
    }

    /// Fills a packet. Each source in turn writes its frames, as far as they fit.
    pub(super) fn write(
        &mut self,
        asked: &mut Asked<'_>,
        w: &mut Writer<'_>,
        contents: &mut Contents,
    ) {
        let start = w.position();
        if asked.space == SpaceId::Data {
            asked.write_path(w, contents);
        }
        let carried = &mut contents.carried;
        while let Some(range) = self.handshake.crypto.write_frame(asked.space, w) {
            carried.add_crypto(range);
        }
        if asked.space == SpaceId::Data {
            if self.control.is_due() {
                self.control.write(w, |frame| carried.add_control(frame));
            }
            if self.handshake.is_complete()
                && let Some(sequence) = asked.write_ack_request(w)
            {
                carried.add_control(ControlFrame::AckFrequency(sequence));
            }
            self.write_data(asked.now, w, carried);
        }
        contents.eliciting |= w.position() > start;
    }

    /// Writes datagrams and streams. If both are waiting, flows of datagrams and streams share the
    /// window by weight.
    fn write_data(&mut self, now: Instant, w: &mut Writer<'_>, carried: &mut Carried) {
        let streams = self.streams.turns.waiting();
        let flows = self.datagrams.waiting_flows(streams);
        let start = w.position();
        let bytes = if self.datagrams.goes_first() {
            self.datagrams.write(now, w);
            let between = w.position();
            carried.streams = self.streams.write_frames(now, w);
            (between - start, w.position() - between)
        } else {
            carried.streams = self.streams.write_frames(now, w);
            let between = w.position();
            self.datagrams.write(now, w);
            (w.position() - between, between - start)
        };
        self.datagrams.on_turn(bytes, (flows, streams));
    }

    /// Processes the acknowledgement of a packet in `space` with these contents, collecting
    /// acknowledged stream data in `run`.
    pub(super) fn on_acked(&mut self, space: SpaceId, carried: &Carried, run: &mut AckedRun) {
        self.streams.gather_acked(&carried.streams, run);
        for range in carried.crypto() {
            self.handshake.crypto.on_ack(space, range.clone());
        }
        for frame in carried.control() {
            self.control.on_acked(*frame);
        }
    }

    /// Makes the contents of a packet in `space` due again, because it was lost or must be
    /// repeated.
    pub(super) fn on_lost(&mut self, space: SpaceId, carried: &Carried) {
        self.streams.on_lost(&carried.streams);
        for range in carried.crypto() {
            self.handshake.crypto.on_loss(space, range.clone());
        }
        for frame in carried.control() {
            self.control.on_lost(*frame);
        }
    }

    /// Discards the keys of `space` and everything that waits for them (RFC 9001 §4.9).
    pub(super) fn discard(&mut self, now: Instant, space: SpaceId, spaces: &mut PacketSpaces) {
        if spaces.discard(now, space) {
            self.handshake.crypto.discard(space);
        }
    }

    /// Makes all frames sent so far in the Data space due again, because they will never be
    /// acknowledged.
    pub(super) fn take_back_early_data(
        &mut self,
        now: Instant,
        spaces: &mut PacketSpaces,
        path: &mut Path,
    ) {
        spaces.recovery.drain(now, SpaceId::Data, |number, packet| {
            if packet.probe == Probe::Question {
                path.route.on_question_lost(now, number);
            }
            self.on_lost(SpaceId::Data, &packet.frames);
        });
    }

    /// Stops sending and reports that the connection is over, unless this was known before.
    pub(super) fn on_ending(&mut self, ending: Ending, outbox: &mut Outbox) {
        let error = match ending {
            Ending::Known => return,
            Ending::Over(error) => error,
            Ending::Gone(error) => {
                self.control.remove_ids(outbox);
                error
            }
        };
        self.datagrams.stop();
        outbox.push(Event::Lost(error));
    }

    /// Adapts to a change of the current path. Returns true if there was one.
    pub(super) fn on_move(&mut self, moved: Move, path: &Path, outbox: &mut Outbox) -> bool {
        if moved == Move::Stays {
            return false;
        }
        if moved == Move::OtherPath {
            self.streams.on_congestion_window(path.window());
        }
        outbox.push(Event::PathChanged);
        // A server only follows packets with a non-probing frame (RFC 9000 §9.2), so a PING is sent
        // even if there's nothing else to send.
        self.control.ping |= self.handshake.side().is_client();
        true
    }

    /// Adapts the pacer and the send buffer, because the window may have changed.
    pub(super) fn follow_window(&mut self, now: Instant, srtt: Option<Duration>, path: &mut Path) {
        let window = path.route.follow_window(now, srtt);
        self.streams.on_congestion_window(window);
        if let (Some(flows), Some(rtt)) = (self.datagrams.flows_mut(), srtt) {
            flows.on_rtt(rtt);
        }
    }

    /// Fills a probe of the Data space. A client's probe always contains a PING: if a NAT has been
    /// rebound, a server doesn't follow packets with only probing frames (RFC 9000 §9.1), such as
    /// repeated NEW_CONNECTION_ID frames, and continues to answer to the previous address.
    pub(super) fn fill_data_probe(&mut self, now: Instant, spaces: &PacketSpaces, path: &Path) {
        if self.handshake.crypto.can_send(SpaceId::Data) {
            return;
        }
        self.control.ping |= self.handshake.side().is_client();
        let again = spaces.probes_again();
        if again {
            self.streams.repeat_first(u64::from(path.mtu()));
        }
        if again || !self.have_frames(now, SpaceId::Data, path) {
            self.repeat_oldest(SpaceId::Data, spaces, 0, PacketSpaces::PROBES);
        }
    }

    /// Fills a probe of the handshake with the missing frames, even if another probe has just
    /// carried them. The handshake can't continue without these frames, and a server may refuse a
    /// client if the first packet that arrives doesn't contain a CRYPTO frame. This takes one
    /// datagram, and two for each timeout (RFC 9002 §6.2.4): if a flight has several packets, the
    /// second probe repeats the second packet, together with the missing frames of the other packet
    /// number space.
    pub(super) fn fill_probe(&mut self, space: SpaceId, spaces: &PacketSpaces) {
        if space != SpaceId::Data
            && let Some(later) = spaces.probe_index(space)
            && !self.handshake.crypto.can_send(space)
        {
            self.repeat_oldest(space, spaces, later.into(), 1);
        }
    }

    /// Makes the contents of `packets` of the oldest packets due again, starting at index `from`.
    /// In a handshake, only packets with CRYPTO frames count.
    fn repeat_oldest(
        &mut self,
        space: SpaceId,
        spaces: &PacketSpaces,
        from: usize,
        packets: usize,
    ) {
        for packet in spaces.repeatable(space).skip(from).take(packets) {
            self.on_lost(space, &packet.frames);
        }
    }

    /// Client: makes lost early data due again on a probe timeout of the handshake, because the
    /// probes also carry this data (RFC 9002 §6.2.4).
    pub(super) fn repeat_early_data(&mut self, spaces: &PacketSpaces) {
        if self.handshake.side().is_server() || !spaces.keys.has_early() {
            return;
        }
        let data = spaces.recovery.space(SpaceId::Data);
        let sent = data.sent().iter();
        let oldest = sent.filter(|(_, packet)| packet.ack_eliciting);
        for (_, packet) in oldest.take(PacketSpaces::PROBES) {
            self.streams.on_lost(&packet.frames.streams);
        }
    }

    /// Server: repeats missing Initial or Handshake packets before a probe timeout, because the
    /// client still sends ack-eliciting Initial packets and therefore may lack some of ours (RFC
    /// 9002 §6.2.3). A client's probes come in pairs, however, and are also sent if nothing is lost
    /// but a round trip takes longer than its first probe timeout. Repetitions are therefore sent
    /// after packets that the amplification limit has delayed, and data that is already due again
    /// doesn't count.
    pub(super) fn repeat_first_flight(&mut self, now: Instant, spaces: &PacketSpaces) {
        if !self.handshake.crypto.may_repeat() {
            return;
        }
        let mut repeats = false;
        for space in [SpaceId::Initial, SpaceId::Handshake] {
            for packet in spaces.overdue(now, space) {
                for range in packet.frames.crypto() {
                    repeats |= self.handshake.crypto.repeat(space, range.clone());
                }
            }
        }
        if repeats {
            self.handshake.crypto.on_repeated();
        }
    }
}

#[cfg(test)]
mod tests;
