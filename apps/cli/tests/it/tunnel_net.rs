//! `pathmark proxy` and `pathmark tunnel` as processes in namespaces whose network changes.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use pathmark_testbed::Testbed;
use pathmark_testbed::subnet::{OUTSIDE, OUTSIDE_TOO};

use crate::common::at_once;
use crate::common::gateway;
use crate::common::gateway::{Bed, PROXIES, TARGETS, echoes, echoes_in_the_end, ip};
use crate::common::pathmark;
use crate::support::marked::Marked;

/// The tunnel is transparent to applications: one socket can have two targets, and answers have the
/// source that the application expects. A service of the gateway at the same port of all addresses,
/// such as a resolver, doesn't interfere.
#[test]
fn datagrams_of_the_gateway_and_of_a_subnet_take_the_tunnel() {
    let bed = Bed::new();
    let _resolver = bed.net.gateway.udp(SocketAddr::new(ip("::"), 53)).unwrap();
    let _proxy = bed.proxy(PROXIES[0], None);
    let tunnel = bed.tunnel(&["--tproxy", "12345"]);
    for target in TARGETS {
        bed.echo(SocketAddr::new(ip(target), 53));
    }
    bed.rules();
    for (node, addresses) in [
        (&bed.net.inside, ["192.168.7.2", "fd00:7::2"]),
        (&bed.net.gateway, ["203.0.113.1", "2001:db8:2::1"]),
    ] {
        for (at, targets) in [(0, &TARGETS[..2]), (1, &TARGETS[2..])] {
            let [first, second] = [(); 2].map(|()| bed.client(node, addresses[at]));
            for round in 0..3_u8 {
                for (client, name) in [(&first, b'a'), (&second, b'b')] {
                    for (number, target) in (0..).zip(targets) {
                        let to = SocketAddr::new(ip(target), 53);
                        client.send_to(&[name, number, round], to).unwrap();
                        let mut got = [0; 10];
                        let (length, from) = client.recv_from(&mut got).unwrap();
                        assert_eq!((length, from), (3, to), "{target}");
                        assert_eq!(got[..3], [name, number, round], "{target}");
                    }
                }
            }
        }
    }
    // Nothing has left the gateway directly, because the targets have only seen the proxy.
    let gateway = &bed.net.gateway;
    let passed = gateway
        .script("nft list table inet pathmark_tunnel")
        .unwrap();
    assert!(passed.contains("meta l4proto udp tproxy ip6"), "{passed}");
    drop(tunnel);
    let client = bed.client(&bed.net.inside, "192.168.7.2");
    let limit = Some(Duration::from_millis(500));
    client.set_read_timeout(limit).unwrap();
    let to = SocketAddr::new(ip(TARGETS[0]), 53);
    client.send_to(b"direct", to).unwrap();
    assert!(client.recv(&mut [0; 10]).is_err());
    let list = "nft list chain inet pathmark_tunnel prerouting";
    let dropped = gateway.script(list).unwrap();
    assert!(!dropped.contains("counter packets 0 "), "{dropped}");
}

/// Packets of 1,280 bytes, which every IPv6 path carries (RFC 8200 section 5), fit a path of 1,500
/// bytes. Once its MTU is known, none is sent as a capsule.
#[test]
fn ipv6_packets_of_1280_bytes_pass_a_path_of_1500() {
    let bed = Bed::new();
    let _proxy = bed.proxy(PROXIES[0], None);
    let _tunnel = bed.tunnel(&["--tproxy", "12345"]);
    let to = SocketAddr::new(ip(TARGETS[2]), 53);
    bed.echo(to);
    bed.rules();
    let client = bed.client(&bed.net.inside, "fd00:7::2");
    // Minus the headers of IPv6 and UDP.
    let packet = [7; 1280 - 48];
    let mut got = [0; 2000];
    let whole = (0..100).any(|_| {
        let before = bed.counted("capsules_down");
        for _ in 0..3 {
            client.send_to(&packet, to).unwrap();
            assert_eq!(client.recv_from(&mut got).unwrap(), (packet.len(), to));
        }
        bed.counted("capsules_down") == before
    });
    assert!(whole, "each packet went as a capsule");
}

