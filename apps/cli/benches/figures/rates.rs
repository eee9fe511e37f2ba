//! How long files take, compared with scp, an rsync daemon and curl over TCP on the same path: on
//! loopback, and through routers on TUN interfaces of a test bed. Tools that are not installed are
//! skipped and listed. TCP uses the kernel's congestion controller and buffers (`sysctl
//! net.ipv4.tcp_congestion_control`). Tools other than pathmark run as root.

mod other;

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use other::others;
use pathmark_testbed::chain::{Chain, Hop, RECEIVER, RouterProgram, SENDER};
use pathmark_testbed::{ChildGuard, Node};
use serde_json::Value;
use tempfile::TempDir;

use crate::common::foreign::in_network;
use crate::common::pathmark;

/// A path between two hosts, or loopback.
enum Bed {
    Loopback,
    Chain(Chain),
}

/// Creates a row of routers with this rate, over which each half of the round trip is spread. The
/// last router loses packets.
fn chain(rate: &str, rtt_ms: u32, loss: f64, routers: u32, controller: &str) -> Bed {
    let delay = f64::from(rtt_ms) / 2.0 / f64::from(routers);
    let port = |controller: &str, loss: f64| {
        format!(
            "rate = \"{rate}\"\ndelay = \"{delay}ms\"\ncontroller = \"{controller}\"\n\
             queue = {{ kind = \"droptail\", limit = \"1bdp\", rtt = \"{rtt_ms}ms\" }}\n\
             loss = {{ kind = \"bernoulli\", per = {loss} }}\n"
        )
    };
    let hop = |index| Hop {
        forward: port(controller, if index + 1 == routers { loss } else { 0.0 }),
        reverse: port("none", 0.0),
    };
    let program = RouterProgram {
        program: env!("CARGO_BIN_EXE_pathmark").into(),
        prefix: vec!["vcp-router".to_owned()],
    };
    let hops: Vec<_> = (0..routers).map(hop).collect();
    Bed::Chain(Chain::new(program, 1500, &hops).unwrap())
}

/// A process on one of the hosts, which ends with this value.
enum Running {
    Here(Child),
    There(ChildGuard),
}

impl Running {
    fn child(&mut self) -> &mut Child {
        match self {
            Self::Here(child) => child,
            Self::There(guard) => guard.child(),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Self::Here(child) = self {
            // A server may have a process for each client. This only fails if all have ended.
            let _ = killpg(Pid::from_raw(child.id().cast_signed()), Signal::SIGKILL);
        }
        // Both calls only fail if the process has already ended.
        let _ = self.child().kill();
        let _ = self.child().wait();
    }
}

impl Bed {
    fn server(&self) -> IpAddr {
        match self {
            Self::Loopback => Ipv4Addr::LOCALHOST.into(),
            Self::Chain(_) => SENDER,
        }
    }

    /// Returns the sending host if `sends`, otherwise the receiving host.
    const fn node(&self, sends: bool) -> Option<&Node> {
        match (self, sends) {
            (Self::Loopback, _) => None,
            (Self::Chain(chain), true) => Some(&chain.sender),
            (Self::Chain(chain), false) => Some(&chain.receiver),
        }
    }

    /// Starts pathmark on the sending or receiving host.
    fn start(&self, sends: bool, command: Command) -> Running {
        match self.node(sends) {
            None => started(command),
            Some(node) => Running::There(node.spawn(command, &[]).unwrap()),
        }
    }

    /// Starts another program with this user's rights.
    fn start_other(&self, sends: bool, line: &str) -> Running {
        let mut command = in_network(self.node(sends));
        command
            .args(line.split(' '))
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        command.stderr(Stdio::null());
        started(command)
    }
}

/// Starts a command as the leader of its own process group.
fn started(mut command: Command) -> Running {
    Running::Here(command.process_group(0).spawn().unwrap())
}

/// Returns the total bytes of all files beneath a directory.
fn bytes_in(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).unwrap();
    let bytes = entries.filter_map(|entry| {
        let entry = entry.ok()?;
        let metadata = entry.metadata().ok()?;
        Some(if metadata.is_dir() {
            bytes_in(&entry.path())
        } else {
            metadata.size()
        })
    });
    bytes.sum()
}

/// Files to transfer, and their destination.
struct Files {
    outer: TempDir,
    bytes: u64,
}

impl Files {
    /// Creates `count` files of `bytes` bytes each, in the directory `d`.
    fn new(count: usize, bytes: usize) -> Self {
        let outer = TempDir::new().unwrap();
        fs::create_dir_all(outer.path().join("data/d")).unwrap();
        let words = (0..bytes as u64 / 8 + 1)
            .flat_map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
        let content: Vec<u8> = words.take(bytes).collect();
        for n in 0..count {
            fs::write(outer.path().join(format!("data/d/{n:05}")), &content).unwrap();
        }
        Self {
            bytes: (count * bytes) as u64,
            outer,
        }
    }

    fn path(&self, name: &str) -> String {
        self.outer.path().join(name).to_str().unwrap().to_owned()
    }
}

