//! Logs of connections, and what `explain` and `plot` make of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pathmark_testbed::chain::{Chain, Hop, SENDER};
use serde_json::Value;
use tempfile::TempDir;

use crate::common::offered::{Offered, until};
use crate::common::on_node::{self, figures, router, spawn};
use crate::common::{Server, ended, json, measuring, names, pathmark, run, stderr, words};

/// A path with a round trip of 102 ms, whose bottleneck is the second link.
const PATH: &str = r#"
name = "slow"
duration = "60s"

[[link]]
name = "access"
from = "S"
to = "R"
duplex = true
delay = "1ms"

[[link]]
name = "bottleneck"
from = "R"
to = "M"
duplex = true
rate = "10Mbit"
delay = "49ms"
BOTTLENECK

[[link]]
name = "last"
from = "M"
to = "D"
duplex = true
delay = "1ms"
LAST

[[flow]]
name = "file"
from = "S"
to = "D"
FLOW
"#;

const VCP: &str = "controller = \"vcp+bise\"";
const FILE: &str = "bytes = 3_000_000";

/// Runs a scenario with logs into `out`, and returns the sender's.
fn emulated(out: &Path, flow: &str, bottleneck: &str, last: &str) -> PathBuf {
    let keys = [("BOTTLENECK", bottleneck), ("LAST", last), ("FLOW", flow)];
    let scenario = (keys.iter()).fold(PATH.to_owned(), |text, (key, value)| {
        text.replace(key, value)
    });
    let path = out.join("scenario.toml");
    fs::write(&path, scenario).unwrap();
    let (path, out_text) = (path.to_str().unwrap(), out.to_str().unwrap());
    let output = run(&["emulate", path, "--out", out_text, "--qlog"]);
    assert!(output.status.success(), "{}", stderr(&output));
    out.join("file-client.sqlog")
}

fn explained(file: &Path) -> Value {
    let output = run(&["explain", file.to_str().unwrap(), "--json"]);
    json(&output)["explained"][0].clone()
}

#[test]
fn the_cause_of_a_slow_transfer() {
    let reno = "bytes = 3_000_000\nalgorithm = \"cubic\"";
    let loss = "loss = { kind = \"bernoulli\", per = 0.01 }";
    let slower = "rate = \"6Mbit\"\nqueue = { kind = \"droptail\", limit = \"20p\" }";
    let modem = "rate = \"8Mbit\"\nqueue = { kind = \"droptail\", limit = \"200p\" }";
    let outage = "at = [{ t = \"1s\", rate = \"0bit\" }, { t = \"7s\", rate = \"10Mbit\" }]";
    let (both, back) = (
        format!("{VCP}\n{outage}"),
        format!("{VCP}\nreverse = {{ {outage} }}"),
    );
    for (cause, flow, bottleneck, last) in [
        ("router", FILE, VCP, ""),
        // Random loss behind the router isn't congestion.
        ("router", FILE, VCP, loss),
        ("no-answer", FILE, "", ""),
        (
            "plain-hop",
            "bytes = 8_000_000\nalgorithm = \"vcp+bise+wlte\"",
            VCP,
            slower,
        ),
        (
            "queue",
            "bytes = 8_000_000\nalgorithm = \"vcp+bise+wlte\"",
            VCP,
            modem,
        ),
        ("loss", reno, loss, ""),
        ("start", "bytes = 100_000\nalgorithm = \"cubic\"", "", ""),
        // The port grants no starting rate.
        (
            "start",
            "bytes = 100_000\nalgorithm = \"vcp+bise+wlte\"",
            "controller = \"vcp+bise\"\ngrant = false",
            "",
        ),
        (
            "receiver",
            "bytes = 3_000_000\nreceive_window = 20_000",
            VCP,
            "",
        ),
        ("handshake", "bytes = 5_000", VCP, ""),
        ("application", "bytes = 300_000\nrate = \"1Mbit\"", VCP, ""),
        ("outage", FILE, &both, ""),
        ("outage", FILE, &back, ""),
    ] {
        let out = TempDir::new().unwrap();
        let log = emulated(out.path(), flow, bottleneck, last);
        let explained = explained(&log);
        assert_eq!(
            explained["cause"], cause,
            "{flow} {bottleneck} {last}: {explained}"
        );
        let output = run(&["explain", log.to_str().unwrap()]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.lines().count() <= 10, "{text}");
        for word in ["time", "ruled by", "bounded by", "because", "next"] {
            assert!(text.lines().any(|line| line.starts_with(word)), "{text}");
        }
    }
}

