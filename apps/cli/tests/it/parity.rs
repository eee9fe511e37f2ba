//! The emulator compared with reality: the same scenario with a virtual clock, and in real time
//! through router processes on TUN interfaces.
//!
//! If the machine forbids namespaces or TUN, these tests fail with the reason, because there is no
//! other way to compare them.

use std::ops::ControlFlow;
use std::path::Path;

use crate::common::at_once;
use crate::common::endpoints::undisturbed;
use crate::common::on_node::router;
use crate::quick_start::Served;
use pathmark_cli::demo::parity;
use pathmark_emulator::Scenario;
use pathmark_emulator::result::{FlowResult, RunResult};
use pathmark_testbed::chain::{Chain, Hop, RouterProgram};

const TOP: &str = "duration = \"30s\"\n";
/// With `auto`, where all five request a starting rate at once, the mean goodput was 1.3 and 1.4
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

/// The demonstration's path; `more` is added to the link's table. The interval is fixed: a round
/// trip of 401 ms is just below a boundary of the classes that `auto` uses, and on a machine under
/// load the first sample exceeds it.
fn path(more: &str) -> String {
    format!(
        "[[link]]\nname = \"bottleneck\"\nfrom = \"S\"\nto = \"D\"\nduplex = true\nrate \
         = \"10Mbit\"\ndelay = \"200ms\"\n\
         controller = \"vcp+bise[t_rho=1s]\"\n{more}\n"
    )
}

/// Returns the results of the files, which are all complete, while nothing was dropped.
fn files(result: &RunResult) -> Vec<&FlowResult> {
    let flows = result.flows.iter();
    let files: Vec<_> = flows.filter(|flow| flow.name.starts_with("file")).collect();
    assert!(
        files.iter().all(|file| file.completed),
        "{:?}",
        result.flows
    );
    assert_eq!(result.links[0].drops, 0);
    files
}

fn mean(files: &[&FlowResult], what: impl Fn(&FlowResult) -> f64) -> f64 {
    files.iter().map(|file| what(file)).sum::<f64>() / files.len() as f64
}

