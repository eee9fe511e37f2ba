//! Runs a scenario and prints the results: `cargo run --release -p pathmark-emulator --example
//! emulate -- SCENARIO [KEY=VALUE]...`
//!
//! With `OUT=DIR` in the environment, it also writes time series and the result as JSON into this
//! directory.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

use pathmark_emulator::result::RunResult;
use pathmark_emulator::{Outputs, Progress, Scenario};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "five-files".to_owned());
    let mut scenario = Scenario::load(&name)?;
    for change in arguments {
        let (key, value) = change.split_once('=').ok_or("write changes as KEY=VALUE")?;
        scenario.set(key, value)?;
    }
    #[expect(
        clippy::disallowed_methods,
        reason = "how long a run takes is not part of it"
    )]
    let begun = Instant::now();
    let progress = |_: &Progress| ControlFlow::Continue(());
    let result = match std::env::var_os("OUT") {
        None => {
            let mut result = scenario.run(progress)?;
            result.wall_s = begun.elapsed().as_secs_f64();
            result
        }
        Some(directory) => {
            let mut outputs = Outputs::create(Path::new(&directory), progress)?;
            let mut result = scenario.run_with(&mut outputs)?;
            result.wall_s = begun.elapsed().as_secs_f64();
            outputs.finish(&result)?;
            result
        }
    };
    print(&result);
    Ok(())
}

fn print(result: &RunResult) {
    println!(
        "{}: {:.1} s simulated in {:.2} s, {} packets, {} events, Jain {:.4}",
        result.scenario,
        result.simulated_s,
        result.wall_s,
        result.packets,
        result.events,
        result.jain
    );
    let times: Vec<f64> = result.flows.iter().filter_map(|f| f.completion_s).collect();
    if !times.is_empty() {
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        println!("completion mean {mean:.2} s of {} flows", times.len());
    }
    for flow in &result.flows {
        let cwnd = flow.cwnd_bytes.unwrap_or_default();
        let rtt = flow.rtt_ms.unwrap_or_default();
        println!(
            "  {:10} {:16} {:8.3} Mbit/s, done {:?} s, sent {:?}, lost {:?}, timeouts {:?}, rtt \
             {:.1}/{:.1}/{:.1} ms, cwnd {:.0}/{:.0} B",
            flow.name,
            flow.algorithm,
            flow.goodput_bps / 1e6,
            flow.completion_s,
            flow.packets_sent.unwrap_or(0),
            flow.packets_lost.unwrap_or(0),
            flow.timeouts.unwrap_or(0),
            rtt.min,
            rtt.mean,
            rtt.max,
            cwnd.mean,
            cwnd.max,
        );
    }
    for link in &result.links {
        println!(
            "  {:20} utilization {:?}, 80 % at {:?} s, queue {:.1}/{:.1}/{:.0} packets, drops {}, \
             lost {}",
            link.name,
            link.utilization,
            link.time_to_80_s,
            link.queue_packets.mean,
            link.queue_packets.p99,
            link.queue_packets.max,
            link.drops,
            link.random_losses,
        );
    }
    for window in &result.windows {
        println!(
            "  {} s to {} s: Jain {:.4}",
            window.from_s, window.to_s, window.jain
        );
        for link in &window.links {
            println!(
                "    {:18} utilization {:?}, queue {:.1} packets, drops {}",
                link.name, link.utilization, link.queue_packets.mean, link.drops
            );
        }
        for flow in &window.flows {
            println!("    {:18} {:.3} Mbit/s", flow.name, flow.goodput_bps / 1e6);
        }
    }
}
