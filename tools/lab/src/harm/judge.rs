//! Harm: figures of a law that are worse than those of `cubic` instead.

use std::collections::BTreeMap;

use serde::Serialize;

use super::scene::{GUEST, TCP};
use crate::named::named;
use pathmark_emulator::result::{FlowResult, RunResult};

/// A law's goodput is at least this share of `cubic`'s.
const GOODPUT: f64 = 0.9;
/// Less goodput is excused if the least of all flows, TCP flows included, gets at least this
/// multiple of the least with `cubic`. A law that leaves a starved flow its share does no harm.
const LEAST_EXCUSE: f64 = 1.3;
/// The least of our flows and the least TCP flow get at least this share of their goodput with
/// `cubic`.
const LEAST: f64 = 0.5;
/// Loss is at most this multiple of `cubic`'s plus this share of packets.
const LOSS: (f64, f64) = (2.0, 0.02);
/// The mean time of files is at most this multiple of their time with `cubic`.
const COMPLETION: f64 = 1.15;
/// The 99th percentile of round trips is at most this multiple of `cubic`'s plus this number of
/// milliseconds.
const RTT: (f64, f64) = (1.5, 10.0);
/// Largest value of [`Compared::beyond`].
const MOST: f64 = 9999.0;

named! {
    /// A figure that must not be worse than `cubic`'s by more than its bound.
    #[derive(Serialize)]
    #[serde(rename_all = "lowercase")]
    pub Condition {
        /// Goodput of all our flows except files, in bits per second.
        Goodput = "goodput",
        /// The least goodput of our flows, bits per second.
        Least = "least",
        /// The least goodput of the TCP flows on our flows' path, bits per second.
        #[serde(rename = "beside")]
        Tcp = "beside",
        /// Packets that queues dropped, per packet sent by all flows. Random losses do not count.
        Loss = "loss",
        /// Mean time to move a file, seconds.
        Completion = "completion",
        /// 99th percentile of round trips in milliseconds: the mean over the flows of one name,
        /// for the worst name.
        Rtt = "rtt",
    }
}

/// A figure of a law and that of `cubic` in the same scenario.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// The condition.
    pub condition: Condition,
    /// With the law.
    pub law: f64,
    /// With `cubic`.
    pub cubic: f64,
    /// Ratio to the bound, inverted if higher figures are better. Above 1 is harm.
    pub beyond: f64,
    /// True if the law does harm.
    pub harm: bool,
    /// True if `beyond` is above 1, but excused because the least flow has clearly more than with
    /// `cubic`.
    pub excused: bool,
}

/// Compares a law's run with `cubic`'s run of the same scenario. Figures that neither run has are
/// left out.
pub fn judge(law: &RunResult, cubic: &RunResult) -> Vec<Compared> {
    let both = |figure: fn(&RunResult) -> Option<f64>| figure(law).zip(figure(cubic));
    let least = both(|run| endless(run).map(|f| f.goodput_bps).reduce(f64::min));
    let least_of_all = both(|run| {
        let flows = begun(run).filter(|flow| flow.bytes_requested.is_none());
        flows.map(|f| f.goodput_bps).reduce(f64::min)
    });
    let excused = [least, least_of_all]
        .into_iter()
        .flatten()
        .any(|(law, cubic)| law >= LEAST_EXCUSE * cubic && law > 0.0);
    let goodput = both(|run| (endless(run).next().is_some()).then(|| run.together(endless(run))));
    let tcp = both(|run| {
        let flows = begun(run).filter(|flow| flow.name.starts_with(TCP));
        flows.map(|flow| flow.goodput_bps).reduce(f64::min)
    });
    let all = Condition::ALL.into_iter().filter_map(|condition| {
        let (law, cubic) = match condition {
            Condition::Goodput => goodput,
            Condition::Least => least,
            Condition::Tcp => tcp,
            Condition::Loss => both(loss),
            Condition::Completion => both(completion),
            Condition::Rtt => round_trips(law, cubic),
        }?;
        let beyond = match condition {
            Condition::Goodput => GOODPUT * cubic / law,
            Condition::Least | Condition::Tcp => LEAST * cubic / law,
            Condition::Loss => law / (LOSS.0 * cubic + LOSS.1),
            Condition::Completion => law / (COMPLETION * cubic),
            Condition::Rtt => law / (RTT.0 * cubic + RTT.1),
        };
        // 0 of 0 is no harm; 0 of something is as much as there can be.
        let beyond = if beyond.is_nan() {
            0.0
        } else {
            beyond.min(MOST)
        };
        let excused = beyond > 1.0 && condition == Condition::Goodput && excused;
        Some(Compared {
            condition,
            law,
            cubic,
            beyond,
            harm: beyond > 1.0 && !excused,
            excused,
        })
    });
    all.collect()
}