/// What a log says is what the result of the run says, and the same seed gives the same log.
#[test]
fn a_log_of_an_emulated_flow_agrees_with_the_result() {
    let [one, other] = [(); 2].map(|()| TempDir::new().unwrap());
    let log = emulated(one.path(), FILE, VCP, "");
    let again = emulated(other.path(), FILE, VCP, "");
    assert!(fs::read(&log).unwrap() == fs::read(again).unwrap());
    let result: Value =
        serde_json::from_slice(&fs::read(one.path().join("result.json")).unwrap()).unwrap();
    let flow = &result["flows"][0];
    let records = records(&log);
    let of = |name: &str| {
        records
            .iter()
            .filter(|record| record["name"] == name)
            .count() as u64
    };
    assert_eq!(of("quic:packet_sent"), flow["packets_sent"]);
    assert_eq!(of("quic:packet_lost"), flow["packets_lost"]);
    let last = records.last().unwrap();
    assert_eq!(last["name"], "pathmark:report");
    // The result's time also counts the last round trip.
    let shares = |report: &Value| -> Vec<f64> {
        let shares = report["controllers"]["shares"].as_array().unwrap().iter();
        shares
            .map(|share| share["time"].as_f64().unwrap())
            .collect()
    };
    for (logged, shown) in shares(&last["data"]).iter().zip(shares(flow)) {
        assert!((logged - shown).abs() < 0.01, "{last} {flow}");
    }
    let answered = records
        .iter()
        .filter(|record| record["data"]["protocol"] == "vcp");
    assert!(answered.clone().count() > 20);
    assert!(answered.clone().any(|record| record["data"]["router"] == 2));
}

/// Wireshark's reading of a link's packets agrees with what the receiver reported of them, although
/// the connection's first packets have no shims.
#[test]
fn the_dissector_reads_a_whole_connection() {
    if let Err(error) = Command::new("tshark").arg("--version").output() {
        assert!(
            std::env::var_os("CI").is_none(),
            "tshark is missing ({error}): install it"
        );
        println!("not judged: tshark is not installed ({error})");
        return;
    }
    let out = TempDir::new().unwrap();
    let log = emulated(out.path(), FILE, &format!("{VCP}\ncapture = true"), "");
    let script = format!(
        "lua_script:{}/../../docs/wireshark/pathmark.lua",
        env!("CARGO_MANIFEST_DIR")
    );
    let capture = out.path().join("bottleneck.pcapng");
    let mut tshark = Command::new("tshark");
    tshark.args([
        "-n",
        "-X",
        &script,
        "-T",
        "fields",
        "-e",
        "pathmark.vcp.code",
        "-e",
        "pathmark.check_wrong",
        "-r",
    ]);
    let output = tshark.arg(&capture).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    let records = records(&log);
    for (code, name) in [("1\t", "low"), ("2\t", "high")] {
        let dissected = text.lines().filter(|line| *line == code).count() as u64;
        let reported: u64 = (records.iter())
            .filter_map(|record| record["data"][name].as_u64())
            .sum();
        // The connection ends before those of its last round trip are reported.
        assert!(
            (reported..reported + 40).contains(&dissected) && reported > 50,
            "{name}: {dissected} dissected, {reported} reported"
        );
    }
}

/// Returns the records of a log after its header.
fn records(log: &Path) -> Vec<Value> {
    let text = fs::read_to_string(log).unwrap();
    let records = text.split('\u{1e}').skip(2);
    records
        .map(|text| serde_json::from_str(text).unwrap())
        .collect()
}

