//! `vcp-router setup`, `run` without capabilities, `teardown`, between two network cards, rootless.

use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

use crate::cards::{Cards, Host, goodput, shell};

#[test]
fn a_closed_port_is_never_passed_by() {
    for v6 in [false, true] {
        let mut cards = Cards::new();
        // A short queue, so that TCP's retransmission timer is its least of 200 ms.
        let shape = "rate = \"10Mbit\"\nqueue = { limit = \"20p\" }";
        cards.configure("on_stop = \"closed\"", shape);
        let udp = cards.udp(v6);
        // Without steering, packets take the kernel's way.
        udp.until_past();
        cards.setup();
        cards.start();
        let mut past = 0;
        udp.until_it_passes();
        let (mut a, mut b) = cards.tcp(v6);
        a.set_nonblocking(true).unwrap();
        b.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let mut buffer = vec![0; 1 << 20];
        let mut receive = |for_: Duration| {
            let end = Instant::now() + for_;
            let mut got = 0;
            while Instant::now() < end {
                udp.probe();
                past += udp.count().1;
                // As much as there is room for.
                let _ = a.write(&[7; 10_000]);
                got += b.read(&mut buffer).unwrap_or(0);
            }
            got
        };
        assert!(receive(Duration::from_millis(300)) > 100_000);
        // As a service manager would do it.
        cards.kill();
        cards.start();
        let within = receive(Duration::from_secs(1));
        let case = "bytes in the second after the restart, IPv6";
        assert!(within > 100_000, "{within} {case}: {v6}");
        // While no router holds the interfaces.
        cards.kill();
        receive(Duration::from_millis(100));
        let dead = receive(Duration::from_millis(200));
        assert_eq!(dead, 0, "something passes by a dead router");
        assert_eq!(past, 0);
        cards.start();
        udp.until_it_passes();
        cards.kill();
        // Also without the interface, as after `ip link delete`.
        cards.does("ip link delete vcp-lan");
        udp.probe();
        assert_eq!(udp.next(Duration::from_millis(50)), None);
    }
}

#[test]
fn an_open_port_lets_packets_by_while_no_router_runs() {
    for v6 in [false, true] {
        let mut cards = Cards::with("on_stop = \"open\"", "rate = \"10Mbit\"");
        cards.setup();
        let udp = cards.udp(v6);
        // The kernel notices within a second that no process holds the interface.
        udp.until_past();
        cards.start();
        udp.until_not_past();
        udp.until_it_passes();
        cards.kill();
        udp.until_past();
        cards.start();
        udp.until_not_past();
        udp.until_it_passes();
    }
}

/// Two network cards, hosts with kernels of their own on both sides: everything passes both ways,
/// at the ports' rates.
#[test]
fn between_two_cards_every_packet_takes_the_router() {
    let mut cards = Cards::new();
    let down = "rate = \"30Mbit\"\nqueue = { limit = \"64p\" }";
    let up = "rate = \"15Mbit\"\nqueue = { limit = \"64p\" }";
    cards.configure("", up);
    let lan = "addresses = [\"192.0.2.1\"";
    cards.write(&cards.text().replace(lan, &format!("{down}\n{lan}")));
    cards.setup();
    cards.start();
    for v6 in [false, true] {
        let host = |host: Host| -> IpAddr { host[usize::from(v6)].parse().unwrap() };
        cards.udp(v6).until_it_passes();
        let before = cards.link("wan")["arrived_packets"].as_u64().unwrap();
        for (from, to) in [(&cards.lan, cards.hosts.wan), (&cards.wan, cards.hosts.lan)] {
            Cards::ping(from, host(to));
        }
        let after = cards.link("wan")["arrived_packets"].as_u64().unwrap();
        assert!(after >= before + 2, "pings pass by: {before}, {after}");
        // The router itself answers, from both sides and from the box.
        let router: IpAddr = ["192.0.2.1", "fd00:9::1"][usize::from(v6)].parse().unwrap();
        for from in [&cards.lan, &cards.wan, &cards.kernel] {
            Cards::ping(from, router);
        }
        let time = Duration::from_secs(1);
        let (a, b) = cards.tcp(v6);
        let up = goodput(a, b, time);
        let (a, b) = cards.tcp(v6);
        let down = goodput(b, a, time);
        // 1448 of 1500 bytes are data, over IPv6 1428; what is lost and sent again is not.
        assert!((11e6..14.6e6).contains(&up), "up {up}, IPv6: {v6}");
        assert!((22e6..29.2e6).contains(&down), "down {down}, IPv6: {v6}");
        let udp = cards.udp(v6);
        udp.probe();
        udp.until_it_passes();
        assert_eq!(udp.count().1, 0);
    }
    assert_eq!(cards.show()["counters"]["no_route"], 0);
}

