//! Reliable streams over UDP with explicit congestion feedback from routers on the path.
//!
//! ```text
//!  application ──streams──► Connection ──request in a shim──► routers ──their load──► receiver
//!                               ▲                                                        │
//!                               └── window and pace by the answer ◄── encrypted ACKs ────┘
//! ```
//!
//! TCP and other QUIC libraries infer a path's load from loss and delay; pathmark reads it.
//! Routers on the path write their load into a small shim in front of each packet: VCP's code, with
//! the extensions BISE and WLTE, or XCP's grants of rate. The receiver returns it inside encrypted
//! acknowledgements, and a congestion controller obeys. Where no router answers, or the peer is
//! plain QUIC, a connection is plain QUIC version 1 on CUBIC.
//!
//! This package puts the parts together: endpoints and streams from [`pathmark_transport`], laws
//! from [`pathmark_cc`], VCP, XCP and Quick-Start on the wire from [`pathmark_protocols`]. With
//! feature `testkit` it has the emulator's test kit, `pathmark_emulator::kit`. Files travel by the
//! package `pathmark-http3`; the `pathmark` command is `pathmark-cli`.
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

#![forbid(unsafe_code)]

use std::sync::Arc;

use pathmark_cc::Algorithm;
use pathmark_protocols::signals;

#[cfg(feature = "xcp-i")]
pub mod xcp_i;

pub use pathmark_cc as cc;
#[cfg(feature = "testkit")]
pub use pathmark_emulator::kit as testkit;
pub use pathmark_transport as transport;
pub use pathmark_transport::connection::{
    BoundShares, ConnectionError, EarlyData, PathReport, Received, Stats,
};
pub use pathmark_transport::crypto::{ExportError, HandshakeData, SharedEndpointKey, tls};
pub use pathmark_transport::driver::{
    Accept, ClientConfig, ConnectError, Connecting, Connection, Datagram, DatagramSocket, Endpoint,
    Incoming, IncomingFuture, ReadError, ReadToEndError, RecvStream, SendDatagramError, SendStream,
    ServerConfig, SocketBuffers, Stopped, WeakConnection, WriteError, ZeroRtt, now,
};
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

/// The controllers of a named law.
#[must_use]
pub fn controller(algorithm: &Algorithm) -> Arc<dyn ControllerFactory> {
    let algorithm = algorithm.clone();
    Arc::new(move |now, mtu| algorithm.controller(now, mtu))
}
