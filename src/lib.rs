//! A QUIC version 1 transport whose congestion control reads what routers on the path report.
//!
//! ```text
//!  application ──streams──► Connection ──request in a shim──► routers ──their load──► receiver
//!                               ▲                                                        │
//!                               └── window and pace by the answer ◄── encrypted ACKs ────┘
//! ```
//!
//! Routers on the path write their load, or a rate, into a small header (the shim) in front of each
//! packet. The receiver returns it inside encrypted acknowledgements, and the sender's congestion
//! controller follows it. Where no router answers, or the peer is another QUIC implementation, a
//! connection is plain QUIC on CUBIC.
//!
//! # When to use it
//!
//! It serves long, fat or lossy paths whose bottleneck router runs `vcp-router`. Without such a
//! router it is one more QUIC library: `bbr` is then the law for random loss.
//!
//! # Example
//!
//! ```
//! use std::sync::Arc;
//! use pathmark::{ClientConfig, Endpoint, ServerConfig, tls};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
//! let key = made.signing_key.serialize_der().try_into()?;
//! let certificate = tls::TlsServerConfig::new(vec![made.cert.der().clone()], key, &[b"hello"])?;
//! let trust = tls::Trust::Pin(certificate.pin().expect("it has a certificate"));
//!
//! let transport = Arc::new(pathmark::transport_config(&"auto".parse()?));
//! let server_config = ServerConfig::new(Arc::new(certificate), transport.clone());
//! let server = Endpoint::server(server_config, "127.0.0.1:0".parse()?)?;
//! let address = server.local_address();
//! tokio::spawn(async move {
//!     let connection = server.accept().await?.accept().ok()?.await.ok()?;
//!     let mut stream = connection.accept_uni().await.ok()?;
//!     println!("{}", String::from_utf8(stream.read_to_end(100).await.ok()?).ok()?);
//!     // A connection that is dropped is closed: the client ends this one.
//!     connection.closed().await;
//!     Some(())
//! });
//!
//! let client = Endpoint::client("127.0.0.1:0".parse()?)?;
//! let tls = tls::TlsClientConfig::new(trust, &[b"hello"])?;
//! let config = ClientConfig::new(Arc::new(tls), transport);
//! let connection = client.connect_with(config, address, "localhost")?.await?;
//! let mut stream = connection.open_uni().await?;
//! stream.write_all(b"hello, path").await?;
//! stream.finish()?;
//! stream.stopped().await?;
//! println!("{:?}", connection.path_report().controller);
//! # Ok(())
//! # }
//! ```
//!
//! # Choosing a controller
//!
//! [`transport_config`] takes a law by its name:
//!
//! | name | when |
//! |---|---|
//! | `auto` | the default: the richest signal that the routers answer, else CUBIC |
//! | `vcp+bise+wlte` | routers send the load codes of VCP, the Variable-structure congestion Control Protocol, with its Bandwidth-Independent Start-up (BISE) and Wireless Loss Tolerant (WLTE) Extensions |
//! | `xcp` | routers grant rates by XCP, the eXplicit Control Protocol |
//! | `xcp-i` | the same across routers without XCP; feature `xcp-i` has the hosts' half |
//! | `cubiq`, `ada` | routers approve a starting rate by Quick-Start; CUBIC or NewReno goes on |
//! | `bbr` | no routers; random loss or deep buffers |
//! | `cubic`, `newreno` | no routers; the standard laws |
//!
//! A law of your own implements [`cc::Controller`]; the feature `testkit` tests it over emulated
//! paths. [`cc`] lists the options in brackets, as in `vcp[epsilon=0.0625]`.
//!
//! # Reading the path
//!
//! [`Connection::path_report`] names the router at the bottleneck and its latest feedback.
//! [`PathReport::bounded_by`] has the shares of time in which the application, the peer, buffers,
//! the window or routers held the sender back; `controller.fallback` says why CUBIC is in control.
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `xcp-i` | the module `xcp_i`: hosts that answer XCP-i routers |
//! | `testkit` | the module `testkit`: emulated paths for tests of control laws |
//! | `native-certs` | `tls::Trust::platform`: the system's certificate authorities |
//!
//! None is on by default.
//!
//! # Tuning for long fat paths
//!
//! - [`Endpoint::set_receive_memory`]: a receiver may hold half of it for one connection. A path of
//!   10 Gbit/s and 720 ms takes 8 GiB.
//! - [`StreamsConfig`]: the windows that a receiver promises at first. [`transport_config`] raises
//!   them for laws that routers may grant rates.
//! - [`TransportConfig::known_rate`]: with a law that asks for a starting rate, the sender asks for
//!   this one before the handshake is complete.
//! - [`Endpoint::socket_buffers`]: the sizes that the kernel granted. `net.core.rmem_max` and
//!   `net.core.wmem_max` bound them.
//! - [`TransportConfig::max_idle_timeout`]: longer than the longest outage.
//!
//! # TLS and security
//!
//! TLS 1.3 is always on. [`tls::Trust`] takes certificate authorities or the pin of one
//! certificate. Shims are in clear text, and routers on the path can write any mark. This changes
//! the rate of a flow, not its data. `SECURITY.md` in the repository has the threat model.
//!
//! # Packages
//!
//! Endpoints and streams are those of [`pathmark_transport`], laws of [`pathmark_cc`], protocols on
//! the wire of [`pathmark_protocols`]. Files travel by the package `pathmark-http3`; the command is
//! `pathmark-cli`. Version 0.1 is unreleased, and its API may change.

