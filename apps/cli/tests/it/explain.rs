//! What `explain` makes of reports and logs, and what it and `plot` refuse.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use pathmark_testbed::chain::{Chain, Hop, SENDER};
use serde_json::Value;
use tempfile::TempDir;

use crate::common::offered::Offered;
use crate::common::on_node::{self, figures, router, spawn};
use crate::common::{ended, json, measuring, pathmark, run, stderr, words};

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

pub(crate) const VCP: &str = "controller = \"vcp+bise\"";
pub(crate) const FILE: &str = "bytes = 3_000_000";

/// Runs a scenario with logs into `out`, and returns the sender's.
pub(crate) fn emulated(out: &Path, flow: &str, bottleneck: &str, last: &str) -> PathBuf {
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

pub(crate) fn explained(file: &Path) -> Value {
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
        (
            "reordering",
            reno,
            "jitter = { max = \"200ms\", reorder = true }",
            "",
        ),
        // Nothing is lost in a long queue.
        (
            "queue",
            "bytes = 8_000_000\nalgorithm = \"cubic\"",
            "queue = { kind = \"droptail\", limit = \"2000p\" }",
            "",
        ),
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

/// Reports of failed commands lack what isn't known, and `perf` has one for each direction.
#[test]
fn reports_of_failures_and_of_two_directions() {
    let here = TempDir::new().unwrap();
    let bounds = |name: &str| {
        let mut bounds = serde_json::json!({
            "application": 0.0, "peer": 0.0, "streams": 0.0, "buffers": 0.0,
            "window": 0.0, "router": 0.0,
        });
        bounds[name] = 1.0.into();
        serde_json::json!({
            "controllers": { "shares": [], "changes": [] },
            "bounded_by": bounds,
        })
    };
    let mut both = bounds("application");
    both["up"] = bounds("application");
    both["down"] = bounds("peer");
    both["seconds"] = 9.0.into();
    both["handshake_ms"] = 1000.0.into();
    let failed = serde_json::json!({ "controllers": null, "error": "no answer", "seconds": 30.0 });
    let [both, failed] = [("both", both), ("failed", failed)].map(|(name, report)| {
        let file = here.path().join(name);
        fs::write(&file, report.to_string()).unwrap();
        file.to_str().unwrap().to_owned()
    });
    let odd = here.path().join(std::ffi::OsStr::from_bytes(b"odd\xff"));
    fs::copy(&failed, &odd).unwrap();
    let mut explain = pathmark(&["explain", "--json", &both, "/nowhere", &failed]);
    let output = explain.arg(&odd).output().unwrap();
    // What can't be read doesn't hide the rest.
    ended(&output, 2, "cannot explain /nowhere");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let causes = json["explained"].as_array().unwrap().iter();
    let causes: Vec<_> = causes
        .map(|one| {
            (
                one["flow"].as_str(),
                one["cause"].as_str().unwrap(),
                one["seconds"].as_f64(),
            )
        })
        .collect();
    assert_eq!(
        causes,
        [
            (Some("up"), "application", Some(10.0)),
            (Some("down"), "receiver", Some(10.0)),
            (None, "ended", Some(30.0)),
            (None, "ended", Some(30.0)),
        ]
    );
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