/// Not-ECT, ECT(1), ECT(0), CE.
const FIELDS: [u8; 4] = [0, 1, 2, 3];

/// The same after a mark of the path.
const MARKED: [u8; 4] = [0, 3, 3, 3];

/// Sends a datagram with each ECN field, and checks that they arrive with the expected fields.
#[track_caller]
fn pass(from: &Marked, to: &Marked, at: SocketAddr, expected: [u8; 4]) -> SocketAddr {
    let mut source = at;
    for (sent, expected) in FIELDS.into_iter().zip(expected) {
        from.send(&[sent], at, sent);
        let (payload, address, ecn) = to.receive();
        assert_eq!((payload, ecn), (vec![sent], expected));
        source = address;
    }
    source
}

/// A router between the tunnel and its proxy sets CE on all packets with ECT. A datagram with ECT
/// leaves the tunnel with CE, and one without ECT is unchanged (RFC 6040 section 4.2).
#[test]
fn marks_of_the_path_pass_inside_both_ways() {
    let bed = Bed::new();
    let _proxy = bed.proxy(PROXIES[0], None);
    let to = SocketAddr::new(ip(TARGETS[0]), 53);
    let socket = bed.net.outside.udp(to).unwrap();
    socket.set_read_timeout(Some(gateway::WAIT)).unwrap();
    let target = Marked::new(socket);
    let tunnel = bed.tunnel(&["-L", &format!("0:{to}/udp")]);
    let client = Marked::new(bed.client(&bed.net.gateway, "127.0.0.1"));
    let forward = tunnel.listener("udp forward");
    let back = pass(&client, &target, forward, FIELDS);
    pass(&target, &client, back, FIELDS);
    let marking = |ports: &str| {
        let script = format!(
            "nft -f - <<'END'
            add table ip router
            delete table ip router
            table ip router {{
                chain passing {{
                    type filter hook postrouting priority 0;
                    udp {ports} ip ecn != not-ect ip ecn set ce
                }}
            }}
END"
        );
        bed.net.gateway.script(&script).unwrap();
        bed.net.outside.script(&script).unwrap();
    };
    marking("dport 4433");
    pass(&client, &target, forward, MARKED);
    assert_eq!(bed.counted("marks_refused"), 1);
    pass(&target, &client, back, FIELDS);
    marking("sport 4433");
    pass(&target, &client, back, MARKED);
    pass(&client, &target, forward, FIELDS);
    assert_eq!(bed.counted("marks_refused"), 1);
}

/// The proxy is killed and restarts, then its name leads to another address.
#[test]
fn a_proxy_that_restarts_and_moves_is_found_again() {
    let bed = Bed::new();
    let name = Some("proxy.test");
    let hosts = |address: &str| {
        std::fs::write(bed.path("hosts"), format!("{address} proxy.test\n")).unwrap();
    };
    let to = SocketAddr::new(ip(TARGETS[0]), 7);
    bed.echo(to);
    bed.echo_tcp(to);
    hosts(PROXIES[0]);
    let mut proxy = bed.proxy(PROXIES[0], name);
    let forwards = ["-L", &format!("0:{to}"), "-L", &format!("0:{to}/udp")];
    let tunnel = bed.tunnel(&forwards);
    let (tcp, udp) = (tunnel.listener("forward"), tunnel.listener("udp forward"));
    let client = bed.client(&bed.net.gateway, "127.0.0.1");
    let mut first = bed.connect(tcp);
    echoes(&mut first, b"first");
    echoes_in_the_end(&client, udp, b"first");

    proxy.guard.kill().unwrap();
    drop(proxy);
    let proxy = bed.proxy(PROXIES[0], name);
    tunnel.logged("connection lost");
    tunnel.logged("connected");
    // A TCP flow ends with its connection, because a proxy can't continue another proxy's flow.
    assert!(!matches!(first.read(&mut [0]), Ok(1)));
    echoes(&mut bed.connect(tcp), b"second");
    echoes_in_the_end(&client, udp, b"second");

    proxy.guard.terminate().unwrap();
    tunnel.logged("connection lost");
    hosts(PROXIES[1]);
    drop(proxy);
    let _proxy = bed.proxy(PROXIES[1], name);
    tunnel.logged("the name has other addresses");
    tunnel.logged("connected");
    echoes(&mut bed.connect(tcp), b"third");
    echoes_in_the_end(&client, udp, b"third");
}

