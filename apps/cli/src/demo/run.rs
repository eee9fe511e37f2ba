//! One run of a scenario with a stack, from the first packet to the result.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use pathmark_emulator::result::jain;
use pathmark_emulator::result::{FlowResult, LinkResult, RunResult};

use super::bed::{Bed, CLIENT, RouterProgram, SERVER, Sample};
use super::in_process;
use super::kernel;
use super::scenario::{Scenario, Stack};
use super::transfer::{self, Meter, Prepared};
use crate::report::SenderReport;

/// Interval between samples of throughput and queue.
pub const SAMPLE: Duration = Duration::from_millis(100);
const PORT: u16 = 4433;

/// How packets travel.
#[derive(Clone, Debug)]
pub enum Mode {
    /// Through a router process on TUN interfaces.
    Tun(RouterProgram),
    /// Through a router port in this process, under the emulator's virtual clock.
    InProcess,
}

/// A run in progress or completed.
#[derive(Debug)]
pub struct Run {
    /// The path.
    pub scenario: Scenario,
    /// The sending stack.
    pub stack: Stack,
    /// One meter per file.
    pub meters: Vec<Arc<Meter>>,
    /// The round number, counting from 1. Each round loses different packets.
    pub round: u32,
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The figures.
    pub result: RunResult,
    /// The stack that sent.
    pub stack: String,
    /// `tun` or `in-process`.
    pub mode: &'static str,
    /// Bits per second of each flow over time (seconds).
    pub throughput: Vec<Vec<(f64, f64)>>,
    /// The bottleneck's queue in milliseconds over time (seconds).
    pub queue_ms: Vec<(f64, f64)>,
}

impl Measured {
    /// Returns the seconds until the last file was complete, if all files are.
    pub fn last_s(&self) -> Option<f64> {
        self.times_s()?.into_iter().reduce(f64::max)
    }

    /// Returns the mean time of the files in seconds, if all are complete.
    pub fn mean_s(&self) -> Option<f64> {
        let times = self.times_s().filter(|times| !times.is_empty())?;
        Some(times.iter().sum::<f64>() / times.len() as f64)
    }

    fn times_s(&self) -> Option<Vec<f64>> {
        let times = self.result.flows.iter().map(|flow| flow.completion_s);
        times.collect()
    }
}

impl Run {
    /// Creates a run that has not begun.
    pub fn new(scenario: Scenario, stack: Stack) -> Self {
        let meters = (0..scenario.files).map(|_| Arc::new(Meter::new(scenario.bytes)));
        Self {
            meters: meters.collect(),
            scenario,
            stack,
            round: 1,
        }
    }

    /// Creates the path and the files, and runs until all files have arrived or `limit` has
    /// passed. Time starts when hosts and files are ready. In-process, it is simulated.
    ///
    /// # Errors
    /// Fails if the path can't be built or a transfer fails.
    pub async fn measure(&self, mode: &Mode, limit: Duration) -> Result<Measured> {
        let program = match mode {
            Mode::Tun(program) => program.clone(),
            Mode::InProcess => return in_process::measure(self, limit).await,
        };
        let prepared = transfer::prepare(&self.meters).await?;
        let mut throughput = Throughput::new(&self.meters);
        let bed = Bed::new(&self.scenario, &self.stack, program, self.round)?;
        let (begun, begun_unix) = self.begin();
        let done = self.through(prepared, &bed);
        let reports = throughput.watch(begun, limit, done).await?;
        let links = bed.links()?;
        let samples = tokio::task::spawn_blocking(move || bed.finish()).await??;
        let seconds = begun.elapsed().as_secs_f64();
        Ok(Measured {
            result: self.result(&reports.unwrap_or_default(), links, seconds),
            stack: self.stack.name(),
            mode: "tun",
            throughput: throughput.series,
            queue_ms: self.queue_ms(&samples, begun_unix, seconds),
        })
    }

    /// Begins all flows. Returns the current time, and the same as Unix time in seconds.
    fn begin(&self) -> (Instant, f64) {
        let begun = now();
        for meter in &self.meters {
            meter.begin(begun);
        }
        (begun, unix_s())
    }

