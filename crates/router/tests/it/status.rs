//! The status socket and the metrics address under clients of every kind.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{ChildStdout, Stdio};
use std::time::{Duration, Instant};

use pathmark_testbed::ChildGuard;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::bed::Bed;

/// Longest wait of an operator for `show` or a scrape, with any other clients connected.
const SOON: Duration = Duration::from_secs(1);

/// One `show --json` and one scrape, each in time.
fn is_answered_soon(bed: &Bed) {
    let start = Instant::now();
    assert!(bed.show()["links"].is_array());
    assert!(start.elapsed() < SOON, "show: {:?}", start.elapsed());
    let start = Instant::now();
    let mut stream = bed.metrics();
    let request = b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n";
    stream.write_all(request).unwrap();
    let answer = io::read_to_string(stream).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(start.elapsed() < SOON, "scrape: {:?}", start.elapsed());
}

/// Number of descriptors that a process has open.
fn descriptors(process: u32) -> usize {
    let open = std::fs::read_dir(format!("/proc/{process}/fd"));
    open.unwrap().count()
}

/// 100 clients of either kind that send nothing, or one byte at a time, delay no other client, and
/// are closed in the end.
#[test]
fn clients_that_stall_or_drip_delay_no_other() {
    let bed = Bed::with("", "rate = \"10Mbit\"");
    let path = bed.path("control.sock");
    let start = Instant::now();
    let connect = |_| (UnixStream::connect(&path).unwrap(), bed.metrics());
    let mut silent: Vec<_> = (0..50).map(connect).collect();
    let mut dripping: Vec<_> = (0..50).map(connect).collect();
    for byte in b"GET " {
        for (unix, tcp) in &mut dripping {
            unix.write_all(&[*byte]).unwrap();
            tcp.write_all(&[*byte]).unwrap();
        }
        is_answered_soon(&bed);
    }
    // One deadline for all of a request, however often a byte comes.
    for (unix, tcp) in silent.iter_mut().chain(&mut dripping) {
        for stream in [unix as &mut dyn Read, tcp] {
            let ended = matches!(stream.read(&mut [0; 100]), Ok(0) | Err(_));
            assert!(ended, "an answer to half a request");
        }
    }
    let took = start.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?}");
    is_answered_soon(&bed);
}

/// More clients than there is room for: those that came first go, and the router keeps its
/// descriptors.
#[test]
fn too_many_clients_make_room_for_the_next() {
    let mut bed = Bed::with("", "rate = \"10Mbit\"");
    let path = bed.path("control.sock");
    let pid = bed.router().id();
    let usual = descriptors(pid);
    let mut crowd = Vec::new();
    for _ in 0..600 {
        crowd.push(UnixStream::connect(&path).unwrap());
    }
    is_answered_soon(&bed);
    let held = descriptors(pid);
    let range = usual + 400..=usual + 512;
    assert!(range.contains(&held), "{usual}, {held}");
    assert_eq!(crowd[0].read(&mut [0]).unwrap(), 0, "the first had to go");
}

/// Without a descriptor for the next client, the oldest client is closed, and no thread spins.
#[test]
fn no_descriptor_left() {
    use rustix::process::{Pid, Resource, Rlimit, prlimit};
    let mut bed = Bed::with("", "rate = \"10Mbit\"");
    let path = bed.path("control.sock");
    let pid = bed.router().id();
    let open = descriptors(pid) as u64;
    let limit = Rlimit {
        current: Some(open + 8),
        maximum: Some(open + 8),
    };
    let id = Pid::from_raw(pid.try_into().unwrap());
    prlimit(id, Resource::Nofile, limit).unwrap();
    let connect = |_| UnixStream::connect(&path).unwrap();
    let mut crowd: Vec<_> = (0..30).map(connect).collect();
    is_answered_soon(&bed);
    assert_eq!(crowd[0].read(&mut [0]).unwrap(), 0, "the first had to go");
    let ticks = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let (_, fields) = stat.rsplit_once(')').unwrap();
        let fields: Vec<_> = fields.split_whitespace().collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    };
    // Until the last of the crowd has been sent away the router has nothing to do but wait.
    let last = crowd.last_mut().unwrap();
    last.set_read_timeout(Some(SOON)).unwrap();
    let before = ticks();
    assert!(last.read(&mut [0; 10]).is_err(), "it has time left");
    let used = ticks() - before;
    assert!(used < 20, "{used} ticks of 10 ms in a second");
    is_answered_soon(&bed);
}

/// `show --watch` and the lines that it prints.
fn watch(bed: &Bed, arguments: &[&str]) -> (ChildGuard, BufReader<ChildStdout>) {
    let mut command = crate::vcp_router();
    command.arg("show").args(arguments);
    command.arg("--socket").arg(bed.path("control.sock"));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = bed.middle.spawn(command, &[]).unwrap();
    let stdout = BufReader::new(child.child().stdout.take().unwrap());
    (child, stdout)
}

/// Exit code and stderr of a process that ends by itself.
fn ended(mut child: ChildGuard) -> (Option<i32>, String) {
    let stderr = io::read_to_string(child.child().stderr.take().unwrap()).unwrap();
    (child.wait().unwrap().code(), stderr)
}

#[test]
fn a_watch_goes_on_until_the_router_ends() {
    let mut bed = Bed::with("", "rate = \"10Mbit\"");
    let (child, stdout) = watch(&bed, &["--watch", "--json"]);
    let mut lines = stdout.lines().map(Result::unwrap);
    let mut uptime = || {
        let state: Value = serde_json::from_str(&lines.next().unwrap()).unwrap();
        state["uptime_s"].as_f64().unwrap()
    };
    let times = [uptime(), uptime(), uptime()];
    for pair in times.windows(2) {
        assert!(pair[1] - pair[0] > 0.9, "{times:?}");
    }
    bed.router().kill().unwrap();
    let (code, stderr) = ended(child);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("no router answers on "), "{stderr}");
}

/// Neither a reader that leaves nor Ctrl-C has to wait for the next time.
#[test]
fn a_watch_ends_without_a_reader_and_after_a_signal() {
    let bed = Bed::with("", "rate = \"10Mbit\"");
    let (child, stdout) = watch(&bed, &["--watch"]);
    let lines: Vec<_> = stdout.lines().map(Result::unwrap).take(30).collect();
    let blocks: Vec<_> = lines.split(|line| line.is_empty()).collect();
    assert!(blocks.len() > 1, "{lines:?}");
    assert!(blocks[0][0].starts_with("LINK ") && blocks[1][0] == blocks[0][0]);
    assert_eq!(ended(child), (Some(0), String::new()));

    let (child, mut stdout) = watch(&bed, &["--watch", "3600"]);
    stdout.read_line(&mut String::new()).unwrap();
    drop(stdout);
    assert_eq!(ended(child), (Some(0), String::new()));

    let (child, mut stdout) = watch(&bed, &["--watch=3600"]);
    stdout.read_line(&mut String::new()).unwrap();
    let id = Pid::from_raw(child.id().try_into().unwrap()).unwrap();
    kill_process(id, Signal::INT).unwrap();
    assert_eq!(ended(child), (Some(0), String::new()));
}
