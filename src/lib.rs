//! A QUIC version 1 transport in which routers on the path can tell senders how fast to go.
//!
//! ```text
//!  application ──streams──► Connection ──request in a shim──► routers ──their load──► receiver
//!                               ▲                                                        │
//!                               └── window and pace by the answer ◄── encrypted ACKs ────┘
//! ```
//!
//! Routers on the path write their load, or a rate, into a small header (the shim) in front of each
//! packet. The receiver returns it inside encrypted acknowledgements, and the sender's congestion
//! controller follows it. If no router answers, or if the peer is another QUIC implementation, you
//! simply get plain QUIC on CUBIC.
//!
//! # When to use it
//!
//! You will benefit on long, fat or lossy paths if the bottleneck router runs `vcp-router` and both
//! ends use this library. Without such a router it is an ordinary QUIC library, in which you should
//! choose `bbr` for paths with random loss. Behind other IP routers `auto` starts more
//! carefully, because such a router could be the bottleneck without saying so.
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
//! let server_config = ServerConfig::with_transport(Arc::new(certificate), transport.clone());
//! let server = Endpoint::server(server_config, "127.0.0.1:0".parse()?)?;
//! let address = server.local_address();
//! tokio::spawn(async move {
//!     let connection = server.accept().await?.accept().ok()?.await.ok()?;
//!     let mut stream = connection.accept_uni().await.ok()?;
//!     println!("{}", String::from_utf8(stream.read_to_end(100).await.ok()?).ok()?);
//!     // Keep the connection open until the client closes it: dropping it would close it now.
//!     connection.closed().await;
//!     Some(())
//! });
//!
//! let client = Endpoint::client("127.0.0.1:0".parse()?)?;
//! let tls = tls::TlsClientConfig::new(trust, &[b"hello"])?;
//! let config = ClientConfig::with_transport(Arc::new(tls), transport);
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
//! `TransportConfig::default()` has `auto`. You choose another congestion control by passing its
//! name to [`transport_config`].
//!
//! | name | when to choose it |
//! |---|---|
//! | `auto` | usually: it follows whichever answers the routers give, and is CUBIC without any |
//! | `vcp+bise+wlte` | routers send the load codes of VCP, the Variable-structure congestion Control Protocol, with its Bandwidth-Independent Start-up (BISE) and Wireless Loss Tolerant (WLTE) Extensions |
//! | `xcp` | routers grant rates by XCP, the eXplicit Control Protocol |
//! | `xcp-i` | the same across routers without XCP; the feature `xcp-i` has the hosts' half |
//! | `cubiq`, `ada` | routers only approve a starting rate by Quick-Start; then CUBIC or NewReno continues |
//! | `bbr` | there are no routers, and the path loses packets at random or has deep buffers |
//! | `cubic`, `newreno` | there are no routers, and you want the standard |
//!
//! To write a controller of your own, implement [`cc::Controller`]; the feature `testkit` tests it
//! over emulated paths. [`cc`] lists the options in brackets, as in `vcp[epsilon=0.0625]`.
//!
//! # Reading the path
//!
//! If a connection is slow, call [`Connection::path_report`]. It names the router at the bottleneck
//! and its latest feedback. [`PathReport::bounded_by`] tells you for how much of the time the
//! application, the peer, buffers, the window or routers held the sender back, and
//! `controller.fallback` why CUBIC is in control instead of the routers.
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `xcp-i` | the module `xcp_i`: hosts that answer XCP-i routers |
//! | `testkit` | the module `testkit`: emulated paths for tests of control laws |
//! | `qlog` | the module `qlog`: logs of connections |
//! | `native-certs` | `tls::Trust::platform`: the system's certificate authorities |
//!
//! None is on by default.
//!
//! # Tuning for long fat paths
//!
//! The defaults are enough for one connection of 1 Gbit/s over 400 ms. Beyond this, look at:
//!
//! - [`Endpoint::set_receive_memory`]: a receiver may hold half of this for one connection. For a
//!   path of 10 Gbit/s and 720 ms you should set 8 GiB.
//! - [`StreamsConfig`]: the windows that a receiver promises at first. [`transport_config`] already
//!   raises them if routers may grant rates.
//! - [`known_rate`](transport::TransportConfig::known_rate): by setting this, you let the sender
//!   ask for this starting rate before the handshake is complete.
//! - [`Endpoint::receive_buffer`]: the size that the kernel granted to the socket. You can raise
//!   its limit, `net.core.rmem_max`.
//! - [`TransportConfig::max_idle_timeout`](TransportConfig::max_idle_timeout()): this should be
//!   longer than the longest outage.
//!
//! # TLS and security
//!
//! TLS 1.3 is always on. [`tls::Trust`] accepts either certificate authorities or the pin of one
//! certificate. Since shims are in clear text, routers on the path can write any mark. This can
//! change the rate of a flow, but not its data. `SECURITY.md` in the repository has the threat
//! model.
//!
//! # Packages
//!
//! Endpoints and streams are from [`pathmark_driver`], which drives the protocol core of
//! [`pathmark_transport`]. Controllers are from [`pathmark_cc`], and protocols on the wire are from
//! [`pathmark_protocols`]. `pathmark-http3` transfers files, and the command is in `pathmark-cli`.
//! Version 0.1 is unreleased, and its API may change.

