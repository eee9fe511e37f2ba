//! Shims in front of a tunnel's packet: copied at the entry, answered, and merged at the exit.

use crate::support::changed;
use pathmark_cc::{Answer, Duration, QuickStartAnswer, VcpAnswer, VcpCode, XcpAnswer};
use pathmark_protocols::forged::{Claim, kind, shim};
use pathmark_protocols::shim::{Identity, write};
use pathmark_protocols::tunnel::{copy_outward, lift, merge_back};
use pathmark_shim::quick_start;

const PACKET: u32 = 1400;
/// TTLs at the entry.
const INNER_TTL: u8 = 63;
const OUTER_TTL: u8 = 200;

fn forged(name: &str) -> Vec<u8> {
    let claim = Claim {
        rtt: Duration::from_millis(80),
        bytes: 1400,
        rate: 1_400_000,
        last_router: None,
    };
    shim(kind(name).unwrap(), &claim)
}

fn request() -> Vec<u8> {
    let request = quick_start::Repr {
        function: quick_start::Function::Request,
        rate: quick_start::Rate::ceil(125_000_000),
        qs_ttl: 7,
        rtt: quick_start::RttOctave::default(),
        nonce: 0x0102_0304_0506,
    };
    request.emit().to_vec()
}

fn answers() -> [(Vec<u8>, Answer); 3] {
    let mut vcp = VcpAnswer::default();
    (vcp.code, vcp.r, vcp.t_rho_ms, vcp.load_128) = (VcpCode::Over, None, 200, 140);
    let xcp = changed(XcpAnswer::default(), |answer| {
        (answer.delta, answer.bounding) = (-1000, true);
    });
    let quick_start = QuickStartAnswer {
        approved: 1_000_000,
        random: 77,
    };
    [
        (forged("vcp"), Answer::Vcp(vcp)),
        (forged("xcp"), Answer::Xcp(xcp)),
        (request(), Answer::QuickStart(quick_start)),
    ]
}

/// If a router answers the copy without decrementing the TTL, the inner shim ends up as if this
/// router had answered it directly.
#[test]
fn a_copy_brings_back_the_answer() {
    let router = Identity::new(9);
    let shift = OUTER_TTL - INNER_TTL;
    for (inside, answer) in answers() {
        let inner = lift(&inside).unwrap();
        assert_eq!(inner.as_ref(), inside);
        let mut outside = copy_outward(&inner, shift).as_ref().to_vec();
        assert!(write(&mut outside, &answer, PACKET, &router));
        let arrived = lift(&outside).unwrap();
        let merged = merge_back(&inner, &arrived, shift - router.hops).unwrap();
        let mut expected = inside.clone();
        let host = Identity { hops: 0, ..router };
        assert!(write(&mut expected, &answer, PACKET, &host));
        assert_eq!(merged.as_ref(), expected, "{answer:?}");
        // Without a router nothing changes.
        let arrived = copy_outward(&inner, shift);
        assert_eq!(merge_back(&inner, &arrived, shift), Some(inner));
    }
}

#[test]
fn a_copy_of_another_kind_is_refused() {
    let shims = answers().map(|(shim, _)| lift(&shim).unwrap());
    for (at, inner) in shims.iter().enumerate() {
        for (other, outer) in shims.iter().enumerate() {
            assert_eq!(merge_back(inner, outer, 0).is_some(), at == other);
        }
    }
}

#[test]
fn what_routers_leave_alone_is_not_copied() {
    let report = changed(quick_start::Repr::parse(&request()).unwrap(), |repr| {
        repr.function = quick_start::Function::Report;
    });
    let whole = answers().map(|(shim, _)| shim);
    let short = whole.iter().map(|shim| shim[..shim.len() - 1].to_vec());
    let others = [Vec::new(), vec![0x40; 60], report.emit().to_vec()];
    for shim in short.chain(others) {
        assert_eq!(lift(&shim), None, "{shim:x?}");
    }
}
