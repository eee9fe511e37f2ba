//! How many bottleneck data packets per second of one core the engine can simulate, for a single
//! VCP flow at 1 Gbit/s. The time includes sender, two links, receiver and acknowledgements.
//!
//! On Linux, this measures the thread's processor time, so that other programs on the machine
//! hardly matter. Fewer than half a million packets per second count as a failure.

use std::hint::black_box;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use criterion::measurement::{Measurement, ValueFormatter, WallTime};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pathmark_emulator::Scenario;
use pathmark_emulator::result::RunResult;

/// With a large initial window, almost all of the run is at full rate.
const GIGABIT: &str = r#"
duration = "4s"

[[link]]
name = "access"
from = "S"
to = "R"
duplex = true
rate = "2Gbit"
delay = "1ms"

[[link]]
name = "bottleneck"
from = "R"
to = "D"
duplex = true
rate = "1Gbit"
delay = "19ms"
controller = "vcp"

[[flow]]
name = "f"
from = "S"
to = "D"
algorithm = "vcp[iw=2000]"
"#;

/// Packets per second that the engine must reach.
const LEAST: f64 = 500_000.0;

/// This thread's processor time on Linux; elapsed time on other systems.
struct CpuTime;

impl CpuTime {
    /// Nanoseconds since an arbitrary start.
    #[allow(
        clippy::disallowed_methods,
        reason = "how long a run takes is what is measured"
    )]
    fn now() -> u64 {
        static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        let scheduled = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
        let first = scheduled.as_deref().and_then(|text| text.split(' ').next());
        let own = first
            .and_then(|nanos| nanos.parse().ok())
            .filter(|nanos| *nanos > 0);
        own.unwrap_or_else(|| {
            let start = START.get_or_init(std::time::Instant::now);
            u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
        })
    }
}

impl Measurement for CpuTime {
    type Intermediate = u64;
    type Value = Duration;

    fn start(&self) -> u64 {
        Self::now()
    }

    fn end(&self, start: u64) -> Duration {
        Duration::from_nanos(Self::now().saturating_sub(start))
    }

    fn add(&self, a: &Duration, b: &Duration) -> Duration {
        *a + *b
    }

    fn zero(&self) -> Duration {
        Duration::ZERO
    }

    fn to_f64(&self, value: &Duration) -> f64 {
        WallTime.to_f64(value)
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        WallTime.formatter()
    }
}

fn single_flow(c: &mut Criterion<CpuTime>) {
    let scenario = Scenario::parse(Path::new("gigabit.toml"), GIGABIT);
    let Ok(scenario) = scenario else {
        panic!("{scenario:?}");
    };
    let run = || scenario.run(|_| ControlFlow::Continue(()));
    let timed = || {
        let begun = CpuTime::now();
        let Ok(result) = run() else {
            panic!("the scenario runs");
        };
        (result, CpuTime.end(begun))
    };
    let (result, _): (RunResult, _) = timed();
    let packets = result.flows[0].packets_sent.unwrap_or(0);
    let mut group = c.benchmark_group("engine");
    group
        .throughput(Throughput::Elements(packets))
        .sample_size(10)
        .measurement_time(Duration::from_secs(10))
        .bench_function("one VCP flow at 1 Gbit/s", |b| {
            b.iter(|| black_box(run()));
        });
    group.finish();
    let best = (0..3).map(|_| timed().1).min().unwrap_or(Duration::MAX);
    let rate = packets as f64 / best.as_secs_f64();
    assert!(
        rate >= LEAST,
        "{rate:.0} packets per second, of at least {LEAST:.0}"
    );
}

criterion_group! {
    name = benches;
    config = Criterion::default().with_measurement(CpuTime);
    targets = single_flow
}
criterion_main!(benches);