    async fn through(&self, prepared: Prepared, bed: &Bed) -> Result<Vec<SenderReport>> {
        match &self.stack {
            Stack::Pathmark(algorithm) => {
                let server = bed.server().udp((SERVER, PORT).into())?;
                let clients = self
                    .meters
                    .iter()
                    .map(|_| Ok(bed.client().udp((CLIENT, 0).into())?))
                    .collect::<Result<Vec<_>>>()?;
                let address = (SERVER, PORT).into();
                let meters = &self.meters;
                transfer::transfer(prepared, server, clients, address, algorithm, meters).await
            }
            Stack::Kernel(control) => {
                kernel::tune(bed.server())?;
                kernel::tune(bed.client())?;
                kernel::transfer(bed.server(), SERVER, bed.client(), control, &self.meters).await?;
                Ok(Vec::new())
            }
        }
    }

    fn result(&self, reports: &[SenderReport], links: Vec<LinkResult>, seconds: f64) -> RunResult {
        let flows: Vec<FlowResult> = self
            .meters
            .iter()
            .enumerate()
            .map(|(index, meter)| FlowResult {
                name: format!("file{index}"),
                algorithm: match &self.stack {
                    Stack::Pathmark(algorithm) => algorithm.to_string(),
                    Stack::Kernel(control) => (*control).to_owned(),
                },
                from: "server".to_owned(),
                to: "client".to_owned(),
                bytes_requested: Some(meter.wanted()),
                ..meter.result(reports.get(index))
            })
            .collect();
        RunResult {
            scenario: self.scenario.name.to_owned(),
            seed: u64::from(self.round),
            simulated_s: seconds,
            wall_s: seconds,
            jain: jain(flows.iter().map(|flow| flow.goodput_bps)),
            flows,
            links,
            ..RunResult::default()
        }
    }

    fn queue_ms(&self, samples: &[Sample], begun_unix: f64, seconds: f64) -> Vec<(f64, f64)> {
        let bytes_per_ms = self.scenario.rate_bps as f64 / 8e3;
        samples
            .iter()
            .map(|sample| {
                (
                    sample.unix_s - begun_unix,
                    sample.queue_bytes / bytes_per_ms,
                )
            })
            .filter(|(at, _)| (0.0..=seconds).contains(at))
            .collect()
    }
}

/// Converts meters to series of throughput.
struct Throughput {
    meters: Vec<Arc<Meter>>,
    series: Vec<Vec<(f64, f64)>>,
}

impl Throughput {
    fn new(meters: &[Arc<Meter>]) -> Self {
        Self {
            meters: meters.to_vec(),
            series: vec![Vec::new(); meters.len()],
        }
    }

    /// Samples until `done` completes, or returns `None` once `limit` has passed.
    async fn watch<T>(
        &mut self,
        begun: Instant,
        limit: Duration,
        done: impl Future<Output = Result<T>>,
    ) -> Result<Option<T>> {
        let mut ticks = tokio::time::interval(SAMPLE);
        let mut before = vec![0; self.meters.len()];
        let mut at_before = begun.elapsed().as_secs_f64();
        tokio::pin!(done);
        loop {
            tokio::select! {
                done = &mut done => return done.map(Some),
                _ = ticks.tick() => {}
            }
            let at = begun.elapsed().as_secs_f64();
            let passed = (at - at_before).max(1e-6);
            for ((meter, before), series) in
                self.meters.iter().zip(&mut before).zip(&mut self.series)
            {
                let delivered = meter.delivered();
                if *before < meter.wanted() {
                    series.push((at, (delivered - *before) as f64 * 8.0 / passed));
                }
                *before = delivered;
            }
            at_before = at;
            if begun.elapsed() >= limit {
                return Ok(None);
            }
        }
    }
}

/// Returns the time of a run.
#[expect(
    clippy::disallowed_methods,
    reason = "the demonstration runs in real time"
)]
pub(super) fn now() -> Instant {
    Instant::now()
}

#[expect(
    clippy::disallowed_methods,
    reason = "the router's record carries Unix time"
)]
pub(super) fn unix_s() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64())
}

/// Returns the current date in UTC, for example `2026-01-31`.
#[expect(
    clippy::disallowed_methods,
    reason = "a picture says when it was measured"
)]
pub(super) fn today() -> String {
    let now = time::OffsetDateTime::from(SystemTime::now());
    now.date().to_string()
}
