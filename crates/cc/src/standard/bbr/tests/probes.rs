//! Losses during a probe bound the bytes in flight.

use super::path::{MTU, Run};
use crate::base::Instant;
use crate::law::{Controller, Lost, Sent};
use crate::standard::bbr::model::State;
use crate::testing::{lost, ms, sent};

/// The bytes in flight were constant during a round trip of which a third is lost. They become the
/// bound, although one acknowledgement reports all losses.
#[test]
fn a_round_trip_of_losses_told_at_once_bounds_to_where_they_began() {
    let mut run = Run::until(State::Up);
    run.run(40, |_| ());
    assert_eq!(run.bbr.state, State::Up);
    let in_flight = run.bbr.window();
    let now = Instant::from_nanos(run.now);
    let sent = Sent {
        in_flight,
        signal: false,
        ..sent(1_000_000, MTU)
    };
    let state = run.bbr.on_sent(now, &sent);
    let packets = in_flight / MTU / 3;
    let news = Lost {
        bytes: packets * MTU,
        packets,
        ranges: 1,
        first_state: state,
        state,
        in_flight_before: in_flight,
        ..lost(1_000_000, 1_000_001, ms(50))
    };
    run.bbr.on_loss(now, &news);
    assert_eq!(run.bbr.state, State::Down);
    let long = run.bbr.bounds.long;
    let range = in_flight / 20 * 19..=in_flight;
    assert!(range.contains(&long), "{long} of {in_flight}");
}

/// After idleness during a probe, the first packets leave at the path's rate, because the pace is
/// set before them.
#[test]
fn a_restart_paces_at_the_bandwidth() {
    let mut run = Run::until(State::Up);
    run.run(10, |_| ());
    let pace = |run: &Run| run.bbr.pacing_rate().unwrap();
    assert!(pace(&run) > run.bbr.bw);
    run.bbr.sampler.mark_app_limited(0);
    run.bbr.on_restart(Instant::from_nanos(run.now), ms(500));
    assert_eq!(pace(&run), run.bbr.bw * 99 / 100);
}
