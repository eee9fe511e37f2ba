//! Known answers of draft-ietf-ccwg-bbr.

use crate::base::Instant;
use crate::law::Controller;
use crate::standard::bbr::model::{
    Bounds, FullPipe, Latest, MinRtt, NONE, State, TwoCycles, Windowed, crossing,
    in_flight_at_loss, too_high,
};
use crate::standard::bbr::rate::RateSample;
use crate::standard::bbr::sender::Bbr;
use crate::testing::{at, ms};

/// The table of control behaviour.
#[test]
fn gains_of_the_states() {
    let table = [
        (State::Startup, 277, 200),
        (State::Drain, 50, 200),
        (State::Down, 90, 200),
        (State::Cruise, 100, 200),
        (State::Refill, 100, 200),
        (State::Up, 125, 225),
        (State::ProbeRtt, 100, 50),
    ];
    for (state, pacing, window) in table {
        assert_eq!(state.pacing_gain(), pacing, "{state:?}");
        assert_eq!(state.cwnd_gain(), window, "{state:?}");
    }
}

/// Three round trips in which the rate grows by less than a quarter.
#[test]
fn a_pipe_is_full_after_three_rounds_without_growth() {
    let mut full = FullPipe::default();
    // 313 is a quarter more than 250; 391 and the following rates are not a quarter more than 313.
    for rate in [100, 200, 250, 312, 313, 390, 391] {
        full.on_round(rate);
        assert!(!full.now && !full.reached, "{rate}");
    }
    full.on_round(313);
    assert!(full.now && full.reached);
    full.reset(480);
    assert!(full.reached && !full.now);
}

/// 1 BDP of ten packets per 1 ms of RTT, multiplied by 2.77 at first.
#[test]
fn the_first_pace_is_the_initial_window_per_round_trip() {
    let mut bbr = Bbr::new(Instant::ZERO, 1200, None);
    assert_eq!(bbr.window(), 12_000);
    assert_eq!(bbr.pacing_rate(), Some(33_240_000));
    bbr.on_handshake_rtt(Instant::ZERO, ms(100));
    assert_eq!(bbr.pacing_rate(), Some(332_400));
}

fn lost_of(lost: u64, tx_in_flight: u64) -> RateSample {
    RateSample {
        lost,
        tx_in_flight,
        ..RateSample::default()
    }
}

#[test]
fn two_percent_is_accepted() {
    assert!(!too_high(&lost_of(2_000, 100_000)));
    assert!(too_high(&lost_of(2_001, 100_000)));
}

/// `lost_prefix` = (0.02 · 98 − 1) / 0.98 = 0.98 packets of 1000 bytes.
#[test]
fn in_flight_at_the_crossing_of_the_threshold() {
    assert_eq!(in_flight_at_loss(&lost_of(3_000, 100_000), 2_000), 98_979);
    // The threshold was already crossed before this loss.
    assert_eq!(in_flight_at_loss(&lost_of(9_000, 100_000), 2_000), 98_000);
}

/// Fifty packets of 1000 bytes are lost together. If they were sent at once, the second crosses 2 %
/// of the 52,000 bytes in flight at the time. If they were sent over a round trip, with as much in
/// flight all the time, the third does.
#[test]
fn of_packets_lost_together_the_one_that_crosses_counts() {
    let newest = lost_of(50_000, 100_000);
    let burst = crossing(&lost_of(1_000, 51_000), &newest, 50).unwrap();
    assert_eq!((burst.lost, burst.tx_in_flight), (2_000, 52_000));
    let spread = crossing(&lost_of(1_000, 100_000), &newest, 50).unwrap();
    assert_eq!((spread.lost, spread.tx_in_flight), (3_000, 100_000));
    assert_eq!(in_flight_at_loss(&spread, 1_000), 99_000);
    let alone = crossing(&lost_of(3_000, 100_000), &lost_of(3_000, 100_000), 1).unwrap();
    assert_eq!(alone.lost, 3_000);
    assert!(crossing(&lost_of(500, 100_000), &lost_of(2_000, 100_000), 4).is_none());
}

/// max(latest, 0.7 · bound), starting from max_bw and the window.
#[test]
fn bounds_fall_to_what_is_delivered() {
    let mut bounds = Bounds::default();
    let latest = Latest {
        rate: 900,
        delivered: 50,
    };
    bounds.lower(1000, 100, &latest);
    assert_eq!((bounds.rate, bounds.short), (900, 70));
    bounds.lower(1000, 100, &Latest::default());
    assert_eq!((bounds.rate, bounds.short), (630, 49));
    bounds.reset_short();
    assert_eq!((bounds.rate, bounds.short), (NONE, NONE));
}

/// 15 % or a packet, and never less than four packets.
#[test]
fn headroom_is_left_to_others() {
    let with = |long| Bounds {
        long,
        ..Bounds::default()
    };
    assert_eq!(with(100_000).with_headroom(1000, 4000), 85_000);
    assert_eq!(with(6_000).with_headroom(1000, 4000), 5_000);
    assert_eq!(with(4_500).with_headroom(1000, 4000), 4_000);
    assert_eq!(with(NONE).with_headroom(1000, 4000), NONE);
}

#[test]
fn the_bandwidth_filter_spans_two_cycles() {
    let mut filter = TwoCycles::default();
    filter.add(10);
    filter.advance();
    filter.advance();
    assert_eq!(filter.max(), 10, "a cycle without samples is none");
    filter.add(8);
    assert_eq!(filter.max(), 10);
    filter.advance();
    assert_eq!(filter.max(), 8);
}

/// Compares with all values of the window. The filter may forget a value that later values
/// outlived, but never returns more.
#[test]
fn the_windowed_maximum_forgets_after_its_window() {
    let mut filter = Windowed::default();
    let values = [90, 80, 70, 60, 50, 40, 30, 20, 10, 9, 8, 7, 6, 5, 4];
    for (round, value) in values.into_iter().enumerate() {
        filter.add(round as u64, value, 10);
        let exact = values[round.saturating_sub(9)..=round]
            .iter()
            .max()
            .unwrap();
        assert!(filter.max() >= value && filter.max() <= values[round.saturating_sub(10)]);
        if round < 10 {
            assert_eq!(filter.max(), *exact);
        }
    }
}

/// The minimum of ten seconds; five seconds without such a short RTT require a probe.
#[test]
fn the_least_rtt_is_renewed() {
    let mut least = MinRtt::new(at(0));
    least.on_ack(at(100), Some(ms(50)));
    least.on_ack(at(5_000), Some(ms(80)));
    assert!(!least.expired());
    least.on_ack(at(5_101), Some(ms(80)));
    assert!(least.expired());
    assert_eq!(least.get(), Some(ms(50)));
    least.on_ack(at(10_101), Some(ms(90)));
    assert_eq!(least.get(), Some(ms(80)));
}