/// The proxy's host has two addresses in one network. The kernel sends to the second address from
/// the first.
#[test]
fn the_proxy_reaches_no_address_of_its_own_host() {
    let bed = Bed::new();
    let proxy = bed.proxy(PROXIES[0], None);
    let addresses = [OUTSIDE, OUTSIDE_TOO].concat();
    let targets = addresses.iter().map(|ip| SocketAddr::new(*ip, 7));
    let targets: Vec<_> = targets.collect();
    let forwards: Vec<_> = targets.iter().map(|to| format!("0:{to}")).collect();
    let forwards: Vec<_> = forwards.iter().flat_map(|to| ["-L", to]).collect();
    let tunnel = bed.tunnel(&forwards);
    for to in &targets {
        bed.echo_tcp(*to);
        let listener = tunnel.listener_with("target", &to.to_string());
        let mut stream = bed.connect(listener);
        let error = stream.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{to}");
    }
    assert_eq!(bed.counted("denied"), 4);
    drop(proxy);
}

#[test]
fn a_token_that_the_proxy_does_not_know_is_logged() {
    let bed = Bed::new();
    let _proxy = bed.proxy(PROXIES[0], None);
    let uri = std::fs::read_to_string(bed.path("uri")).unwrap();
    let (_, rest) = uri.split_once('@').unwrap();
    let other = format!("pathmark://fedcba9876543210@{rest}");
    std::fs::write(bed.path("uri"), other).unwrap();
    let tunnel = bed.tunnel(&["-L", &format!("0:{}:7", TARGETS[0])]);
    // Before the first flow.
    tunnel.logged("the proxy knows neither the token nor the certificate: ask its operator");
    assert_eq!(bed.counted("unauthorized"), 1);
    let mut stream = bed.connect(tunnel.listener("forward"));
    assert!(stream.read(&mut [0]).is_err());
    tunnel.logged("the proxy knows neither the token nor the certificate");
    assert_eq!(bed.counted("unauthorized"), 2);
}

/// A silent proxy is noticed long before the connection is lost. Its flows continue if it answers
/// again; in the meantime, new flows are refused.
#[test]
fn a_proxy_that_is_silent_is_noticed_and_flows_go_on_after_it() {
    let bed = Bed::new();
    let (proxy, tunnel, forward) = bed.echoing();
    let mut flow = bed.connect(forward);
    echoes(&mut flow, b"before");
    proxy.guard.halt().unwrap();
    flow.write_all(b"during").unwrap();
    let mut waiting = bed.connect(forward);
    let says = "no answer; a new connection is tried";
    tunnel.logged_within(says, Duration::from_secs(12));
    assert!(!matches!(waiting.read(&mut [0]), Ok(1)));
    proxy.guard.go_on().unwrap();
    let mut got = [0; 6];
    flow.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"during");
    echoes(&mut flow, b"after");
    echoes(&mut bed.connect(forward), b"another");
}