#![forbid(unsafe_code)]

use std::sync::Arc;

use pathmark_cc::Algorithm;
use pathmark_protocols::signals;

#[cfg(feature = "xcp-i")]
pub mod xcp_i;

pub use pathmark_cc as cc;
pub use pathmark_driver::{
    Accept, ClientConfig, ConnectError, Connecting, Connection, Datagram, DatagramSocket, Endpoint,
    Incoming, IncomingFuture, ReadError, ReadToEndError, RecvStream, SendDatagramError, SendStream,
    ServerConfig, SocketBuffers, Stopped, WeakConnection, WriteError, ZeroRtt, now,
};
#[cfg(feature = "testkit")]
pub use pathmark_emulator::kit as testkit;
pub use pathmark_transport as transport;
pub use pathmark_transport::connection::{
    BoundShares, ConnectionError, EarlyData, PathReport, Received, Stats,
};
pub use pathmark_transport::crypto::{ExportError, HandshakeData, SharedEndpointKey, tls};
pub use pathmark_transport::endpoint::{AcceptError, EndpointConfig, EndpointStats, RetryPolicy};
pub use pathmark_transport::streams::{Dir, Side, StreamId, StreamsConfig};
pub use pathmark_transport::wire::{TransportError, TransportErrorCode};
pub use pathmark_transport::{
    ControllerFactory, DatagramsConfig, Duration, Ecn, Instant, Signal, TransportConfig, VarInt,
};

/// Transport settings for a named law: its controllers, and the router signal that it uses.
///
/// `"auto".parse()` is the library's choice, [`Algorithm::default()`]: it obeys routers where they
/// answer and runs CUBIC where none does. With `cubic`, `bbr` or `newreno` not one byte differs
/// from plain QUIC. Other signals that travel in shims are offered too, so that each side sends by
/// its own law and [`Connection::set_signal`] may change it.
#[must_use]
pub fn transport_config(algorithm: &Algorithm) -> TransportConfig {
    let mut config = TransportConfig::new(controller(algorithm));
    config.signals = signals::offered_by(algorithm);
    if algorithm.is_granted() {
        config.streams = config.streams.with_room_for_grants();
    }
    config
}

/// Transport settings for an endpoint that sends by the first of `laws` unless one of the others is
/// [set](Connection::set_controller) on a connection: it offers the signals of all.
#[must_use]
pub fn transport_config_of(laws: &[Algorithm]) -> TransportConfig {
    let default = Algorithm::default();
    let mut config = transport_config(laws.first().unwrap_or(&default));
    for signal in laws.iter().filter_map(signal) {
        if config.signals.iter().all(|s| s.kind() != signal.kind()) {
            config.signals.push(signal);
        }
    }
    config
}

/// The router signal that a named law uses, if any.
#[must_use]
pub fn signal(algorithm: &Algorithm) -> Option<Arc<dyn Signal>> {
    signals::signal(algorithm.explicit()?)
}

/// The README's example compiles too.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;

/// The quick start's program runs.
#[cfg(doctest)]
#[doc = include_str!("../docs/quick-start.md")]
pub struct QuickStart;

/// The controllers of a named law.
#[must_use]
pub fn controller(algorithm: &Algorithm) -> Arc<dyn ControllerFactory> {
    let algorithm = algorithm.clone();
    Arc::new(move |now, mtu| algorithm.controller(now, mtu))
}