#[test]
fn both_ends_of_a_download_have_logs() {
    let (there, here) = (Offered::new(), TempDir::new().unwrap());
    fs::write(there.path().join("file"), vec![7; 300_000]).unwrap();
    let logs = here.path().join("logs");
    let mut serve = pathmark(&["serve", "--listen", "127.0.0.1:0", "--json", "--dir"]);
    serve.arg(there.path()).env("QLOGDIR", &logs);
    let server = Server::of(serve);
    let get = format!("get {} --pin {} --json -o", server.at("file"), server.pin);
    let mut get = pathmark(&words(&get));
    let figures = json(&get.arg(here.path()).env("QLOGDIR", &logs).output().unwrap());
    // The server's is complete once the connection has drained.
    let closed = |name: &String| {
        let text = fs::read_to_string(logs.join(name)).unwrap_or_default();
        text.contains("quic:connection_closed")
    };
    until(|| names(&logs).iter().filter(|name| closed(name)).count() == 2);
    let [client, server] = ["client", "server"].map(|side| {
        let of = |name: &String| name.contains(side);
        logs.join(names(&logs).into_iter().find(of).unwrap())
    });
    let sent = |log: &Path, name: &str| -> Vec<u64> {
        let records = records(log).into_iter();
        let packets = records.filter(|record| record["name"] == name);
        let data = packets.filter(|packet| packet["data"]["header"]["packet_type"] == "1RTT");
        let numbers = data.map(|packet| packet["data"]["header"]["packet_number"].as_u64());
        numbers.map(Option::unwrap).collect()
    };
    let sent_by_server = sent(&server, "quic:packet_sent");
    assert!(sent_by_server.is_sorted() && sent_by_server.len() > 30);
    let received = sent(&client, "quic:packet_received");
    assert!(
        received.len() > 30
            && received
                .iter()
                .all(|number| sent_by_server.contains(number))
    );
    for log in [&client, &server] {
        assert_eq!(explained(log)["file"], log.to_str().unwrap());
    }
    assert_eq!(explained(&client)["cause"], "other-end");
    assert_ne!(explained(&server)["cause"], "other-end");
    // The report of `get` is that of the sender.
    let report = here.path().join("report.json");
    fs::write(&report, figures.to_string()).unwrap();
    let [seconds, handshake_ms] =
        ["seconds", "handshake_ms"].map(|key| figures[key].as_f64().unwrap());
    assert_eq!(explained(&report)["seconds"], seconds + handshake_ms / 1e3);
    let picture = here.path().join("picture.svg");
    let [client, server, to] = [&client, &server, &picture].map(|path| path.to_str().unwrap());
    let output = run(&["plot", client, server, "-o", to]);
    assert!(output.status.success(), "{}", stderr(&output));
    let picture = fs::read_to_string(&picture).unwrap();
    for title in ["congestion window", "round trip", "received"] {
        assert!(picture.contains(title), "{title}");
    }
}

