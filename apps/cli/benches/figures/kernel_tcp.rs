//! This library's CUBIC and BBR compared with the kernel's, each alone on the same path of real TUN
//! interfaces: 100 Mbit/s, 250 ms, a DropTail queue of one bandwidth-delay product.

use std::time::Duration;

use pathmark::cc::Algorithm;
use pathmark_cli::demo::bed::RouterProgram;
use pathmark_cli::demo::kernel;
use pathmark_cli::demo::run::{Measured, Mode, Run};
use pathmark_cli::demo::scenario::{Scenario, Stack};

const TIME: Duration = Duration::from_secs(30);
/// More than arrives in this time.
const BYTES: u64 = 1_000_000_000;

fn path(loss: f64) -> Scenario {
    Scenario {
        name: "download",
        rate_bps: 100_000_000,
        delay_ms: 125,
        loss,
        files: 1,
        bytes: BYTES,
    }
}

fn download(loss: f64, stack: Stack) -> Measured {
    let mode = Mode::Tun(RouterProgram {
        program: env!("CARGO_BIN_EXE_pathmark").into(),
        prefix: vec!["vcp-router".to_owned()],
    });
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let run = Run::new(path(loss), stack);
    runtime.block_on(run.measure(&mode, TIME)).unwrap()
}

pub(crate) fn cubic_and_bbr_compared_with_the_kernels() {
    let known = kernel::available();
    println!("loss    stack           Mbit/s   dropped   mean queue, ms   greatest");
    for loss in [0.0, 0.001, 0.01] {
        for law in ["cubic", "bbr"] {
            let ours = download(loss, Stack::Pathmark(Algorithm::parse(law).unwrap()));
            let mut stacks = vec![ours];
            if known.iter().any(|name| name == law) {
                stacks.push(download(loss, Stack::Kernel(law)));
            } else {
                println!("this kernel has no {law}: `modprobe tcp_{law}` may help");
            }
            let rates: Vec<_> = stacks
                .iter()
                .map(|measured| {
                    let link = &measured.result.links[0];
                    let queue = link.queue_ms.unwrap();
                    let rate = measured.result.flows[0].goodput_bps / 1e6;
                    println!(
                        "{loss:<7} {:<15} {rate:>6.2} {:>9} {:>16.1} {:>10.1}",
                        measured.stack, link.drops, queue.mean, queue.max
                    );
                    rate
                })
                .collect();
            assert!(rates.iter().all(|rate| *rate > 0.0), "{law} at {loss}");
        }
    }
}
