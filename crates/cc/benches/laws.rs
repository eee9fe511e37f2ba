//! Costs of the laws per packet and per acknowledgement.

use std::hint::black_box;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use pathmark_cc::{
    Acked, Algorithm, Arrival, Carried, Cloud, Duration, Explicit, Feedback, Instant, Limit,
    LinkAlgorithm, Lost, PacketState, QuickStartCarried, Sent, Upstream, VcpCarried, VcpCode,
    VcpFeedback, XcpCarried, XcpFeedback,
};

const RTT: Duration = Duration::from_millis(100);
const GAP: Duration = Duration::from_micros(120);

/// A port at full load, with one packet in and one out per 120 µs. Measures both together, and the
/// mark separately.
fn ports(c: &mut Criterion) {
    let mut group = c.benchmark_group("port");
    for name in ["vcp", "vcp+bise", "vcp+bise[marking=lottery]"] {
        let mut port = LinkAlgorithm::parse(name)
            .expect("a known name")
            .controller(Instant::ZERO, 12_500_000, 1);
        let packet = |number: u32| Arrival {
            bytes: 1500,
            flow_hash: number.wrapping_mul(0x9E37_79B1),
            carried: Carried::Vcp(VcpCarried {
                code: VcpCode::Low,
                min_rtt: Some(RTT),
                bise: true,
                carries_r: true,
            }),
        };
        let mut now = Instant::ZERO;
        let mut number = 0u32;
        group.bench_function(format!("{name}: arrival and mark"), |b| {
            b.iter(|| {
                now += GAP;
                number += 1;
                if port.deadline().is_some_and(|due| due <= now) {
                    port.on_timer(now, 3000);
                }
                let packet = packet(number & 63);
                port.on_arrival(now, &packet, 3000);
                black_box(port.on_departure(now, &packet, 3000))
            });
        });
        let packet = packet(1);
        group.bench_function(format!("{name}: mark"), |b| {
            b.iter(|| black_box(port.on_departure(now, black_box(&packet), 3000)));
        });
    }
    group.finish();
}

/// An XCP port at full load with 64 flows: one packet in and one out, measured together.
fn xcp_ports(c: &mut Criterion) {
    let mut group = c.benchmark_group("port");
    for name in [
        "xcp",
        "xcp[capacity=auto]",
        "xcp[police]",
        "xcp-i",
        "xcp-i[estimate=real]",
    ] {
        let mut port = LinkAlgorithm::parse(name)
            .expect("a known name")
            .controller(Instant::ZERO, 12_500_000, 1);
        port.on_buffer(1_250_000);
        // A port that estimates clouds has a virtual router for one cloud.
        let cloud = name.contains("real").then(|| Cloud {
            upstream: Upstream::of([192, 0, 2, 1].into()).expect("an address"),
            hops: 2,
        });
        let mut now = Instant::ZERO;
        let mut number = 0u32;
        group.bench_function(format!("{name}: arrival and stamp"), |b| {
            b.iter(|| {
                now += GAP;
                number += 1;
                let packet = Arrival {
                    bytes: 1500,
                    flow_hash: (number & 63).wrapping_mul(0x9E37_79B1),
                    carried: Carried::Xcp(XcpCarried {
                        rtt_us: 100_000 + (number & 63),
                        x: 8_444_249_301,
                        delta: 1 << 50,
                        covers: 1,
                        cloud,
                    }),
                };
                if port.admits(now, &packet) {
                    port.on_arrival(now, &packet, 3000);
                }
                black_box(port.on_departure(now, &packet, 3000))
            });
        });
    }
    group.finish();
}

/// A port that grants starting rates: a request in each packet of 64 flows, or in one packet of 64.
fn granting_ports(c: &mut Criterion) {
    let mut group = c.benchmark_group("port");
    for (name, every) in [("each packet asks", 1), ("one in 64 asks", 64)] {
        let mut port = LinkAlgorithm::parse("quick-start")
            .expect("a known name")
            .controller(Instant::ZERO, 12_500_000, 1);
        let (mut now, mut number) = (Instant::ZERO, 0u32);
        group.bench_function(format!("quick-start: {name}"), |b| {
            b.iter(|| {
                now += GAP;
                number += 1;
                if port.deadline().is_some_and(|due| due <= now) {
                    port.on_timer(now, 3000);
                }
                let flow = (number & 63).wrapping_mul(0x9E37_79B1);
                let carried = match number % every {
                    0 => Carried::QuickStart(QuickStartCarried {
                        rate: 1_000_000,
                        rtt: Some(RTT),
                        source: flow,
                        keeps: false,
                    }),
                    _ => Carried::Foreign,
                };
                let packet = Arrival {
                    bytes: 1500,
                    flow_hash: flow,
                    carried,
                };
                port.on_arrival(now, &packet, 3000);
                black_box(port.on_departure(now, &packet, 3000))
            });
        });
    }
    group.finish();
}