#[test]
fn what_cannot_be_read_or_written_is_said() {
    let here = TempDir::new().unwrap();
    let path = |name: &str, content: &[u8]| {
        let path = here.path().join(name);
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let log = b"\x1e{\"trace\":{}}\n\x1e{\"time\":1,\"name\":\"quic:packet_sent\",\"data\":{}}\n";
    for (file, word) in [
        (path("text", b"text"), "neither a report"),
        (path("object", b"{}"), "no `controllers`"),
        (path("flows", b"{\"flows\":[{}]}"), "no `controllers`"),
        (path("none", b"{\"flows\":[]}"), "no `controllers`"),
        (
            path("never", b"{\"path_report\":null}"),
            "was never established",
        ),
        (
            path(
                "negative",
                b"{\"controllers\":{\"shares\":[],\"changes\":[]},\"seconds\":-1}",
            ),
            "an impossible number",
        ),
        (
            path("wrong", b"{\"controllers\":{\"shares\":1}}"),
            "a sequence",
        ),
        (path("short", log), "before the first event"),
        (
            path("hostile", b"\x1e{\"trace\":{}}\n\x1e[]\n"),
            "record 1 isn't an event",
        ),
        ("/nowhere".to_owned(), "No such file"),
    ] {
        ended(&run(&["explain", &file]), 2, word);
    }
    let picture = path("picture.svg", b"");
    ended(
        &run(&["plot", &path("text", b"text"), "-o", &picture]),
        2,
        "isn't a log",
    );
    let empty = path("empty", b"\x1e{\"trace\":{}}\n");
    ended(&run(&["plot", &empty, "-o", &picture]), 2, "no events");
    // A picture doesn't replace a log.
    let output = run(&["plot", &empty, "-o", &empty]);
    ended(&output, 2, "is a log: name another file");
    assert!(!fs::read(&empty).unwrap().is_empty());
    let mut get = pathmark(&["ls", "127.0.0.1:1"]);
    let output = get.env("QLOGDIR", path("file", b"")).output().unwrap();
    ended(&output, 2, "QLOGDIR");
}

/// A name or a reason is anybody's choice, and unknown values are null.
#[test]
fn a_report_cannot_write_to_the_terminal() {
    let here = TempDir::new().unwrap();
    let report = serde_json::json!({
        "name": "a\u{1b}[2Jb",
        "controllers": { "shares": [], "changes": [] },
        "seconds": null,
        "rtt_ms": null,
        "error": "lost\u{202e}\r",
    });
    let file = here.path().join("report");
    fs::write(&file, report.to_string()).unwrap();
    let output = run(&["explain", file.to_str().unwrap()]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("a\\u{1b}[2Jb") && text.contains("lost\\u{202e}"),
        "{text}"
    );
    let is_bad = |c: char| c.is_control() && c != '\n';
    assert!(!text.contains(is_bad), "{text:?}");
}

/// Writes a log of a client with these events: a time in milliseconds, a name, and data.
fn log_of(events: &[(f64, &str, Value)]) -> (TempDir, PathBuf) {
    let mut text = "\u{1e}{\"trace\":{}}\n".to_owned();
    for (time, name, data) in events {
        let event = serde_json::json!({ "time": time, "name": name, "data": data });
        text += &format!("\u{1e}{event}\n");
    }
    let here = TempDir::new().unwrap();
    let file = here.path().join("log.sqlog");
    fs::write(&file, text).unwrap();
    (here, file)
}

/// Several short silences are an outage like a long one, also if the last has no end.
#[test]
fn silences_are_added() {
    let sent = (
        "quic:packet_sent",
        serde_json::json!({ "header": { "packet_type": "1RTT" } }),
    );
    let received = ("quic:packet_received", sent.1.clone());
    let flight = |rtt: f64| {
        let data = serde_json::json!({ "bytes_in_flight": 1200, "smoothed_rtt": rtt });
        ("quic:recovery_metrics_updated", data)
    };
    let report =
        serde_json::json!({ "controllers": { "shares": [], "changes": [] }, "bytes_sent": 1000 });
    for (rtt, expected, times) in [
        (100.0, "outage", 4),
        (100.0, "unknown", 1),
        (400.0, "unknown", 4),
    ] {
        let mut events = Vec::new();
        let mut at =
            |time: f64, (name, data): (&'static str, Value)| events.push((time, name, data));
        at(0.0, sent.clone());
        at(50.0, flight(rtt));
        for n in 0..4 {
            let begin = f64::from(n) * 1000.0 + 100.0;
            at(begin, received.clone());
            if n >= times {
                // Answers arrive all the time.
                for part in 1..10 {
                    at(begin + f64::from(part) * 100.0, received.clone());
                }
            }
            at(begin + 900.0, sent.clone());
        }
        at(4100.0, ("pathmark:report", report.clone()));
        let (_here, log) = log_of(&events);
        assert_eq!(explained(&log)["cause"], expected, "{rtt} {times}");
    }
}

/// Through routers on TUN interfaces, from the report that `get` prints.
#[test]
fn the_cause_of_a_slow_download_through_a_router() {
    let _place = measuring();
    for (cause, controller, law, loss) in [
        ("router", "vcp+bise", "vcp+bise+wlte", ""),
        ("no-answer", "none", "vcp+bise+wlte", ""),
        (
            "loss",
            "none",
            "cubic",
            "loss = { kind = \"bernoulli\", per = 0.02 }\n",
        ),
    ] {
        let port = |controller: &str| {
            format!("rate = \"10Mbit\"\ndelay = \"25ms\"\ncontroller = \"{controller}\"\n")
        };
        let hop = Hop {
            forward: port(controller) + loss,
            reverse: port("none"),
        };
        let chain = Chain::new(router(), 1500, &[hop]).unwrap();
        let (there, here) = (Offered::new(), TempDir::new().unwrap());
        fs::write(there.path().join("file"), vec![7; 1_000_000]).unwrap();
        let (listen, directory) = (format!("{SENDER}:4433"), there.path().to_str().unwrap());
        let serve = [
            "serve", "--listen", &listen, "--dir", directory, "--cc", law, "--json",
        ];
        let (_server, said) = on_node::serve(&chain.sender, &serve);
        let (pin, out) = (said["pin"].as_str().unwrap(), here.path().display());
        let get = format!("get {listen}/file -o {out} --pin {pin} --cc {law} --json");
        let figures = figures(spawn(&chain.receiver, &words(&get)));
        let report = here.path().join("report.json");
        fs::write(&report, figures.to_string()).unwrap();
        assert_eq!(explained(&report)["cause"], cause, "{figures}");
    }
}
