//! Outgoing packets: the properties that they test, and the report of their path.

use pathmark_cc::Limit;

use super::*;
use crate::connection::BoundShares;
use crate::recovery::RttEstimator;

pub(super) const PLAIN: Departure = Departure {
    number: 7,
    size: 1200,
    eliciting: true,
    mtu_probe: false,
    shim: ShimUse::Nothing,
    ecn: Ecn::NotEct,
};

fn bearing(shim: ShimUse) -> Departure {
    Departure { shim, ..PLAIN }
}

fn with(signal: TestSignal) -> Parts {
    let kind = signal.kind;
    let signals: Vec<Arc<dyn Signal>> = vec![Arc::new(signal)];
    let mut parts = signalling(Side::Server, 3, true, signals);
    parts.paths.path.feedback.negotiate(&[kind]);
    parts
}

/// Makes marks and shims due for a trial, with one packet each.
fn on_trial(mut parts: Parts) -> Parts {
    let (now, later) = (parts.now, parts.now + Duration::from_secs(30));
    let ecn = &mut parts.paths.path.route.ecn;
    (0..10).for_each(|number| ecn.on_sent(number, Ecn::Ect0));
    for number in 0..10 {
        ecn.on_lost(now, number, Ecn::Ect0);
    }
    parts.lose_shims();
    let route = &mut parts.paths.path.route;
    route.poll(later);
    assert!(route.plain.wants_shim(later, None));
    parts
}

#[test]
fn a_packet_probes_one_thing() {
    let mut marked = PLAIN;
    marked.ecn = Ecn::Ect0;
    let [request, question] = [ShimUse::Request(12), ShimUse::Question(12)].map(bearing);
    let mut large = request;
    (large.mtu_probe, large.ecn) = (true, Ecn::Ect0);
    let found = |parts: &Parts, packets: [&Departure; 5]| {
        packets.map(|packet| parts.paths.path.probes(packet))
    };
    let packets = [&PLAIN, &marked, &request, &question, &large];
    let nothing = Probe::Nothing;
    let usual = [nothing, nothing, nothing, Probe::Question, Probe::Mtu];
    assert_eq!(found(&server(), packets), usual);
    let tried = [nothing, Probe::Ecn, Probe::Shim, Probe::Shim, Probe::Mtu];
    assert_eq!(found(&on_trial(server()), packets), tried);
    // A signal uses the field.
    let claimed = [nothing, nothing, Probe::Shim, Probe::Shim, Probe::Mtu];
    let using = on_trial(with(TestSignal::in_ecn(5)));
    assert_eq!(found(&using, packets), claimed);
}

#[test]
fn a_signal_is_in_a_shim_or_in_the_field_of_packets_that_are_acknowledged() {
    let mut ack = PLAIN;
    ack.eliciting = false;
    let request = bearing(ShimUse::Request(12));
    for (signal, expected) in [
        (None, [false, false, true]),
        (Some(TestSignal::shim(0)), [false, false, true]),
        (Some(TestSignal::in_ecn(5)), [false, true, true]),
    ] {
        let mut parts = signal.map_or_else(server, with);
        let now = parts.now;
        let mark = if expected[1] { Ecn::Ect1 } else { Ecn::Ect0 };
        assert_eq!(parts.paths.path.mark(), mark);
        let bears = [ack, PLAIN, request].map(|packet| {
            let before = parts.log.lock().unwrap().signals;
            let path = &mut parts.paths.path;
            let state = path.tell_sent(now, &packet, 1200, Limit::Window);
            assert_eq!(state.explicit, 8, "of packet 7");
            parts.log.lock().unwrap().signals > before
        });
        assert_eq!(bears, expected);
    }
}

/// A path that drops shims is detected using packets with and without shims.
#[test]
fn a_path_that_drops_shims_is_found() {
    let mut parts = server();
    let (now, path) = (parts.now, &mut parts.paths.path);
    for number in [0, 2, 4] {
        let shim = bearing(ShimUse::Request(12));
        path.on_sent(now, &Departure { number, ..shim });
        let number = number + 1;
        path.on_sent(now, &Departure { number, ..PLAIN });
        path.on_acked(now, number, &super::ack_report::packet(now, 1200));
        let mut lost = super::ack_report::packet(now, 1200);
        lost.shim = true;
        path.route.on_lost(now, number - 1, &lost);
        path.route.plain.settle(now);
    }
    assert!(!path.route.plain.passes_shims());
}

#[test]
fn a_shim_takes_room_from_packets() {
    assert_eq!(server().paths.path.packet_room(), 1200);
    let room = with(TestSignal::shim(0)).paths.path.packet_room();
    assert_eq!(room, 1200 - 12);
}

#[test]
fn datagrams_and_reports_name_the_path() {
    let local = Some("192.0.2.1".parse().unwrap());
    let remote = from(HOME).remote;
    let paths = paths_of(Side::Server, local, |_| ());
    let path = &paths.path;
    let sent = path.transmit(Ecn::Ect0, 3000, 1200);
    assert_eq!((sent.remote, sent.local), (remote, local));
    assert_eq!((sent.len, sent.segment_size), (3000, 1200));
    assert_eq!(sent.ecn, Ecn::Ect0);
    let rtt = RttEstimator::default();
    let report = path.report(&rtt, 5000, 9000, true, BoundShares::default());
    assert_eq!((report.remote, report.local), (remote, local));
    assert_eq!((report.in_flight, report.receive_window), (5000, 9000));
    assert_eq!((report.mtu, report.validated), (1200, true));
    assert!(report.receive_limited && report.clock_used && report.passes_shims);
}
