//! Treats a measuring window as a separate run.

use pathmark_emulator::result::{FlowResult, LinkResult, RunResult, WindowResult};

/// Returns the measuring window `from` to `to`, in seconds, as a separate run, or `None` if there
/// is no such window.
pub fn during(result: &RunResult, [from, to]: [f64; 2]) -> Option<RunResult> {
    let same = |a: f64, b: f64| (a - b).abs() < 1e-9;
    let wanted = |window: &&WindowResult| same(window.from_s, from) && same(window.to_s, to);
    let window = result.windows.iter().find(wanted)?;
    let flows = result.flows.iter().zip(&window.flows);
    let links = result.links.iter().zip(&window.links);
    Some(RunResult {
        simulated_s: to,
        jain: window.jain,
        // Windows within the window are unknown.
        jain_windows: None,
        flows: flows
            .map(|(flow, within)| FlowResult {
                start_s: flow.start_s.max(from),
                bytes_requested: None,
                bytes_delivered: within.bytes,
                completion_s: None,
                goodput_bps: within.goodput_bps,
                packets_lost: within.lost,
                stopped_s: flow.stopped_s.map(|at| at.min(to)),
                ..flow.clone()
            })
            .collect(),
        links: links
            .map(|(link, within)| LinkResult {
                utilization: within.utilization,
                queue_packets: within.queue_packets,
                drops: within.drops,
                time_to_80_s: None,
                ..link.clone()
            })
            .collect(),
        windows: vec![window.clone()],
        ..result.clone()
    })
}

#[cfg(test)]
mod tests {
    use pathmark_emulator::result::{WindowFlow, WindowLink};
    use pathmark_emulator::scenario::Metric;

    use super::*;
    use crate::metric::value;

    fn flow((name, start_s): (&str, f64)) -> FlowResult {
        FlowResult {
            name: name.to_owned(),
            start_s,
            bytes_delivered: 100_000_000,
            packets_lost: Some(1000),
            ..FlowResult::default()
        }
    }

    /// As a run, a measuring window only has its own deliveries, losses and drops.
    #[test]
    fn a_window_is_measured_as_a_run() {
        let mut result = RunResult {
            flows: [("f1", 0.0), ("f2", 12.0)].map(flow).into(),
            ..RunResult::default()
        };
        let within = |name: &str, megabytes: u64, lost| WindowFlow {
            name: name.to_owned(),
            bytes: megabytes * 1_000_000,
            goodput_bps: megabytes as f64 * 1e6,
            lost: Some(lost),
        };
        result.links = vec![LinkResult {
            name: "l".to_owned(),
            utilization: Some(0.5),
            drops: 99,
            ..LinkResult::default()
        }];
        result.windows = vec![WindowResult {
            from_s: 10.0,
            to_s: 20.0,
            flows: vec![within("f1", 10, 7), within("f2", 4, 0)],
            links: vec![WindowLink {
                name: "l".to_owned(),
                utilization: Some(0.9),
                drops: 3,
                ..WindowLink::default()
            }],
            ..WindowResult::default()
        }];
        assert_eq!(during(&result, [0.0, 10.0]), None);
        let window = during(&result, [10.0, 20.0]).unwrap();
        let of = |metric, flow| value(&window, metric, flow);
        assert_eq!(of(Metric::Lost, Some("f1")), Some(7.0));
        assert_eq!(of(Metric::Lost, None), Some(7.0));
        assert_eq!(of(Metric::Drops, None), Some(3.0));
        assert_eq!(of(Metric::Utilization, None), Some(0.9));
        assert_eq!(of(Metric::Goodput, Some("f1")), Some(8e6));
        // Since it began.
        assert_eq!(of(Metric::Goodput, Some("f2")), Some(4e6));
        assert_eq!(of(Metric::Completion, None), None);
    }
}