async fn compare(text: &str) {
    let scenario = Scenario::parse(Path::new("parity.toml"), text).unwrap();
    let real = parity::run(&scenario, router()).await.unwrap();
    let emulated = scenario.run(|_| ControlFlow::Continue(())).unwrap();
    let both = [&real, &emulated].map(files);
    let completion = |flow: &FlowResult| flow.completion_s.unwrap_or(f64::NAN);
    let times = both.each_ref().map(|files| mean(files, completion));
    let rates = both.map(|files| mean(&files, |flow| flow.goodput_bps));
    println!("completion {times:?}, goodput {rates:?}");
    let off = |[real, emulated]: [f64; 2]| (real / emulated - 1.0).abs();
    assert!(off(rates) <= 0.05, "goodput {rates:?}");
    assert!(off(times) <= 0.1, "completion {times:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_over_a_wireless_hop_take_as_long_as_emulated() {
    let loss = path("loss = { kind = \"bernoulli\", per = 0.003 }");
    let text = format!("{TOP}{loss}{FILES}");
    undisturbed(async || compare(&text).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_against_reverse_traffic_take_as_long_as_emulated() {
    let reverse = "[[flow]]\nname = \"reverse\"\nfrom = \"D\"\nto = \"S\"\n\
                   algorithm = \"udp\"\nrate = \"2Mbit\"\n";
    let text = format!("{TOP}{}{FILES}{reverse}", path(""));
    undisturbed(async || compare(&text).await);
}

#[tokio::test]
async fn what_the_test_bed_cannot_show_is_refused() {
    for (key, words) in [
        ("rate = \"1Mbit\"", "limited by its application"),
        ("stop = \"5s\"", "`stop`"),
    ] {
        let flow = format!("[[flow]]\nname = \"f\"\nfrom = \"S\"\nto = \"D\"\n{key}\n");
        let text = format!("{TOP}{}{flow}", path(""));
        let scenario = Scenario::parse(Path::new("parity.toml"), &text).unwrap();
        let program = RouterProgram {
            program: "/no/router".into(),
            prefix: Vec::new(),
        };
        let error = parity::run(&scenario, program).await.unwrap_err();
        let error = error.to_string();
        assert!(error.contains(words), "{error}");
    }
}

/// A satellite link whose ports answer, with or without plain routers in front.
struct Satellite {
    controller: &'static str,
    plain_hops: bool,
    bytes: usize,
}

impl Satellite {
    /// Returns the keys of a port toward the client and of one in the other direction.
    fn ports(&self) -> [String; 2] {
        let port = |rate: &str| {
            format!(
                "rate = \"{rate}\"\ndelay = \"150ms\"\ncontroller = \"{}\"\n\
                 queue = {{ rtt = \"300ms\" }}\n",
                self.controller
            )
        };
        [port("20Mbit"), port("4Mbit")]
    }

    /// Returns the seconds from the end of the handshake to the end of a file, using `serve` and
    /// `get`. A router without a law and the kernel behind it are two plain hops.
    fn real(&self) -> f64 {
        let [forward, reverse] = self.ports();
        let plain = || "rate = \"1Gbit\"\ncontroller = \"none\"\n".to_owned();
        let plain = Hop {
            forward: plain(),
            reverse: plain(),
        };
        let satellite = Hop { forward, reverse };
        let hops = [plain, satellite];
        let hops = &hops[usize::from(!self.plain_hops)..];
        let chain = Chain::new(router(), 1500, hops).unwrap();
        let served = Served::by(&chain, "auto", self.bytes);
        let figures = served.get("auto", Path::new("/dev/null"));
        println!("{}", figures["controllers"]);
        figures["seconds"].as_f64().unwrap()
    }

    /// Returns the same in the emulator, whose flows begin with the handshake.
    fn emulated(&self) -> f64 {
        let link = |name: &str, ends: [&str; 2], keys: &str| {
            let [from, to] = ends;
            format!("[[link]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\n{keys}\n")
        };
        let [forward, reverse] = self.ports();
        let plain = "rate = \"1Gbit\"\ndelay = \"0ms\"\n";
        let server = if self.plain_hops { "S" } else { "R" };
        let text = [
            "duration = \"60s\"\n".to_owned(),
            link("plain", ["S", "P"], plain),
            link("plain 2", ["P", "R"], plain),
            link("plain.reverse", ["P", "S"], plain),
            link("plain 2.reverse", ["R", "P"], plain),
            link("forward", ["R", "D"], &forward),
            link("reverse", ["D", "R"], &reverse),
            format!(
                "[[flow]]\nname = \"get\"\nfrom = \"{server}\"\nto = \"D\"\n\
                 algorithm = \"auto\"\napp = \"http\"\nbytes = {}\n",
                self.bytes
            ),
        ];
        let scenario = Scenario::parse(Path::new("satellite.toml"), &text.concat()).unwrap();
        let result = scenario.run(|_| ControlFlow::Continue(())).unwrap();
        let flow = &result.flows[0];
        flow.completion_s.unwrap() - flow.rtt_ms.unwrap().min / 1e3
    }
}

/// Downloads take as long as in the emulator if routers answer, even if other routers on the path
/// don't.
#[test]
fn downloads_behind_plain_hops_take_as_long_as_emulated() {
    let kinds = [
        ("vcp+bise", false),
        ("vcp+bise", true),
        ("xcp", false),
        ("xcp", true),
    ];
    at_once(kinds, |(controller, plain_hops)| {
        for bytes in [4_000_000, 200_000] {
            let path = Satellite {
                controller,
                plain_hops,
                bytes,
            };
            let emulated = path.emulated();
            pathmark_testbed::undisturbed(|| {
                let real = path.real();
                println!("{controller}, {plain_hops}: {bytes} bytes in {real:.2} s, {emulated:.2}");
                assert!((0.9..1.1).contains(&(real / emulated)), "{real} {emulated}");
            });
        }
    });
}
