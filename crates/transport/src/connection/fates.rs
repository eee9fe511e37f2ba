//! Fates of our packets: acknowledgements and losses, reported to the parts whose frames they
//! carried and to the path's controller.

use super::building::Carried;
use super::control::ControlFrame;
use super::paths::{AckReport, Measured, Path, Paths};
use super::received::Received;
use super::sources::Sources;
use super::spaces::PacketSpaces;
use crate::ack::AckRequest;
use crate::observe::Stats;
use crate::observe::{TraceEvent, TracedPacket, Tracing};
use crate::recovery::{AckError, Fate, Probe, Recovery, SentPacket, Timeout};
use crate::streams::AckedRun;
use crate::wire::frame::{Ack, types};
use crate::wire::{SpaceId, TransportError, TransportErrorCode};
use crate::{Duration, Instant};

/// The parts whose frames a sent packet carried.
struct FrameOwners<'a> {
    now: Instant,
    space: SpaceId,
    sources: &'a mut Sources,
    acked: AckedRun,
    ack_request: &'a mut AckRequest,
    received: &'a mut Received,
    path: &'a mut Path,
    stats: &'a mut Stats,
    tracing: &'a mut Tracing,
    mtu_changed: bool,
}

impl FrameOwners<'_> {
    fn resolve(&mut self, fate: Fate, number: u64, packet: &SentPacket<Carried>) {
        match fate {
            Fate::Acked => self.on_acked(number, packet),
            Fate::Lost => {
                self.sources.streams.settle_acked(&mut self.acked);
                self.on_lost(number, packet);
            }
        }
    }

    fn on_acked(&mut self, number: u64, packet: &SentPacket<Carried>) {
        let carried = &packet.frames;
        self.sources.on_acked(self.space, carried, &mut self.acked);
        if let Some(largest) = carried.acked {
            self.received.on_ack_acked(largest);
        }
        for frame in carried.control() {
            if let ControlFrame::AckFrequency(sequence) = frame {
                self.ack_request.on_acked(*sequence);
            }
        }
        if self.space == SpaceId::Data && !packet.is_off_path() {
            self.mtu_changed |= self.path.on_acked(self.now, number, packet);
        }
    }

    fn on_lost(&mut self, number: u64, packet: &SentPacket<Carried>) {
        let carried = &packet.frames;
        self.sources.on_lost(self.space, carried);
        for frame in carried.control() {
            if let ControlFrame::AckFrequency(sequence) = frame {
                self.ack_request.on_lost(*sequence);
            }
        }
        self.tracing.record(self.now, || {
            TraceEvent::Lost(TracedPacket {
                ty: self.space.packet_type(),
                number,
                bytes: packet.size.into(),
                shim: packet.shim,
                mtu_probe: packet.probe == Probe::Mtu,
                ack_only: false,
            })
        });
        if packet.probe == Probe::Mtu {
            self.stats.mtu_probes_lost += 1;
        } else {
            self.stats.packets_lost += 1;
            self.stats.bytes_lost += u64::from(packet.size);
        }
        if self.space == SpaceId::Data && !packet.is_off_path() {
            self.path.route.on_lost(self.now, number, packet);
        }
    }
}

/// The parts that need the fates of packets.
pub(super) struct Fates<'a> {
    pub(super) now: Instant,
    pub(super) sources: &'a mut Sources,
    pub(super) spaces: &'a mut PacketSpaces,
    pub(super) paths: &'a mut Paths,
    pub(super) stats: &'a mut Stats,
    pub(super) tracing: &'a mut Tracing,
}

