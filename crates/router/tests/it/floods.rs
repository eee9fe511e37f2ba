//! A flood of forged shims and a flow that keeps to its rate, on real interfaces.

use std::cell::Cell;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::bed::Bed;

/// A datagram behind the shim of a VCP sender.
fn datagram(len: usize) -> Vec<u8> {
    let mut request = pathmark_cc::Request::default();
    request.bise = true;
    request.min_rtt = Some(Duration::from_millis(20));
    let mut datagram = vcp_proto::Repr::initial(&request, true).emit().to_vec();
    datagram.resize(len, 0);
    datagram
}

/// Sends datagrams of 1222 bytes at `rate` bytes of IP packets per second until `over`; how many.
fn send(socket: &UdpSocket, rate: u64, over: impl Fn() -> bool) -> u64 {
    let datagram = datagram(1222);
    let (start, mut sent) = (Instant::now(), 0u64);
    while !over() {
        let due = rate * start.elapsed().as_millis() as u64 / 1000 / 1250;
        while sent < due {
            socket.send(&datagram).unwrap();
            sent += 1;
        }
        thread::sleep(Duration::from_millis(1));
    }
    sent
}

/// Datagrams that arrive until none has for so long: how many, and how many of them a router has
/// marked.
fn count(socket: &UdpSocket, quiet: Duration) -> (u64, u64) {
    socket.set_read_timeout(Some(quiet)).unwrap();
    let (mut arrived, mut marked, mut buffer) = (0, 0, [0; 2000]);
    while socket.recv(&mut buffer).is_ok() {
        let shim = vcp_proto::Packet::parse(&buffer).unwrap();
        arrived += 1;
        marked += u64::from(shim.hops() == 1);
    }
    (arrived, marked)
}

/// A flood of 30 Mbit/s and a flow of 1 Mbit/s at a port of 20 Mbit/s: once the flood is set aside,
/// the flow has no loss, and the flood's packets get no marks.
#[test]
fn a_flood_behind_shims_is_set_aside() {
    let bed = Bed::with("", "rate = \"20Mbit\"\ncontroller = \"vcp+bise\"");
    let (flood, far) = bed.udp(false);
    let (own, to) = bed.udp(false);
    let over = AtomicBool::new(false);
    let quiet = Duration::from_millis(500);
    thread::scope(|scope| {
        scope.spawn(|| send(&flood, 3_750_000, || over.load(Ordering::Relaxed)));
        // What arrives is taken, so that no socket's buffer is what drops.
        let drain = scope.spawn(|| count(&far, 4 * quiet));
        let receiver = scope.spawn(|| count(&to, 4 * quiet));
        let begun = Instant::now();
        let seen = || bed.link("right")["times_set_aside"].as_u64().unwrap() > 0;
        let asked = Cell::new(begun);
        let first = send(&own, 125_000, || {
            let ask = asked.get().elapsed() > Duration::from_millis(300);
            if ask {
                asked.set(Instant::now());
            }
            begun.elapsed() > Duration::from_secs(60) || (ask && seen())
        });
        assert!(seen(), "it is never set aside");
        let (lost, _) = receiver.join().unwrap();
        assert!(lost < first, "it did harm: {lost} of {first} arrived");
        // It still floods.
        let receiver = scope.spawn(|| count(&to, 4 * quiet));
        let start = Instant::now();
        let sent = send(&own, 125_000, || start.elapsed() > Duration::from_secs(5));
        let (arrived, marked) = receiver.join().unwrap();
        over.store(true, Ordering::Relaxed);
        let (flooded, marks) = drain.join().unwrap();
        assert!(arrived * 100 >= sent * 98, "{arrived} of {sent}");
        assert_eq!(arrived, marked);
        assert!(flooded > marks + 5000, "{marks} of {flooded} were marked");
        let drops = &bed.link("right")["drops_by_cause"];
        assert!(drops["policed"].as_u64() > Some(0), "{drops}");
    });
}
