//! The emulator against reality: the same scenario under a virtual clock, and in real time through
//! router processes on TUN interfaces.
//!
//! Where the machine forbids namespaces or TUN, this fails and says so: there is no other way to
//! know.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::ops::ControlFlow;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;
use std::process::{Command, Stdio};

use ipnet::IpNet;
use pathmark_cli::demo::parity;
use pathmark_emulator::Scenario;
use pathmark_emulator::result::{Controllers, RunResult};
use pathmark_testbed::chain::RouterProgram;
use pathmark_testbed::{ChildGuard, Node, Testbed, undisturbed};
use serde::Deserialize;
use serde_json::Value;
use tempfile::TempDir;
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

/// A path with routers that do not take part, between the server and `vcp-router`, and one download
/// over it.
#[derive(Clone, Copy, Debug)]
struct Download {
    hops: u8,
    port: &'static str,
    /// Share of the packets towards the client that are lost.
    loss: f64,
    rate: &'static str,
    rtt_ms: u64,
    bytes: u64,
}

/// Seeds of a path, whose median counts. A port loses the packets that an emulated link of its name
/// loses with the same seed; which ones these are, differs by what else was sent.
const SEEDS: std::ops::RangeInclusive<u64> = 11..=15;
/// Real and emulated medians differ by this share at most, …
const APART: f64 = 0.1;
/// … and by this where packets are lost at random in short downloads.
const APART_BY_CHANCE: f64 = 0.15;

impl Download {
    /// Its paths with different numbers of plain hops, ports and losses.
    fn matrix(rate: &'static str, rtt_ms: u64, bytes: u64) -> Vec<Self> {
        let mut all = Vec::new();
        for port in ["vcp+bise", "xcp"] {
            for loss in [0.0, 0.01] {
                all.extend([0, 1, 2].map(|hops| Self {
                    hops,
                    port,
                    loss,
                    rate,
                    rtt_ms,
                    bytes,
                }));
            }
        }
        all
    }

    /// Keys of the ports towards the client and the server.
    fn ports(&self) -> [String; 2] {
        let port = |rate: &str, loss: f64| {
            format!(
                "rate = \"{rate}\"\ncontroller = \"{}\"\nqueue = {{ rtt = \"{}ms\" }}\ndelay = \
                 \"{}ms\"\nloss = {{ kind = \"bernoulli\", per = {loss:?} }}\n",
                self.port,
                self.rtt_ms,
                self.rtt_ms / 2
            )
        };
        [port(self.rate, self.loss), port("2Mbit", 0.0)]
    }

    /// Seconds from the end of the handshake, whose computing takes no emulated time, to the last
    /// byte, and who ruled, in the emulator.
    fn emulated(&self, seed: u64) -> (f64, String) {
        let set = |scenario: &mut Scenario, key: &str, value: &str| {
            scenario.set(key, value).unwrap();
        };
        let mut scenario = Scenario::load("plain-hop").unwrap();
        let delay = format!("{}ms", self.rtt_ms / 2);
        let loss = format!("{{ kind = \"bernoulli\", per = {:?} }}", self.loss);
        for (key, value) in [
            ("link.satellite.rate", self.rate),
            ("link.satellite.delay", &delay),
            ("link.satellite.loss", &loss),
            ("link.satellite.controller", self.port),
            ("link.satellite.reverse.controller", self.port),
            ("flow.get.from", &format!("H{}", self.hops)),
            ("flow.get.bytes", &self.bytes.to_string()),
            ("seed", &seed.to_string()),
        ] {
            set(&mut scenario, key, value);
        }
        let result = scenario.run(|_| ControlFlow::Continue(())).unwrap();
        let flow = &result.flows[0];
        let ruled = flow.controllers.as_ref().unwrap().explain();
        let handshake = flow.rtt_ms.unwrap().min / 1e3;
        (flow.completion_s.unwrap() - handshake, ruled)
    }

