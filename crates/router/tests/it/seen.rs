//! Nothing fails silently: what is lost, gone or refused is to be seen.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::bed::{Bed, bytes, transfer, until};

/// Packets that the interface's own queue has no room for are counted, though the router never
/// reads them.
#[test]
fn what_the_interface_drops_is_counted() {
    let mut bed = Bed::with("", "");
    let drops = |bed: &Bed| bed.link("left")["interface_drops"].as_u64().unwrap();
    let link = bed.link("left");
    assert_eq!(link["interface_state"], "up", "{link}");
    assert_eq!(link["interface_mtu"], 1500);
    let before = drops(&bed);
    let (a, _b) = bed.udp(false);
    let pid = Pid::from_raw(bed.router().id().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    for _ in 0..2_000 {
        let _ = a.send(b"x");
    }
    kill_process(pid, Signal::CONT).unwrap();
    let lost = drops(&bed) - before;
    // What still waits in the interface's queue is read within moments.
    until("all are read or lost", || {
        lost + bed.counter("received") >= 2_000
    });
    assert!(lost > 0);
    let metrics = bed.shown(&["--metrics"]);
    let line = "vcp_router_link_interface_drops_total{port=\"left\"}";
    let line = format!("{line} {}", drops(&bed));
    assert!(metrics.contains(&line), "{metrics}");
    assert!(metrics.contains("vcp_router_link_interface_up{port=\"right\"} 1\n"));
    let version = env!("CARGO_PKG_VERSION");
    assert!(metrics.contains(&format!("vcp_router_build_info{{version=\"{version}\"")));
}

/// A record that can no longer be written costs the record, not a clean end.
#[test]
fn a_record_that_fails_does_not_fail_a_clean_stop() {
    use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, open};

    let mut bed = Bed::new();
    bed.write("[[port]]\nname = \"a\"\ntun = \"record0\"\n");
    // A pipe whose reader leaves, in place of a disk that is full.
    let path = bed.path("record.csv");
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let reader = open(&path, flags, Mode::empty()).unwrap();
    bed.start();
    drop(reader);
    let router = bed.router();
    let mut stderr = BufReader::new(router.child().stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("nothing more is recorded") {
        line.clear();
        assert_ne!(stderr.read_line(&mut line).unwrap(), 0, "the router ended");
    }
    router.terminate().unwrap();
    assert_eq!(router.wait().unwrap().code(), Some(0));
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("warning: the record"), "{rest}");
}