/// Returns flows that began before the run ended.
fn begun(run: &RunResult) -> impl Iterator<Item = &FlowResult> {
    let flows = run.flows.iter();
    flows.filter(|flow| flow.start_s < run.simulated_s)
}

/// Returns flows whose law is compared.
fn ours(run: &RunResult) -> impl Iterator<Item = &FlowResult> {
    let other = |flow: &FlowResult| flow.name.starts_with(TCP) || flow.name.starts_with(GUEST);
    begun(run).filter(move |flow| !other(flow))
}

/// Returns compared flows without an end.
fn endless(run: &RunResult) -> impl Iterator<Item = &FlowResult> {
    ours(run).filter(|flow| flow.bytes_requested.is_none())
}

fn loss(run: &RunResult) -> Option<f64> {
    let sent: u64 = run.flows.iter().filter_map(|flow| flow.packets_sent).sum();
    let dropped: u64 = run.links.iter().map(|link| link.drops).sum();
    (sent > 0).then(|| dropped as f64 / sent as f64)
}

/// A file that did not arrive counts until the run's end.
fn completion(run: &RunResult) -> Option<f64> {
    let files = ours(run).filter(|flow| flow.bytes_requested.is_some());
    let times = files.map(|f| f.completion_s.unwrap_or(run.simulated_s - f.start_s));
    let (count, sum) = times.fold((0.0, 0.0), |(n, sum), time| (n + 1.0, sum + time));
    (count > 0.0).then(|| sum / count)
}

/// Returns the name without its number, which flows of the same path have in common.
fn class(flow: &FlowResult) -> &str {
    flow.name
        .trim_end_matches(|c: char| c.is_ascii_digit() || c == '-')
}

/// Returns the mean of the 99th percentiles of round trips for each class of our flows.
fn p99(run: &RunResult) -> BTreeMap<&str, f64> {
    let mut sums: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for flow in ours(run) {
        if let Some(rtt) = flow.rtt_ms {
            let (count, sum) = sums.entry(class(flow)).or_default();
            *count += 1.0;
            *sum += rtt.p99;
        }
    }
    let means = sums.into_iter();
    means.map(|(name, (n, sum))| (name, sum / n)).collect()
}

