//! `vcp-router` between two hosts on real TUN interfaces, rootless.

use std::io::{self, Read, Write};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::bed;
use crate::bed::{Bed, bytes, transfer, vcp_router};

#[test]
fn tcp_crosses_a_fast_router_in_super_packets() {
    let bed = Bed::with("", "");
    let data = bytes(30_000_000);
    for v6 in [false, true] {
        let (a, b) = bed.tcp(v6);
        transfer(a, b, &data);
    }
    let state = bed.show();
    let counter = |name: &str| state["counters"][name].as_u64().unwrap();
    let (forwarded, received) = (counter("forwarded"), counter("received"));
    let case = format!("super-packets: {received} read, {forwarded} packets");
    assert!(forwarded > 10 * received, "{case}");
    for bad in "malformed bad_checksum bad_offload no_buffer write_errors".split(' ') {
        assert_eq!(counter(bad), 0, "{bad}");
    }
    // Of IP packets, none is counted twice or left out.
    let (mut moved, mut offered) = (0, 0);
    for link in state["links"].as_array().unwrap() {
        let packets = &link["packets"];
        let of = |key: &str| packets[key].as_u64().unwrap();
        let dropped = |key: &str| -> u64 {
            let reasons = packets[key].as_object().unwrap().values();
            reasons.map(|count| count.as_u64().unwrap()).sum()
        };
        let taken = of("forwarded") + dropped("dropped_in");
        assert_eq!(of("received"), taken, "{link}");
        let gone = dropped("dropped_out") + of("held") + of("written");
        assert_eq!(of("offered"), gone, "{link}");
        moved += of("forwarded") + of("generated");
        offered += of("offered");
    }
    assert_eq!(moved, offered, "{state}");
    assert_eq!(counter("forwarded"), offered);
}

#[test]
fn a_slow_link_keeps_its_rate_and_sends_no_bursts() {
    let shape =
        "rate = \"40Mbit\"\ndelay = \"5ms\"\nqueue = { limit = \"100KiB\" }\ncontroller = \"vcp\"";
    let bed = Bed::with("delay = \"5ms\"", shape);
    for v6 in [false, true] {
        let (a, b) = bed.tcp(v6);
        let start = Instant::now();
        transfer(a, b, &bytes(2_000_000));
        let least = Duration::from_millis(2_000_000 * 8 / 40_000);
        let took = start.elapsed();
        assert!(took >= least, "{took:?}: faster than the link");
    }
    let link = bed.link("right");
    // Cut into segments: 2 MB are at least 2 × 1370 packets of 1500 bytes.
    assert!(link["sent_packets"].as_u64().unwrap() >= 2_700, "{link}");
    assert!(link["queue_packets"]["max"].as_f64().unwrap() > 1.0);
    let law = link["controller"]["law"].as_str();
    assert!(law.is_some_and(|law| law.starts_with("vcp")), "{link}");
}

#[test]
fn packet_too_big_teaches_tcp_the_smaller_mtu() {
    let bed = Bed::with("", "mtu = 1280");
    for v6 in [false, true] {
        let (a, b) = bed.tcp(v6);
        transfer(a, b, &bytes(300_000));
    }
    let counts = ["too_big", "icmp_sent"].map(|name| bed.counter(name));
    assert!(counts.iter().all(|count| *count >= 2), "{counts:?}");
}

