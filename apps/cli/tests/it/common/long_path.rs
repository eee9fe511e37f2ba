//! Two hosts and a router between them, with a round trip of 600 ms.

use pathmark_cli::demo::bed::Bed;
use pathmark_cli::demo::kernel;
use pathmark_cli::demo::scenario::{Scenario, Stack};

use super::on_node::router;

/// Creates a path whose router has a port for `law` toward the client, which loses packets with
/// this probability. The kernel's windows are large enough for this path.
pub(crate) fn path(rate_bps: u64, loss: f64, law: &str) -> Bed {
    let scenario = Scenario {
        name: "tunnel",
        rate_bps,
        delay_ms: 300,
        loss,
        files: 1,
        bytes: 1,
    };
    let stack = Stack::Pathmark(law.parse().unwrap());
    let bed = Bed::new(&scenario, &stack, router(), 1).unwrap();
    for node in [bed.server(), bed.client()] {
        kernel::tune(node).unwrap();
    }
    bed
}
