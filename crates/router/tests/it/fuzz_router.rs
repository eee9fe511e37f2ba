//! Fuzz targets of what the router reads: packets from interfaces, and its configuration.
//!
//! `cargo test` runs each over its corpus in `__fuzz__` and a bounded number of random inputs; a
//! fuzzer drives the same functions for as long as one likes:
//! `cargo bolero test -p pathmark-router packets` (libFuzzer).

use std::path::Path;

use pathmark_cc::Instant;
use pathmark_link::keys::{LinkContext, LinkSpec, build_link};
use pathmark_router::config::Config;
use pathmark_router::encapsulation::Encapsulation;
use pathmark_router::forward::{
    Classifier, EcnRule, Identity, LARGE, PortSettings, Router, RouterConfig, RouterPort, Target,
};
use pathmark_router::ip::{Routes, TokenBucket};
use pathmark_router::offload::{Coalescer, Offload, VNET_LEN};
use pathmark_shim::ip::Layout;
use pathmark_shim::{Kind, frame};

/// Random inputs per target in `cargo test`, in addition to the corpus.
const ITERATIONS: usize = 50_000;
/// Longest random input, bytes.
const MAX_LEN: usize = 512;

fn router() -> Router {
    let spec = |link: Option<(&str, &str)>| LinkSpec {
        rate: link.map(|(rate, _)| rate.parse().unwrap()),
        controller: link.map(|(_, law)| law.parse().unwrap()),
        ..LinkSpec::default()
    };
    let slow = Some(("1Mbit", "xcp[capacity=auto,police=yes]"));
    let ports = [
        ("slow", slow, Some(Encapsulation::IpInIp)),
        (
            "fast",
            Some(("100Gbit", "vcp+bise")),
            Some(Encapsulation::Vxlan),
        ),
        ("free", None, None),
    ];
    let ports = ports.map(|(name, link, tunnel)| {
        let context = LinkContext {
            now: Instant::ZERO,
            seed: 1,
            name,
            rtt: None,
        };
        let mut settings = PortSettings::default();
        (settings.name, settings.mtu, settings.tunnel) = (name.to_owned(), 300, tunnel);
        settings.addresses = vec!["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()];
        RouterPort::new(settings, build_link(&spec(link), &context).unwrap())
    });
    let mut router = Router::new(RouterConfig {
        id: Identity::new(1),
        memory: 4 << 20,
        classifier: Classifier {
            shims: true,
            ecn: vec![EcnRule {
                port: Some(0x1111),
                ..EcnRule::default()
            }],
            seed: 1,
        },
        icmp: TokenBucket::new(1000, 50),
    });
    let mut routes = Routes::new();
    let prefixes = [
        ("0.0.0.0/2", 0),
        ("64.0.0.0/2", 1),
        ("128.0.0.0/1", 2),
        ("::/2", 0),
        ("4000::/2", 1),
        ("8000::/1", 2),
    ];
    for (prefix, port) in prefixes {
        routes.insert(prefix.parse().unwrap(), Target::Port(port));
    }
    router.replace(ports.into(), routes);
    router
}

/// Whatever comes in: what goes out is a packet of its own length with a right header checksum,
/// fits the link, and every buffer comes back.
fn packet(router: &mut Router, now: &mut Instant, header: &[u8; VNET_LEN], bytes: &[u8]) {
    let Ok(offload) = Offload::parse(header) else {
        return;
    };
    let mut buffer = router.pool_mut().take(LARGE).unwrap();
    buffer[..bytes.len()].copy_from_slice(bytes);
    router.receive(*now, 0, &mut buffer, bytes.len(), offload);
    router.pool_mut().give_buffer(buffer);
    // Long enough for everything to have left.
    for _ in 0..3 {
        *now = Instant::from_nanos(now.as_nanos() + 1_000_000_000);
        for port in 0..3 {
            let mut coalescer: Option<Coalescer> = None;
            while let Some(frame) = router.poll(*now, port) {
                let bytes = frame.bytes();
                let layout = Layout::walk(bytes).expect("a packet");
                assert_eq!(layout.len(), bytes.len());
                assert!(layout.header_checksum_ok(bytes));
                assert!(frame.offload.gso.is_some() || bytes.len() <= 300);
                match &mut coalescer {
                    Some(coalescer) => drop(coalescer.append(bytes, frame.offload)),
                    None => coalescer = Coalescer::start(bytes, frame.offload),
                }
                router.pool_mut().give(frame);
            }
            if let Some((header, _)) = coalescer.as_mut().and_then(Coalescer::finish) {
                assert!(header.len() >= 28);
            }
        }
    }
    for port in router.ports() {
        assert_eq!(port.link.port().depth().packets, 0);
        assert_eq!(router.held(port), 0);
    }
}

/// The same bytes as a packet that is likely to be forwarded: version, lengths, checksum and
/// virtio-net header put right. The first bytes choose what stays as it was.
fn shaped(input: &[u8]) -> Option<([u8; VNET_LEN], Vec<u8>)> {
    let (&[choice, size, protocol], rest) = input.split_first_chunk::<3>()?;
    let mut bytes = rest.to_vec();
    bytes.resize(rest.len().max(64), choice);
    let len = u16::try_from(bytes.len()).ok()?;
    let upper: u16 = if choice & 1 == 0 { 20 } else { 40 };
    let protocol = [17, 6, 17, protocol][usize::from(protocol % 4)];
    let at = usize::from(upper);
    if choice & 1 == 0 {
        bytes[0] = 0x45;
        bytes[2..4].copy_from_slice(&len.to_be_bytes());
        bytes[9] = protocol;
        if choice & 2 == 0 {
            bytes[6..8].copy_from_slice(&[choice & 0x40, 0]);
        }
        bytes[10..12].fill(0);
        let sum = pathmark_shim::checksum::Sum::new()
            .bytes(&bytes[..20])
            .finish();
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    } else {
        bytes[0] = 0x60;
        bytes[4..6].copy_from_slice(&(len - 40).to_be_bytes());
        bytes[6] = protocol;
    }
    if protocol == 17 && choice & 4 == 0 {
        bytes[at + 4..at + 6].copy_from_slice(&(len - upper).to_be_bytes());
    }
    if protocol == 17
        && choice & 32 == 0
        && let Some(shim) = bytes
            .get_mut(at + 8..)
            .and_then(|payload| payload.first_chunk_mut::<36>())
    {
        // An XCP header with whatever fields.
        shim[4] = 0x10 | shim[4] & 0x0F;
        frame::seal(Kind::XCP, shim);
    }
    let mut header = [0; VNET_LEN];
    if choice & 8 == 0 {
        header[0] = 1;
        header[6..8].copy_from_slice(&upper.to_ne_bytes());
        header[8] = if protocol == 6 { 16 } else { 6 };
        if choice & 16 == 0 {
            header[1] = match (protocol, upper) {
                (6, 20) => 1,
                (6, _) => 4,
                _ => 5,
            };
            header[4] = size.max(1);
        }
    }
    Some((header, bytes))
}

#[test]
fn packets() {
    let state = std::sync::Mutex::new((router(), Instant::ZERO));
    bolero::check!()
        .with_iterations(ITERATIONS)
        .with_max_len(MAX_LEN)
        .for_each(|input: &[u8]| {
            let mut state = state.lock().unwrap();
            let (router, now) = &mut *state;
            if let Some((header, bytes)) = input.split_first_chunk::<VNET_LEN>() {
                packet(router, now, header, bytes);
            }
            if let Some((header, bytes)) = shaped(input) {
                packet(router, now, &header, &bytes);
            }
        });
}

#[test]
fn configurations() {
    bolero::check!()
        .with_iterations(ITERATIONS)
        .with_max_len(MAX_LEN)
        .for_each(|input: &[u8]| {
            let text = String::from_utf8_lossy(input);
            if let Err(error) = Config::parse(Path::new("router.toml"), &text) {
                let message = error.to_string();
                assert!(message.starts_with("router.toml:"), "{message}");
                assert!(!message.contains('\n'), "{message}");
            }
        });
}
