//! Measures the gains and costs of each rule and option of VCP. `docs/laws/vcp.md` contains some of
//! its figures.
//!
//! `cargo run --release -p pathmark-emulator --example vcp_figures`

use std::ops::ControlFlow;
use std::path::Path;

use pathmark_emulator::Scenario;
use pathmark_emulator::result::RunResult;

/// The default VCP sender and port, followed by variants that each differ in one respect.
const ROWS: &[(&str, &str)] = &[
    ("vcp+bise+wlte", "vcp+bise"),
    ("vcp+bise+wlte[ai=constant]", "vcp+bise"),
    ("vcp+bise+wlte[beta=0.875]", "vcp+bise"),
    ("vcp+bise+wlte[beta_again=0.9375]", "vcp+bise"),
    ("vcp+bise+wlte", "vcp+bise[gamma=0.98]"),
    ("vcp+bise+wlte", "vcp+bise[ceiling=0.8]"),
    ("vcp+bise+wlte", "vcp+bise[marking=lottery]"),
    ("vcp+bise+wlte", "vcp+bise[restart=no]"),
    ("vcp+bise+wlte", "vcp+bise[t_rho=1s]"),
    ("vcp+bise+wlte", "vcp+bise[k=0.5]"),
    ("vcp+bise+wlte", "vcp+bise[x_ref=0.4]"),
    ("vcp+bise+wlte[pure]", "vcp+bise"),
    ("vcp+bise", "vcp+bise"),
    ("vcp+bise+wlte[paper]", "vcp+bise[paper,t_rho=1s]"),
    ("vcp", "vcp"),
    ("vcp[ai=constant]", "vcp"),
    ("vcp[paper]", "vcp[paper]"),
    ("cubic", "none"),
];

/// Flows of `sender` at a port with this rate. `flow` and `link` contain more lines of their
/// tables.
struct Run<'a> {
    seconds: u32,
    mbit: u32,
    rtt_ms: u32,
    port: &'a str,
    link: &'a str,
    sender: &'a str,
    flow: &'a str,
}

impl Run<'_> {
    /// Runs the scenario, and measures the last ten seconds.
    fn with(&self, seed: u64) -> RunResult {
        let Self {
            seconds,
            mbit,
            rtt_ms,
            port,
            link,
            sender,
            flow,
        } = self;
        let from = seconds - 10;
        let text = format!(
            "duration = \"{seconds}s\"\nseed = {seed}\nmeasure = [[\"{from}s\", \"{seconds}s\"]]\n\
             [[link]]\nname = \"port\"\nfrom = \"S\"\nto = \"D\"\nduplex = true\n\
             rate = \"{mbit}Mbit\"\ndelay = \"{}ms\"\ncontroller = \"{port}\"\n{link}\n\
             [[flow]]\nname = \"f\"\nfrom = \"S\"\nto = \"D\"\nalgorithm = \"{sender}\"\n{flow}\n",
            rtt_ms / 2
        );
        let scenario = Scenario::parse(Path::new("figures.toml"), &text).expect("a scenario");
        scenario
            .run(|_| ControlFlow::Continue(()))
            .expect("it connects")
    }

    /// Returns the mean queue of a run in % of the bandwidth-delay product.
    fn queue(&self, result: &RunResult) -> f64 {
        let bdp = f64::from(self.mbit) * f64::from(self.rtt_ms) * 125.0 / 1500.0;
        100.0 * result.links[0].queue_packets.mean / bdp
    }
}

fn lossy(loss: f64) -> String {
    format!("loss = {{ kind = \"bernoulli\", per = {loss} }}")
}

