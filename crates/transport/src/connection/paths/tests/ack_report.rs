//! Effects of acknowledgements and feedback on a path, and their report to its controller.

use pathmark_cc::{Acked, Feedback, QuickStartFeedback, VcpFeedback};

use super::*;
use crate::connection::paths::ack_report::Settled;
use crate::connection::paths::{AckReport, Measured};
use crate::path::{EcnFailure, EcnState};
use crate::recovery::{AckOutcome, Newly, SentPacket};

const RTT: Duration = Duration::from_millis(100);

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

/// An acknowledgement of packet `largest`, which was sent at `sent_at` and provided this sample.
fn outcome(largest: u64, sent_at: Instant, rtt: Duration, newly: Newly) -> AckOutcome {
    let acked = Acked {
        bytes: 1200,
        packets: 1,
        marked: 0,
        largest,
        sent_at,
        state: PacketState::default(),
        rtt: Some(rtt),
        forward_delay: None,
        srtt: RTT,
        min_rtt: RTT,
        in_flight_before: 1200,
        window_limited: false,
    };
    let loss = LossOutcome {
        packets: 0,
        lost: None,
        question: None,
        persistent_congestion: false,
    };
    AckOutcome {
        newly,
        acked: Some(acked),
        rtt: Some(rtt),
        loss,
    }
}

fn newly(ect0: u64, advanced: bool) -> Newly {
    Newly {
        ect0,
        advanced,
        ..Newly::default()
    }
}

impl Parts {
    /// Processes an ACK frame with `counts` of ECT(0) and CE, which the peer delayed for `held`.
    fn ack(
        &mut self,
        largest: u64,
        counts: Option<(u64, u64)>,
        outcome: AckOutcome,
        held: Duration,
        mtu_changed: bool,
    ) -> (AckReport, bool) {
        let mut room = [0; 100];
        let mut w = Writer::new(&mut room);
        let (ty, counts) = match counts {
            Some((ect0, ce)) => (3, vec![ect0, 0, ce]),
            None => (2, vec![]),
        };
        for value in [ty, largest, 0, 0, 0].into_iter().chain(counts) {
            w.put_varint(value).unwrap();
        }
        let Some(Ok(Frame::Ack(ack))) = Frames::new(w.written()).next() else {
            panic!("no ACK frame");
        };
        let path = &mut self.paths.path;
        path.on_ack(self.now, &ack, outcome, held, largest + 1, mtu_changed)
    }

    fn settle(&mut self, report: &AckReport, next: u64) -> Settled {
        let measured = Measured {
            srtt: RTT,
            min_rtt: RTT,
            in_flight: 0,
            next,
        };
        self.paths.path.settle(self.now, report, &measured)
    }

    /// Sends packets with these numbers and the path's mark. They all arrive, and `ce` packets
    /// arrive with CE.
    fn marked(&mut self, numbers: core::ops::Range<u64>, ce: u64) -> Settled {
        let sent = numbers.end - numbers.start;
        for number in numbers.clone() {
            let path = &mut self.paths.path;
            assert_eq!(path.mark(), Ecn::Ect0);
            let departure = Departure {
                number,
                ecn: Ecn::Ect0,
                ..super::packets::PLAIN
            };
            path.on_sent(self.now, &departure);
            let _ = path.on_acked(self.now, number, &packet(self.now, 1200));
        }
        self.counts.0 += sent - ce;
        self.counts.1 += ce;
        let (largest, counts) = (numbers.end - 1, self.counts);
        let outcome = outcome(largest, self.now, RTT, newly(sent, true));
        let (report, _) = self.ack(largest, Some(counts), outcome, Duration::ZERO, false);
        self.settle(&report, numbers.end)
    }

    fn ecn(&self) -> EcnState {
        self.paths.path.route.ecn.state()
    }
}

pub(super) fn packet(sent_at: Instant, size: u16) -> SentPacket<()> {
    let mut packet = crate::recovery::packet(sent_at, size, ());
    packet.ecn = Ecn::Ect0;
    packet
}

fn of_routers() -> Option<Feedback> {
    Some(Feedback::Vcp(VcpFeedback {
        t_rho: Duration::from_millis(80),
        ..VcpFeedback::default()
    }))
}

fn answer() -> Option<Feedback> {
    Some(Feedback::QuickStart(QuickStartFeedback::default()))
}

#[test]
fn feedback_reaches_the_controller_before_its_acknowledgement() {
    let mut parts = parts(Side::Server, 0, true);
    let acked = outcome(10, parts.now, RTT, Newly::default());
    let (mut report, narrower) = parts.ack(10, None, acked, Duration::ZERO, false);
    assert!(!narrower);
    report.on_feedback(5, of_routers());
    report.on_feedback(5, answer());
    let settled = parts.settle(&report, 11);
    let others = (settled.marked, settled.persistent_congestion, settled.fault);
    assert_eq!((settled.feedback, others), (2, (false, false, None)));
    let log = parts.log.lock().unwrap().clone();
    assert_eq!((log.feedbacks, log.answers, log.acked), (2, 1, 1));
    assert_eq!(log.feedback_before_ack, 1);
    assert_eq!(log.congestion_experienced, 0);
    // An answer to a question doesn't report the measuring interval of routers.
    let mut report = AckReport::default();
    report.on_feedback(6, answer());
    assert_eq!(parts.settle(&report, 11).feedback, 1);
    let interval = parts.paths.path.measuring_interval();
    assert_eq!(interval, Some(Duration::from_millis(80)));
}

