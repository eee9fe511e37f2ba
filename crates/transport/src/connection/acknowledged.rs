//! Fates of our packets: acknowledgements and losses, reported to the parts whose frames they
//! carried and to the path's controller.

use pathmark_cc::{Acked, Feedback as Difference};

use super::carried::Carried;
use super::control::{Control, ControlFrame};
use super::handshake::Handshake;
use super::received::Received;
use super::route::{Address, Route};
use super::stats::Stats;
use super::{Connection, of};
use crate::ack::AckRequest;
use crate::path::{EcnAck, EcnFailure, EcnState, Sample};
use crate::recovery::{AckError, AckOutcome, Fate, LossOutcome, Probe, SentPacket, Timeout};
use crate::streams::{AckedRun, Streams};
use crate::wire::frame::{Ack, feedback, types};
use crate::wire::{SpaceId, TransportError, TransportErrorCode};
use crate::{Duration, Instant};

/// What the frames of one packet report to the controller.
#[derive(Debug, Default)]
pub(super) struct AckReport {
    pub(super) feedback: Option<Difference>,
    /// The answer to a question for a starting rate.
    pub(super) answer: Option<Difference>,
    /// The peer's clock as it wrote the FEEDBACK frame, in microseconds.
    pub(super) peer_time: Option<u32>,
    /// For how long it held the ACK frame back.
    delay: Duration,
    outcome: Option<AckOutcome>,
    /// New CE marks.
    marked: u64,
    /// The path was found to drop shims.
    turned_plain: bool,
    /// The path was found to mark all packets with CE.
    misled: bool,
}

/// The parts whose frames a sent packet carried.
struct FrameOwners<'a> {
    now: Instant,
    space: SpaceId,
    streams: &'a mut Streams,
    acked: AckedRun,
    handshake: &'a mut Handshake,
    control: &'a mut Control,
    ack_request: &'a mut AckRequest,
    received: &'a mut Received,
    address: &'a mut Address,
    route: &'a mut Route,
    stats: &'a mut Stats,
    mtu_changed: bool,
}

impl FrameOwners<'_> {
    fn resolve(&mut self, fate: Fate, number: u64, packet: &SentPacket<Carried>) {
        match fate {
            Fate::Acked => self.on_acked(number, packet),
            Fate::Lost => {
                self.streams.settle_acked(&mut self.acked);
                self.on_lost(number, packet);
            }
        }
    }

    #[inline]
    fn on_acked(&mut self, number: u64, packet: &SentPacket<Carried>) {
        let carried = &packet.frames;
        self.streams.gather_acked(&carried.streams, &mut self.acked);
        if let Some(largest) = carried.acked {
            self.received.on_ack_acked(largest);
        }
        for range in carried.crypto() {
            self.handshake.on_ack(self.space, range.clone());
        }
        for frame in carried.control() {
            match frame {
                ControlFrame::AckFrequency(sequence) => self.ack_request.on_acked(*sequence),
                frame => self.control.on_acked(*frame),
            }
        }
        if self.space == SpaceId::Data && !packet.is_off_path() {
            self.address.on_acked(self.now, number);
            self.mtu_changed |= self.route.mtud.on_acked(self.now, number, packet.size);
            if packet.ack_eliciting {
                self.route.ecn.on_acked(number, packet.ecn);
                self.route.plain.on_acked(number, packet.shim);
            }
        }
    }

    fn on_lost(&mut self, number: u64, packet: &SentPacket<Carried>) {
        let carried = &packet.frames;
        self.streams.on_lost(&carried.streams);
        for range in carried.crypto() {
            self.handshake.on_loss(self.space, range.clone());
        }
        for frame in carried.control() {
            match frame {
                ControlFrame::AckFrequency(sequence) => self.ack_request.on_lost(*sequence),
                frame => self.control.on_lost(*frame),
            }
        }
        if packet.probe == Probe::Mtu {
            self.stats.mtu_probes_lost += 1;
        } else {
            self.stats.packets_lost += 1;
            self.stats.bytes_lost += u64::from(packet.size);
        }
        if self.space == SpaceId::Data && !packet.is_off_path() {
            let route = &mut *self.route;
            route
                .mtud
                .on_lost(self.now, number, packet.size, packet.sent_at);
            route.ecn.on_lost(self.now, number, packet.ecn);
            if packet.ack_eliciting && packet.probe != Probe::Mtu {
                route.plain.on_lost(self.now, number, packet.shim);
            }
        }
    }
}

