//! A router inside another program, which passes it packets and the time. Here a flow sends twice
//! as fast as the link, and the router marks its packets.
//!
//! ```sh
//! cargo run -p pathmark-router --example embedded
//! ```

use std::error::Error;
use std::path::Path;

use pathmark_cc::{Duration, Instant, Request, VcpCode};
use pathmark_router::config::Config;
use pathmark_router::daemon::without_interfaces;
use pathmark_router::offload::Offload;

/// The router doesn't open the interfaces, which only tell its ports apart.
const CONFIG: &str = r#"
[[port]]
name = "clients"
tun = "clients"
rate = "100Mbit"

[[port]]
name = "satellite"
tun = "satellite"
rate = "10Mbit"
controller = "vcp"

[[route]]
prefix = "0.0.0.0/0"
port = "satellite"
"#;

const CLIENTS: usize = 0;
/// Bytes of an IPv4 header and a UDP header.
const HEADERS: usize = 20 + 8;
const PACKET: usize = 1250;

/// Returns a UDP packet from 10.0.0.1 to 192.0.2.1 whose payload begins with a VCP shim.
fn packet() -> Vec<u8> {
    let mut bytes = vec![0x45, 0];
    bytes.extend((PACKET as u16).to_be_bytes());
    bytes.extend([0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 192, 0, 2, 1]);
    bytes.extend([0x30, 0x39, 0x11, 0x51]);
    bytes.extend((PACKET as u16 - 20).to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(vcp_proto::Repr::initial(&Request::default(), true).emit());
    bytes.resize(PACKET, 0);
    let checksum = pathmark_shim::checksum::Sum::new().bytes(&bytes[..20]);
    bytes[10..12].copy_from_slice(&checksum.finish().to_be_bytes());
    bytes
}

/// Shows each change of the mark, and returns the last one.
fn overload() -> Result<VcpCode, Box<dyn Error>> {
    let config = Config::parse(Path::new("example"), CONFIG)?;
    let mut now = Instant::ZERO;
    let mut router = without_interfaces(&config, now)?;
    let mut last = VcpCode::None;
    // 20 Mbit/s.
    let (mut arrival, interval) = (now, Duration::from_micros(500));
    for _ in 0..4000 {
        // Whichever comes first: the next arrival, or the next deadline of the router.
        let deadline = router.deadline().unwrap_or(Instant::FAR_FUTURE);
        now = now.max(arrival.min(deadline));
        if arrival <= now {
            let mut buffer = packet().into_boxed_slice();
            router.receive(now, CLIENTS, &mut buffer, PACKET, Offload::default());
            arrival += interval;
        }
        while let Some(port) = router.due(now) {
            while let Some(sent) = router.poll(now, port) {
                let load = vcp_proto::Packet::parse(&sent.bytes()[HEADERS..])?.code();
                if load != last {
                    let passed = now.saturating_since(Instant::ZERO);
                    println!("port {port}, after {passed:?}: load {load:?}");
                    last = load;
                }
                // Its buffer returns to the pool, whose memory is limited.
                router.pool_mut().give(sent);
            }
        }
    }
    Ok(last)
}

fn main() -> Result<(), Box<dyn Error>> {
    overload().map(drop)
}

#[test]
fn the_last_packets_report_overload() {
    assert_eq!(overload().unwrap(), VcpCode::Over);
}
