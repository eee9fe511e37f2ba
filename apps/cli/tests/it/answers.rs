//! The errors that a client reports within 2 s about a server that it can't reach.

use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use pathmark_testbed::{ChildGuard, IpNet, Node, Testbed, undisturbed};
use tempfile::TempDir;

use crate::common::{Process, at_once, pathmark};

const SOON: Duration = Duration::from_secs(2);

#[expect(clippy::disallowed_methods, reason = "a user's time is measured")]
fn now() -> Instant {
    Instant::now()
}

/// Returns a command of each kind that connects, for this address.
fn commands(address: &str, here: &TempDir) -> Vec<Command> {
    let file = here.path().join("f");
    std::fs::write(&file, b"content").unwrap();
    let (out, file) = (here.path().to_str().unwrap(), file.to_str().unwrap());
    let get = ["get", &format!("{address}/f"), "-o", out];
    let perf = ["perf", "client", address, "--time", "1s"];
    let all = [&get[..], &["put", file, address], &["ls", address], &perf];
    let with_trust = all.map(|command| pathmark(&[command, &["--insecure"]].concat()));
    with_trust.into()
}

fn said(host: &Node, mut command: Command) -> (String, Duration) {
    let begun = now();
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut client = host.spawn(command, &[]).unwrap();
    let stderr = BufReader::new(client.child().stderr.take().unwrap());
    let lines: Vec<_> = stderr.lines().map(Result::unwrap).collect();
    assert_eq!(client.wait().unwrap().code(), Some(1), "{lines:?}");
    (lines.join("\n"), begun.elapsed())
}

fn run(host: &Node, program: &str, arguments: &str) {
    let mut command = Command::new(program);
    command.args(arguments.split(' '));
    let mut running: ChildGuard = host.spawn(command, &[]).unwrap();
    assert!(running.wait().unwrap().success(), "{program} {arguments}");
}

#[test]
fn closed_ports_hosts_out_of_reach_and_wrong_names_are_reported() {
    let bed = Testbed::new().unwrap();
    let router = bed.node("router").unwrap();
    router.forward().unwrap();
    // Each packet must get an ICMP message, although the commands run in quick succession. Linux
    // sends an address five about missing routes, then one a second, whatever the limit. So each
    // command runs on a host of its own.
    router.sysctl("net.ipv4.icmp_ratelimit", "0").unwrap();
    let at = |address: String| -> IpNet { address.parse().unwrap() };
    let hosts: Vec<Node> = (0..12)
        .map(|n| {
            let (host, port) = (bed.node(&format!("client{n}")).unwrap(), format!("eth{n}"));
            bed.veth((&host, "eth0"), (&router, &port), 1500).unwrap();
            host.add_address("eth0", at(format!("10.1.{n}.1/24")))
                .unwrap();
            router
                .add_address(&port, at(format!("10.1.{n}.2/24")))
                .unwrap();
            let gateway = format!("10.1.{n}.2").parse().ok();
            host.add_route(at("10.0.0.0/16".into()), "eth0", gateway)
                .unwrap();
            host
        })
        .collect();
    router
        .add_address("eth0", at("10.0.1.2/32".into()))
        .unwrap();
    for kind in ["unreachable 10.0.2.0/24", "prohibit 10.0.3.0/24"] {
        run(&router, "ip", &format!("route add {kind}"));
    }
    let here = TempDir::new().unwrap();
    undisturbed(|| {
        for (word, addresses) in [
            ("refuses", &["127.0.0.1:4433"][..]),
            ("refuses", &["10.0.1.2:4433"]),
            // There is no route to the last one.
            (
                "unreachable",
                &["10.0.2.1:4433", "10.0.3.1:4433", "192.0.2.1:4433"],
            ),
            // This host can't reach any name server.
            ("cannot find the host", &["none.invalid:4433"]),
        ] {
            let commands: Vec<_> = addresses
                .iter()
                .flat_map(|at| commands(at, &here))
                .collect();
            assert!(commands.len() <= hosts.len());
            at_once(hosts.iter().zip(commands), |(host, command)| {
                let (text, time) = said(host, command);
                println!("{time:?}: {text}");
                assert!(text.contains(word), "{addresses:?}: {text}");
                // A missing route may be temporary, so errors other than a closed port take longer.
                let most = SOON * if word == "unreachable" { 6 } else { 1 };
                assert!(time < most, "{addresses:?}: {time:?}");
            });
        }
    });
}

/// A host that drops packets looks like a path of 600 ms: the client reports that it is waiting,
/// and for how long.
#[test]
fn silence_is_reported_while_it_lasts() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let here = TempDir::new().unwrap();
    undisturbed(|| {
        let start = |mut command: Command| {
            let begun = now();
            command.args(["--connect-timeout", "2500ms"]);
            command.stdout(Stdio::null()).stderr(Stdio::piped());
            let mut client = Process(command.spawn().unwrap());
            let lines = BufReader::new(client.0.stderr.take().unwrap()).lines();
            (begun, client, lines)
        };
        let mut clients: Vec<_> = commands(&address, &here).into_iter().map(start).collect();
        for (begun, _, lines) in &mut clients {
            let first = lines.next().unwrap().unwrap();
            assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
            let no_answer = format!("no answer yet from {address}");
            let is_complete = first.contains(&no_answer) && first.contains("2.5s");
            assert!(is_complete, "{first}");
        }
        for (_, mut client, mut lines) in clients {
            let last = lines.next().unwrap().unwrap();
            assert!(last.contains("no answer within 2.5s"), "{last}");
            assert_eq!(client.0.wait().unwrap().code(), Some(1));
        }
    });
    let too_long = ["ls", &address, "--insecure", "--connect-timeout", "1m"];
    let output = pathmark(&too_long).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}
