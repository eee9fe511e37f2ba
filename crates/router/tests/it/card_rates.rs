//! What one TCP flow gets from card to card, through the router and through the kernel alone.

use std::time::Duration;

use crate::cards::{Cards, goodput};

/// In turn, so that other load on the machine affects both: a measurement, not a test.
#[test]
#[ignore = "cargo xtask soak card-rates"]
fn one_tcp_flow_compared_with_kernel_forwarding() {
    let mut cards = Cards::with("", "");
    let time = Duration::from_secs(2);
    let mut shares = Vec::new();
    for _ in 0..9 {
        let (a, b) = cards.tcp(false);
        let kernel = goodput(a, b, time) / 1e9;
        cards.setup();
        cards.start();
        cards.udp(false).until_not_past();
        let (a, b) = cards.tcp(false);
        let router = goodput(a, b, time) / 1e9;
        cards.kill();
        assert_eq!(cards.tool("teardown", &[]).code, Some(0));
        eprintln!("kernel {kernel:.2}, router {router:.2} Gbit/s");
        shares.push((router / kernel, router, kernel));
    }
    shares.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (share, router, kernel) = shares[shares.len() / 2];
    eprintln!("the median share is {share:.2}: {router:.2} of {kernel:.2} Gbit/s");
    let (least, most) = (shares[0].0, shares[shares.len() - 1].0);
    eprintln!("from {least:.2} to {most:.2}");
}