/// The loss of one packet per round trip, between acknowledgements of others.
fn losses(c: &mut Criterion) {
    let mut group = c.benchmark_group("sender");
    for &name in Algorithm::NAMES {
        let algorithm = Algorithm::parse(&format!("{name}[iw=1000]")).expect("a known name");
        let mut sender = algorithm.controller(Instant::ZERO, 1472);
        let (mut now, mut number) = (Instant::ZERO, 0u64);
        group.bench_function(format!("{name}: loss"), |b| {
            b.iter(|| {
                now += RTT;
                number += 100;
                let lost = Lost {
                    bytes: 1472,
                    packets: 1,
                    ranges: 1,
                    first_state: PacketState::default(),
                    largest: number,
                    sent_at: now,
                    state: PacketState::default(),
                    last_sent: number + 50,
                    srtt: RTT,
                    min_rtt: RTT,
                    in_flight_before: 1_000_000,
                };
                sender.on_loss(now, &lost);
                black_box(sender.window())
            });
        });
    }
    group.finish();
}

/// `auto` with the first answer of an XCP or VCP router, where it changes from CUBIC to the
/// router's law.
fn changes_of_law(c: &mut Criterion) {
    let mut group = c.benchmark_group("auto");
    let algorithm = Algorithm::parse("auto").expect("a known name");
    let acked = Acked {
        bytes: 2944,
        packets: 2,
        marked: 0,
        largest: 2,
        sent_at: Instant::ZERO,
        state: PacketState::default(),
        forward_delay: None,
        rtt: Some(RTT),
        srtt: RTT,
        min_rtt: RTT,
        in_flight_before: 14_720,
        window_limited: true,
    };
    let xcp = Feedback::Xcp(XcpFeedback {
        delta: 1 << 30,
        packets: 2,
        stamped: 2,
        bytes: 2944,
        hops: 1,
        ..XcpFeedback::default()
    });
    let vcp = Feedback::Vcp(VcpFeedback {
        packets: [0, 2, 0, 0],
        bytes: [0, 2944, 0, 0],
        sum_r: 600,
        t_rho: Duration::from_millis(250),
        hops: 1,
        bise: true,
        ..VcpFeedback::default()
    });
    for (name, feedback) in [("to XCP", xcp), ("to VCP", vcp)] {
        group.bench_function(name, |b| {
            b.iter_batched_ref(
                || algorithm.controller(Instant::ZERO, 1472),
                |sender| {
                    let now = Instant::ZERO + RTT;
                    sender.on_feedback(now, &feedback, &acked);
                    sender.on_ack(now, &acked);
                    black_box(sender.window())
                },
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

/// A sender in congestion avoidance, or under a mix of LOW and HIGH, with two packets per
/// acknowledgement.
fn senders(c: &mut Criterion) {
    let mut group = c.benchmark_group("sender");
    for &name in Algorithm::NAMES {
        let algorithm = Algorithm::parse(&format!("{name}[iw=1000]")).expect("a known name");
        let mut sender = algorithm.controller(Instant::ZERO, 1472);
        let mut now = Instant::ZERO;
        let mut number = 0u64;
        let acked = |number: u64, srtt: Duration| Acked {
            bytes: 2944,
            packets: 2,
            marked: 0,
            largest: number,
            sent_at: Instant::ZERO,
            state: PacketState::default(),
            forward_delay: None,
            rtt: Some(srtt),
            srtt,
            min_rtt: RTT,
            in_flight_before: 1_000_000,
            window_limited: true,
        };
        let codes = |low: u64| {
            Feedback::Vcp(VcpFeedback {
                packets: [0, low, 2 - low, 0],
                bytes: [0, low * 1472, (2 - low) * 1472, 0],
                sum_r: low * 300,
                t_rho: Duration::from_millis(250),
                hops: 1,
                bise: true,
                ..VcpFeedback::default()
            })
        };
        // Leaves slow start.
        sender.on_congestion_experienced(now, Instant::ZERO, 0);
        let granted = |delta: i64| {
            Feedback::Xcp(XcpFeedback {
                delta,
                packets: 2,
                stamped: 2,
                bytes: 2944,
                hops: 1,
                ..XcpFeedback::default()
            })
        };
        let explicit = algorithm.explicit();
        group.bench_function(format!("{name}: acknowledgement"), |b| {
            b.iter(|| {
                now += GAP;
                number += 2;
                // The smoothed RTT varies slightly, as usual.
                let srtt = RTT + Duration::from_micros(number % 800);
                let acked = acked(number, srtt);
                match explicit {
                    Some(Explicit::Vcp(_)) => {
                        sender.on_feedback(now, &codes((number >> 1) & 1), &acked);
                    }
                    Some(Explicit::Xcp(_)) => {
                        let sign = if number & 2 == 0 { 1 } else { -1 };
                        sender.on_feedback(now, &granted(sign << 30), &acked);
                    }
                    Some(Explicit::QuickStart | Explicit::Own(_)) | None => {}
                }
                sender.on_ack(now, &acked);
                if sender.window() > 100_000_000 {
                    sender.on_persistent_congestion(now);
                }
                black_box(sender.window())
            });
        });
        group.bench_function(format!("{name}: send"), |b| {
            b.iter(|| {
                number += 1;
                let sent = Sent {
                    packet_number: number,
                    bytes: 1472,
                    in_flight: 1_000_000,
                    limit: Limit::Window,
                    signal: true,
                };
                black_box(sender.on_sent(now, &sent));
                black_box((sender.window(), sender.pacing_rate(), sender.request()))
            });
        });
    }
    group.finish();
}

criterion_group! {
    name = laws;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1));
    targets = ports, xcp_ports, granting_ports, senders, losses, changes_of_law
}
criterion_main!(laws);