/// Waits for the end of a client, or until `most` is over. Returns how long the whole transfer
/// took, or how much has arrived by then.
fn measured(
    name: &str,
    mut client: Running,
    begun: Instant,
    most: Duration,
    files: &Files,
    to: &Path,
) {
    let ended = loop {
        if let Some(status) = client.child().try_wait().unwrap() {
            break Some(status);
        }
        if begun.elapsed() > most {
            // At SIGINT, pathmark reports its current limit.
            let pid = Pid::from_raw(client.child().id().cast_signed());
            kill(pid, Signal::SIGINT).unwrap();
            client.child().wait().unwrap();
            break None;
        }
        // The standard library can't wait for a child with a time limit.
        std::thread::sleep(Duration::from_millis(5));
    };
    let seconds = begun.elapsed().as_secs_f64();
    let bytes = bytes_in(to);
    let rate = bytes as f64 * 8e-6 / seconds;
    match ended {
        Some(status) if status.success() && bytes == files.bytes => {
            println!("{name:<24} {seconds:>7.2} s  {rate:>8.1} Mbit/s");
        }
        Some(status) => println!("{name:<24} {status}, {bytes} bytes after {seconds:.1} s"),
        None => println!("{name:<24} {bytes} bytes in {seconds:.1} s: {rate:.2} Mbit/s"),
    }
}

const PORT: u16 = 4433;

/// Transfers the files with pathmark: by `get`, or by `put` from the other host.
fn pathmark_moves(bed: &Bed, files: &Files, put: bool, law: &str, most: Duration) {
    let here = TempDir::new().unwrap();
    let (listen, data) = (format!("{}:{PORT}", bed.server()), files.path("data"));
    let listen = if put && matches!(bed, Bed::Chain(_)) {
        format!("{RECEIVER}:{PORT}")
    } else {
        listen
    };
    let to = here.path().join("to");
    fs::create_dir(&to).unwrap();
    let to_arg = to.to_str().unwrap();
    let offered = if put { to_arg } else { &data };
    let mut serve = pathmark(&["serve", "--dir", offered, "--listen", &listen, "--json"]);
    serve.args(["--allow-put", "--cc", law]);
    serve.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut server = bed.start(!put, serve);
    let mut line = String::new();
    let mut said = BufReader::new(server.child().stdout.take().unwrap());
    said.read_line(&mut line).unwrap();
    let said: Value = serde_json::from_str(&line).unwrap();
    let (source, target) = (files.path("data/d"), format!("{listen}/d"));
    let mut client = if put {
        pathmark(&["put", "-r", &source, &listen, "--cc", law])
    } else {
        pathmark(&["get", "-r", &target, "-o", to_arg, "--cc", law])
    };
    client.args(["--pin", said["pin"].as_str().unwrap(), "--json"]);
    client.stdout(Stdio::piped()).stderr(Stdio::null());
    let begun = Instant::now();
    let mut client = bed.start(put, client);
    let out = client.child().stdout.take().unwrap();
    let json = std::thread::spawn(move || serde_json::from_reader::<_, Value>(out));
    let name = format!("pathmark {} {law}", if put { "put" } else { "get" });
    measured(&name, client, begun, most, files, &to);
    if let Ok(mut said) = json.join().unwrap() {
        said["files"] = Value::Null;
        println!("    {said}");
    }
}

/// At this rate, the content alone takes 8 s.
pub(crate) fn ten_thousand_small_files_over_10_mbit_and_400_ms() {
    let files = Files::new(10_000, 1000);
    for (controller, law) in [
        ("vcp+bise", "vcp+bise+wlte"),
        ("none", "auto"),
        ("none", "cubic"),
    ] {
        println!("10 Mbit/s, 400 ms, 10,000 files of 1 kB, controller {controller}");
        let bed = || chain("10Mbit", 400, 0.0, 1, controller);
        pathmark_moves(&bed(), &files, false, law, Duration::from_secs(120));
        pathmark_moves(&bed(), &files, true, law, Duration::from_secs(120));
    }
    others(
        &chain("10Mbit", 400, 0.0, 1, "none"),
        &files,
        false,
        Duration::from_secs(120),
    );
}

fn megabytes(usual: usize) -> usize {
    std::env::var("PATHMARK_RATES_MB").map_or(usual, |text| text.parse().unwrap())
}

pub(crate) fn a_gigabyte_over_200_mbit_250_ms_and_two_routers() {
    let files = Files::new(1, megabytes(1000) * 1_000_000);
    let most = Duration::from_secs(120);
    for (controller, law) in [
        ("vcp+bise", "vcp+bise+wlte"),
        ("vcp+bise", "auto"),
        ("none", "auto[fallback=bbr]"),
    ] {
        println!("200 Mbit/s, 250 ms, 1 % lost, two routers, controller {controller}");
        let bed = chain("200Mbit", 250, 0.01, 2, controller);
        pathmark_moves(&bed, &files, false, law, most);
    }
}

/// Each transfer takes at most 40 s.
pub(crate) fn tcp_in_comparison_over_200_mbit_and_250_ms() {
    let files = Files::new(1, megabytes(400) * 1_000_000);
    let most = Duration::from_secs(40);
    for loss in [0.0, 0.001, 0.01] {
        println!("200 Mbit/s, 250 ms, {loss} lost, two routers");
        let bed = |controller| chain("200Mbit", 250, loss, 2, controller);
        pathmark_moves(&bed("vcp+bise"), &files, false, "vcp+bise+wlte", most);
        pathmark_moves(&bed("none"), &files, false, "auto[fallback=bbr]", most);
        others(&bed("none"), &files, true, most);
    }
}

pub(crate) fn two_gigabytes_on_loopback() {
    let files = Files::new(1, megabytes(2000) * 1_000_000);
    let most = Duration::from_secs(300);
    for _ in 0..3 {
        for put in [false, true] {
            pathmark_moves(&Bed::Loopback, &files, put, "auto", most);
        }
        others(&Bed::Loopback, &files, true, most);
    }
}