#[test]
fn a_packet_without_acknowledgement_and_feedback_reports_nothing() {
    let mut report = AckReport::default();
    report.on_feedback(5, None);
    assert!(report.is_empty());
    for feedback in [of_routers(), answer()] {
        let mut report = AckReport::default();
        report.on_feedback(5, feedback);
        assert!(!report.is_empty());
    }
    let mut parts = parts(Side::Server, 0, true);
    let acked = outcome(1, parts.now, RTT, Newly::default());
    let (report, _) = parts.ack(1, None, acked, Duration::ZERO, false);
    assert!(!report.is_empty());
}

#[test]
fn new_ce_marks_are_congestion_up_to_the_last_packet() {
    let mut parts = parts(Side::Server, 0, true);
    assert!(!parts.marked(0..5, 0).marked);
    assert_eq!(parts.ecn(), EcnState::Capable);
    assert!(parts.marked(5..10, 1).marked);
    let log = parts.log.lock().unwrap().clone();
    assert_eq!((log.congestion_experienced, log.congestion_up_to), (1, 9));
}

#[test]
fn counts_are_judged_if_the_frame_is_the_newest_and_the_field_is_ours() {
    // [9000 13.4.2.1 older-acks]
    let failed = EcnState::Failed(EcnFailure::Missing);
    for (advanced, in_ecn, after) in [
        (false, false, EcnState::Capable),
        (true, true, EcnState::Capable),
        (true, false, failed),
    ] {
        let signal = TestSignal::in_ecn(5);
        let mut parts = signalling(Side::Server, 0, true, vec![std::sync::Arc::new(signal)]);
        parts.marked(0..5, 0);
        if in_ecn {
            parts.paths.path.feedback.negotiate(&[5]);
        }
        let outcome = outcome(5, parts.now, RTT, newly(1, advanced));
        let _ = parts.ack(5, None, outcome, Duration::ZERO, false);
        assert_eq!(parts.ecn(), after);
    }
}

/// A middlebox that sets CE on everything isn't congested: eight round trips of 64 packets.
#[test]
fn a_path_that_marks_all_is_found_once() {
    let mut parts = parts(Side::Server, 0, true);
    for round in 0..8 {
        let settled = parts.marked(8 * round..8 * (round + 1), 8);
        let found = (round == 7).then_some(Fault::MarksAll);
        assert_eq!(settled.fault, found, "{round}");
    }
    let outcome = outcome(64, parts.now, RTT, newly(0, true));
    let counts = Some(parts.counts);
    let (report, _) = parts.ack(64, counts, outcome, Duration::ZERO, false);
    assert_eq!(parts.settle(&report, 65).fault, None);
    assert_eq!(parts.paths.path.mark(), Ecn::NotEct);
}

#[test]
fn larger_and_smaller_sizes_of_datagrams_reach_the_controller() {
    let mut parts = parts(Side::Server, 0, true);
    let ack = |parts: &mut Parts, number, changed| {
        let outcome = outcome(number, parts.now, RTT, Newly::default());
        let narrower = parts.ack(number, None, outcome, Duration::ZERO, changed).1;
        let mtu = parts.log.lock().unwrap().mtu;
        (narrower, usize::from(mtu))
    };
    let (now, size) = (parts.now, parts.probe_mtu());
    let path = &mut parts.paths.path;
    assert!(!path.on_acked(now, 2, &packet(now, 1200)));
    assert_eq!(ack(&mut parts, 2, false), (false, FULL));
    let path = &mut parts.paths.path;
    assert!(path.on_acked(now, 3, &packet(now, size)));
    assert_eq!(ack(&mut parts, 3, true), (false, usize::from(size)));
    // Then, large packets are lost for three round trips, while small packets arrive.
    for round in 0..3 {
        parts.now += RTT;
        let now = parts.now;
        let route = &mut parts.paths.path.route;
        for number in [0, 1] {
            route.on_lost(now, 10 + 10 * round + number, &packet(now, size));
        }
        let small = packet(now, 1200);
        let path = &mut parts.paths.path;
        assert!(!path.on_acked(now, 15 + 10 * round, &small));
        let expected = match round {
            2 => (true, FULL),
            _ => (false, usize::from(size)),
        };
        assert_eq!(ack(&mut parts, 15 + 10 * round, false), expected, "{round}");
    }
}

/// The clock in a FEEDBACK frame shows which part of a longer round trip belongs to the way there,
/// regardless of the peer's delay of the ACK frame and of its clock.
#[test]
fn queues_on_the_way_there_are_distinguished_from_those_on_the_way_back() {
    let ms = Duration::from_millis;
    // The peer's clock wraps between both samples.
    for first in [7, TIME_MODULUS - 500_000, TIME_MODULUS - 1_033_000] {
        let mut parts = parts(Side::Server, 0, true);
        let mut sample = |sent_at: u64, rtt: Duration, time: Option<u32>, held: Duration| {
            parts.now = at(sent_at) + rtt + held;
            let outcome = outcome(sent_at, at(sent_at), rtt, Newly::default());
            let (mut report, _) = parts.ack(sent_at, None, outcome, held, false);
            if let Some(time) = time {
                report.on_feedback(time % TIME_MODULUS, None);
            }
            parts.settle(&report, sent_at + 1);
            parts.log.lock().unwrap().forward_delay
        };
        assert_eq!(sample(1000, RTT, Some(first), ms(0)), Some(ms(0)));
        // The packet arrives 30 ms late, and the ACK frame takes 20 ms longer. Clocks may drift by
        // 200 ppm.
        let time = first + 1_000_000 + 30_000 + 5_000;
        let there = sample(2000, RTT + ms(50), Some(time), ms(5)).unwrap();
        assert!(there <= ms(30) && there > Duration::from_micros(29_700));
        assert_eq!(sample(2100, RTT + ms(50), None, ms(5)), None);
    }
}