/// What is not there, or not what it is taken for, is found before the start, all of it at once.
#[test]
fn check_looks_at_the_machine() {
    let bed = Bed::new();
    let router = env!("CARGO_BIN_EXE_vcp-router");
    bed.does(
        "ip link add eth0 type veth peer name eth1; ip tuntap add dev tap7 mode tap; \
         ip tuntap add dev many0 mode tun multi_queue",
    );
    let file = bed.path("router.toml");
    let write = |text: &str| std::fs::write(&file, text).unwrap();
    let check = |more: &[&str]| {
        let arguments = [&["check", "--config", file.to_str().unwrap()], more].concat();
        let (code, stdout, stderr) = bed.inside(router, &arguments);
        (code, stdout + &stderr)
    };
    write(
        "control = \"/nonexistent/run/c.sock\"\nuser = \"no-such-user\"\ngroup = \"no-group\"\n\
         [[port]]\nname = \"a\"\ntun = \"eth0\"\n[[port]]\nname = \"b\"\ntun = \"tap7\"\n\
         [[port]]\nname = \"c\"\ntun = \"many0\"\n",
    );
    let (code, text) = check(&[]);
    assert_eq!((code, text.lines().count()), (Some(2), 6), "{text}");
    for part in [
        "control: there is no directory /nonexistent/run",
        "user: there is no user `no-such-user`",
        "group: there is no group `no-group`",
        "port a: tun: eth0 is there, and is no TUN interface",
        "port b: tun: tap7 is there, and is a TAP interface",
        "port c: tun: many0 is there, and is a TUN interface of several queues",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    let (code, text) = check(&["--json"]);
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, &json["ok"]), (Some(2), &false.into()));
    assert_eq!(json["errors"].as_array().unwrap().len(), 6);
    for name in ["eth0", "tap7", "many0"] {
        write(&format!("[[port]]\nname = \"a\"\ntun = \"{name}\"\n"));
        for (command, said) in [
            ("run", format!("port a: {name} is there, and is no TUN")),
            ("setup", format!("{name} exists and is no TUN")),
        ] {
            let arguments = [command, "--config", file.to_str().unwrap()];
            let (code, _, stderr) = bed.inside(router, &arguments);
            let expected = format!("{said} interface of one queue");
            assert!(code == Some(1) && stderr.contains(&expected), "{stderr}");
        }
    }

    // `check --try` accepts what `run` would, and leaves nothing behind; otherwise it reports the
    // error of `run`.
    let control = bed.path("control.sock");
    let good = |metrics: &str| {
        format!("control = {control:?}\n{metrics}\n[[port]]\nname = \"a\"\ntun = \"probe0\"\n")
    };
    write(&good(""));
    let (_, text) = check(&["--offline"]);
    let warned = text.contains("no `[[route]]`") && !text.contains(": good,");
    assert!(warned, "{text}");
    let (code, text) = check(&["--probe"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("it runs here"), "{text}");
    assert!(!control.exists());
    assert_ne!(bed.inside("ip", &["link", "show", "probe0"]).0, Some(0));
    write(&good("metrics = \"192.0.2.7:80\""));
    let (code, text) = check(&["--probe"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("cannot listen on 192.0.2.7:80"), "{text}");
    assert_eq!(check(&[]).0, Some(0), "nothing was tried");
}

#[test]
fn rates_are_those_of_the_last_seconds() {
    let bed = Bed::with("", "rate = \"20Mbit\"\nqueue = { limit = \"100KiB\" }");
    let (a, b) = bed.tcp(false);
    transfer(a, b, &bytes(4_000_000));
    let link = bed.link("right");
    let rates = |over: &str, key: &str| link["rates"][over][key].as_f64().unwrap();
    // The last of 1.7 s of transfer, as far as a busy machine lets it run.
    assert!((2e6..21e6).contains(&rates("1s", "sent_bps")), "{link}");
    assert!(rates("1s", "seconds") <= 1.5, "{link}");
    assert!(rates("10s", "seconds") >= rates("1s", "seconds"), "{link}");
    let shares = rates("1s", "sent_bps") / 20e6 - rates("1s", "utilization");
    assert!(shares.abs() < 0.01, "{link}");
    assert!(rates("1s", "sent_pps") > 100.0);
    let table = bed.shown(&[]);
    for part in ["SENT 1s", "IN DROPS", "version ", "configuration 1"] {
        assert!(table.contains(part), "{part} is not in\n{table}");
    }
    let widest = table.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(80), "{table}");
}

#[test]
fn reloads_are_reported_with_their_result() {
    let mut bed = Bed::with("", "rate = \"2Mbit\"");
    let reload = |bed: &Bed| bed.show()["reload"].clone();
    assert_eq!(reload(&bed)["generation"], 1);
    bed.configure("", "rate = \"3Mbit\"");
    bed.reload();
    let counts = |bed: &Bed| {
        let state = reload(bed);
        ["generation", "failures"].map(|key| state[key].as_u64().unwrap())
    };
    assert_eq!((counts(&bed), &reload(&bed)["ok"]), ([2, 0], &true.into()));
    bed.configure("", "rate = \"3parsec\"");
    bed.reload();
    let state = reload(&bed);
    assert_eq!((counts(&bed), &state["ok"]), ([2, 1], &false.into()));
    assert!(state["error"].to_string().contains("3parsec"), "{state}");
    let table = bed.shown(&[]);
    let failed = table.contains("failed: ") && table.contains("3parsec");
    assert!(failed, "{table}");
}

