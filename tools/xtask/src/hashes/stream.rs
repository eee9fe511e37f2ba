//! Sends a stream of foreign, VCP, XCP and Quick-Start packets through a router without I/O.

use anyhow::{Context, Result};
use pathmark_cc::{Duration, Instant, LinkAlgorithm, Request, XcpRequest};
use pathmark_link::impair::Random;
use pathmark_link::queue::{DropTail, Limit};
use pathmark_link::{Link, LinkConfig, Port, Schedule, Shaper, WireConfig};
use pathmark_router::forward::{
    Classifier, Identity, LARGE, PortSettings, Router, RouterConfig, RouterPort, Target,
};
use pathmark_router::ip::{Routes, TokenBucket};
use pathmark_router::offload::Offload;
use pathmark_shim::checksum::Sum;
use pathmark_shim::quick_start;

use super::Outcome;

/// The port's laws.
pub(super) const LAWS: [&str; 6] = ["none", "vcp", "vcp+bise", "xcp", "xcp-i", "quick-start"];

/// Packets in a stream.
const PACKETS: u64 = 200_000;
/// The port sends 100 Mbit/s. Packets arrive at 80 to 120 % of this rate in turns, so that the
/// queue fills and empties.
const RATE: u64 = 12_500_000;
/// Packets between two changes of the load.
const TURN: u64 = 5000;

/// Returns the output: the bytes of each packet, preceded by its length and the time when it left.
pub(super) fn run(law: &str) -> Result<Outcome> {
    let mut router = router(law)?;
    let mut random = Random::new(1, "stream");
    let mut output = Vec::new();
    let mut now = Instant::from_millis(1);
    for n in 0..PACKETS {
        let packet = packet(&mut random);
        let percent = 80 + 10 * (n / TURN % 5);
        let gap = packet.len() as u64 * 1_000_000_000 / (RATE * percent / 100);
        drain(
            &mut router,
            now,
            now + Duration::from_nanos(gap),
            &mut output,
        );
        now += Duration::from_nanos(gap);
        let mut buffer = router.pool_mut().take(LARGE).context("no buffer is left")?;
        buffer
            .get_mut(..packet.len())
            .context("the packet is larger than a buffer")?
            .copy_from_slice(&packet);
        router.receive(now, 0, &mut buffer, packet.len(), Offload::default());
        router.pool_mut().give_buffer(buffer);
    }
    drain(&mut router, now, now + Duration::from_secs(10), &mut output);
    for (name, count) in router.counters().entries() {
        output.extend(format!("{name} {count}\n").into_bytes());
    }
    Ok(Outcome::new(&output, PACKETS))
}

/// Appends all packets that leave until `end`.
fn drain(router: &mut Router, mut now: Instant, end: Instant, output: &mut Vec<u8>) {
    loop {
        while let Some(port) = router.due(now) {
            while let Some(frame) = router.poll(now, port) {
                output.extend(now.as_nanos().to_be_bytes());
                output.extend((frame.bytes().len() as u32).to_be_bytes());
                output.extend(frame.bytes());
                router.pool_mut().give(frame);
            }
        }
        match router.deadline() {
            Some(at) if at <= end => now = at.max(now),
            _ => return,
        }
    }
}

fn router(law: &str) -> Result<Router> {
    let mut router = Router::new(RouterConfig {
        id: Identity::new(7),
        memory: 1 << 26,
        classifier: Classifier {
            shims: true,
            ..Classifier::default()
        },
        icmp: TokenBucket::new(1000, 50),
    });
    let queue = || Box::new(DropTail::new(Limit::Packets(400)));
    let mut out = Port::new(Instant::ZERO, queue(), Shaper::new(Some(RATE)));
    if law != "none" {
        let law: LinkAlgorithm = law.parse()?;
        out = out.with_controller(Instant::ZERO, law.controller(Instant::ZERO, RATE, 1));
    }
    let back = Port::new(Instant::ZERO, queue(), Shaper::new(None));
    let mut routes = Routes::new();
    routes.insert("10.0.0.0/24".parse()?, Target::Port(0));
    routes.insert("10.0.0.0/8".parse()?, Target::Port(1));
    router.replace(vec![side(back, "back"), side(out, "out")], routes);
    Ok(router)
}

fn side(port: Port<pathmark_router::forward::Frame>, name: &str) -> RouterPort {
    let settings = PortSettings {
        name: name.to_owned(),
        mtu: 1500,
        addresses: vec!["10.9.0.1".parse().unwrap_or(std::net::IpAddr::V4(0.into()))],
        ..PortSettings::default()
    };
    let link = Link::new(LinkConfig {
        port,
        wire: WireConfig::default(),
        schedule: Schedule::default(),
    });
    RouterPort::new(settings, link)
}

/// Creates an IPv4 packet of one of 64 flows, each of which has one kind of shim or none.
fn packet(random: &mut Random) -> Vec<u8> {
    let flow = random.below(64);
    let rtt = Duration::from_millis(10 + 4 * flow);
    let shim = match flow % 4 {
        1 => vcp_proto::Repr::initial(&Request::default(), true)
            .emit()
            .to_vec(),
        2 => xcp(rtt, random),
        // Such a flow has a request in one of eight packets. The others are foreign.
        3 if random.below(8) == 0 => quick_start::Repr {
            function: quick_start::Function::Request,
            rate: quick_start::Rate::floor(1_000_000),
            qs_ttl: 64,
            rtt: quick_start::RttOctave::ceil(rtt.as_micros() as u64),
            nonce: u64::from(random.next_u32()),
        }
        .emit()
        .to_vec(),
        _ => Vec::new(),
    };
    let tail = 64 + random.below(1300) as usize;
    let length = (28 + shim.len() + tail) as u16;
    // Half of the XCP flows have passed two hops that aren't XCP routers.
    let ttl = if flow % 8 == 2 { 62 } else { 64 };
    let mut bytes = vec![0x45, 0];
    bytes.extend(length.to_be_bytes());
    bytes.extend([
        0, 0, 0x40, 0, ttl, 17, 0, 0, 10, 0, 0, 1, 10, 1, 0, flow as u8,
    ]);
    let sum = Sum::new().bytes(&bytes).finish();
    bytes.splice(10..12, sum.to_be_bytes());
    bytes.extend((40_000 + flow as u16).to_be_bytes());
    bytes.extend([0x11, 0x51]);
    bytes.extend((length - 20).to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(shim);
    bytes.resize(usize::from(length), 0x55);
    bytes
}

/// Creates a header for a flow with 2 Mbit/s that requests more.
fn xcp(rtt: Duration, random: &mut Random) -> Vec<u8> {
    let request = XcpRequest {
        rtt_us: rtt.as_micros() as u32,
        x: 4 * (1 << 40) / 1000,
        delta: 1 << (20 + random.below(20)),
        covers: 1,
        window: 250_000,
        packet: 1000,
    };
    let mut shim = vec![0; xcp_proto::Form::V4.len()];
    let repr = xcp_proto::Repr::initial(xcp_proto::Form::V4, Some(&request), 64);
    let length = repr.emit(&mut shim).unwrap_or(0);
    shim.truncate(length);
    shim
}
