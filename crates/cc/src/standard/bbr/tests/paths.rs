//! Runs BBR over various paths, some of which its model does not cover.

use super::path::{MTU, Run};
use crate::law::Controller;
use crate::standard::bbr::model::State;

/// 20 Mbit/s and 40 ms: 100 kB.
fn path(buffer: u64) -> Run {
    Run::new(20, 40, buffer)
}

/// Notes the state of a run if it has changed.
fn note(seen: &mut Vec<State>, run: &Run) {
    if seen.last() != Some(&run.bbr.state) {
        seen.push(run.bbr.state);
    }
}

/// Runs for `ms`, and returns the mean queue in bytes.
fn mean_queue(run: &mut Run, ms: u64) -> u64 {
    let (mut waiting, mut looks) = (0, 0);
    run.run(ms, |run| {
        waiting += run.waiting();
        looks += 1;
    });
    waiting / looks
}

/// Asserts that a run gets more than `percent` of its rate during the next `ms`.
#[track_caller]
fn assert_goodput(run: &mut Run, ms: u64, percent: u64) {
    let (goodput, rate) = (run.goodput(ms), run.rate);
    assert!(goodput > rate * percent / 100, "{goodput} of {rate}");
}

fn assert_near(value: u64, of: u64, percent: u64) {
    let ok = value.abs_diff(of) * 100 <= of * percent;
    assert!(ok, "{value} is not within {percent} % of {of}");
}

/// Startup, Drain and ProbeBW follow each other (DOWN ends immediately if nothing waits), the
/// bandwidth is within 2 %, and at the end of Drain no more than the BDP is in flight.
#[test]
fn startup_finds_the_bandwidth_and_drain_empties_the_queue() {
    let mut run = path(1000);
    let mut seen = Vec::new();
    let mut drained = None;
    run.run(2_000, |run| {
        note(&mut seen, run);
        if run.bbr.state.is_probe_bw() && drained.is_none() {
            drained = Some(run.bbr.in_flight);
        }
    });
    assert_eq!(seen[..2], [State::Startup, State::Drain]);
    assert!(seen[2].is_probe_bw());
    assert_near(run.bbr.max_bw.max(), run.rate, 2);
    assert!(drained.unwrap() <= 100_000 + 4 * MTU, "{drained:?}");
}

#[test]
fn a_path_is_used_with_little_queue_and_no_loss() {
    let mut run = path(100);
    run.run(2_000, |_| ());
    let (drops, before) = (run.drops, run.delivered);
    let mean = mean_queue(&mut run, 20_000);
    assert!(run.delivered - before > 20 * run.rate * 94 / 100);
    assert_eq!(run.drops, drops);
    // Each probe causes a queue of a quarter of the BDP (100 kB).
    assert!(mean <= 12_000, "{mean}");
}

/// DOWN, CRUISE, REFILL and UP follow each other, and UP recurs at least every three seconds.
#[test]
fn the_bandwidth_is_probed_in_cycles() {
    let mut run = path(1000);
    run.run(1_000, |_| ());
    let mut seen = Vec::new();
    run.run(3_600, |run| note(&mut seen, run));
    let up = seen.iter().position(|state| *state == State::Up).unwrap();
    assert_eq!(seen[up - 1..][..3], [State::Refill, State::Up, State::Down]);
    assert_eq!(seen[up + 2], State::Cruise);
}

/// Every five seconds, half a BDP is in flight for 200 ms; then everything is as before.
#[test]
fn probe_rtt_comes_and_goes() {
    let mut run = path(1000);
    let (mut entered, mut least, mut was) = (0, u64::MAX, State::Startup);
    run.run(21_000, |run| {
        let is = run.bbr.state;
        entered += u32::from(is == State::ProbeRtt && was != State::ProbeRtt);
        was = is;
        if is == State::ProbeRtt {
            least = least.min(run.bbr.window());
        }
    });
    assert!((3..=4).contains(&entered), "{entered}");
    assert_near(least, 50_000, 5);
    assert_goodput(&mut run, 1_000, 85);
}

#[test]
fn less_than_a_packet_per_round_trip_keeps_four() {
    // 0.125 MB/s and 1 ms: 125 bytes.
    let mut run = Run::new(1, 1, 20);
    run.run(3_000, |_| ());
    run.run(2_000, |run| assert!(run.bbr.window() >= 4 * MTU));
    assert_goodput(&mut run, 5_000, 90);
}

