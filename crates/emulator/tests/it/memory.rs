//! The memory of a run depends on the data in flight rather than on the run's duration.
#![cfg(target_os = "linux")]

use pathmark_testbed::own_process;

use crate::support::{changed, flow, link};

/// Returns the peak memory of this process in KiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.unwrap().split_whitespace().next();
    number.unwrap().parse().unwrap()
}

#[test]
fn a_long_run_takes_no_more_memory_than_a_short_one() {
    own_process(
        "memory::a_long_run_takes_no_more_memory_than_a_short_one",
        || {
            // At full rate from the start.
            let text = "duration = \"2s\"\n".to_owned()
                + &link("l", ["A", "B"], "100Mbit", "20ms", "controller = \"vcp\"")
                + &flow("f", ["A", "B"], "vcp[iw=300]", "");
            let packets = |duration: &str| {
                let result = changed(&text, &[("duration", duration)]);
                assert!(result.links[0].utilization.unwrap() > 0.7);
                result.packets
            };
            let few = packets("4s");
            let short = peak();
            let many = packets("60s");
            let long = peak();
            assert!(many > 12 * few, "{many} packets against {few}");
            assert!(
                long - short < 1024,
                "{long} KiB after {many} packets, {short} KiB after {few}"
            );
        },
    );
}