const UNIT: &str = include_str!("../../packaging/vcp-router.service");

/// Runs what the unit runs before the program, as root, with this bed's configuration.
fn before_start(cards: &Cards) {
    let lines = UNIT.lines().filter_map(|line| {
        let command = line.strip_prefix("ExecStartPre=+/usr/bin/vcp-router ")?;
        Some(command.split_once(" --config ").unwrap().0)
    });
    let commands: Vec<_> = lines.collect();
    assert_eq!(commands, ["setup"]);
    for command in commands {
        cards.tool(command, &[]).ended(0, &[]);
    }
}

/// An interface that is deleted while the router runs ends it, for it may make none. What the unit
/// runs before the next start makes it again, with its routes, and everything passes.
#[test]
fn a_deleted_interface_is_made_again_before_the_next_start() {
    let mut cards = Cards::started("", "rate = \"10Mbit\"");
    let udp = cards.udp(false);
    udp.until_it_passes();
    cards.does("ip link delete vcp-wan");
    let start = Instant::now();
    let status = cards.router().wait().unwrap();
    assert_eq!(status.code(), Some(1));
    assert!(start.elapsed() < Duration::from_secs(5));
    let log = io::read_to_string(cards.router().child().stderr.as_mut().unwrap()).unwrap();
    let last = log.lines().last().unwrap();
    assert!(last.contains("port wan: its interface is gone"), "{log}");
    assert!(cards.try_start().is_err(), "the interface does not exist");
    before_start(&cards);
    cards.start();
    udp.until_it_passes();
    udp.until_not_past();
}

/// While packets pass, the interface gets another MTU, goes down and up, is requested for another
/// user, and is deleted and made again. The router goes on and reports each state, and packets pass
/// again once the interface is as before.
#[test]
fn an_interface_that_changes_under_load_harms_nothing() {
    let cards = Cards::started("", "rate = \"50Mbit\"");
    let (from, mut to) = cards.tcp(false);
    let (mut sender, stop) = (from.try_clone().unwrap(), from);
    let load = std::thread::spawn(move || while sender.write_all(&[7; 16_384]).is_ok() {});
    to.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut buffer = vec![0; 1 << 18];
    let mut flows = |bytes: usize| {
        let mut got = 0;
        while got < bytes {
            got += to.read(&mut buffer).unwrap();
        }
    };
    flows(1 << 20);
    for mtu in [1300, 1500] {
        for port in ["vcp-wan", "vcp-lan"] {
            cards.does(&format!("ip link set dev {port} mtu {mtu}"));
        }
        assert_eq!(cards.link("wan")["interface_mtu"], mtu);
        flows(1 << 20);
    }
    let taken = "ip tuntap add dev vcp-wan mode tun user 0 vnet_hdr";
    let said = shell(&cards.kernel, taken);
    assert!(said.err.contains("busy"), "{said:?}");
    flows(1 << 20);
    cards.does("ip link set dev vcp-wan down");
    assert_eq!(cards.link("wan")["interface_state"], "down");
    // Its routes went with it, as the kernel does; set-up brings both back.
    cards.setup();
    assert_eq!(cards.link("wan")["interface_state"], "up");
    flows(1 << 20);
    for _ in 0..3 {
        // The router waits 1 s for the interface; the other steps of set-up may take longer.
        cards.does(
            "ip link delete vcp-wan; ip tuntap add dev vcp-wan mode tun user root vnet_hdr; \
             ip link set dev vcp-wan up",
        );
        cards.setup();
        flows(1 << 20);
        assert_eq!(cards.link("wan")["interface_state"], "up");
    }
    let udp = cards.udp(false);
    udp.until_it_passes();
    udp.until_not_past();
    stop.shutdown(std::net::Shutdown::Both).unwrap();
    load.join().unwrap();
}

