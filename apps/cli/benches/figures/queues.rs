//! Delays and losses of flows of different kinds that share a tunnel.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use pathmark_testbed::chain::{RECEIVER, SENDER};

use crate::common::mix::{Bed, NOT_ECT, Pace, Side, Udp, connect, figures, run, target_tcp};

/// How long bytes of a bulk TCP flow are in flight, past the tunnel and through it.
pub(crate) fn delays_inside_a_tcp_flow() {
    let time = Duration::from_secs(10);
    for controller in ["none", "vcp"] {
        let bed = Bed::new(Side::Client, controller, 0.0, "auto");
        let listener = target_tcp(&bed, 0);
        for (way, to) in [("direct", bed.targets[0]), ("tunnel", bed.forwards[0])] {
            let mut from = connect(&bed.chain.sender, to);
            // With a small buffer, the kernel blocks writes that the path can't carry yet.
            socket2::SockRef::from(&from)
                .set_send_buffer_size(16 * 1024)
                .unwrap();
            let (mut to, _) = listener.accept().unwrap();
            let start = Instant::now();
            let sending = thread::spawn(move || {
                while start.elapsed() < time {
                    let now = start.elapsed().as_nanos() as u64;
                    let stamps = now.to_be_bytes().repeat(100);
                    from.write_all(&stamps).unwrap();
                }
            });
            let (mut delays, mut stamp, mut got) = (Vec::new(), [0; 800], 0_u64);
            while to.read_exact(&mut stamp).is_ok() {
                got += 800;
                let sent = u64::from_be_bytes(*stamp.first_chunk().unwrap());
                let now = start.elapsed();
                if now > time / 3 {
                    delays.push((now - Duration::from_nanos(sent)).as_secs_f64() * 1e3);
                }
            }
            sending.join().unwrap();
            delays.sort_by(f64::total_cmp);
            let at = |percent: usize| delays[(delays.len() - 1) * percent / 100];
            println!(
                "port {controller}, {way}: {:.1} Mbit/s, p50 {:.0} ms, p99 {:.0} ms",
                got as f64 * 8e-6 / time.as_secs_f64(),
                at(50),
                at(99)
            );
        }
    }
}

/// Video at a constant rate, past the tunnel and through it.
pub(crate) fn a_constant_rate_over_a_lossy_path() {
    let time = Duration::from_secs(15);
    let pace = Pace::Constant(2.5e6, NOT_ECT);
    for (controller, law) in [
        ("none", "cubic"),
        ("none", "bbr"),
        ("none", "auto[fallback=bbr]"),
        ("vcp", "auto"),
    ] {
        let bed = Bed::new(Side::Client, controller, 0.05, law);
        let start = Instant::now();
        let (sender, receiver) = (&bed.chain.sender, &bed.chain.receiver);
        let from = sender.udp(SocketAddr::new(SENDER, 7010)).unwrap();
        let to = receiver.udp(SocketAddr::new(RECEIVER, 7010)).unwrap();
        from.connect(to.local_addr().unwrap()).unwrap();
        to.connect(from.local_addr().unwrap()).unwrap();
        let (_, direct) = Udp::between(from, to, pace, (start, time)).finish();
        let all = (time / 3, time);
        println!("port {controller}, direct: {:?}", figures(&direct, all));
        let (tunnel, _, shown) = run(&bed, (&[(1, pace)], &[]), time);
        println!("port {controller}, tunnel with {law}: {:?}", tunnel[0]);
        println!("{}", shown["flows"][0]["queue"]);
    }
}
