//! Connections without sockets, using a virtual clock.

use std::net::SocketAddr;

use pathmark_transport::Ecn;
use pathmark_transport::connection::Received;

/// A test that gives a function so many random inputs of at most this length.
macro_rules! target {
    ($name:ident, $function:ident) => {
        #[test]
        fn $name() {
            bolero::check!()
                .with_iterations(ITERATIONS)
                .with_max_len(MAX_LEN)
                .for_each($function);
        }
    };
}

mod faults;
mod flood;
mod fuzz_endpoint;
mod fuzz_wire;
mod fuzz_words;
mod long_fat_path;
mod memory;

/// Arrived from `remote`, without a mark.
fn plain(remote: SocketAddr) -> Received {
    Received {
        remote,
        local: None,
        ecn: Ecn::NotEct,
        ttl: None,
    }
}
