//! Rootless test bed: hosts, links and routers on one machine, without root and without `ip netns`.
//!
//! ```text
//!   Testbed ── one user namespace, in which this user is root
//!     ├─ Node "sender"     a network namespace ── tun0 ─┐ packets of both interfaces come out of
//!     ├─ Node "receiver"   a network namespace ── tun0 ─┴─► file descriptors that a router reads and writes
//!     └─ Node "wire" …     namespaces joined by veth pairs
//! ```
//!
//! A namespace lives as long as a descriptor or a process in it. This crate keeps only descriptors,
//! and processes started through [`Node::spawn`] die with the process that started them: so nothing
//! is left behind, also after a crash or Ctrl-C. Interfaces are configured over netlink sockets
//! that were opened inside the namespace, and sockets for a node can be used from any thread of the
//! caller, so a test can run an endpoint "on" a node without leaving its process.
//!
//! System calls live in the private `sys` module only.

pub mod chain;
mod error;
mod namespace;
mod netlink;
mod own_process;
mod process;
pub mod subnet;
mod sys;
mod undisturbed;

pub use error::Error;
pub use ipnet::IpNet;
pub use namespace::{Node, Testbed, Tun};
pub use own_process::own_process;
pub use process::ChildGuard;
pub use undisturbed::undisturbed;