impl Connection {
    /// Recovery on one hand, the owners of what packets carried on the other.
    fn owners(
        &mut self,
        now: Instant,
        space: SpaceId,
    ) -> (&mut crate::recovery::Recovery<Carried>, FrameOwners<'_>) {
        let owners = FrameOwners {
            now,
            space,
            streams: &mut self.streams,
            acked: AckedRun::default(),
            handshake: &mut self.handshake,
            control: &mut self.control,
            ack_request: &mut self.ack_request,
            received: of(&mut self.received, space),
            address: &mut self.address,
            route: &mut self.route,
            stats: &mut self.stats,
            mtu_changed: false,
        };
        (&mut self.recovery, owners)
    }

    /// An ACK frame arrived in a packet that was sealed with keys of `generation`.
    pub(super) fn on_ack(
        &mut self,
        now: Instant,
        space: SpaceId,
        generation: u64,
        ack: &Ack<'_>,
        report: &mut AckReport,
    ) -> Result<(), TransportError> {
        if space == SpaceId::Data
            && let Some(keys) = &mut self.keys.one_rtt
        {
            keys.on_ack(ack.largest, generation).map_err(|error| {
                TransportError::new(TransportErrorCode::KEY_UPDATE_ERROR, error.to_string())
                    .in_frame(types::ACK)
            })?;
        }
        if space == SpaceId::Handshake {
            // The server has validated our address (RFC 9002 §6.2.2.1).
            self.recovery.on_peer_validated();
        }
        if space == SpaceId::Data {
            self.zero_rtt.check_ack(ack)?;
        }
        let exponent = self.parameters.peer_ack_delay_exponent();
        let micros = ack.delay.checked_shl(exponent).unwrap_or(u64::MAX);
        let delay = Duration::from_micros(micros);
        let probed = self.recovery.pto_count() > 0;
        let (recovery, mut owners) = self.owners(now, space);
        let outcome = recovery
            .on_ack(now, space, ack.ranges(), delay, |fate, number, packet| {
                owners.resolve(fate, number, &packet);
            })
            .map_err(|error| {
                let code = match error {
                    AckError::NeverSent(_) => TransportErrorCode::PROTOCOL_VIOLATION,
                    AckError::Disordered => TransportErrorCode::FRAME_ENCODING_ERROR,
                };
                TransportError::new(code, error.to_string()).in_frame(types::ACK)
            })?;
        owners.streams.settle_acked(&mut owners.acked);
        let mtu_changed = owners.mtu_changed;
        if space == SpaceId::Data {
            let below = outcome.newly.largest.map(|(number, ..)| number);
            let tells = probed || below.is_none_or(|number| number < ack.largest);
            if tells && outcome.newly.advanced && outcome.loss.packets > 0 {
                // A probe, or a packet that asked for nothing, is acknowledged, and shows what was
                // refused before it.
                self.streams.serve_lowest_first();
            }
            self.after_data_ack(now, ack, &outcome, mtu_changed, report);
        }
        if let Some(rtt) = outcome.rtt {
            self.stats.rtt.record(rtt);
            self.streams.on_rtt(self.recovery.rtt().srtt_or_initial());
        }
        if self.recovery.pto_count() == 0 {
            self.probes = [0; 3];
        }
        report.outcome = Some(outcome);
        report.delay = delay;
        Ok(())
    }

    fn after_data_ack(
        &mut self,
        now: Instant,
        ack: &Ack<'_>,
        outcome: &AckOutcome,
        mtu_changed: bool,
        report: &mut AckReport,
    ) {
        let newly = &outcome.newly;
        if newly.advanced && self.feedback.signal().is_none_or(|s| s.ecn().is_none()) {
            let ecn_ack = EcnAck {
                ect0: newly.ect0,
                ect1: newly.ect1,
                counts: ack.ecn,
                largest: ack.largest,
                next: self.recovery.space(SpaceId::Data).sent().next_number(),
            };
            let all_ce = EcnState::Failed(EcnFailure::AllCe);
            let before = self.route.ecn.state();
            report.marked = self.route.ecn.on_ack(now, &ecn_ack);
            report.misled |= before != all_ce && self.route.ecn.state() == all_ce;
        }
        let narrower = self.route.mtud.settle();
        self.stats.mtu_black_holes += u64::from(narrower);
        if mtu_changed || narrower {
            self.route.on_mtu_change(now);
        }
        report.turned_plain |= self.route.plain.settle(now);
        self.recovery
            .set_max_ack_delay(self.ack_request.max_ack_delay());
        self.stats.packets_spurious += newly.spurious;
    }