/// Packets in one direction are lost. Packets that still arrive in the other direction don't count
/// as an answer.
#[test]
fn an_outage_of_one_direction_is_noticed_and_new_flows_fail_at_once() {
    at_once([("output", "dport"), ("input", "sport")], |(hook, port)| {
        let bed = Bed::new();
        let (_proxy, tunnel, forward) = bed.echoing();
        let mut flow = bed.connect(forward);
        echoes(&mut flow, b"before");
        let outage = format!(
            "nft add table ip outage; \
             nft 'add chain ip outage {hook} {{ type filter hook {hook} priority 0; }}'; \
             nft add rule ip outage {hook} udp {port} 4433 drop"
        );
        bed.net.gateway.script(&outage).unwrap();
        flow.write_all(b"during").unwrap();
        let says = "no answer; a new connection is tried";
        tunnel.logged_within(says, Duration::from_secs(8));
        let mut refused = bed.connect(forward);
        let limit = Some(Duration::from_secs(2));
        refused.set_read_timeout(limit).unwrap();
        let error = refused.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{hook}");
        let end = "nft delete table ip outage";
        bed.net.gateway.script(end).unwrap();
        let mut got = [0; 6];
        flow.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"during");
        // Either the same connection continues, or there is a new one.
        loop {
            let mut flow = bed.connect(forward);
            if flow.write_all(b"x").is_ok() && matches!(flow.read(&mut [0]), Ok(1)) {
                break;
            }
        }
    });
}

#[test]
fn flows_go_on_when_the_clients_address_changes() {
    let bed = Bed::new();
    let (_proxy, tunnel, forward) = bed.echoing();
    let mut flow = bed.connect(forward);
    echoes(&mut flow, b"before");
    for address in ["203.0.113.77", "203.0.113.78"] {
        let script = format!(
            "ip addr flush dev c scope global; ip addr add {address}/24 dev c; \
             ip route add default via 203.0.113.2"
        );
        bed.net.gateway.script(&script).unwrap();
        echoes(&mut flow, b"after");
        tunnel.logged("the connection goes on");
    }
}

#[test]
fn rules_are_printed_applied_and_undone() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("uri").display().to_string();
    std::fs::write(&file, "pathmark://0123456789abcdef@192.0.2.1:4433").unwrap();
    let rules = ["tunnel", "rules", "--uri-file", &file, "--tproxy", "12345"];
    let dry = [&rules[..], &["--dry-run", "--bypass", "198.51.100.0/24"]].concat();
    let printed = pathmark(&dry).output().unwrap();
    let printed = String::from_utf8(printed.stdout).unwrap();
    for part in [
        "tproxy ip6 to [::1]:12345",
        "198.51.100.0/24",
        "ip -4 rule add",
        "drop",
    ] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    // This node has no interface whose routes change in the meantime.
    let gateway = Testbed::new().unwrap().node("gateway").unwrap();
    let run = |command| {
        let mut process = gateway.spawn(command, &[]).unwrap();
        process.wait().unwrap().code()
    };
    let shell = |script| gateway.script(script).unwrap();
    let state = "nft list ruleset; ip rule; ip -6 rule; ip route show table all; \
                 ip -6 route show table all";
    let before = shell(state);
    assert_eq!(run(pathmark(&rules)), Some(0));
    let applied = shell(state);
    let rule = "tproxy ip to 127.0.0.1:12345";
    assert!(applied.contains(rule), "{applied}");
    assert_eq!(run(pathmark(&rules)), Some(0));
    assert_eq!(shell(state), applied);
    // While no tunnel runs, packets don't leave, not even those of sockets bound to an interface.
    let link = "ip tuntap add out mode tun; ip addr add 192.0.2.9/24 dev out; ip link set out up; \
                ip route add default dev out";
    shell(link);
    for bound in [None, Some(&b"out"[..])] {
        let socket = gateway.socket(libc::AF_INET, libc::SOCK_DGRAM, 0).unwrap();
        let socket = socket2::Socket::from(socket);
        socket.bind_device(bound).unwrap();
        let to: SocketAddr = "203.0.113.1:9".parse().unwrap();
        // The kernel may report that it has dropped the datagram.
        let _ = socket.send_to(b"leak", &to.into());
    }
    let dropped = shell("nft list chain inet pathmark_tunnel postrouting");
    assert!(dropped.contains("counter packets 1 "), "{dropped}");
    shell("ip route del default; ip link del out");
    assert_eq!(run(pathmark(&["tunnel", "rules", "--undo"])), Some(0));
    assert_eq!(shell(state), before);
}
