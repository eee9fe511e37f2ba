//! Readers of the log, the JSON line, `show` and the metrics that have stopped, are slow, or have
//! left: packets pass all the same, and the router ends at once.

use std::io::{self, BufRead, BufReader, PipeReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use pathmark_testbed::ChildGuard;

use crate::bed::{Bed, Pinger, bytes, transfer, until};

/// Time within which the router ends.
const SOON: Duration = Duration::from_secs(1);

/// A pipe that is full, and its reading end.
fn full() -> (PipeReader, Stdio) {
    let (reader, mut writer) = io::pipe().unwrap();
    rustix::io::ioctl_fionbio(&writer, true).unwrap();
    while writer.write(&[b'x'; 4096]).is_ok() {}
    rustix::io::ioctl_fionbio(&writer, false).unwrap();
    (reader, writer.into())
}

/// SIGTERM, and how long the router goes on.
fn ends(router: &mut ChildGuard) -> Duration {
    let start = Instant::now();
    router.terminate().unwrap();
    until("SIGTERM ends it", || {
        router.child().try_wait().unwrap().is_some()
    });
    start.elapsed()
}

fn ask(bed: &Bed, request: &[u8]) -> serde_json::Value {
    let mut stream = UnixStream::connect(bed.path("control.sock")).unwrap();
    stream.write_all(request).unwrap();
    serde_json::from_str(&io::read_to_string(stream).unwrap()).unwrap()
}

/// Makes the router write `count` lines, one for each reload.
fn log(bed: &Bed, count: u64) {
    for _ in 0..count {
        let wanted = ask(bed, b"reload\n")["reloads"].as_u64().unwrap();
        let generation = || ask(bed, b"json\n")["reload"]["generation"].as_u64();
        until("reloaded", || generation() > Some(wanted));
    }
}

/// Pings until one is answered, which means that the router runs.
fn pinger(bed: &Bed) -> Pinger {
    let mut pinger = Pinger::new(&bed.left, "10.0.2.2");
    until("something passes", || pinger.ping(56).is_some());
    pinger
}

/// Every ping is answered and a transfer ends, while the router logs and clients of every kind
/// neither ask nor read.
fn forwards(bed: &Bed, mut reader: Option<PipeReader>) {
    let mut pinger = pinger(bed);
    let path = bed.path("control.sock");
    let mut clients: Vec<(UnixStream, TcpStream)> = Vec::new();
    for number in 0..64 {
        let (mut unix, mut tcp) = (UnixStream::connect(&path).unwrap(), bed.metrics());
        if number % 2 == 0 {
            unix.write_all(b"json\n").unwrap();
            let request = b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n";
            tcp.write_all(request).unwrap();
        }
        clients.push((unix, tcp));
    }
    for _ in 0..20 {
        log(bed, 1);
        assert!(pinger.ping(56).is_some(), "a packet waits for a reader");
        if let Some(reader) = &mut reader {
            let _ = reader.read(&mut [0; 100]).unwrap();
        }
    }
    let (from, to) = bed.tcp(false);
    transfer(from, to, &bytes(20_000_000));
}

#[test]
fn readers_that_stop_or_leave_hold_nothing_up() {
    for (name, slow, left) in [
        ("full", false, false),
        ("slow", true, false),
        ("closed", false, true),
    ] {
        for of_log in [true, false] {
            let bed = Bed::new();
            bed.configure("", "");
            let (reader, pipe) = full();
            let reader = (!left).then_some(reader);
            let mut router = if of_log {
                bed.spawn_with(Stdio::null(), pipe)
            } else {
                bed.spawn_with(pipe, Stdio::null())
            };
            let (slow, stopped) = if slow { (reader, None) } else { (None, reader) };
            forwards(&bed, slow);
            let took = ends(&mut router);
            assert!(took < SOON, "{name}, log {of_log}: {took:?}");
            drop(stopped);
        }
    }
}

/// A router that cannot start ends all the same.
#[test]
fn a_failure_that_nobody_reads_ends_the_router() {
    let bed = Bed::new();
    bed.configure("", "");
    std::fs::write(bed.path("control.sock"), "no socket").unwrap();
    let (_reader, pipe) = full();
    let mut router = bed.spawn_with(Stdio::null(), pipe);
    until("it ends", || router.child().try_wait().unwrap().is_some());
}

/// A reader that reads again gets the first lines and the number of the others.
#[test]
fn lines_that_nobody_reads_are_counted() {
    let bed = Bed::new();
    bed.configure("", "");
    let (reader, pipe) = full();
    let mut router = bed.spawn_with(Stdio::null(), pipe);
    let _pinger = pinger(&bed);
    log(&bed, 300);
    let mut lines = BufReader::new(reader)
        .lines()
        .map(|line| line.unwrap())
        .filter(|line| line.contains("reloaded") || line.contains("lost"));
    let mut reloads = 0;
    let lost: u64 = loop {
        let line = lines.next().unwrap();
        match line.strip_suffix(" lines of this log are lost: nothing read it") {
            Some(head) => break head.rsplit(' ').next().unwrap().parse().unwrap(),
            None => reloads += 1,
        }
    };
    assert_eq!(reloads + lost, 300);
    assert!((200..256).contains(&reloads), "{reloads}");
    log(&bed, 1);
    assert!(lines.next().unwrap().contains("reloaded, generation 302"));
    assert!(ends(&mut router) < SOON);
}
