//! The end of Startup by losses (`CheckStartupHighLoss`).

use crate::base::Instant;
use crate::law::{Controller, Lost, PacketState, Sent};
use crate::standard::bbr::model::State;
use crate::standard::bbr::sender::Bbr;
use crate::testing::{acked, lost, ms, sent};

const MTU: u64 = 1200;

fn send(bbr: &mut Bbr, at: Instant, number: u64, in_flight: u64) -> PacketState {
    let sent = Sent {
        in_flight: in_flight * MTU,
        signal: false,
        ..sent(number, MTU)
    };
    bbr.on_sent(at, &sent)
}

/// A connection that has sent ten packets, and their states.
fn begun() -> (Bbr, Vec<PacketState>) {
    let mut bbr = Bbr::new(Instant::ZERO, 1200, None);
    bbr.on_handshake_rtt(Instant::ZERO, ms(100));
    let states = (0..10).map(|number| send(&mut bbr, Instant::ZERO, number, number + 1));
    let states = states.collect();
    (bbr, states)
}

/// A packet of this state is acknowledged 100 ms after it was sent.
fn ack(bbr: &mut Bbr, at: u64, number: u64, state: PacketState, in_flight: u64) {
    let mut news = acked(number, MTU, ms(100));
    news.state = state;
    news.sent_at = Instant::from_millis(at - 100);
    news.in_flight_before = in_flight * MTU;
    bbr.on_ack(Instant::from_millis(at), &news);
}

/// Ten packets, of which the first is acknowledged after a round trip. Then one acknowledgement
/// reports `packets` lost packets in `ranges` ranges. After another round trip, a packet that was
/// sent in the meantime is acknowledged.
fn after_a_round_with(packets: u64, ranges: u64) -> Bbr {
    let (mut bbr, states) = begun();
    ack(&mut bbr, 100, 0, states[0], 10);
    let later = send(&mut bbr, Instant::from_millis(100), 10, 10);
    let news = Lost {
        bytes: packets * MTU,
        packets,
        ranges,
        first_state: states[10 - packets as usize],
        state: states[9],
        in_flight_before: 10 * MTU,
        ..lost(9, 10, ms(100))
    };
    bbr.on_loss(Instant::from_millis(101), &news);
    assert_eq!(bbr.state, State::Startup);
    ack(&mut bbr, 200, 10, later, 10 - packets);
    bbr
}

/// Six ranges end Startup, however few acknowledgements report them, because receivers may
/// acknowledge two packets at once.
#[test]
fn ranges_count_and_not_acknowledgements() {
    let bbr = after_a_round_with(6, 6);
    assert!(bbr.full.reached);
    assert_ne!(bbr.state, State::Startup);
    assert!(bbr.bounds.long < 100 * MTU, "{}", bbr.bounds.long);
}

#[test]
fn five_ranges_or_one_long_one_do_not() {
    for (packets, ranges) in [(5, 5), (8, 1)] {
        let bbr = after_a_round_with(packets, ranges);
        let goes_on = !bbr.full.reached && bbr.state == State::Startup;
        assert!(goes_on, "{packets}, {ranges}");
    }
}

/// The usual order: the packet that ends the round trip was sent after the first loss, and ends
/// recovery too.
#[test]
fn the_packet_that_ends_recovery_judges_the_round_trip() {
    let (mut bbr, states) = begun();
    let lose = |bbr: &mut Bbr, at: u64, number: usize, ranges: u64, last_sent: u64| {
        let news = Lost {
            bytes: ranges * MTU,
            packets: ranges,
            ranges,
            first_state: states[number],
            state: states[number],
            in_flight_before: 10 * MTU,
            ..lost(number as u64, last_sent, ms(100))
        };
        bbr.on_loss(Instant::from_millis(at), &news);
    };
    lose(&mut bbr, 101, 0, 1, 9);
    let later = send(&mut bbr, Instant::from_millis(102), 10, 10);
    lose(&mut bbr, 110, 9, 5, 10);
    ack(&mut bbr, 202, 10, later, 4);
    assert!(bbr.recovery_end.is_none());
    assert!(bbr.full.reached && bbr.state != State::Startup);
}