/// An interface is shown by the name that it has now. In another network namespace, where this
/// router cannot ask about it, it is not called gone, for packets still pass.
#[test]
fn an_interface_that_is_renamed_or_moved_is_still_there() {
    let mut bed = Bed::new();
    bed.write("[[port]]\nname = \"a\"\ntun = \"before0\"\n");
    bed.start();
    let named = || {
        let link = bed.link("a");
        let text = |key: &str| link[key].as_str().unwrap().to_owned();
        (text("interface"), text("interface_state"))
    };
    assert_eq!(named(), ("before0".to_owned(), "up".to_owned()));
    bed.does("ip link set before0 down; ip link set before0 name after0; ip link set after0 up");
    assert_eq!(named(), ("after0".to_owned(), "up".to_owned()));
    let (_, elsewhere) = bed.left.namespaces();
    let place = format!("/proc/self/fd/{}", elsewhere.as_raw_fd());
    let mut command = Command::new("ip");
    command.args(["link", "set", "after0", "netns", &place]);
    let mut moved = bed.middle.spawn(command, &[elsewhere]).unwrap();
    assert!(moved.wait().unwrap().success());
    assert_eq!(named().1, "unknown");
    let metrics = bed.shown(&["--metrics"]);
    // A rule that alerts on 0 must not fire here.
    assert!(!metrics.contains("interface_up{"), "{metrics}");
}

/// With port 0 in `metrics`, the router reports the port that the system chose.
#[test]
fn the_metrics_address_is_reported() {
    let bed = Bed::new();
    let control = bed.path("control.sock");
    let text = format!(
        "control = {control:?}\nmetrics = \"127.0.0.1:0\"\n[[port]]\nname = \"a\"\ntun = \"a0\"\n"
    );
    std::fs::write(bed.path("router.toml"), text).unwrap();
    let (mut router, ready) = bed.started();
    let address: std::net::SocketAddr = ready["metrics"].as_str().unwrap().parse().unwrap();
    assert_ne!(address.port(), 0);
    assert_eq!(bed.show()["metrics"], address.to_string());
    let at = format!("metrics at http://{address}/metrics\n");
    let table = bed.shown(&[]);
    assert!(table.contains(&at), "{table}");
    let mut stream = bed.connect(address);
    let request = b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n";
    stream.write_all(request).unwrap();
    let answer = std::io::read_to_string(stream).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    router.terminate().unwrap();
    let log = std::io::read_to_string(router.child().stderr.as_mut().unwrap()).unwrap();
    assert!(log.contains(&format!("vcp-router: {at}")), "{log}");
}

/// Packets that waited while the router was stopped for seconds go nowhere: their senders would
/// take the time for the path's. They are counted, and later ones pass.
#[test]
fn what_waited_for_a_stopped_router_is_dropped() {
    let mut bed = Bed::with("", "rate = \"10kbit\"\nqueue = { limit = \"100p\" }");
    let (a, b) = bed.udp(false);
    // Most wait in the port: 10 kB at 1.25 kB/s.
    for _ in 0..20 {
        a.send(&[1; 500]).unwrap();
    }
    let pid = Pid::from_raw(bed.router().id().try_into().unwrap()).unwrap();
    while bed.counter("received") < 20 {}
    kill_process(pid, Signal::STOP).unwrap();
    for _ in 0..100 {
        a.send(&[2; 500]).unwrap();
    }
    // The stop itself is tested, so no event can end it. The router's longest wait is one second; a
    // delay of three more counts as an absence.
    std::thread::sleep(Duration::from_millis(4_500));
    kill_process(pid, Signal::CONT).unwrap();
    let state = bed.show();
    assert!(state["counters"]["stale"].as_u64() >= Some(100), "{state}");
    let removed = bed.link("right")["drops_by_cause"]["removed"].as_u64();
    assert!(removed > Some(0), "{state}");
    a.send(&[3; 500]).unwrap();
    let mut buffer = [0; 600];
    while buffer[0] != 3 {
        b.recv(&mut buffer).unwrap();
        assert_ne!(buffer[0], 2, "an old packet");
    }
}

/// A persistent interface that is deleted and made again is opened again, with its queue and
/// counters unchanged.
#[test]
fn an_interface_that_comes_back_is_opened_again() {
    let mut bed = Bed::new();
    let make = "ip tuntap add dev back0 mode tun user 0 vnet_hdr; ip link set back0 up";
    bed.does(make);
    bed.write("[[port]]\nname = \"a\"\ntun = \"back0\"\n");
    bed.start();
    for _ in 0..3 {
        // In one go, so that the attempts of the router find the next one, not a gap.
        bed.does(&format!("ip link delete back0; {make}"));
        until("up again", || bed.link("a")["interface_state"] == "up");
    }
    bed.reload();
    assert_eq!(bed.link("a")["interface_state"], "up");
    bed.stop();
}
