//! Many ports, few of which have work to do.

use pathmark_cc::Instant;

use super::tests::{SRC, pass, port, router, udp};
use super::*;
use crate::ip::Routes;

/// A packet for one port must poll only that port, and none of the 1,000 others.
#[test]
fn only_ports_with_something_to_do_are_looked_at() {
    let mut router = router(1500, None, false);
    let ports = (0..1_000).map(|number| port(&number.to_string(), 1500, Some(1_000_000), false));
    let mut routes = Routes::new();
    routes.insert("10.1.0.0/16".parse().unwrap(), Target::Port(700));
    router.replace(ports.collect(), routes);
    let start = Instant::ZERO;
    assert_eq!((router.due(start), router.deadline()), (None, None));
    for _ in 0..3 {
        pass(&mut router, &udp(SRC, "10.1.0.2", 64, 0, &[7; 972]));
    }
    // Each packet takes a millisecond, and in between there is nothing to do.
    let (mut now, mut looks, mut sent) = (start, Vec::new(), 0);
    loop {
        while let Some(port) = router.due(now) {
            looks.push(port);
            while let Some(frame) = router.poll(now, port) {
                sent += 1;
                router.pool_mut().give(frame);
            }
        }
        match router.deadline() {
            Some(at) => now = at,
            None => break,
        }
    }
    assert_eq!(sent, 3);
    assert!(looks.iter().all(|port| *port == 700), "{looks:?}");
    assert!((3..=5).contains(&looks.len()), "{looks:?}");
    // A changed port is looked at once.
    router.port_mut(3).unwrap();
    assert_eq!(router.due(now), Some(3));
    assert!(router.poll(now, 3).is_none());
    assert_eq!(router.due(now), None);
}
