//! Nothing fails silently: what is lost, gone or refused is to be seen.

use std::io::Read;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::bed::{Bed, bytes, transfer, vcp_router};

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
    let read = bed.show()["counters"]["received"].as_u64().unwrap();
    assert!(lost > 0 && lost + read >= 2_000, "{lost} lost, {read} read");
    let socket = bed.path("control.sock");
    let metrics = vcp_router(&["show", "--metrics", "--socket", socket.to_str().unwrap()]);
    let metrics = String::from_utf8(metrics.stdout).unwrap();
    let line = format!(
        "vcp_router_link_interface_drops_total{{link=\"left\"}} {}",
        drops(&bed)
    );
    assert!(metrics.contains(&line), "{metrics}");
    assert!(metrics.contains("vcp_router_link_interface_up{link=\"right\"} 1\n"));
    let version = env!("CARGO_PKG_VERSION");
    assert!(metrics.contains(&format!("vcp_router_build_info{{version=\"{version}\"")));
}

/// An interface that is taken away is opened again, or ends the router with exit code 1 and a line
/// that says why.
#[test]
fn a_deleted_interface_ends_the_router() {
    let mut bed = Bed::new();
    bed.write(
        "[[port]]\nname = \"wan side\"\ntun = \"gone0\"\n\
         [[route]]\nprefix = \"10.0.0.0/8\"\nport = \"wan side\"\n",
    );
    bed.start();
    assert_eq!(bed.link("wan side")["interface_state"], "up");
    let mut command = Command::new("ip");
    command.args(["link", "delete", "gone0"]);
    assert!(
        bed.middle
            .spawn(command, &[])
            .unwrap()
            .wait()
            .unwrap()
            .success()
    );
    let start = Instant::now();
    assert_eq!(bed.router().wait().unwrap().code(), Some(1));
    assert!(start.elapsed() < Duration::from_secs(5));
    let mut text = String::new();
    let stderr = bed.router().child().stderr.as_mut().unwrap();
    stderr.read_to_string(&mut text).unwrap();
    let last = text.lines().last().unwrap();
    assert!(
        last.contains("port wan side: its interface is gone"),
        "{text}"
    );
    // What was recorded until then is there.
    assert!(bed.path("record.csv").exists());
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
    let socket = bed.path("control.sock");
    let table = vcp_router(&["show", "--socket", socket.to_str().unwrap()]);
    let table = String::from_utf8(table.stdout).unwrap();
    for part in [
        "SENT 1s",
        "SENT 10s",
        "IN DROPS",
        "queue_full=",
        "version ",
        "configuration 1",
    ] {
        assert!(table.contains(part), "{part} is not in\n{table}");
    }
}

#[test]
fn reloads_are_told_with_their_result() {
    let mut bed = Bed::with("", "rate = \"2Mbit\"");
    let reload = |bed: &Bed| bed.show()["reload"].clone();
    assert_eq!(reload(&bed)["generation"], 1);
    bed.configure("", "rate = \"3Mbit\"");
    bed.reload();
    assert_eq!(
        (&reload(&bed)["generation"], &reload(&bed)["ok"]),
        (&2.into(), &true.into())
    );
    bed.configure("", "rate = \"3parsec\"");
    bed.reload();
    let told = reload(&bed);
    assert_eq!(
        (&told["generation"], &told["failures"]),
        (&2.into(), &1.into())
    );
    assert_eq!(told["ok"], false);
    assert!(
        told["error"].as_str().unwrap().contains("3parsec"),
        "{told}"
    );
    let socket = bed.path("control.sock");
    let table = vcp_router(&["show", "--socket", socket.to_str().unwrap()]);
    let table = String::from_utf8(table.stdout).unwrap();
    assert!(
        table.contains("failed: ") && table.contains("3parsec"),
        "{table}"
    );
}
