//! Ports that share the memory for packet buffers.

use pathmark_cc::Instant;
use pathmark_link::DropCause;

use super::tests::{DST, OUT, SRC, drain, pass, router, udp};
use super::*;

/// With reserves of a quarter each, of 10 MB minus the working memory.
fn with_reserves(rate: u64) -> Router {
    let mut router = router(1500, Some(rate), false);
    let mut ports = router.take_ports();
    for port in &mut ports {
        port.settings.reserve = 2_400_000;
        let limit = pathmark_link::queue::Limit::Bytes(100_000_000);
        port.link.port_mut().set_limit(limit);
    }
    let mut routes = crate::ip::Routes::new();
    for (prefix, port) in [("10.0.0.0/24", 0), ("10.0.0.0/8", OUT)] {
        routes.insert(prefix.parse().unwrap(), Target::Port(port));
    }
    router.replace(ports, routes);
    router
}

#[test]
fn small_packets_fill_their_own_part_only() {
    let mut router = with_reserves(1);
    let small = udp(SRC, DST, 64, 0, &[7; 229]);
    assert_eq!(small.len(), 257);
    for _ in 0..40_000 {
        pass(&mut router, &small);
    }
    let full = &router.ports()[OUT];
    let refused = full.link.port().stats().drops().of(DropCause::NoBuffer);
    assert!(refused > 0);
    assert_eq!(router.counters().no_buffer, refused);
    assert_eq!(router.counters().forwarded + refused, 40_000);
    // Each packet costs the size of its buffer.
    let most = 10_000_000 - WORKING - 2_400_000;
    assert!((most - 512..=most).contains(&router.held(full)));
    let waiting = full.link.port().depth().packets as usize;
    assert_eq!(router.held(full), 512 * waiting);
    // In the other direction, every packet passes.
    let back = udp("10.1.0.2", SRC, 64, 0, &[7; 1400]);
    for _ in 0..1_000 {
        pass(&mut router, &back);
    }
    assert_eq!(router.counters().no_buffer, refused);
    assert_eq!(router.ports()[0].link.port().depth().packets, 1_000);
}

/// A removed port must leave nothing behind, and the others get its part back.
#[test]
fn a_retired_port_gives_back_what_it_held() {
    let mut router = with_reserves(1);
    for _ in 0..1_000 {
        pass(&mut router, &udp(SRC, DST, 64, 0, &[7; 1000]));
    }
    let mut ports = router.take_ports();
    let gone = ports.pop().unwrap();
    let used = router.pool().used();
    assert!(used >= 1_000 * USUAL);
    router.retire(Instant::ZERO, gone);
    assert_eq!(router.pool().used(), 0);
    router.replace(ports, crate::ip::Routes::new());
    assert_eq!(router.held(&router.ports()[0]), 0);
    assert!(drain(&mut router, 0).is_empty());
}