    /// Passes one ACK frame and the feedback that came with it to the controller, in the order that
    /// it expects. The controller gets reports of 1-RTT packets alone: packet numbers of the
    /// handshake are others, and its few packets count towards bytes in flight all the same.
    pub(super) fn settle(&mut self, now: Instant, space: SpaceId, report: &mut AckReport) {
        let AckReport {
            feedback,
            answer,
            peer_time,
            delay,
            outcome,
            marked,
            turned_plain,
            misled,
        } = core::mem::take(report);
        let received = [feedback, answer];
        if space != SpaceId::Data || (received == [None; 2] && outcome.is_none()) {
            return;
        }
        let mut acked = outcome.and_then(|o| o.acked);
        if let Some(acked) = &mut acked {
            acked.forward_delay = self.forward_delay(now, acked, peer_time, delay);
        }
        let controller = &mut self.route.controller;
        for feedback in received.into_iter().flatten() {
            let nothing = Acked {
                bytes: 0,
                packets: 0,
                largest: 0,
                sent_at: now,
                state: pathmark_cc::PacketState::default(),
                rtt: None,
                forward_delay: None,
                srtt: self.recovery.rtt().srtt_or_initial(),
                min_rtt: self
                    .recovery
                    .rtt()
                    .min()
                    .unwrap_or(self.recovery.rtt().srtt_or_initial()),
                in_flight_before: self.recovery.bytes_in_flight(),
                window_limited: false,
            };
            self.stats.feedback_received += 1;
            if answer.is_none_or(|answer| answer != feedback) {
                self.last_feedback = Some(feedback);
            }
            controller.on_feedback(now, &feedback, acked.as_ref().unwrap_or(&nothing));
        }
        if let Some(acked) = &acked {
            controller.on_ack(now, acked);
            self.route.arrivals.on_ack(now, acked);
            if marked > 0 {
                self.stats.congestion_experienced += 1;
                let last_sent = self.recovery.space(space).sent().next_number() - 1;
                controller.on_congestion_experienced(now, acked.sent_at, last_sent);
            }
        }
        if let Some(outcome) = &outcome {
            if outcome.newly.event_undone {
                controller.on_spurious_loss(now);
            }
            self.tell_losses(now, &outcome.loss);
        }
        if turned_plain {
            self.begin_plain(now);
        } else if misled {
            self.begin_unmarked(now);
        }
        self.after_controller(now);
    }

    /// How long the packet that gave the RTT sample queued on its way; `time` is the peer's clock
    /// as it sent the ACK frame, if a FEEDBACK frame carried it, `held` after that packet arrived.
    /// At most the RTT, whatever `time` is; all that the RTT grew by, if the clock is unusable.
    fn forward_delay(
        &mut self,
        now: Instant,
        acked: &Acked,
        time: Option<u32>,
        held: Duration,
    ) -> Option<Duration> {
        let rtt = acked.rtt?;
        if self.route.one_way.given_up() {
            return Some(rtt.saturating_sub(acked.min_rtt));
        }
        let time = time?;
        let modulus = u128::from(feedback::TIME_MODULUS);
        let held = u32::try_from(held.as_micros() % modulus).unwrap_or(0);
        let arrived = (time + feedback::TIME_MODULUS - held) % feedback::TIME_MODULUS;
        let sample = Sample {
            sent_at: acked.sent_at,
            arrived,
            rtt,
            min_rtt: acked.min_rtt,
        };
        self.route.one_way.on_sample(now, &sample)
    }

    fn tell_losses(&mut self, now: Instant, loss: &LossOutcome) {
        let controller = &mut self.route.controller;
        if let Some(number) = loss.question {
            controller.on_question_lost(now, number);
        }
        if let Some(lost) = &loss.lost {
            controller.on_loss(now, lost);
        }
        if loss.persistent_congestion {
            self.stats.persistent_congestions += 1;
            controller.on_persistent_congestion(now);
        }
    }

    /// The window may have moved: the pacer and the send buffer follow it.
    pub(super) fn after_controller(&mut self, now: Instant) {
        let window = self.route.controller.window();
        let rate = self.route.controller.pacing_rate();
        let srtt = self.recovery.rtt().srtt();
        self.route.pacer.set(now, window, srtt, rate);
        self.streams.on_congestion_window(window);
    }

    /// Recovery's deadline has come.
    pub(super) fn on_recovery_timeout(&mut self, now: Instant) {
        // The space matters to the owners of what a packet carried: losses by time are of one space
        // at a time.
        let Some(space) = self.recovery.timeout_space() else {
            return;
        };
        let (recovery, mut owners) = self.owners(now, space);
        let timeout = recovery.on_timeout(now, |fate, number, packet| {
            owners.resolve(fate, number, &packet);
        });
        owners.streams.settle_acked(&mut owners.acked);
        match timeout {
            Timeout::None => {}
            Timeout::Lost(loss) => {
                if space == SpaceId::Data {
                    self.tell_losses(now, &loss);
                    self.after_controller(now);
                }
            }
            Timeout::Probe(space) => {
                self.stats.probe_timeouts += 1;
                self.route.controller.on_probe_timeout(now);
                self.route.ecn.on_probe_timeout(self.recovery.pto_count());
                self.prepare_probes(now, space);
                self.after_controller(now);
            }
        }
    }
}
