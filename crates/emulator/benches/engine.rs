//! How many bottleneck data packets the engine carries per second of one core: sender, two links, receiver and
//! acknowledgements all told, for a single VCP flow at 1 Gbit/s.

use std::hint::black_box;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pathmark_emulator::Scenario;

/// A large initial window, so that nearly all of the run is at full rate.
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

fn single_flow(c: &mut Criterion) {
    let scenario = Scenario::parse(Path::new("gigabit.toml"), GIGABIT);
    let Ok(scenario) = scenario else {
        panic!("{scenario:?}");
    };
    let run = || scenario.run(|_| ControlFlow::Continue(()));
    let Ok(result) = run() else {
        panic!("the scenario runs");
    };
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
}

criterion_group!(benches, single_flow);
criterion_main!(benches);
