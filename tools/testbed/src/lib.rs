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
//! Only the private `sys` module makes system calls. Messages of errors say how to fix them.

pub mod chain;
mod namespace;
mod netlink;
mod process;
mod sys;

pub use chain as subnet;

use std::io;

pub use ipnet::IpNet;
pub use namespace::{Node, Testbed, Tun, own_process};
pub use process::{ChildGuard, undisturbed};

/// Why a test bed could not be created or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The machine forbids user namespaces.
    #[error(
        "this machine forbids user namespaces ({0}); allow them with `sysctl \
         kernel.unprivileged_userns_clone=1` \
         or, on Ubuntu, `sysctl kernel.apparmor_restrict_unprivileged_userns=0`, or run as root"
    )]
    UserNamespace(#[source] io::Error),
    /// The machine forbids network namespaces, or has none left.
    #[error("this machine gives no network namespace ({0}); see `sysctl user.max_net_namespaces`")]
    NetworkNamespace(#[source] io::Error),
    /// `/dev/net/tun` is missing or can't be opened.
    #[error(
        "no TUN interface to be had ({0}); load the module (`modprobe tun`) and see that \
         /dev/net/tun may be read \
         and written by everyone (`chmod 0666 /dev/net/tun`)"
    )]
    Tun(#[source] io::Error),
    /// A name that the kernel would refuse, because it is empty, too long, or contains a slash or a
    /// space.
    #[error("`{0}` is no interface name: 1 to 15 letters, digits, `-` or `_`")]
    InterfaceName(String),
    /// The kernel refused to configure something.
    #[error("cannot {what} on node `{node}`: {source}")]
    Configure {
        /// The operation that failed.
        what: String,
        /// The node's name.
        node: String,
        /// The kernel's error.
        source: io::Error,
    },
}

impl Error {
    /// Returns true if the machine's rules forbid test beds, rather than if this one was used
    /// wrongly.
    pub fn is_forbidden(&self) -> bool {
        matches!(
            self,
            Self::UserNamespace(_) | Self::NetworkNamespace(_) | Self::Tun(_)
        )
    }
}

/// Returns each `every`th cell of a sweep, from the first on. If the environment has
/// `PATHMARK_SWEEPS=whole`, as under `cargo xtask soak`, it returns all of them.
///
/// # Panics
///
/// If `every` is 0.
pub fn sampled<T>(every: usize, cells: impl IntoIterator<Item = T>) -> Vec<T> {
    let whole = std::env::var_os("PATHMARK_SWEEPS").is_some_and(|part| part == "whole");
    let step = if whole { 1 } else { every };
    cells.into_iter().step_by(step).collect()
}