/// sd_notify(3): readiness, signs of life, reloads and their result, the end.
#[test]
fn a_service_manager_is_notified() {
    let mut cards = Cards::with("", "rate = \"10Mbit\"");
    cards.setup();
    let path = cards.path("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    let patience = Duration::from_secs(10);
    manager.set_read_timeout(Some(patience)).unwrap();
    let text = || {
        let mut buffer = [0; 2000];
        let len = manager.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..len].to_vec()).unwrap()
    };
    cards.environment = vec![
        ("NOTIFY_SOCKET", path.display().to_string()),
        ("WATCHDOG_USEC", "200000".to_owned()),
    ];
    cards.start();
    assert_eq!(text(), "READY=1\nSTATUS=2 ports, 4 routes");
    // Ready means that it answers.
    assert_eq!(cards.link("wan")["rate_bps"].as_f64(), Some(1e7));
    let start = Instant::now();
    let mut gaps = Vec::new();
    let mut last = None;
    while start.elapsed() < Duration::from_secs(1) {
        assert_eq!(text(), "WATCHDOG=1");
        let now = Instant::now();
        gaps.extend(last.replace(now).map(|last| now - last));
    }
    // Twice in the time that the watchdog allows.
    gaps.sort();
    let usual = gaps[gaps.len() / 2];
    let expected = Duration::from_millis(80)..Duration::from_millis(200);
    assert!(expected.contains(&usual), "{gaps:?}");

    let next = || loop {
        let text = text();
        if text != "WATCHDOG=1" {
            break text;
        }
    };
    let begun = |text: String| {
        let micros = text.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap();
        assert!(micros.parse::<u64>().unwrap() > 0);
    };
    cards.router().hang_up().unwrap();
    begun(next());
    assert_eq!(next(), "READY=1\nSTATUS=reloaded, generation 2");
    cards.write("id = 0\n");
    cards.router().hang_up().unwrap();
    begun(next());
    let failed = next();
    let start = "READY=1\nSTATUS=not reloaded, still running as before: /";
    assert!(failed.starts_with(start), "{failed}");
    cards.router().terminate().unwrap();
    assert_eq!(next(), "STOPPING=1\nSTATUS=stopping");
    assert!(cards.router().wait().unwrap().success());
}

/// The packaged configuration, but for places and names that only a host has.
#[test]
fn the_example_runs_as_it_is() {
    let mut cards = Cards::new();
    let text = include_str!("../../packaging/vcp-router.toml");
    let control = cards.control();
    let here = text
        .replace("/run/vcp-router/control.sock", control.to_str().unwrap())
        .replace("user = \"vcp-router\"", "user = \"root\"");
    assert_ne!(here, text);
    cards.write(&here);
    assert!(cards.setup().contains("ip tuntap add dev vcp0 "));
    cards.start();
    assert_eq!(cards.link("wan")["rate_bps"].as_f64(), Some(1e7));
    // Its own address is answered.
    Cards::ping(&cards.kernel, "198.51.100.1".parse().unwrap());
    cards.reload();
    cards.router().terminate().unwrap();
    assert!(cards.router().wait().unwrap().success());
    cards.tool("teardown", &[]);
    let left = shell(&cards.kernel, "ip link; ip route show table all proto 118");
    assert!(!left.out.contains("vcp"), "{left:?}");
}

/// What senders see of the box: its kernel forwards before and behind the router, and still no hop
/// shows that does not take part.
#[test]
fn the_box_is_no_hop_that_does_not_take_part() {
    let cards = Cards::started("", "rate = \"10Mbit\"\ncontroller = \"vcp\"");
    let frames = socket2::Socket::from(cards.wan.frames("eth0").unwrap());
    let again = Some(Duration::from_millis(50));
    frames.set_read_timeout(again).unwrap();
    let vcp = vcp_proto::Repr::initial(&pathmark_cc::Request::default(), true).emit();
    let mut xcp = vec![0x55; 100];
    let request = pathmark_cc::XcpRequest {
        rtt_us: 40_000,
        x: 1 << 31,
        delta: 3000 << 16,
        covers: 1,
        window: 28_000,
        packet: 1400,
    };
    xcp_proto::Repr::initial(xcp_proto::Form::V4, Some(&request), 64).emit(&mut xcp);
    for v6 in [false, true] {
        let udp = cards.udp(v6);
        udp.until_it_passes();
        // TTL or hop limit, and the shim.
        let arrives = |payload: &[u8]| -> (u8, Vec<u8>) {
            let start = Instant::now();
            let mut buffer = [0; 2048];
            loop {
                udp.send_all(payload);
                let Ok(len) = (&frames).read(&mut buffer) else {
                    assert!(start.elapsed() < Duration::from_secs(10), "nothing passes");
                    continue;
                };
                let (headers, ttl) = if v6 { (48, 7) } else { (28, 8) };
                let packet = buffer[..len].get(14..).unwrap_or_default();
                if packet.len() == headers + payload.len() && packet[headers] == payload[0] {
                    return (packet[ttl], packet[headers..].to_vec());
                }
            }
        };
        let (ttl, shim) = arrives(&vcp);
        assert_eq!(ttl, 61, "the box takes three");
        assert_eq!(vcp_proto::Packet::parse(&shim).unwrap().hops(), 64 - ttl);
        let (ttl, shim) = arrives(&xcp);
        let shim = xcp_proto::Packet::parse(&shim).unwrap();
        assert!(shim.stamped());
        assert_eq!(shim.xcp_ttl(), ttl);
    }
}
