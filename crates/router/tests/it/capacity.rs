//! Capacities that clients report for the link behind a port.

use std::io::{self, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::bed::{Bed, bytes, transfer, until};

/// Runs `vcp-router capacity` with these arguments.
fn capacity(bed: &Bed, arguments: &[&str]) -> std::process::Output {
    bed.ask(&[&["capacity"], arguments].concat())
}

#[test]
fn a_port_without_a_rate_uses_the_capacity_that_is_set() {
    let bed = Bed::with("", "capacity = \"20Mbit\"\ncontroller = \"xcp\"");
    let set = |arguments: &[&str]| capacity(&bed, arguments);
    let reckons = || bed.link("right")["controller"]["capacity_bps"].clone();
    assert_eq!(reckons(), 20e6);
    assert!(set(&["right", "8Mbit"]).status.success());
    assert_eq!(reckons(), 8e6);
    assert!(set(&["right", "none"]).status.success());
    assert_eq!(reckons(), 20e6);
    for (arguments, code) in [(["up", "8Mbit"], 1), (["right", "8parsec"], 2)] {
        assert_eq!(set(&arguments).status.code(), Some(code), "{arguments:?}");
    }
    assert_eq!(reckons(), 20e6);

    let table = bed.shown(&[]);
    let whole = table.contains("MEAN RTT") && table.contains("20Mbit");
    assert!(whole, "{table}");
    let metrics = bed.shown(&["--metrics"]);
    let line = "vcp_router_link_xcp_capacity_bits_per_second{port=\"right\"} 20000000";
    assert!(metrics.contains(line), "{metrics}");
}

/// What the laws get, and all that shows it: while it is reported, and afterwards.
#[test]
fn a_reported_capacity_is_seen_until_it_expires() {
    let mut bed = Bed::with("", "rate = \"25Mbit\"\ncontroller = \"xcp\"");
    let socket = bed.path("control.sock");
    let say = |line: &str| -> Value {
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.write_all(line.as_bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        serde_json::from_str(&io::read_to_string(stream).unwrap()).unwrap()
    };
    // The law's capacity, and the report.
    let seen = |bed: &Bed| {
        let link = bed.link("right");
        let law = link["controller"]["capacity_bps"].as_f64();
        (law.unwrap(), link["reported_capacity_bps"].as_f64())
    };
    const METRIC: &str = "vcp_router_link_reported_capacity_bits_per_second{port=\"right\"}";
    assert_eq!(seen(&bed), (25e6, None));
    assert!(!bed.shown(&[]).contains("REPORTED"));
    assert!(!bed.shown(&["--metrics"]).contains(METRIC));

    for rate in ["8Mbit", "8Mbit", "10Mbit"] {
        assert!(capacity(&bed, &["right", rate]).status.success());
    }
    assert_eq!(seen(&bed), (10e6, Some(10e6)));
    assert!(bed.link("right")["reported_capacity_expires_s"].is_null());
    let table = bed.shown(&[]);
    let whole = table.contains("REPORTED") && table.contains("10Mbit");
    assert!(whole, "{table}");
    let metrics = bed.shown(&["--metrics"]);
    let line = format!("{METRIC} 10000000\n");
    assert!(metrics.contains(&line), "{metrics}");

    // At most the rate, and at least what a law can use.
    let taken = |line: &str| say(line)["capacity_bps"].as_f64();
    assert_eq!(taken("capacity right 100Gbit\n"), Some(25e6));
    assert_eq!(seen(&bed), (25e6, Some(25e6)));
    assert_eq!(taken("capacity right 0\n"), Some(8.0));
    assert_eq!(seen(&bed), (8.0, Some(8.0)));
    assert_eq!(taken("capacity right none\n"), None);
    assert_eq!(seen(&bed), (25e6, None));

    // A reload keeps the report and the time of its end.
    let start = Instant::now();
    let output = capacity(&bed, &["right", "6Mbit", "--for", "1500ms"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(seen(&bed), (6e6, Some(6e6)));
    let expires = bed.link("right")["reported_capacity_expires_s"].as_f64();
    assert!(expires.is_some_and(|left| left <= 1.5), "{expires:?}");
    bed.configure("", "rate = \"24Mbit\"\ncontroller = \"xcp\"");
    bed.router().hang_up().unwrap();
    while bed.link("right")["rate_bps"] != 24e6 {
        thread::yield_now();
    }
    while seen(&bed).1 == Some(6e6) {
        thread::yield_now();
    }
    let took = start.elapsed();
    let range = Duration::from_millis(1_500)..Duration::from_secs(10);
    assert!(range.contains(&took), "{took:?}");
    assert_eq!(seen(&bed), (24e6, None));

    bed.router().terminate().unwrap();
    let log = bed.rest_of_log();
    for (line, times) in [
        ("port right: its capacity is reported as 8Mbit", 1),
        ("port right: its capacity is reported as 6Mbit", 1),
        ("port right: its capacity is reported", 2),
        ("port right: its capacity is as configured again", 1),
        ("port right: reports of its capacity stopped", 1),
    ] {
        assert_eq!(log.matches(line).count(), times, "{line}: {log}");
    }
}

/// Senders that follow no marks wait in the port too, where others can pass them.
#[test]
fn a_port_sends_no_faster_than_is_reported() {
    let bed = Bed::with("", "rate = \"100Mbit\"\ncontroller = \"vcp\"");
    assert!(capacity(&bed, &["right", "4Mbit"]).status.success());
    let (from, to) = bed.tcp(false);
    let start = Instant::now();
    transfer(from, to, &bytes(600_000));
    let took = start.elapsed();
    assert!(took >= Duration::from_millis(1_100), "{took:?}");

    // While the link is away, packets are kept.
    assert!(capacity(&bed, &["right", "0"]).status.success());
    let (a, b) = bed.udp(false);
    for number in 0..4 {
        a.send(&[number; 100]).unwrap();
    }
    until("packets wait", || {
        let waiting = bed.link("right")["queue_packets"]["now"].as_f64();
        waiting >= Some(3.0)
    });
    assert_eq!(bed.link("right")["rate_bps"], 100e6);
    assert!(capacity(&bed, &["right", "none"]).status.success());
    for number in 0..4 {
        let mut datagram = [9; 100];
        b.recv(&mut datagram).unwrap();
        assert_eq!(datagram[0], number);
    }
}