/// Five files of 5 MB over 10 Mbit/s and 400 ms. Returns completion times in s, the mean queue in %
/// of the BDP, and drops.
fn five_files(sender: &str, port: &str, loss: f64, seed: u64) -> (Vec<f64>, f64, u64) {
    let starts: Vec<_> = (0..5)
        .map(|n| format!("\"{}ms\"", (2 * seed - 1) * n))
        .collect();
    let run = Run {
        seconds: 200,
        mbit: 10,
        rtt_ms: 400,
        port,
        link: &lossy(loss),
        sender,
        flow: &format!(
            "count = 5\nbytes = 5_000_000\nstart = [{}]",
            starts.join(", ")
        ),
    };
    let result = run.with(seed);
    let times: Vec<_> = (result.flows.iter())
        .filter_map(|flow| flow.completion_s)
        .collect();
    // Relative to the time until the last file is complete.
    let part = times.iter().copied().fold(0.0, f64::max) / result.simulated_s;
    (times, run.queue(&result) / part, result.links[0].drops)
}

/// 30 s over 100 Mbit/s and 250 ms. Returns goodput in Mbit/s, and the mean queue in % of the BDP.
fn download(sender: &str, port: &str, loss: f64) -> (f64, f64) {
    let run = Run {
        seconds: 30,
        mbit: 100,
        rtt_ms: 250,
        port,
        link: &lossy(loss),
        sender,
        flow: "",
    };
    let result = run.with(7);
    (result.flows[0].goodput_bps / 1e6, run.queue(&result))
}

/// Returns the share of a joining flow in % of its fair share, 50 to 60 s after it joined a flow
/// that had been alone for 20 s.
fn joiner(sender: &str, port: &str, mbit: u32, rtt_ms: u32) -> f64 {
    let run = Run {
        seconds: 80,
        mbit,
        rtt_ms,
        port,
        link: "",
        sender,
        flow: "count = 2\nstart = [\"0s\", \"20s\"]",
    };
    let result = run.with(7);
    let flows = &result.windows[0].flows;
    let (old, new) = (flows[0].goodput_bps, flows[1].goodput_bps);
    200.0 * new / (old + new)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn spread(completions: &[f64]) -> f64 {
    let last = completions.iter().copied().fold(0.0, f64::max);
    last / completions.iter().copied().fold(f64::MAX, f64::min)
}

fn main() {
    println!(
        "| sender | port | files s | last/first | queue % | drops | 0.3 % loss s | download | \
         queue % | 1 % loss | joins 20 | joins 100 |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|");
    for &(sender, name) in ROWS {
        let clean: Vec<_> = (1..=5)
            .map(|seed| five_files(sender, name, 0.0, seed))
            .collect();
        let lossy = (1..=5).map(|seed| mean(&five_files(sender, name, 0.003, seed).0));
        let (goodput, queue) = download(sender, name, 0.0);
        println!(
            "| `{sender}` | `{name}` | {:.1} | {:.2} | {:.1} | {} | {:.1} | {goodput:.1} | \
             {queue:.1} | {:.1} | {:.0} | {:.0} |",
            median(clean.iter().map(|run| mean(&run.0)).collect()),
            median(clean.iter().map(|run| spread(&run.0)).collect()),
            mean(&clean.iter().map(|run| run.1).collect::<Vec<_>>()),
            clean.iter().map(|run| run.2).sum::<u64>(),
            median(lossy.collect()),
            download(sender, name, 0.01).0,
            joiner(sender, name, 20, 100),
            joiner(sender, name, 100, 250),
        );
    }
    println!(
        "\n| rate | paper's rules, IW 2, 1040 B | queue max | defaults | queue max |\n\
         |---|---|---|---|---|"
    );
    for mbit in [10, 100, 1000] {
        let start = |sender: &str, port: &str, packet: u32| {
            let run = Run {
                seconds: 12,
                mbit,
                rtt_ms: 500,
                port,
                link: "",
                sender,
                flow: &format!("packet = {packet}"),
            };
            let result = run.with(7);
            let link = &result.links[0];
            let most = link.queue_ms.map_or(f64::NAN, |queue| queue.max / 5.0);
            let time = link.time_to_80_s.map_or(f64::NAN, |time| time - 0.5);
            format!("{time:.1} s | {most:.0} %")
        };
        println!(
            "| {mbit} Mbit/s | {} | {} |",
            start(
                "vcp+bise+wlte[paper,iw=2]",
                "vcp+bise[paper,t_rho=1.25s,marking=carried]",
                1040,
            ),
            start("vcp+bise+wlte", "vcp+bise", 1500),
        );
    }
}
