//! The emulator against reality: the same scenario under a virtual clock, and in real time through
//! router processes on TUN interfaces.
//!
//! Where the machine forbids namespaces or TUN, this fails and says so: there is no other way to
//! know.

use std::ops::ControlFlow;
use std::path::Path;

use pathmark_cli::demo::parity;
use pathmark_emulator::Scenario;
use pathmark_emulator::result::RunResult;
use pathmark_testbed::chain::RouterProgram;
use pathmark_testbed::undisturbed;
use tokio::runtime::Handle;
use tokio::task::block_in_place;

const TOP: &str = "duration = \"30s\"\n";
/// With `auto`, where all five ask for a rate to start with at once, mean goodput was 1.3 and 1.4
/// Mbit/s over TUN, and 0.9 in the emulator.
const FILES: &str = r#"
[[flow]]
name = "file"
from = "S"
to = "D"
algorithm = "vcp+bise+wlte"
count = 5
bytes = 1_000_000
"#;

/// The demonstration's path; `more` goes into the link's table. The interval is pinned: 401 ms of
/// round trip are just below a border of the classes that `auto` goes by, and the first
/// sample of a machine under load lies beyond it.
fn path(more: &str) -> String {
    format!(
        "[[link]]\nname = \"bottleneck\"\nfrom = \"S\"\nto = \"D\"\nduplex = true\nrate \
         = \"10Mbit\"\ndelay = \"200ms\"\n\
         controller = \"vcp+bise[t_rho=1s]\"\n{more}\n"
    )
}

fn mean(result: &RunResult, what: impl Fn(&pathmark_emulator::result::FlowResult) -> f64) -> f64 {
    let files = result
        .flows
        .iter()
        .filter(|flow| flow.name.starts_with("file"));
    let values: Vec<f64> = files.map(what).collect();
    values.iter().sum::<f64>() / values.len() as f64
}

async fn compare(text: &str) {
    let scenario = Scenario::parse(Path::new("parity.toml"), text).unwrap();
    let program = RouterProgram {
        program: env!("CARGO_BIN_EXE_pathmark").into(),
        prefix: vec!["vcp-router".to_owned()],
    };
    let real = parity::run(&scenario, program).await.unwrap();
    let emulated = scenario.run(|_| ControlFlow::Continue(())).unwrap();
    for result in [&real, &emulated] {
        let files = result
            .flows
            .iter()
            .filter(|flow| flow.name.starts_with("file"));
        assert!(
            files.clone().all(|file| file.completed),
            "{:?}",
            result.flows
        );
        assert_eq!(result.links[0].drops, 0);
    }
    let times = [&real, &emulated].map(|r| mean(r, |flow| flow.completion_s.unwrap_or(f64::NAN)));
    let rates = [&real, &emulated].map(|r| mean(r, |flow| flow.goodput_bps));
    println!("completion {times:?}, goodput {rates:?}");
    let off = |[real, emulated]: [f64; 2]| (real / emulated - 1.0).abs();
    assert!(off(rates) <= 0.05, "goodput {rates:?}");
    assert!(off(times) <= 0.1, "completion {times:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_over_a_wireless_hop_take_as_long_as_emulated() {
    block_in_place(|| {
        undisturbed(|| {
            Handle::current().block_on(async {
                let loss = path("loss = { kind = \"bernoulli\", per = 0.003 }");
                compare(&format!("{TOP}{loss}{FILES}")).await;
            });
        });
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn files_against_reverse_traffic_take_as_long_as_emulated() {
    block_in_place(|| {
        undisturbed(|| {
            Handle::current().block_on(async {
                let reverse = "[[flow]]\nname = \"reverse\"\nfrom = \"D\"\nto = \"S\"\n\
                               algorithm = \"udp\"\nrate = \"2Mbit\"\n";
                compare(&format!("{TOP}{}{FILES}{reverse}", path(""))).await;
            });
        });
    });
}

#[tokio::test]
async fn what_the_test_bed_cannot_show_is_refused() {
    for (text, words) in [
        (
            format!(
                "{TOP}{}[[flow]]\nname = \"f\"\nfrom = \"S\"\nto = \"D\"\nrate = \"1Mbit\"\n",
                path("")
            ),
            "limited by its application",
        ),
        (
            format!(
                "{TOP}{}[[flow]]\nname = \"f\"\nfrom = \"S\"\nto = \"D\"\nstop = \"5s\"\n",
                path("")
            ),
            "`stop`",
        ),
    ] {
        let scenario = Scenario::parse(Path::new("parity.toml"), &text).unwrap();
        let program = RouterProgram {
            program: "/no/router".into(),
            prefix: Vec::new(),
        };
        let error = parity::run(&scenario, program)
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains(words), "{error}");
    }
}