    /// The same of `pathmark serve` and `pathmark get`, through `vcp-router` on TUN interfaces.
    fn real(&self, seed: u64) -> (f64, String) {
        let bed = Testbed::new().unwrap();
        let (client, server) = (bed.node("client").unwrap(), bed.node("server").unwrap());
        let address = |text: &str| text.parse::<IpNet>().unwrap();
        let everywhere = || address("0.0.0.0/0");
        let near = client.tun("tun0", 1500).unwrap();
        client.add_address("tun0", address("10.0.1.2/32")).unwrap();
        client.add_route(everywhere(), "tun0", None).unwrap();
        server.add_address("lo", address("10.0.2.2/32")).unwrap();
        let mut last = server.clone();
        for hop in 0..self.hops {
            let plain = bed.node(&format!("plain {hop}")).unwrap();
            plain.forward().unwrap();
            bed.veth((&last, "down"), (&plain, "up"), 1500).unwrap();
            let ends = [
                format!("10.0.{}.1", 10 + hop),
                format!("10.0.{}.2", 10 + hop),
            ];
            last.add_address("down", address(&format!("{}/30", ends[0])))
                .unwrap();
            plain
                .add_address("up", address(&format!("{}/30", ends[1])))
                .unwrap();
            let via = |end: &str| Some(end.parse().unwrap());
            last.add_route(everywhere(), "down", via(&ends[1])).unwrap();
            plain
                .add_route(address("10.0.2.2/32"), "up", via(&ends[0]))
                .unwrap();
            last = plain;
        }
        let far = last.tun("tun1", 1500).unwrap();
        if self.hops == 0 {
            last.add_address("tun1", address("10.0.2.2/32")).unwrap();
        } else {
            last.add_address("tun1", address("10.0.3.1/32")).unwrap();
        }
        last.add_route(everywhere(), "tun1", None).unwrap();
        let directory = TempDir::new().unwrap();
        let path = |name: &str| directory.path().join(name);
        let [down, up] = self.ports();
        let config = format!(
            "id = 7\ncontrol = \"{}\"\nseed = {seed}\n\
             [[port]]\nname = \"satellite\"\nfd = {}\nmtu = 1500\n{down}\
             [[port]]\nname = \"satellite.reverse\"\nfd = {}\nmtu = 1500\n{up}\
             [[route]]\nprefix = \"10.0.1.0/24\"\nport = \"satellite\"\n\
             [[route]]\nprefix = \"10.0.0.0/16\"\nport = \"satellite.reverse\"\n",
            path("router.sock").display(),
            near.fd.as_raw_fd(),
            far.fd.as_raw_fd(),
        );
        fs::write(path("router.toml"), config).unwrap();
        let files = path("files");
        fs::create_dir(&files).unwrap();
        fs::write(
            files.join("f"),
            vec![7; usize::try_from(self.bytes).unwrap()],
        )
        .unwrap();
        let router = bed.node("router").unwrap();
        let config = path("router.toml");
        let fds = [near.fd.as_fd(), far.fd.as_fd()];
        let run: [&OsStr; 5] = [
            "vcp-router".as_ref(),
            "run".as_ref(),
            "--json".as_ref(),
            "--config".as_ref(),
            config.as_ref(),
        ];
        let (_router, _) = started(&router, &run, &fds);
        let serve: [&OsStr; 6] = [
            "serve".as_ref(),
            "--listen".as_ref(),
            "10.0.2.2:4433".as_ref(),
            "--dir".as_ref(),
            files.as_ref(),
            "--json".as_ref(),
        ];
        let (_server, said) = started(&server, &serve, &[]);
        let pin = said["pin"].as_str().unwrap();
        let out = path("out");
        let get: [&OsStr; 7] = [
            "get".as_ref(),
            "10.0.2.2:4433/f".as_ref(),
            "-o".as_ref(),
            out.as_ref(),
            "--pin".as_ref(),
            pin.as_ref(),
            "--json".as_ref(),
        ];
        let (mut get, said) = started(&client, &get, &[]);
        assert!(get.wait().unwrap().success(), "{said}");
        let controllers = Controllers::deserialize(&said["controllers"]).unwrap();
        let ruled = controllers.explain();
        (said["seconds"].as_f64().unwrap(), ruled)
    }

    /// Prints both medians, and says how far they are apart.
    fn apart(&self, seeds: std::ops::RangeInclusive<u64>) -> f64 {
        let median = |run: &dyn Fn(u64) -> (f64, String)| {
            let mut all: Vec<_> = seeds.clone().map(run).collect();
            all.sort_by(|one, other| one.0.total_cmp(&other.0));
            all.swap_remove(all.len() / 2)
        };
        let (real, emulated) = (
            median(&|seed| self.real(seed)),
            median(&|s| self.emulated(s)),
        );
        let apart = (real.0 / emulated.0 - 1.0).abs();
        println!(
            "{self:?}: {apart:.3} apart\n  real {:.3} s: {}\n  emulated {:.3} s: {}",
            real.0, real.1, emulated.0, emulated.1
        );
        apart
    }
}

/// A command on a node, and the first line of JSON that it prints.
fn started(node: &Node, arguments: &[&OsStr], fds: &[BorrowedFd<'_>]) -> (ChildGuard, Value) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pathmark"));
    command
        .args(arguments)
        .env("XDG_STATE_HOME", "/dev/null")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut process = node.spawn(command, fds).unwrap();
    let mut line = String::new();
    let output = process.child().stdout.take().unwrap();
    BufReader::new(output).read_line(&mut line).unwrap();
    let said = serde_json::from_str(&line);
    (
        process,
        said.unwrap_or_else(|error| panic!("{arguments:?}: {error}: {line}")),
    )
}

/// `serve` and `get` over a short path of each kind. With `PATHMARK_PARITY=all`, which `cargo xtask
/// parity` sets, it is the whole matrix over a satellite link, five seeds each: about an hour.
#[test]
fn real_downloads_take_as_long_as_emulated() {
    let is_long = std::env::var_os("PATHMARK_PARITY").is_some_and(|wanted| wanted == "all");
    let mut failed = Vec::new();
    for (place, cell) in match is_long {
        true => Download::matrix("10Mbit", 600, 5_000_000),
        false => Download::matrix("20Mbit", 60, 1_000_000),
    }
    .into_iter()
    .enumerate()
    {
        // Of the short ones every second: each number of hops, port and loss occurs.
        if is_long || place % 2 == 0 {
            let most = match cell.loss > 0.0 && !is_long {
                true => APART_BY_CHANCE,
                false => APART,
            };
            let seeds = match is_long || cell.loss > 0.0 {
                true => SEEDS,
                false => 11..=13,
            };
            let apart = match is_long {
                true => cell.apart(seeds),
                false => undisturbed(|| {
                    let apart = cell.apart(seeds.clone());
                    assert!(apart <= most, "{cell:?}: {apart:.3} apart");
                    apart
                }),
            };
            failed.extend((apart > most).then(|| format!("{cell:?}: {apart:.3} apart")));
        }
    }
    assert_eq!(failed, Vec::<String>::new());
}
