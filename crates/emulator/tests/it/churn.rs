//! Files at random times, as clients of a server fetch them: each should take about as long as with
//! `cubic`.

use crate::support::{changed, flow, link};

/// 200 files at random times, whose bytes use about two thirds of the link's capacity.
fn files(rate: &str, delay: &str, gap: &str, bytes: u32) -> String {
    let files = format!("count = 200\nbytes = [{bytes}]\nstart_gap = \"{gap}\"");
    "duration = \"90s\"\n".to_owned()
        + &link("b", ["S", "D"], rate, delay, "controller = \"none\"")
        + &flow("f", ["S", "D"], "cubic", &files)
}

/// Returns the mean time per file in seconds, over two seeds.
fn mean(text: &str, algorithm: &str, controller: &str) -> f64 {
    let runs = ["1", "2"].map(|seed| {
        let changes = [
            ("flow.f.algorithm", algorithm),
            ("link.b.controller", controller),
            ("seed", seed),
        ];
        let result = changed(text, &changes);
        let times = result.flows.iter().map(|flow| flow.completion_s.unwrap());
        times.sum::<f64>() / result.flows.len() as f64
    });
    runs.iter().sum::<f64>() / 2.0
}

/// The rate of flows that end is lost, and new flows are refused a start at a busy port. With the
/// laws' own growth alone, flows would pile up.
#[test]
fn files_that_come_at_random_end_about_as_soon_as_with_cubic() {
    for (rate, delay, gap, bytes, xcp, vcp) in [
        ("50Mbit", "150ms", "250ms", 1_000_000, 1.15, 1.2),
        ("5Mbit", "250ms", "400ms", 140_000, 1.3, 1.4),
    ] {
        let text = files(rate, delay, gap, bytes);
        let cubic = mean(&text, "cubic", "none");
        for (controller, most) in [("xcp", xcp), ("vcp+bise", vcp)] {
            let auto = mean(&text, "auto", controller);
            assert!(
                auto <= most * cubic,
                "{rate} {controller}: {auto:.2} s, cubic {cubic:.2} s"
            );
        }
    }
}