impl Fates<'_> {
    /// Borrows recovery together with the owners of the frames that packets carried.
    fn owners(&mut self, space: SpaceId) -> (&mut Recovery<Carried>, FrameOwners<'_>) {
        let (recovery, received, ack_request) = self.spaces.split(space);
        let owners = FrameOwners {
            now: self.now,
            space,
            sources: self.sources,
            acked: AckedRun::default(),
            ack_request,
            received,
            path: &mut self.paths.path,
            stats: self.stats,
            tracing: self.tracing,
            mtu_changed: false,
        };
        (recovery, owners)
    }

    /// Processes an ACK frame in a packet sealed with keys of `generation`. Returns the report for
    /// the controller.
    pub(super) fn on_ack(
        &mut self,
        space: SpaceId,
        generation: u64,
        ack: &Ack<'_>,
    ) -> Result<AckReport, TransportError> {
        let now = self.now;
        self.spaces.on_ack_frame(space, generation, ack)?;
        if space == SpaceId::Data {
            self.sources.handshake.check_ack(ack)?;
        }
        let exponent = self.sources.handshake.peer_ack_delay_exponent();
        let micros = ack.delay.checked_shl(exponent).unwrap_or(u64::MAX);
        let delay = Duration::from_micros(micros);
        let (recovery, mut owners) = self.owners(space);
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
        owners.sources.streams.settle_acked(&mut owners.acked);
        let mtu_changed = owners.mtu_changed;
        let mut report = AckReport::default();
        if space == SpaceId::Data {
            let next = self.spaces.next_number();
            let path = &mut self.paths.path;
            let narrower;
            (report, narrower) = path.on_ack(now, ack, outcome, delay, next, mtu_changed);
            self.stats.mtu_black_holes += u64::from(narrower);
            self.spaces.after_data_ack();
            self.stats.packets_spurious += outcome.newly.spurious;
        }
        if let Some(rtt) = outcome.rtt {
            self.stats.rtt.record(rtt);
            let srtt = self.spaces.recovery.rtt().srtt_or_initial();
            self.sources.streams.on_rtt(srtt);
        }
        self.spaces.after_ack();
        Ok(report)
    }

    /// Passes one ACK frame and the feedback in the same packet to the controller, in the order
    /// that it expects. The controller only gets reports of 1-RTT packets, because the handshake
    /// has separate packet numbers. Its few packets nevertheless count towards bytes in flight.
    pub(super) fn settle(&mut self, space: SpaceId, report: &AckReport) {
        if space != SpaceId::Data || report.is_empty() {
            return;
        }
        let now = self.now;
        let recovery = &self.spaces.recovery;
        let rtt = recovery.rtt();
        let srtt = rtt.srtt_or_initial();
        let measured = Measured {
            srtt,
            min_rtt: rtt.min().unwrap_or(srtt),
            in_flight: recovery.bytes_in_flight(),
            next: self.spaces.next_number(),
        };
        for difference in report.differences() {
            self.tracing
                .record(now, || TraceEvent::Feedback(difference));
        }
        let settled = self.paths.path.settle(now, report, &measured);
        self.stats.feedback_received += settled.feedback;
        self.stats.congestion_experienced += u64::from(settled.marked);
        self.stats.persistent_congestions += u64::from(settled.persistent_congestion);
        if let Some(fault) = settled.fault {
            self.paths.start_over(now, fault);
            self.spaces.recovery.disown_in_flight();
        }
        self.follow_window();
    }

    /// Adapts the other parts, because the controller may have changed the window.
    pub(super) fn follow_window(&mut self) {
        let srtt = self.spaces.recovery.rtt().srtt();
        let path = &mut self.paths.path;
        self.sources.follow_window(self.now, srtt, path);
        let (path, recovery) = (&self.paths.path, &self.spaces.recovery);
        self.tracing.record(self.now, || {
            TraceEvent::Recovery(path.traced(
                recovery.rtt(),
                recovery.bytes_in_flight(),
                recovery.pto_count(),
            ))
        });
    }

    /// Processes recovery's deadline. If a probe is due, this returns the time after which the
    /// second one is.
    pub(super) fn on_timeout(&mut self) -> Option<Duration> {
        let now = self.now;
        // The owners of the frames need the space. Only packets of one space at a time are lost by
        // timeout.
        let space = self.spaces.recovery.timeout_space()?;
        let (recovery, mut owners) = self.owners(space);
        let timeout = recovery.on_timeout(now, |fate, number, packet| {
            owners.resolve(fate, number, &packet);
        });
        owners.sources.streams.settle_acked(&mut owners.acked);
        match timeout {
            Timeout::None => None,
            Timeout::Lost(loss) => {
                if space == SpaceId::Data {
                    // [9002 7.4 later-losses]
                    let persistent = self.paths.path.route.on_losses(now, &loss);
                    self.stats.persistent_congestions += u64::from(persistent);
                    self.follow_window();
                }
                None
            }
            Timeout::Probe(space) => {
                self.stats.probe_timeouts += 1;
                let count = self.spaces.recovery.pto_count();
                self.paths.path.route.on_probe_timeout(now, count);
                // There must be something to send, preferably the data that has been missing the
                // longest.
                self.sources.repeat_early_data(self.spaces);
                let later = self.spaces.begin_probes(space);
                if space == SpaceId::Data {
                    let path = &self.paths.path;
                    self.sources.fill_data_probe(now, self.spaces, path);
                }
                self.follow_window();
                Some(later)
            }
        }
    }
}
