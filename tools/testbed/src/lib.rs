//! A rootless test bed: hosts, links and routers on one machine, without root and without `ip
//! netns`.
//!
//! ```text
//!   Testbed ── one user namespace, in which this user is root
//!     ├─ Node "sender"     a network namespace ── tun0 ─┐ packets of both interfaces come out of
//!     ├─ Node "receiver"   a network namespace ── tun0 ─┴─► file descriptors that a router reads and writes
//!     └─ Node "wire" …     namespaces joined by veth pairs
//! ```
//!
//! A namespace lives as long as a descriptor or a process in it. Since this crate only keeps
//! descriptors, and processes started through [`Node::spawn`] die with the process that started
//! them, nothing is left behind, even after a crash or Ctrl-C. Interfaces are configured over
//! netlink sockets that were opened inside the namespace. Any thread of the caller can use the
//! sockets of a node, so that a test can run an endpoint "on" a node without leaving its process.
//!
//! Only the private `sys` module makes system calls.

pub mod chain;
mod error;
mod namespace;
mod netlink;
mod own_process;
mod process;
pub mod subnet;
mod sweep;
mod sys;
mod undisturbed;

pub use error::Error;
pub use ipnet::IpNet;
pub use namespace::{Node, Testbed, Tun};
pub use own_process::own_process;
pub use process::ChildGuard;
pub use sweep::sampled;
pub use undisturbed::undisturbed;
