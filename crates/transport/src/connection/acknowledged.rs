//! Fates of our packets: acknowledgements and losses, reported to the parts whose frames they
//! carried and to the path's controller.

use super::Connection;
use super::carried::Carried;
use super::control::{Control, ControlFrame};
use super::handshake::Handshake;
use super::paths::{AckReport, Measured, Path};
use super::received::Received;
use super::stats::Stats;
use crate::ack::AckRequest;
use crate::recovery::{
    AckError, AckOutcome, Fate, LossOutcome, Probe, Recovery, SentPacket, Timeout,
};
use crate::streams::{AckedRun, Streams};
use crate::wire::frame::{Ack, types};
use crate::wire::{SpaceId, TransportError, TransportErrorCode};
use crate::{Duration, Instant};

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
    path: &'a mut Path,
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
            self.mtu_changed |= self.path.on_acked(self.now, number, packet);
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
            self.path.on_lost(self.now, number, packet);
        }
    }
}

impl Connection {
    /// Recovery on one hand, the owners of what packets carried on the other.
    fn owners(
        &mut self,
        now: Instant,
        space: SpaceId,
    ) -> (&mut Recovery<Carried>, FrameOwners<'_>) {
        let (recovery, received, ack_request) = self.spaces.split(space);
        let owners = FrameOwners {
            now,
            space,
            streams: &mut self.streams,
            acked: AckedRun::default(),
            handshake: &mut self.handshake,
            control: &mut self.control,
            ack_request,
            received,
            path: self.paths.path_mut(),
            stats: &mut self.stats,
            mtu_changed: false,
        };
        (recovery, owners)
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
        self.spaces.on_ack_frame(space, generation, ack)?;
        if space == SpaceId::Data {
            self.handshake.check_ack(ack)?;
        }
        let exponent = self.handshake.peer_ack_delay_exponent();
        let micros = ack.delay.checked_shl(exponent).unwrap_or(u64::MAX);
        let delay = Duration::from_micros(micros);
        let probed = self.spaces.recovery().pto_count() > 0;
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
            let srtt = self.spaces.recovery().rtt().srtt_or_initial();
            self.streams.on_rtt(srtt);
        }
        self.spaces.after_ack();
        report.on_ack(outcome, delay);
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
        let next = self.spaces.next_number();
        let path = self.paths.path_mut();
        let narrower = path.on_ack(now, ack, outcome, (next, mtu_changed), report);
        self.stats.mtu_black_holes += u64::from(narrower);
        self.spaces.after_data_ack();
        self.stats.packets_spurious += outcome.newly.spurious;
    }

    /// Passes one ACK frame and the feedback that came with it to the controller, in the order that
    /// it expects. The controller gets reports of 1-RTT packets alone: packet numbers of the
    /// handshake are others, and its few packets count towards bytes in flight all the same.
    pub(super) fn settle(&mut self, now: Instant, space: SpaceId, report: &mut AckReport) {
        let report = core::mem::take(report);
        if space != SpaceId::Data || report.is_empty() {
            return;
        }
        let recovery = self.spaces.recovery();
        let rtt = recovery.rtt();
        let srtt = rtt.srtt_or_initial();
        let measured = Measured {
            srtt,
            min_rtt: rtt.min().unwrap_or(srtt),
            in_flight: recovery.bytes_in_flight(),
            next: self.spaces.next_number(),
        };
        let settled = self.paths.path_mut().settle(now, &report, &measured);
        self.stats.feedback_received += settled.feedback;
        self.stats.congestion_experienced += u64::from(settled.marked);
        self.stats.persistent_congestions += u64::from(settled.persistent_congestion);
        if let Some(fault) = settled.fault {
            self.paths.start_over(now, fault);
            self.spaces.recovery_mut().disown_in_flight();
        }
        self.after_controller(now);
    }

    fn on_losses(&mut self, now: Instant, loss: &LossOutcome) {
        // [9002 7.4 later-losses]
        let persistent = self.paths.path_mut().on_losses(now, loss);
        self.stats.persistent_congestions += u64::from(persistent);
    }

    /// The window may have moved: the pacer and the send buffer follow it.
    pub(super) fn after_controller(&mut self, now: Instant) {
        let srtt = self.spaces.recovery().rtt().srtt();
        let window = self.paths.path_mut().follow_window(now, srtt);
        self.streams.on_congestion_window(window);
    }

    /// Recovery's deadline has come.
    pub(super) fn on_recovery_timeout(&mut self, now: Instant) {
        // The space matters to the owners of what a packet carried: losses by time are of one space
        // at a time.
        let Some(space) = self.spaces.recovery().timeout_space() else {
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
                    self.on_losses(now, &loss);
                    self.after_controller(now);
                }
            }
            Timeout::Probe(space) => {
                self.stats.probe_timeouts += 1;
                let count = self.spaces.recovery().pto_count();
                self.paths.path_mut().on_probe_timeout(now, count);
                self.prepare_probes(now, space);
                self.after_controller(now);
            }
        }
    }
}
