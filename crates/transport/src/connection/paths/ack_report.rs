//! The current path in the receiving direction: acknowledgements, losses, and feedback of routers.

use pathmark_cc::{Acked, Feedback as Difference};

use super::path::Path;
use super::route::Fault;
use crate::path::{EcnAck, EcnFailure, EcnState, Sample};
use crate::recovery::{AckOutcome, SentPacket};
use crate::wire::frame::{Ack, feedback};
use crate::{Duration, Instant};

/// The report of one packet's frames for the controller.
#[derive(Debug, Default)]
pub(in crate::connection) struct AckReport {
    feedback: Option<Difference>,
    /// The answer to a question for a starting rate.
    answer: Option<Difference>,
    /// The peer's clock when it wrote the FEEDBACK frame, in microseconds.
    peer_time: Option<u32>,
    /// Time for which it delayed the ACK frame.
    delay: Duration,
    outcome: Option<AckOutcome>,
    /// Number of new CE marks.
    marked: u64,
    fault: Option<Fault>,
}

impl AckReport {
    /// Adds a FEEDBACK frame, with its time and its difference from the previous frame.
    pub(in crate::connection) fn on_feedback(&mut self, time: u32, difference: Option<Difference>) {
        let is_answer = difference.is_some_and(|seen| seen.is_answer());
        let reported = if is_answer {
            &mut self.answer
        } else {
            &mut self.feedback
        };
        *reported = reported.or(difference);
        self.peer_time = self.peer_time.or(Some(time));
    }

    /// Returns the reported differences of routers' feedback.
    pub(in crate::connection) fn differences(&self) -> impl Iterator<Item = Difference> {
        [self.feedback, self.answer].into_iter().flatten()
    }

    /// Returns true if there's nothing to report.
    pub(in crate::connection) fn is_empty(&self) -> bool {
        self.feedback.is_none() && self.answer.is_none() && self.outcome.is_none()
    }
}

/// Measurements of recovery.
#[derive(Clone, Copy, Debug)]
pub(in crate::connection) struct Measured {
    pub(in crate::connection) srtt: Duration,
    pub(in crate::connection) min_rtt: Duration,
    pub(in crate::connection) in_flight: u64,
    /// Number of the next packet.
    pub(in crate::connection) next: u64,
}

/// Result of processing a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::connection) struct Settled {
    /// Number of differences that the controller got.
    pub(in crate::connection) feedback: u64,
    /// Whether there were new CE marks.
    pub(in crate::connection) marked: bool,
    pub(in crate::connection) persistent_congestion: bool,
    /// Fault that was detected on the path.
    pub(in crate::connection) fault: Option<Fault>,
}

impl Path {
    /// Processes the acknowledgement of a 1-RTT packet sent on this path. Returns true if the
    /// largest datagram changed.
    pub(in crate::connection) fn on_acked<F>(
        &mut self,
        now: Instant,
        number: u64,
        packet: &SentPacket<F>,
    ) -> bool {
        self.address.on_acked(now, number);
        let changed = self.route.mtud.on_acked(now, number, packet.size);
        if packet.ack_eliciting {
            self.route.ecn.on_acked(number, packet.ecn);
            self.route.plain.on_acked(number, packet.shim);
        }
        changed
    }

    /// Processes an ACK frame of 1-RTT packets, which the peer delayed for `delay`. `next` is the
    /// number of the next packet, and `mtu_changed` is true if one of the acknowledged packets
    /// changed the MTU. The second result is true if the path has become narrower.
    pub(in crate::connection) fn on_ack(
        &mut self,
        now: Instant,
        ack: &Ack<'_>,
        outcome: AckOutcome,
        delay: Duration,
        next: u64,
        mtu_changed: bool,
    ) -> (AckReport, bool) {
        let mut report = AckReport {
            outcome: Some(outcome),
            delay,
            ..AckReport::default()
        };
        let newly = &outcome.newly;
        // [9000 13.4.2.1 older-acks]
        if newly.advanced && self.feedback.signal().is_none_or(|s| s.ecn().is_none()) {
            let ecn_ack = EcnAck {
                ect0: newly.ect0,
                ect1: newly.ect1,
                counts: ack.ecn,
                largest: ack.largest,
                next,
            };
            let all_ce = EcnState::Failed(EcnFailure::AllCe);
            let before = self.route.ecn.state();
            report.marked = self.route.ecn.on_ack(now, &ecn_ack);
            if before != all_ce && self.route.ecn.state() == all_ce {
                report.fault = Some(Fault::MarksAll);
            }
        }
        let narrower = self.route.mtud.settle();
        if mtu_changed || narrower {
            self.route.on_mtu_change(now);
        }
        if self.route.plain.settle(now) {
            report.fault = Some(Fault::DropsShims);
        }
        (report, narrower)
    }

    /// Passes one ACK frame and the feedback in the same packet to the controller, in the order
    /// that it expects.
    pub(in crate::connection) fn settle(
        &mut self,
        now: Instant,
        report: &AckReport,
        measured: &Measured,
    ) -> Settled {
        let AckReport {
            feedback: _,
            answer,
            peer_time,
            delay,
            outcome,
            marked,
            fault,
        } = *report;
        let mut settled = Settled {
            feedback: 0,
            marked: false,
            persistent_congestion: false,
            fault,
        };
        let mut acked = outcome.and_then(|o| o.acked);
        if let Some(acked) = &mut acked {
            acked.marked = marked;
            acked.forward_delay = self.forward_delay(now, acked, peer_time, delay);
        }
        let controller = &mut self.route.controller;
        for feedback in report.differences() {
            let nothing = Acked {
                bytes: 0,
                packets: 0,
                marked: 0,
                largest: 0,
                sent_at: now,
                state: pathmark_cc::PacketState::default(),
                rtt: None,
                forward_delay: None,
                srtt: measured.srtt,
                min_rtt: measured.min_rtt,
                in_flight_before: measured.in_flight,
                window_limited: false,
            };
            settled.feedback += 1;
            if answer.is_none_or(|answer| answer != feedback) {
                self.last_feedback = Some(feedback);
            }
            controller.on_feedback(now, &feedback, acked.as_ref().unwrap_or(&nothing));
        }
        if let Some(acked) = &acked {
            controller.on_ack(now, acked);
            self.route.arrivals.on_ack(now, acked);
            if marked > 0 {
                settled.marked = true;
                let last_sent = measured.next - 1;
                controller.on_congestion_experienced(now, acked.sent_at, last_sent);
                self.route.starts.clear();
            }
        }
        if let Some(outcome) = &outcome {
            if outcome.newly.event_undone {
                controller.on_spurious_loss(now);
            }
            settled.persistent_congestion = self.route.on_losses(now, &outcome.loss);
        }
        if !self.controllers.is_empty() {
            self.note_controller(now);
        }
        settled
    }

    /// Returns how long the packet that provided the RTT sample spent in queues on its way. `time`
    /// is the peer's clock when it sent the ACK frame, if a FEEDBACK frame reported it, which was
    /// `held` after that packet arrived. Whatever `time` is, the result is at most the RTT. If the
    /// clock is unusable, it is the whole increase of the RTT.
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
}
