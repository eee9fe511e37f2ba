//! When the first bytes of a flow reach its target.

use std::net::SocketAddr;
use std::time::Instant;

use pathmark_cli::demo::bed::SERVER;
use pathmark_testbed::Node;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::common::long_path::path;
use crate::common::pair::{Pair, connect, echo, listener};

/// Returns the round trips until the first byte of a new flow has been returned.
async fn first_byte(node: &Node, through: SocketAddr) -> f64 {
    let began = Instant::now();
    let mut flow = connect(node, through).await.unwrap();
    flow.write_u8(1).await.unwrap();
    assert_eq!(flow.read_u8().await.unwrap(), 1);
    began.elapsed().as_secs_f64() / 0.6
}

/// A request and its answer take one round trip, or two if the request waits for the target.
#[tokio::test(flavor = "multi_thread")]
async fn first_bytes_go_with_the_request() {
    let bed = path(100_000_000, 0.0, "cubic");
    let target = listener(bed.server(), SocketAddr::new(SERVER, 7000));
    let to = target.local_addr().unwrap();
    tokio::spawn(echo(target));
    let far = (bed.server(), SERVER);
    let pair = Pair::with(far, bed.client(), to, &["--fast-open"]);
    // From here on, the tunnel has its connection.
    first_byte(bed.client(), pair.forward).await;
    let early = first_byte(bed.client(), pair.forward).await;
    let direct = first_byte(bed.client(), to).await;
    println!("{early:.2} round trips, directly {direct:.2}");
    assert!(early < 1.5 && direct >= 2.0, "{early} {direct}");
}
