//! Runs the demonstration inside this process, using the emulator's endpoints and router ports
//! under a virtual clock. It is for machines that forbid namespaces or TUN interfaces.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use pathmark_cc::Algorithm;
use pathmark_emulator::{Observer, Scenario as Emulated, observe};

use super::run::{Measured, Run, SAMPLE, now};
use super::scenario::{Scenario, Stack};
use super::transfer::Meter;

/// Runs the flows of `run` for at most `limit` of simulated time, advancing the meters.
///
/// # Errors
/// Fails if the stack is the kernel's.
pub(super) async fn measure(run: &Run, limit: Duration) -> Result<Measured> {
    let Stack::Pathmark(algorithm) = &run.stack else {
        bail!("the kernel's TCP does not run in-process");
    };
    let port = run.stack.link_controller();
    let text = scenario(run, algorithm, &port, limit);
    let emulated = Emulated::parse(Path::new("demo.toml"), &text)?;
    let mut series = Series::new(&run.scenario, &run.meters);
    let begun = now();
    let ran = tokio::task::spawn_blocking(move || {
        let result = emulated.run_with(&mut series);
        result.map(|result| (result, series))
    });
    let (mut result, series) = ran.await??;
    result.wall_s = begun.elapsed().as_secs_f64();
    Ok(Measured {
        result,
        stack: run.stack.name(),
        mode: "in-process",
        throughput: series.throughput,
        queue_ms: series.queue_ms,
    })
}

/// Formats the path and the flows as a scenario file of the emulator.
fn scenario(run: &Run, algorithm: &Algorithm, port: &str, limit: Duration) -> String {
    let Scenario {
        name,
        rate_bps,
        delay_ms,
        loss,
        files,
        bytes,
    } = &run.scenario;
    let mut text = format!(
        r#"name = "{name}"
seed = {}
duration = "{}ms"
sample = "{}ms"
[[link]]
name = "bottleneck"
from = "server"
to = "client"
duplex = true
rate = "{rate_bps}bit"
delay = "{delay_ms}ms"
controller = "{port}"
queue = {{ kind = "droptail", limit = "1bdp", separate = false }}
loss = {{ kind = "bernoulli", per = {loss:?} }}
reverse = {{ queue = {{ kind = "droptail", limit = "4bdp" }} }}
"#,
        run.round,
        limit.as_millis(),
        SAMPLE.as_millis(),
    );
    for file in 0..*files {
        // Writing to a string never fails.
        let _ = write!(
            text,
            r#"[[flow]]
name = "file{file}"
from = "server"
to = "client"
connects = "receiver"
algorithm = "{algorithm}"
bytes = {bytes}
"#
        );
    }
    text
}

/// Collects the picture's time series, and advances the meters.
struct Series {
    meters: Vec<Arc<Meter>>,
    bytes_per_ms: f64,
    throughput: Vec<Vec<(f64, f64)>>,
    queue_ms: Vec<(f64, f64)>,
}

impl Series {
    fn new(scenario: &Scenario, meters: &[Arc<Meter>]) -> Self {
        Self {
            meters: meters.to_vec(),
            bytes_per_ms: scenario.rate_bps as f64 / 8e3,
            throughput: vec![Vec::new(); meters.len()],
            queue_ms: Vec::new(),
        }
    }
}

impl Observer for Series {
    fn wants_samples(&self) -> bool {
        true
    }

    fn sample(&mut self, _scenario: &Emulated, sample: &observe::Sample<'_>) {
        let at = sample.at.as_secs_f64();
        let flows = self.meters.iter().zip(&mut self.throughput);
        for ((meter, series), flow) in flows.zip(sample.flows) {
            let before = meter.delivered();
            if before < meter.wanted() {
                series.push((at, flow.goodput_bps));
                meter.add_at(flow.delivered.saturating_sub(before), sample.at);
            }
        }
        if let Some(bottleneck) = sample.links.first() {
            let queue = bottleneck.queue_bytes as f64 / self.bytes_per_ms;
            self.queue_ms.push((at, queue));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Figures, meters and time series must describe the same transfer.
    #[tokio::test]
    async fn meters_and_series_agree_with_the_result() {
        let [_, wireless] = Scenario::all(100_000);
        let stack = Stack::Pathmark(Algorithm::parse("cubic").unwrap());
        let run = Run::new(wireless, stack);
        let measured = measure(&run, Duration::from_secs(60)).await.unwrap();
        let flows = &measured.result.flows;
        assert_eq!((measured.mode, flows.len()), ("in-process", 5));
        for ((flow, meter), series) in flows.iter().zip(&run.meters).zip(&measured.throughput) {
            assert_eq!(flow.bytes_delivered, 100_000);
            assert_eq!(meter.delivered(), 100_000);
            let (completion, seen) = (flow.completion_s.unwrap(), meter.completion().unwrap());
            let late = seen.as_secs_f64() - completion;
            assert!((0.0..=SAMPLE.as_secs_f64()).contains(&late), "{late}");
            let (mut bits, mut before) = (0.0, 0.0);
            for (at, bps) in series {
                bits += bps * (at - before);
                before = *at;
            }
            assert!((bits - 8e5).abs() < 1.0, "{bits}");
        }
        let links = measured.result.links.iter();
        let links: Vec<_> = links.map(|link| link.name.as_str()).collect();
        assert_eq!(links, ["bottleneck", "bottleneck.reverse"]);
        assert!(!measured.queue_ms.is_empty());
    }

    #[tokio::test]
    async fn the_kernels_tcp_is_refused() {
        let [clean, _] = Scenario::all(1);
        let run = Run::new(clean, Stack::Kernel("cubic"));
        let error = measure(&run, Duration::from_secs(1)).await.unwrap_err();
        let reason = "the kernel's TCP does not run in-process";
        assert_eq!(error.to_string(), reason);
    }
}