/// The host cuts what is larger than its link; the router puts it together, answers, and cuts the
/// answer.
#[test]
fn pings_of_every_size_are_answered() {
    let bed = Bed::with("", "");
    let mut pinger = bed::Pinger::new(&bed.left, "10.0.1.1");
    for len in [0, 56, 1_472, 1_473, 3_000, 20_000, 65_507] {
        assert!(pinger.ping(len).is_some(), "{len} bytes");
    }
    let (a, _) = bed.udp(false);
    a.connect("10.0.1.1:9").unwrap();
    a.send(b"x").unwrap();
    let error = a.recv(&mut [0; 10]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
}

#[test]
fn reload_changes_what_it_names_or_nothing() {
    let mut bed = Bed::with("", "rate = \"2Mbit\"\nqueue = { limit = \"1MB\" }");
    let (mut a, mut b) = bed.tcp(false);
    let reader = thread::spawn(move || io::copy(&mut b, &mut io::sink()).unwrap());
    a.write_all(&bytes(200_000)).unwrap();
    // A file that does not hold together changes nothing.
    bed.configure("", "rate = \"2Gbit\"\nqueue = { limit = \"1bdp\" }");
    assert!(bed.reload().contains("still running as before"));
    assert_eq!(bed.link("right")["rate_bps"].as_f64(), Some(2e6));
    // At 2 Mbit/s the rest would take far longer than this test may.
    let law = "controller = \"vcp\"\n";
    bed.configure(
        "",
        &format!("rate = \"2Gbit\"\nqueue = {{ limit = \"1MB\" }}\n{law}"),
    );
    bed.reload();
    let before = bed.link("right");
    assert_eq!(before["rate_bps"].as_f64(), Some(2e9));
    bed.configure(
        "",
        &format!("rate = \"1Gbit\"\nqueue = {{ limit = \"2MB\" }}\n{law}"),
    );
    assert!(bed.reload().contains("reloaded"));
    let after = bed.link("right");
    let sent = |link: &Value| link["sent_packets"].as_u64();
    assert!(sent(&after) >= sent(&before), "counters stay");
    a.write_all(&bytes(20_000_000)).unwrap();
    drop(a);
    assert_eq!(reader.join().unwrap(), 20_200_000);
}

#[test]
fn a_router_that_is_killed_and_started_again_loses_no_connection() {
    let mut bed = Bed::with("", "rate = \"50Mbit\"");
    let (mut a, mut b) = bed.tcp(false);
    let data = bytes(2_000_000);
    let expected = data.clone();
    let reader = thread::spawn(move || {
        let mut got = vec![0; 500_000];
        b.read_exact(&mut got).unwrap();
        (b, got, expected)
    });
    let writer = thread::spawn(move || a.write_all(&data).unwrap());
    let (mut b, mut got, expected) = reader.join().unwrap();
    bed.router().kill().unwrap();
    bed.start();
    b.read_to_end(&mut got).unwrap();
    writer.join().unwrap();
    assert!(got == expected);
}

#[test]
fn sigterm_ends_it_cleanly_and_the_record_is_whole() {
    let mut bed = Bed::with("", "rate = \"100Mbit\"");
    let (a, b) = bed.tcp(false);
    transfer(a, b, &bytes(1_000_000));
    let sent = bed.link("right")["sent_bytes"].as_u64().unwrap();
    bed.stop();
    assert!(!bed.path("control.sock").exists());
    let record = std::fs::read_to_string(bed.path("record.csv")).unwrap();
    let mut lines = record.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    let column = header.iter().position(|name| *name == "sent_bytes");
    let last = lines.rfind(|line| line.contains(",right,")).unwrap();
    let fields: Vec<&str> = last.split(',').collect();
    assert_eq!(fields.len(), header.len());
    assert!(fields[column.unwrap()].parse::<u64>().unwrap() >= sent);
}

#[test]
fn a_log_that_takes_nothing_does_not_end_it() {
    let mut bed = Bed::with("", "rate = \"2Mbit\"");
    drop(bed.router().child().stderr.take());
    bed.configure("", "rate = \"1Mbit\"");
    bed.router().hang_up().unwrap();
    while bed.link("right")["rate_bps"].as_f64() != Some(1e6) {
        thread::yield_now();
    }
    // A client that asks for the state and cannot get it gets an error.
    let socket = bed.path("control.sock");
    for form in [&[][..], &["--json"], &["--metrics"]] {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_vcp-router"))
            .args(["show", "--socket"])
            .arg(&socket)
            .args(form)
            .stdout(std::fs::File::create("/dev/full").unwrap())
            .output()
            .unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{form:?}: {text}");
        assert!(text.contains("standard output"), "{form:?}: {text}");
    }
    bed.stop();
}

/// The same state as JSON, as a table, and as Prometheus text, which HTTP serves to any client.
#[test]
fn status_has_three_formats() {
    let bed = Bed::with("", "rate = \"10Mbit\"\ncontroller = \"vcp\"");
    bed.pass_one();
    let link = bed.link("right");
    let keys = "name rate_bps utilization queue_packets drops random_losses controller";
    for key in keys.split(' ') {
        assert!(!link[key].is_null(), "{key}");
    }
    assert!(bed.shown(&[]).contains("10Mbit"));
    let sample = "vcp_router_link_sent_packets_total{port=\"right\"} 1\n";
    assert!(bed.shown(&["--metrics"]).contains(sample));
    let ask = |request: &str| {
        let mut stream = bed.metrics();
        stream.write_all(request.as_bytes()).unwrap();
        io::read_to_string(stream).unwrap()
    };
    let answer = ask("GET /metrics HTTP/1.1\r\nHost: router\r\n\r\n");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let length = format!("Content-Length: {}", body.len());
    for line in ["HTTP/1.1 200 OK", &length] {
        assert!(head.lines().any(|found| found == line), "{line}: {head}");
    }
    let part = "Content-Type: text/plain; version=0.0.4";
    assert!(head.contains(part), "{head}");
    assert!(body.contains(sample), "{body}");
    // An unexpected body does not destroy the answer.
    let body = "x".repeat(100_000);
    let post = format!("POST /metrics HTTP/1.1\r\nContent-Length: 100000\r\n\r\n{body}");
    assert!(ask(&post).starts_with("HTTP/1.1 405 "));
}

/// Once interfaces are open, neither the forwarding thread nor those that serve clients have a
/// privilege.
#[test]
fn no_thread_keeps_a_privilege() {
    let mut bed = Bed::with("", "");
    let tasks = format!("/proc/{}/task", bed.router().child().id());
    let mut threads = 0;
    for task in std::fs::read_dir(tasks).unwrap() {
        threads += 1;
        let status = std::fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            u64::from_str_radix(line.unwrap().trim(), 16).unwrap()
        };
        for set in ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"] {
            assert_eq!(field(set), 0, "{set} of {status}");
        }
        assert_eq!(field("NoNewPrivs:"), 1, "{status}");
    }
    assert_eq!(threads, 6, "packets, log, clients, cards, steering, record");
}

