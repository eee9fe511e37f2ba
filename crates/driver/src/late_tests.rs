//! How late deadlines pass while packets arrive without a pause.

use std::future::poll_fn;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::testing::*;
use super::timers::Timer;
use super::*;
use pathmark_transport::Duration;

/// Number of consecutive deadlines.
const DEADLINES: usize = 200;
/// Packets that may be handled between setting a deadline and the time when it is noticed: those of
/// two turns of the receiving task, and some for the duration itself.
const PACKETS: u64 = 700;

/// Sends datagrams that belong to no connection as fast as possible, until `over`.
fn flood(server: std::net::SocketAddr, over: &AtomicBool) {
    let socket = UdpSocket::bind(loopback()).unwrap();
    while !over.load(Ordering::Relaxed) {
        let _ = socket.send_to(&[0x41; 1200], server);
    }
}

/// With a single thread, the runtime checks its timers and descriptors only after many turns of the
/// receiving task. Deadlines that pass in the meantime don't wait for this.
#[tokio::test]
async fn deadlines_pass_while_packets_come_without_a_pause() {
    let server = server();
    let address = server.local_address();
    let over = Arc::new(AtomicBool::new(false));
    let flooding = [(); 2].map(|()| {
        let over = Arc::clone(&over);
        std::thread::spawn(move || flood(address, &over))
    });
    let timing = server.clone();
    // This must be a task like those of connections, because the future that blocks runs less
    // often.
    let timing = tokio::spawn(async move {
        let handled = || {
            let stats = timing.stats();
            stats.resets_sent + stats.answers_withheld
        };
        let mut timer = Timer::new(&timing.shared.timers);
        let mut meanwhile = Vec::new();
        for _ in 0..DEADLINES {
            let before = handled();
            let at = now() + Duration::from_micros(50);
            poll_fn(|cx| timer.poll(cx, now(), Some(at))).await;
            meanwhile.push(handled() - before);
        }
        meanwhile
    });
    let meanwhile = timing.await.unwrap();
    over.store(true, Ordering::Relaxed);
    for thread in flooding {
        thread.join().unwrap();
    }
    assert!(meanwhile.iter().all(|n| *n <= PACKETS), "{meanwhile:?}");
}