#![forbid(unsafe_code)]

use std::sync::Arc;

use pathmark_cc::Algorithm;
use pathmark_protocols::signals;

#[cfg(feature = "xcp-i")]
pub mod xcp_i;

pub use pathmark_cc as cc;
pub use pathmark_driver::{
    Accept, ClientConfig, ConnectError, Connecting, Connection, Datagram, DatagramSocket, Endpoint,
    EndpointConfig, IdleTimeout, Incoming, IncomingFuture, ReadError, ReadExactError,
    ReadToEndError, ReceiveBuffer, RecvStream, RetryError, SendDatagramError, SendStream,
    ServerConfig, Stopped, TokioRuntime, TransportConfig, WeakConnection, WriteError, ZeroRtt,
    default_runtime, now,
};
#[cfg(feature = "testkit")]
pub use pathmark_emulator::kit as testkit;
#[cfg(feature = "qlog")]
pub use pathmark_qlog as qlog;
pub use pathmark_transport as transport;
pub use pathmark_transport::connection::{
    ApplicationClose, BoundShares, ConnectionError, EarlyData, PathReport, Received, Stats,
};
pub use pathmark_transport::crypto::tls::rustls;
pub use pathmark_transport::crypto::{ExportError, HandshakeData, SharedEndpointKey, tls};
pub use pathmark_transport::endpoint::{AcceptError, EndpointStats, RetryPolicy};
pub use pathmark_transport::streams::{Dir, Side, StreamId, StreamsConfig};
pub use pathmark_transport::wire::{TransportError, TransportErrorCode};
pub use pathmark_transport::{
    ControllerFactory, DatagramsConfig, Duration, Ecn, Instant, Signal, VarInt,
};

/// Returns transport settings with the named congestion control, and with the signal by which it
/// asks routers.
///
/// `"auto".parse()` should be your first choice, and is [`Algorithm::default()`]: it follows
/// routers if they answer, and otherwise runs CUBIC. With `cubic`, `bbr` or `newreno` a connection
/// sends exactly the bytes of plain QUIC. Otherwise the settings also offer the other signals that
/// travel in shims, so that each side can use its own controller, and you can change the signal
/// later by calling [`Connection::set_signal`].
#[must_use]
pub fn transport_config(algorithm: &Algorithm) -> TransportConfig {
    TransportConfig::of(algorithm)
}

/// TLS under the names that quinn has for it.
pub mod crypto {
    /// TLS from rustls.
    pub mod rustls {
        pub use super::super::HandshakeData;
        pub use super::super::tls::{
            TlsClientConfig as QuicClientConfig, TlsServerConfig as QuicServerConfig,
        };
    }
}

/// Returns transport settings that use the first of `laws` and offer the signals of all laws.
///
/// This is for a server that lets each client choose: to change a connection to another law, call
/// [`Connection::set_controller`].
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

/// Returns the signal with which a named law asks routers, or `None` if it doesn't ask any.
#[must_use]
pub fn signal(algorithm: &Algorithm) -> Option<Arc<dyn Signal>> {
    signals::signal(algorithm.explicit()?)
}

/// Compiles the README's example as a doctest.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;

/// Runs the quick start's program as a doctest.
#[cfg(doctest)]
#[doc = include_str!("../docs/quick-start.md")]
pub struct QuickStart;

/// Returns a factory that creates controllers of a named law, for passing to
/// [`Connection::set_controller`].
#[must_use]
pub fn controller(algorithm: &Algorithm) -> Arc<dyn ControllerFactory> {
    let algorithm = algorithm.clone();
    Arc::new(move |now, mtu| algorithm.controller(now, mtu))
}
