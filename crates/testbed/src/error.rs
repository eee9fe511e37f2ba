//! What can go wrong with a test bed, said so that one knows what to do.

use std::io;

/// A test bed that cannot be had.
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
    /// The machine forbids network namespaces, or is out of them.
    #[error("this machine gives no network namespace ({0}); see `sysctl user.max_net_namespaces`")]
    NetworkNamespace(#[source] io::Error),
    /// `/dev/net/tun` is missing or refused.
    #[error(
        "no TUN interface to be had ({0}); load the module (`modprobe tun`) and see that \
         /dev/net/tun may be read \
         and written by everyone (`chmod 0666 /dev/net/tun`)"
    )]
    Tun(#[source] io::Error),
    /// A name that the kernel would not take (empty, too long, or with a slash or a blank).
    #[error("`{0}` is no interface name: 1 to 15 letters, digits, `-` or `_`")]
    InterfaceName(String),
    /// The kernel refused to configure something.
    #[error("cannot {what} on node `{node}`: {source}")]
    Configure {
        /// What was tried.
        what: String,
        /// Where.
        node: String,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl Error {
    /// True if the machine's rules forbid a test bed altogether, as opposed to a mistake in its
    /// use.
    pub fn is_forbidden(&self) -> bool {
        matches!(
            self,
            Self::UserNamespace(_) | Self::NetworkNamespace(_) | Self::Tun(_)
        )
    }
}
