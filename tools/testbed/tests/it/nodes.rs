//! Nodes, links and processes on the real kernel. If the machine forbids namespaces, these tests
//! fail and give the reason, because this is the only way to check that packets pass.

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pathmark_testbed::{Error, IpNet, Testbed};

fn prefix(text: &str) -> IpNet {
    text.parse().unwrap()
}

/// Copies packets between two TUN interfaces until `stop` is set, as the simplest possible router.
fn copy_between(a: OwnedFd, b: OwnedFd, stop: &Arc<AtomicBool>) -> std::thread::JoinHandle<u64> {
    let stop = Arc::clone(stop);
    std::thread::spawn(move || {
        let (mut a, mut b) = (File::from(a), File::from(b));
        let mut buffer = vec![0; 65_550];
        let mut copied = 0;
        while !stop.load(Ordering::Relaxed) {
            let mut idle = true;
            for forward in [true, false] {
                let (from, to) = if forward {
                    (&mut a, &mut b)
                } else {
                    (&mut b, &mut a)
                };
                match from.read(&mut buffer) {
                    Ok(n) => {
                        to.write_all(&buffer[..n]).unwrap();
                        copied += 1;
                        idle = false;
                    }
                    Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
                }
            }
            if idle {
                std::thread::yield_now();
            }
        }
        copied
    })
}

fn ping(from: &UdpSocket, to: &UdpSocket) {
    let limit = Some(Duration::from_secs(5));
    from.set_read_timeout(limit).unwrap();
    to.set_read_timeout(limit).unwrap();
    let mut buffer = [0; 16];
    from.send_to(b"over", to.local_addr().unwrap()).unwrap();
    let (n, peer) = to.recv_from(&mut buffer).unwrap();
    assert_eq!(&buffer[..n], b"over");
    to.send_to(b"back", peer).unwrap();
    let n = from.recv(&mut buffer).unwrap();
    assert_eq!(&buffer[..n], b"back");
}

#[test]
fn packets_pass_between_tun_interfaces_of_two_nodes() {
    let bed = Testbed::new().unwrap();
    let (sender, receiver) = (bed.node("sender").unwrap(), bed.node("receiver").unwrap());
    let left = sender.tun("tun0", 1500).unwrap();
    let right = receiver.tun("tun0", 1500).unwrap();
    for (node, v4, v6) in [
        (&sender, "10.0.1.1/32", "fd00:1::1/128"),
        (&receiver, "10.0.2.1/32", "fd00:2::1/128"),
    ] {
        node.add_address("tun0", prefix(v4)).unwrap();
        node.add_address("tun0", prefix(v6)).unwrap();
        node.add_route(prefix("0.0.0.0/0"), "tun0", None).unwrap();
        node.add_route(prefix("::/0"), "tun0", None).unwrap();
    }
    let stop = Arc::new(AtomicBool::new(false));
    let router = copy_between(left.fd, right.fd, &stop);
    for (a, b) in [
        ("10.0.1.1:0", "10.0.2.1:0"),
        ("[fd00:1::1]:0", "[fd00:2::1]:0"),
    ] {
        let a = sender.udp(a.parse().unwrap()).unwrap();
        let b = receiver.udp(b.parse().unwrap()).unwrap();
        ping(&a, &b);
    }
    stop.store(true, Ordering::Relaxed);
    assert!(router.join().unwrap() >= 4);
}

#[test]
fn a_veth_pair_and_a_forwarding_node_join_two_hosts() {
    let bed = Testbed::new().unwrap();
    let [a, wire, b] = ["a", "wire", "b"].map(|name| bed.node(name).unwrap());
    bed.veth((&a, "eth0"), (&wire, "left"), 1500).unwrap();
    bed.veth((&wire, "right"), (&b, "eth0"), 1500).unwrap();
    wire.forward().unwrap();
    a.add_address("eth0", prefix("10.0.1.1/24")).unwrap();
    wire.add_address("left", prefix("10.0.1.2/24")).unwrap();
    wire.add_address("right", prefix("10.0.2.2/24")).unwrap();
    b.add_address("eth0", prefix("10.0.2.1/24")).unwrap();
    let everywhere = prefix("0.0.0.0/0");
    a.add_route(everywhere, "eth0", Some("10.0.1.2".parse().unwrap()))
        .unwrap();
    b.add_route(everywhere, "eth0", Some("10.0.2.2".parse().unwrap()))
        .unwrap();
    let here = a.udp("10.0.1.1:0".parse().unwrap()).unwrap();
    let there = b.udp("10.0.2.1:0".parse().unwrap()).unwrap();
    ping(&here, &there);
}

#[test]
fn a_tcp_listener_on_a_node_is_reached_from_the_node_only() {
    let bed = Testbed::new().unwrap();
    let node = bed.node("host").unwrap();
    let listener = node.tcp_listener("127.0.0.1:0".parse().unwrap()).unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    let outside = TcpStream::connect_timeout(&address, Duration::from_secs(1));
    assert!(outside.is_err(), "the namespace's loopback is not ours");
}

#[test]
fn mistakes_are_named() {
    let bed = Testbed::new().unwrap();
    let node = bed.node("host").unwrap();
    let error = node.set_up("nothing0").unwrap_err();
    assert!(error.to_string().contains("nothing0"), "{error}");
    assert!(error.to_string().contains("`host`"), "{error}");
    assert!(!error.is_forbidden());
    for name in ["", "a/b", "sixteen-letters!", "with blank"] {
        assert!(matches!(node.tun(name, 1500), Err(Error::InterfaceName(_))));
    }
    assert!("10.0.0.1/33".parse::<IpNet>().is_err());
    assert!("10.0.0".parse::<IpNet>().is_err());
}

/// Only runs as a child of the test below: starts a program on a node, prints its ID and waits to
/// be killed.
#[test]
fn role_of_a_process_that_crashes() {
    if std::env::var_os("TESTBED_CRASH").is_none() {
        return;
    }
    let bed = Testbed::new().unwrap();
    let node = bed.node("host").unwrap();
    let mut command = Command::new("cat");
    // The input of `cat` stays open while this process lives. Without a death signal, `cat` only
    // outlives it if another process holds the pipe, as the test does.
    command.stdin(Stdio::inherit()).stdout(Stdio::null());
    let child = node.spawn(command, &[]).unwrap();
    println!("child {}", child.id());
    std::io::stdout().flush().unwrap();
    loop {
        std::thread::park();
    }
}

#[test]
fn a_crash_leaves_no_process_behind() {
    let mut crashing = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "nodes::role_of_a_process_that_crashes",
            "--nocapture",
            "--test-threads=1",
        ])
        .env("TESTBED_CRASH", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // Held until the end, so that only the parent's death can end the program.
    let _input = crashing.stdin.take();
    let id = BufReader::new(crashing.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok)
        .find_map(|line| line.split_once("child ").map(|(_, id)| id.to_owned()))
        .unwrap();
    let status = format!("/proc/{id}/stat");
    assert!(std::fs::exists(&status).unwrap());
    crashing.kill().unwrap();
    crashing.wait().unwrap();
    // The kernel delivers the signal when the parent is gone; init reaps the zombie at some later
    // time.
    let ended = || std::fs::read_to_string(&status).map_or(true, |text| text.contains(") Z"));
    let mut patience = 2_000_000;
    while !ended() && patience > 0 {
        patience -= 1;
        std::thread::yield_now();
    }
    assert!(ended(), "process {id} outlived its test bed");
}
