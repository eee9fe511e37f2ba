//! Logs of connections: what they contain, at both ends, and what Wireshark reads of the same
//! packets.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::common::offered::{Offered, until};
use crate::common::{Server, json, names, pathmark, run, stderr, words};
use crate::explain::{FILE, VCP, emulated, explained};

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

/// A transfer that is shorter than the end of its connection leaves a whole log, too.
#[test]
fn no_log_is_cut_off_at_the_end_of_a_command() {
    let (there, here) = (Offered::new(), TempDir::new().unwrap());
    fs::write(there.path().join("file"), "short").unwrap();
    let server = Server::offering(&there, "127.0.0.1:0", &[]);
    let logs = here.path().join("logs");
    for _ in 0..20 {
        let get = format!("get {} --pin {} --quiet -o", server.at("file"), server.pin);
        let mut get = pathmark(&words(&get));
        let output = get.arg(here.path()).env("QLOGDIR", &logs).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
    }
    let logs: Vec<_> = names(&logs)
        .iter()
        .map(|name| records(&logs.join(name)))
        .collect();
    assert_eq!(logs.len(), 20);
    for log in logs {
        assert!(
            log.iter()
                .any(|event| event["name"] == "quic:connection_closed"),
            "{log:?}"
        );
    }
}