#[test]
fn ten_times_the_bandwidth_is_found() {
    let mut run = Run::new(10, 40, 1000);
    run.run(5_000, |_| ());
    run.rate *= 10;
    run.run(6_000, |_| ());
    assert_goodput(&mut run, 2_000, 85);
}

#[test]
fn a_tenth_of_the_bandwidth_is_found() {
    let mut run = Run::new(100, 40, 300);
    run.run(5_000, |_| ());
    run.rate /= 10;
    // Until the bandwidth of two cycles is forgotten, only the long-term bound limits the queue:
    // 300 packets wait.
    run.run(15_000, |_| ());
    assert!(run.bbr.max_bw.max() < run.rate * 130 / 100);
    let (sent, drops) = (run.delivered, run.drops);
    assert_goodput(&mut run, 5_000, 85);
    let lost = (run.drops - drops) * MTU * 100 / (run.delivered - sent);
    assert!(lost < 5, "{lost} %");
}

/// Acknowledgements of 16 ms arrive at once.
#[test]
fn aggregated_acknowledgements_do_not_stall_it() {
    let mut run = path(1000);
    run.batch = 16_000_000;
    run.run(3_000, |_| ());
    assert!(run.bbr.aggregation.extra() >= 20_000);
    assert_near(run.bbr.max_bw.max(), run.rate, 10);
    assert_goodput(&mut run, 10_000, 92);
}

#[test]
fn an_application_that_pauses_keeps_its_bandwidth() {
    let mut run = path(1000);
    run.run(3_000, |_| ());
    let before = run.bbr.max_bw.max();
    // 2 Mbit/s, in writes of 20 packets.
    run.writes = Some((120_000_000, 20));
    run.run(12_000, |_| ());
    assert!(run.bbr.max_bw.max() >= before * 90 / 100);
    run.writes = None;
    assert_goodput(&mut run, 3_000, 85);
}

#[test]
fn a_longer_route_is_learned() {
    let mut run = path(200);
    run.run(5_000, |_| ());
    for (times, per, settled) in [(3, 1, 22_000), (1, 4, 3_000)] {
        run.rtt = run.rtt * times / per;
        run.run(settled, |_| ());
        assert_goodput(&mut run, 10_000, 85);
    }
}

/// A buffer of four packets.
#[test]
fn a_tiny_buffer_is_no_flood() {
    let mut run = path(4);
    run.run(3_000, |_| ());
    let drops = run.drops;
    let goodput = run.goodput(20_000);
    assert!(goodput > run.rate * 75 / 100, "{goodput}");
    let lost = (run.drops - drops) * MTU * 1000 / (goodput * 20);
    assert!(lost < 30, "{lost} in a thousand");
}

#[test]
fn an_outage_ends() {
    let mut run = path(100);
    run.run(3_000, |_| ());
    run.outage = true;
    run.run(3_000, |_| ());
    run.outage = false;
    run.run(3_000, |_| ());
    assert_goodput(&mut run, 5_000, 85);
}

#[test]
fn random_loss_of_one_percent_costs_little() {
    let mut run = path(100);
    run.loss_ppm = 10_000;
    run.run(3_000, |_| ());
    assert_goodput(&mut run, 30_000, 80);
}

/// Each cycle ends with ProbeRTT, because the queue is never empty. Nevertheless the old rate is
/// forgotten, and then the queue drains.
#[test]
fn a_tenth_of_the_bandwidth_before_a_long_buffer_is_found() {
    for first in [2_000, 2_700, 3_000, 3_900] {
        let mut run = Run::new(100, 10, 1600);
        run.run(first, |_| ());
        run.rate /= 10;
        run.run(25_000, |_| ());
        assert!(run.bbr.max_bw.max() < run.rate * 130 / 100);
        let queue = mean_queue(&mut run, 10_000);
        // The BDP is 12.5 kB, and the buffer holds 2.4 MB.
        assert!(queue < 50_000, "{first}: {queue}");
    }
}

/// With a queue of at least five minimum RTTs, snapshots still reach back a round trip.
#[test]
fn a_queue_many_times_the_least_rtt_is_sampled() {
    let mut run = Run::new(100, 10, 1600);
    run.run(3_000, |_| ());
    run.rate /= 10;
    let before = run.bbr.rounds.count;
    run.run(40_000, |_| ());
    assert!(run.bbr.rounds.count > before + 100);
    assert!(run.bbr.max_bw.max() < 2 * run.rate);
    assert_goodput(&mut run, 5_000, 80);
}
