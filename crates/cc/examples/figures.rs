//! Measures what each rule and option gains and costs, in simulated paths. `docs/laws/vcp.md` has
//! figures of it.
//!
//! `cargo run --release -p pathmark-cc --example figures`

#[path = "../tests/it/sim/mod.rs"]
mod sim;

use pathmark_cc::Duration;
use sim::{FlowConfig, HopConfig, Sim, mean};

/// VCP's sender and port as they are first, then one departure from it at a time.
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

fn port(name: &'static str, mbit: f64, rtt_ms: u64, loss: f64) -> HopConfig {
    HopConfig::new(name, mbit, (mbit * 125.0) as u64 * rtt_ms).lossy(loss)
}

/// Five files of 5 MB over 10 Mbit/s and 400 ms: completions in s, mean queue in % of the BDP,
/// drops.
fn five_files(
    sender: &'static str,
    name: &'static str,
    loss: f64,
    seed: u64,
) -> (Vec<f64>, f64, u64) {
    let flows: Vec<_> = (0..5)
        .map(|n| {
            FlowConfig::new(sender, 400)
                .bytes(5_000_000)
                .start(Duration::from_millis((2 * seed - 1) * n))
        })
        .collect();
    let hop = port(name, 10.0, 400, loss).phase(Duration::from_millis(137 * seed));
    let mut sim = Sim::new(&[hop], &flows, seed);
    sim.run(Duration::from_secs(200));
    (
        sim.completions(),
        sim.hop(0).mean_queue() / 5000.0,
        sim.hop(0).drops(),
    )
}

/// 30 s over 100 Mbit/s and 250 ms: goodput in Mbit/s, mean queue in % of the BDP.
fn download(sender: &'static str, name: &'static str, loss: f64) -> (f64, f64) {
    let mut sim = Sim::new(
        &[port(name, 100.0, 250, loss)],
        &[FlowConfig::new(sender, 250)],
        7,
    );
    sim.run(Duration::from_secs(30));
    let goodput = sim.flow(0).delivered() as f64 * 8.0 / 30e6;
    (goodput, sim.hop(0).mean_queue() / 31_250.0)
}

/// Share of its fair share that a flow has 50 to 60 s after it joined one that was alone for 20 s,
/// in %.
fn joiner(sender: &'static str, name: &'static str, mbit: f64, rtt_ms: u64) -> f64 {
    let flow = FlowConfig::new(sender, rtt_ms);
    let second = flow.clone().start(Duration::from_secs(20));
    let mut sim = Sim::new(&[port(name, mbit, rtt_ms, 0.0)], &[flow, second], 7);
    sim.run(Duration::from_secs(80));
    let (old, new) = (
        sim.flow(0).goodput(70.0, 80.0),
        sim.flow(1).goodput(70.0, 80.0),
    );
    200.0 * new / (old + new)
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
            joiner(sender, name, 20.0, 100),
            joiner(sender, name, 100.0, 250),
        );
    }
    println!(
        "\n| rate | paper's rules, IW 2, 1040 B | queue max | defaults | queue max |\n\
         |---|---|---|---|---|"
    );
    for mbit in [10.0, 100.0, 1000.0] {
        let start = |sender: &'static str, name: &'static str, packet: u32| {
            let flow = FlowConfig::new(sender, 500).packet(packet);
            let mut sim = Sim::new(&[port(name, mbit, 500, 0.0)], &[flow], 7);
            sim.run(Duration::from_secs(12));
            let time = sim.hop(0).time_to_80(0.5).unwrap_or(f64::NAN) - 0.5;
            let most = sim.hop(0).max_queue() as f64 / (mbit * 625.0);
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
