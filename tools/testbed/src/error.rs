//! Errors of a test bed, with messages that say how to fix them.

use std::io;

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
