//! Laws that ask no router, over paths where none answers.

use pathmark_cc::Duration;
use pathmark_emulator::kit::{Figures, Flow, Path, Trial};

/// 100 Mbit/s and 250 ms.
fn long_fat() -> Path {
    Path::new("100Mbit", Duration::from_millis(250))
}

fn alone(path: &Path, law: &str, seconds: u64) -> Figures {
    let flows = [Flow::new("f")];
    let time = Duration::from_secs(seconds);
    let mut trial = Trial::over(path, &flows, time).unwrap();
    trial = trial.set("flow.f.algorithm", law).unwrap();
    trial.run().unwrap()
}

/// Linux drops 1,250 packets over one BDP of buffer before it settles; RFC 9406 with few acknowledgements per round trip 2,065.
#[test]
fn cubic_leaves_slow_start_before_the_queue_overflows() {
    for (queue, drops) in [("0.5bdp", 1000), ("1bdp", 400), ("3bdp", 400)] {
        let figures = alone(&long_fat().queue(queue), "cubic", 20);
        let met = figures
            .expect()
            .drops_at_most("bottleneck", drops)
            .utilization_at_least("bottleneck", 0.89)
            .met();
        met.unwrap_or_else(|missed| panic!("{queue}: {missed}"));
    }
}
