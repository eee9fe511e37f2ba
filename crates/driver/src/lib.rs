//! The tokio driver: sockets, clocks and wakers around the sans-I/O core.
//!
//! ```text
//!   socket ─ one task per endpoint ─► endpoint core ─┬─► connection core (under its lock)
//!                                        other cores └─► inbox ─►│ (opened by its task)
//!                                                                │ wakes
//!   socket ◄─ one task per connection ◄─ batches, deadlines ─────┘──► streams, futures of the
//!                    ▲ wakes                                          application
//!   timer ─ one task per endpoint
//! ```
//!
//! The endpoint's lock is never held while opening, sending or receiving packets, or while creating
//! a TLS session.
//!
//! Applications should depend on the package `pathmark`, which re-exports most of these items.
//!
//! On systems other than Linux, you will have to do without these features:
//!
//! | feature | without it |
//! |---|---|
//! | code points of [`TransportConfig::dscp`] | packets leave with 0 |
//! | the MTU of interfaces | if [`TransportConfig::max_mtu`] is `None`, no datagram has more than 1472 bytes |
//! | TTL of received datagrams | [`Arrived`](pathmark_transport::Arrived) has none |
//! | ICMP errors during a handshake | [`TransportConfig::handshake_timeout`] ends it |
//! | timers of the kernel | those of tokio, in steps of 1 ms |
//!
//! [`TransportConfig::dscp`]: pathmark_transport::TransportConfig::dscp
//! [`TransportConfig::handshake_timeout`]: pathmark_transport::TransportConfig::handshake_timeout
//! [`TransportConfig::max_mtu`]: pathmark_transport::TransportConfig::max_mtu
//!
//! Names and conventions are those of quinn where the meaning is the same. Additionally, there are
//! [`Connection::path_report`], [`Connection::set_controller`] and [`Connection::receive_buffer`].

#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]

mod arrivals;
mod clock;
mod config;
mod connection;
mod connection_task;
mod datagrams;
mod endpoint;
#[cfg(target_os = "linux")]
mod error_queue;
mod handshake;
mod interfaces;
mod opening;
mod own_socket;
mod rebind;
mod receive_buffer;
mod receive_task;
mod recv_stream;
#[cfg(target_os = "linux")]
mod refusals;
mod send_stream;
mod shared;
mod socket;
mod stream_error;
mod sys;
mod timers;
mod unopened;
mod user;
mod waiters;

#[cfg(test)]
mod api_tests;
#[cfg(all(test, target_os = "linux"))]
mod attack_tests;
#[cfg(all(test, target_os = "linux"))]
mod connection_task_tests;
#[cfg(all(test, target_os = "linux"))]
mod ecn_tests;
#[cfg(all(test, target_os = "linux"))]
mod entropy_tests;
#[cfg(test)]
mod flood_tests;
#[cfg(all(test, target_os = "linux"))]
mod interface_tests;
#[cfg(all(test, target_os = "linux"))]
mod late_tests;
#[cfg(all(test, target_os = "linux"))]
mod odd_tests;
#[cfg(test)]
mod own_socket_tests;
#[cfg(all(test, target_os = "linux"))]
mod refusal_tests;
#[cfg(test)]
mod runtime_tests;
#[cfg(all(test, target_os = "linux"))]
mod scarce_tests;
#[cfg(test)]
mod sending_tests;
#[cfg(all(test, target_os = "linux"))]
mod slow_tests;
#[cfg(all(test, target_os = "linux"))]
mod stalled_tests;
#[cfg(test)]
mod starting_tests;
#[cfg(all(test, target_os = "linux"))]
mod stranger_tests;
#[cfg(test)]
mod test_waker;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod unopened_tests;
#[cfg(test)]
mod waiting_tests;

pub use crate::config::{IdleTimeout, TransportConfig};
pub use crate::stream_error::{ReadError, ReadExactError, ReadToEndError, WriteError};
pub use clock::now;
pub use config::{ClientConfig, EndpointConfig, ServerConfig, TokioRuntime, default_runtime};
pub use connection::{Connection, WeakConnection};
pub use datagrams::{DatagramQueue, SendDatagramError};
pub use endpoint::{ConnectError, Endpoint};
pub use handshake::{Accept, Connecting, Incoming, IncomingFuture, RetryError, ZeroRtt};
pub use own_socket::{Datagram, DatagramSocket};
pub use receive_buffer::ReceiveBuffer;
pub use recv_stream::RecvStream;
pub use send_stream::{SendStream, Stall, Stopped};