/// Returns the figures of the law's worst class.
fn round_trips(law: &RunResult, cubic: &RunResult) -> Option<(f64, f64)> {
    let (law, cubic) = (p99(law), p99(cubic));
    let pairs = law
        .iter()
        .filter_map(|(name, law)| Some((*law, *cubic.get(name)?)));
    let beyond = |(law, cubic): &(f64, f64)| law / (RTT.0 * cubic + RTT.1);
    pairs.max_by(|a, b| beyond(a).total_cmp(&beyond(b)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pathmark_emulator::result::{Distribution, LinkResult};

    fn flow(name: &str, mbit: f64) -> FlowResult {
        FlowResult {
            name: name.to_owned(),
            goodput_bps: mbit * 1e6,
            bytes_delivered: (mbit * 1e6 * 30.0 / 8.0) as u64,
            packets_sent: Some(1000),
            rtt_ms: Some(Distribution {
                p99: 50.0,
                ..Distribution::default()
            }),
            ..FlowResult::default()
        }
    }

    fn run(flows: Vec<FlowResult>) -> RunResult {
        RunResult {
            simulated_s: 30.0,
            flows,
            links: vec![LinkResult::default()],
            ..RunResult::default()
        }
    }

    /// Two of our flows and one of TCP, with these goodputs in Mbit/s.
    fn shares([ours0, ours1, tcp0]: [f64; 3]) -> RunResult {
        run(vec![
            flow("ours0", ours0),
            flow("ours1", ours1),
            flow("tcp0", tcp0),
        ])
    }

    fn harm(law: &RunResult, cubic: &RunResult) -> Vec<Condition> {
        let all = judge(law, cubic);
        let harmed = all.into_iter().filter(|c| c.harm);
        harmed.map(|c| c.condition).collect()
    }

    fn excused(law: &RunResult, cubic: &RunResult) -> Vec<Condition> {
        let all = judge(law, cubic);
        let excused = all.into_iter().filter(|c| c.excused);
        excused.map(|c| c.condition).collect()
    }

    #[test]
    fn a_law_that_does_as_cubic_does_no_harm() {
        let cubic = shares([4.0, 2.0, 3.0]);
        assert_eq!(harm(&cubic, &cubic), []);
        assert_eq!(excused(&cubic, &cubic), []);
        assert_eq!(judge(&cubic, &cubic).len(), 5, "no file, no completion");
    }

    #[test]
    fn goodput_is_of_our_flows_and_a_better_least_flow_excuses_it() {
        let cubic = shares([8.0, 2.0, 1.0]);
        let less = shares([6.4, 2.5, 1.2]);
        assert_eq!(harm(&less, &cubic), [Condition::Goodput]);
        assert_eq!(excused(&less, &cubic), [], "beyond its bound, and harm");
        // In the first, cubic starves the TCP flow.
        for fairer in [shares([4.0, 2.5, 3.0]), shares([3.0, 2.6, 9.0])] {
            assert_eq!(harm(&fairer, &cubic), []);
            assert_eq!(excused(&fairer, &cubic), [Condition::Goodput]);
        }
        let nothing = shares([0.0, 0.0, 9.0]);
        let both = [Condition::Goodput, Condition::Least];
        assert_eq!(harm(&nothing, &cubic), both);
        assert_eq!(harm(&cubic, &nothing), [Condition::Tcp]);
    }

    #[test]
    fn loss_is_what_queues_drop() {
        let mut law = run(vec![flow("ours", 1.0)]);
        let cubic = law.clone();
        law.flows[0].packets_lost = Some(500);
        law.links[0].random_losses = 500;
        assert_eq!(harm(&law, &cubic), []);
        law.links[0].drops = 21;
        assert_eq!(harm(&law, &cubic), [Condition::Loss]);
    }

    #[test]
    fn files_that_do_not_arrive_take_all_the_time() {
        let file = |completion_s| FlowResult {
            bytes_requested: Some(1),
            completion_s,
            ..flow("mouse0", 1.0)
        };
        let cubic = run(vec![file(Some(1.0))]);
        assert_eq!(harm(&run(vec![file(Some(1.14))]), &cubic), []);
        assert_eq!(
            harm(&run(vec![file(None)]), &cubic),
            [Condition::Completion]
        );
    }

    #[test]
    fn round_trips_are_compared_path_by_path() {
        let (near, mut far) = (flow("near0", 1.0), flow("far0", 1.0));
        if let Some(rtt) = &mut far.rtt_ms {
            rtt.p99 = 1000.0;
        }
        let cubic = run(vec![near.clone(), far.clone()]);
        let mut law = cubic.clone();
        law.flows[0].rtt_ms = far.rtt_ms;
        assert_eq!(harm(&law, &cubic), [Condition::Rtt]);
        let rtt = judge(&law, &cubic).pop().unwrap();
        assert_eq!((rtt.law, rtt.cubic), (1000.0, 50.0));
    }
}
