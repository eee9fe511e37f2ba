//! RCP in the emulator, in `compare`, and through a real `vcp-router`, compared with XCP and CUBIC.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use pathmark_emulator::kit::{Figures, Flow, Path, Trial};
use pathmark_testbed::chain::{Chain, Hop, RouterProgram, SENDER};
use serde_json::Value;
use tempfile::TempDir;

/// Three downloads that start 5 s apart, and a file of 500 kB at 25 s, over 20 Mbit/s and 80 ms.
fn emulated(law: &str, port: &str) -> Figures {
    pathmark_rcp::register().unwrap();
    let path = Path::new("20Mbit", Duration::from_millis(80))
        .port(port)
        .queue("1bdp");
    let starts = [0, 5, 10].map(Duration::from_secs);
    let flows = [
        Flow::new("download").algorithm(law).starts(&starts),
        Flow::new("file")
            .algorithm(law)
            .bytes(500_000)
            .starts(&[Duration::from_secs(25)]),
    ];
    let trial = Trial::over(&path, &flows, Duration::from_secs(40)).unwrap();
    trial.run().unwrap()
}

#[test]
fn flows_share_an_emulated_port() {
    let rcp = emulated("rcp", "rcp");
    rcp.expect()
        .utilization_at_least("bottleneck", 0.9)
        .converges_within("download", 0.98, Duration::from_secs(2))
        // A starting flow adds its share before the port has lowered the shares of the others (as
        // the thesis also notes).
        .drops_at_most("bottleneck", 20)
        .queue_at_most_bdp("bottleneck", 0.5)
        .completion_within("file", Duration::from_millis(1500))
        .met()
        .unwrap();
    let seconds = |figures: &Figures| figures.flow("file").unwrap().completion_s.unwrap();
    let xcp = emulated("xcp", "xcp");
    let cubic = emulated("cubic", "none");
    let (rcp, xcp, cubic) = (seconds(&rcp), seconds(&xcp), seconds(&cubic));
    println!("500 kB next to three downloads: rcp {rcp} s, xcp {xcp} s, cubic {cubic} s");
    assert!(rcp < cubic);
}

#[test]
fn a_path_without_its_routers_is_cubics() {
    let rcp = emulated("rcp", "none");
    let cubic = emulated("cubic", "none");
    let goodput = |figures: &Figures| -> f64 {
        let flows = figures.flows("download");
        flows.iter().map(|flow| flow.goodput_bps).sum()
    };
    let (rcp, cubic) = (goodput(&rcp), goodput(&cubic));
    assert!(rcp > 0.9 * cubic, "{rcp} {cubic}");
}

/// The XCP/CUBIC paper's small buffers take most of XCP's goodput on a TCP of its time, but not of
/// RCP's, whose port shares the link and whose sender falls back to CUBIC when packets are lost.
#[test]
fn a_small_buffer_leaves_most_of_the_link() {
    pathmark_rcp::register().unwrap();
    let goodput = |law: &str, port: &str| -> f64 {
        let path = Path::new("100Mbit", Duration::from_millis(60))
            .port(port)
            .queue("0.05bdp");
        let flows = [Flow::new("f").algorithm(law).count(2)];
        let trial = Trial::over(&path, &flows, Duration::from_secs(20)).unwrap();
        let figures = trial.run().unwrap();
        figures.flows("f").iter().map(|flow| flow.goodput_bps).sum()
    };
    let (rcp, xcp) = (goodput("rcp", "rcp"), goodput("tcp-xcp", "xcp[paper]"));
    println!("two flows over 100 Mbit/s with 5 % of a BDP: rcp {rcp:.0}, xcp of a TCP {xcp:.0}");
    assert!(rcp > 60e6 && xcp < 30e6, "{rcp} {xcp}");
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rcp"));
    command
        .args(arguments)
        .env("XDG_STATE_HOME", "/dev/null")
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    command
}

#[test]
fn compare_names_it() {
    let out = TempDir::new().unwrap();
    let output = command(&[
        "compare",
        "--algorithms",
        "rcp,xcp,cubic",
        "--rate",
        "20Mbit",
        "--rtt",
        "80ms",
        "--buffer",
        "1bdp",
        "--loss",
        "0",
        "--flows",
        "2",
        "--routers",
        "1",
        "--seeds",
        "1",
        "--json",
        "--out",
    ])
    .arg(out.path())
    .output()
    .unwrap();
    assert!(output.status.success(), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let laws = report["cells"][0]["laws"].as_array().unwrap();
    assert_eq!(laws.len(), 3);
    println!("{}", serde_json::to_string_pretty(laws).unwrap());
}

/// Returns the figures of fetching 1 MB from a sender that uses `law`, through a router whose port
/// runs `port`.
fn fetched(law: &str, port: &str) -> Value {
    let keys = |law: &str| {
        format!(
            "rate = \"20Mbit\"\ndelay = \"40ms\"\ncontroller = \"{law}\"\n\
             queue = {{ kind = \"droptail\", limit = \"1bdp\", rtt = \"80ms\" }}\n"
        )
    };
    let hop = Hop {
        forward: keys(port),
        reverse: keys("none"),
    };
    let router = RouterProgram {
        program: env!("CARGO_BIN_EXE_rcp").into(),
        prefix: vec!["vcp-router".to_owned()],
    };
    let chain = Chain::new(router, 1500, &[hop]).unwrap();
    let files = TempDir::new().unwrap();
    std::fs::write(files.path().join("file"), vec![7; 1_000_000]).unwrap();
    let (listen, there) = (format!("{SENDER}:4433"), files.path().to_str().unwrap());
    let serve = command(&[
        "serve", "--listen", &listen, "--dir", there, "--cc", law, "--json",
    ]);
    let mut server = chain.sender.spawn(serve, &[]).unwrap();
    let mut line = String::new();
    let stdout = server.child().stdout.take().unwrap();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    let said: Value = serde_json::from_str(&line).unwrap();
    let pin = said["pin"].as_str().unwrap();
    let (target, here) = (format!("{listen}/file"), TempDir::new().unwrap());
    let to = here.path().to_str().unwrap();
    let get = command(&[
        "get", &target, "-o", to, "--pin", pin, "--cc", law, "--json",
    ]);
    let mut client = chain.receiver.spawn(get, &[]).unwrap();
    let figures = client.child().stdout.take().unwrap();
    let figures = serde_json::from_reader(figures).unwrap();
    assert!(client.wait().unwrap().success());
    let arrived = std::fs::read(here.path().join("file")).unwrap();
    assert_eq!(arrived, vec![7; 1_000_000]);
    figures
}

/// Of the total time, 1 MB takes 0.41 s on the wire, and handshake and request 0.24 s.
#[test]
fn a_real_router_gives_a_file_its_rate() {
    let rcp = fetched("rcp", "rcp");
    println!("{rcp}");
    assert_eq!(
        (&rcp["feedback"], &rcp["packets_lost"]),
        (&"rcp".into(), &0.into())
    );
    let seconds = |figures: &Value| figures["seconds"].as_f64().unwrap();
    let (xcp, cubic) = (fetched("xcp", "xcp"), fetched("cubic", "none"));
    let (rcp, xcp, cubic) = (seconds(&rcp), seconds(&xcp), seconds(&cubic));
    println!("1 MB: rcp {rcp} s, xcp {xcp} s, cubic {cubic} s");
    assert!(rcp < cubic, "{rcp} {cubic}");
}
