//! Compares millions of packets with the papers' router in `f64`.

use super::{CAPACITY, EAGER, metrics, packet, published, stamp};
use crate::base::Instant;
use crate::law::LinkController;
use crate::signals::XcpCarried;
use crate::testing::header;
use crate::xcp::oracle::{Header, Router};
use crate::xcp::port::XcpLink;

#[derive(Clone, Copy, Debug)]
struct Source {
    rtt_us: u32,
    window: u64,
    bytes: u32,
    next: u64,
}

impl Source {
    fn gap_ns(&self) -> u64 {
        (u64::from(self.rtt_us) * 1000 * u64::from(self.bytes) / self.window).max(1)
    }

    fn header(&self, delta: i64) -> XcpCarried {
        let rtt = u128::from(self.rtt_us) << 40;
        let x = rtt * u128::from(self.bytes) / (1_000_000 * u128::from(self.window));
        header(self.rtt_us, u64::try_from(x).unwrap(), delta)
    }
}

fn exact(header: &XcpCarried, bytes: u32) -> Header {
    Header {
        x: header.x as f64 / 2f64.powi(40),
        rtt: f64::from(header.rtt_us) / 1e6,
        delta: header.delta as f64 / 65_536.0,
        bytes: f64::from(bytes),
    }
}

fn close_to(what: &str, got: f64, want: f64, relative: f64, absolute: f64) {
    let off = (got - want).abs();
    let near = off <= relative * want.abs() + absolute;
    assert!(near, "{what}: {got}, not {want}");
}

/// Runs `packets` packets of `sources` through a port and the oracle side by side. The loads
/// oscillate around the capacity, and the queue with them.
fn trace(capacity: u64, sources: &mut [Source], packets: u64, seed: u64) {
    let mut link = XcpLink::new(Instant::ZERO, capacity, published());
    let mut oracle = Router::new(capacity as f64);
    let (mut intervals, mut started, mut random) = (0, 0u64, seed | 1);
    let mut compared = 0;
    for n in 0..packets {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let at = (0..sources.len()).min_by_key(|at| sources[*at].next);
        let at = at.unwrap();
        let source = &mut sources[at];
        let now = source.next;
        // Each window slowly varies by half, with its own period.
        let swing = ((now >> 28).wrapping_add(at as u64 * 7)) % 16;
        let window = source.window * (16 + swing) / 24;
        let moment = Source {
            window: window.max(u64::from(source.bytes)),
            ..*source
        };
        source.next = now + moment.gap_ns();
        let delta = match random >> 61 {
            0 => 0,
            1 => -((random >> 30) as i64 & 0xFFFF_FFFF),
            _ => EAGER,
        };
        let header = moment.header(delta);
        let arrival = packet(at as u32, moment.bytes, header);
        let queue = ((n >> 12) % 5) * u64::from(moment.bytes) * 10;
        let instant = Instant::from_nanos(now);
        let standing = metrics(&link).persistent_queue;
        link.on_arrival(instant, &arrival, queue);
        let seen = metrics(&link);
        if n == 0 {
            started = now;
        }
        if seen.intervals != intervals {
            intervals = seen.intervals;
            let elapsed = (now - started) as f64 / 1e9;
            oracle.close(elapsed, standing as f64);
            started = now;
            let unit = 1e-6 * capacity as f64 + 1.0;
            let mean_rtt = seen.mean_rtt.as_secs_f64();
            close_to("d", mean_rtt, oracle.mean_rtt, 1e-3, 1e-6);
            close_to("F", seen.aggregate as f64, oracle.aggregate, 1e-3, unit);
            close_to("+", seen.positive_left as f64, oracle.positive, 1e-3, unit);
            close_to("-", seen.negative_left as f64, oracle.negative, 1e-3, unit);
            compared += 1;
        }
        oracle.arrival(&exact(&header, moment.bytes));
        let answer = stamp(link.on_departure(instant, &arrival, queue));
        let want = oracle.departure(&exact(&header, moment.bytes));
        assert!(answer.delta <= delta, "a wish only ever shrinks");
        // Rounding the mean RTT to whole µs changes the queue's part of F, and the sum of the
        // remaining pools drifts with every rounding.
        let own = oracle.positive * exact(&header, moment.bytes).x;
        let got = answer.delta as f64 / 65_536.0;
        close_to("feedback", got, want, 1e-4, own.abs() * 1e-3 + 1.0);
    }
    assert!(compared > 10, "{compared} intervals");
}

/// F is [XCP-i II-A controller] in the rate form.
#[test]
fn a_million_packets_of_few_flows_agree_with_the_paper() {
    let flows = [(100_000, 30), (50_000, 60), (200_000, 10), (400_000, 900)];
    let mut sources = flows.map(|(rtt_us, packets)| Source {
        rtt_us,
        window: packets * 1500,
        bytes: 1500,
        next: u64::from(rtt_us),
    });
    trace(CAPACITY / 2, &mut sources, 1_000_000, 1);
}

#[test]
fn slow_fast_and_long_paths_agree_with_the_paper() {
    // 50 GB/s in jumbo packets over 10 ms.
    let mut sources = [0, 1, 2, 3, 4, 5, 6, 7].map(|n| Source {
        rtt_us: 10_000 + 100 * n,
        window: 62_500_000,
        bytes: 9000,
        next: u64::from(n),
    });
    trace(50_000_000_000, &mut sources, 1_000_000, 2);
    // 2 MB/s with an RTT of 20 s.
    let mut sources = [Source {
        rtt_us: 20_000_000,
        window: 40_000_000,
        bytes: 512,
        next: 0,
    }];
    trace(2_000_000, &mut sources, 1_200_000, 3);
}