#[test]
fn what_is_wrong_is_said_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("router.toml");
    let path = file.to_str().unwrap();
    let says = |arguments: &[&str], code: i32, part: &str| {
        let output = vcp_router(arguments);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{text}");
        assert!(text.contains(part), "{text}");
        assert_eq!(text.trim_end().lines().count(), 1, "{text}");
    };
    let fd = "[[port]]\nname = \"a\"\nfd = 77\n";
    let key = "[[port]]\nname = \"a\"\ntun = \"a0\"\nmtuu = 1500\n";
    let user = format!("user = \"no-such-user\"\ngroup = \"root\"\n{fd}");
    // A name cannot break the line of its error.
    let broken = format!("user = \"a\\nb\"\n{fd}");
    let group = format!("user = \"root\"\ngroup = \"no-such-group\"\n{fd}");
    for (text, commands, code, part) in [
        (key, "check", 2, "did you mean `mtu`?"),
        (key, "run", 2, "router.toml:4:"),
        (fd, "run", 1, "port a: cannot use descriptor 77"),
        (
            &user,
            "run check setup",
            2,
            "no user `no-such-user`: create it",
        ),
        (&broken, "run", 2, "no user `a\\nb`"),
        (
            &group,
            "run check",
            2,
            "no group `no-such-group`: create it",
        ),
    ] {
        std::fs::write(&file, text).unwrap();
        for command in commands.split(' ') {
            says(&[command, "--config", path], code, part);
        }
    }
    std::fs::write(&file, key).unwrap();
    let checked = vcp_router(&["check", "--json", "--config", path]);
    assert_eq!(checked.status.code(), Some(2));
    let checked: Value = serde_json::from_slice(&checked.stdout).unwrap();
    assert_eq!(checked["ok"], false);
    let absent = "/nonexistent.toml";
    says(&["run", "--config", absent], 2, absent);
    let socket = ["show", "--socket", "/nonexistent.sock"];
    says(&socket, 1, "no router answers");
    // Not sent anywhere, for it is no line.
    for name in ["a\nb", "", " ", "a ", "a\u{1b}[2J"] {
        says(&["capacity", name, "8Mbit"], 2, "a port's name is one line");
    }
    assert_eq!(vcp_router(&["frobnicate"]).status.code(), Some(2));
}

#[test]
fn udp_passes_both_ways_with_its_length_and_content() {
    let bed = Bed::with("", "rate = \"1Gbit\"\ncontroller = \"vcp+bise\"");
    for v6 in [false, true] {
        let (a, b) = bed.udp(v6);
        for len in [0, 1, 15, 16, 17, 500, 1452, 3000] {
            let data = bytes(len);
            let mut buffer = [0; 4000];
            a.send(&data).unwrap();
            assert_eq!(b.recv(&mut buffer).unwrap(), len);
            assert_eq!(buffer[..len], data);
            b.send(&data).unwrap();
            assert_eq!(a.recv(&mut buffer).unwrap(), len);
            assert_eq!(buffer[..len], data);
        }
    }
}
