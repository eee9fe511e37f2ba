//! A kernel in the middle of the path, with its TCP CUBIC on the same path.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use pathmark_testbed::chain::{Addresses, Chain, SENDER};
use pathmark_testbed::undisturbed;

use super::bed::{Bed, LOOKS, MEASURES, NARROW};
use super::{capacity_is_known, goodput};
use crate::common::{alone, measuring};

/// Two routers, and between them the kernel, which carries 30 Mbit/s.
fn around_a_kernel() -> Bed {
    let bed = Bed::new(Addresses::V4, &[("80Mbit", LOOKS), ("80Mbit", MEASURES)]);
    bed.chain.shape_wire(0, "30mbit", 100).unwrap();
    bed
}

/// Sends with the kernel's TCP CUBIC, from sender to receiver, until it is dropped.
struct KernelCubic {
    came: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl KernelCubic {
    fn begin(chain: &Chain) -> Self {
        let listener = chain.sender.tcp_listener((SENDER, 0).into()).unwrap();
        let control = socket2::SockRef::from(&listener);
        control.set_tcp_congestion(b"cubic").unwrap();
        let address = listener.local_addr().unwrap();
        let (came, over) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let socket = chain.receiver.socket(libc::AF_INET, libc::SOCK_STREAM, 0);
        let (counted, stop) = (Arc::clone(&came), Arc::clone(&over));
        let receives = std::thread::spawn(move || {
            let mut stream = TcpStream::from(socket.unwrap());
            let connecting = socket2::SockRef::from(&stream).connect(&address.into());
            connecting.unwrap();
            let mut buffer = vec![0; 1 << 16];
            while !stop.load(Ordering::Relaxed) {
                match stream.read(&mut buffer) {
                    Ok(0) | Err(_) => return,
                    Ok(bytes) => counted.fetch_add(bytes as u64, Ordering::Relaxed),
                };
            }
        });
        let (mut sends, _) = listener.accept().unwrap();
        let sends = std::thread::spawn(move || {
            let chunk = vec![0; 1 << 16];
            // Until the receiver has gone.
            while sends.write_all(&chunk).is_ok() {}
        });
        Self {
            came,
            over,
            threads: vec![receives, sends],
        }
    }

    fn came(&self) -> u64 {
        self.came.load(Ordering::Relaxed)
    }
}

impl Drop for KernelCubic {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().unwrap();
        }
    }
}

/// The kernel forwards in the middle: its token bucket is measured, and the file uses its rate.
/// With the kernel's CUBIC on the path, each gets at least 15 %.
#[test]
fn the_kernel_in_the_middle() {
    let _place = measuring();
    undisturbed(|| {
        let bed = around_a_kernel();
        let by_itself = bed.get(8_000_000);
        let last = bed.show(1);
        println!("{by_itself}\n{}", last["xcp_i"]);
        capacity_is_known(&last);
        assert!(goodput(&by_itself) >= 0.55 * NARROW, "{by_itself}");

        let cubic = KernelCubic::begin(&bed.chain);
        let shared = bed.get(8_000_000);
        let (came, seconds) = (cubic.came(), shared["seconds"].as_f64().unwrap());
        drop(cubic);
        let ours = goodput(&shared);
        let theirs = came as f64 * 8.0 / seconds;
        println!("{shared}\nXCP-i {ours:.0}, CUBIC {theirs:.0} bit/s");
        let share = ours / (ours + theirs);
        assert!((0.15..=0.85).contains(&share), "{share}");
    });
}

/// Shares next to the kernel's CUBIC, for short and long files. Every second run uses this
/// library's CUBIC instead of XCP-i.
#[test]
#[ignore = "cargo xtask soak beside-cubic"]
fn shares_next_to_the_kernels_cubic() {
    let _alone = alone();
    for bytes in [12_000_000, 40_000_000] {
        for run in 0..10 {
            let law = ["xcp-i", "cubic"][run % 2];
            let bed = around_a_kernel().by(law);
            let cubic = KernelCubic::begin(&bed.chain);
            let shared = bed.get(bytes);
            let (came, seconds) = (cubic.came(), shared["seconds"].as_f64().unwrap());
            drop(cubic);
            let ours = goodput(&shared);
            let theirs = came as f64 * 8.0 / seconds;
            let share = ours / (ours + theirs);
            let last = bed.show(1);
            println!(
                "{law}, {bytes} bytes: {ours:.0}, CUBIC {theirs:.0}, share {share:.3}, {}, {}",
                shared["fallback"], last["links"][0]["controller"]["clouds"]
            );
            assert!(share > 0.1 && share < 0.9, "one of them starves: {share}");
        }
    }
}
