//! Registering your own protocols.

#[cfg(feature = "transport")]
use std::sync::Arc;
use std::sync::OnceLock;

use pathmark_cc::Feedback;
use pathmark_shim::Kind;
#[cfg(feature = "transport")]
use pathmark_transport::Signal;

/// Names of the library's protocols, by kind.
const NAMES: [&str; 3] = ["vcp", "xcp", "quick-start"];
/// Number of shim kinds.
const KINDS: usize = 8;

/// The protocols that this process has registered, by kind.
static OWN: [OnceLock<&'static dyn Protocol>; KINDS] = [const { OnceLock::new() }; KINDS];

/// Your own signalling protocol, consisting of its shim and its signal.
///
/// You must register its control laws separately: the sender's by calling
/// [`Algorithm::register`](pathmark_cc::Algorithm::register), and the port's by calling
/// [`LinkAlgorithm::register`](pathmark_cc::LinkAlgorithm::register). Since all methods process
/// bytes from the network, none may panic.
pub trait Protocol: Send + Sync {
    /// Returns the kind number of its shims, which must be at least [`Kind::FIRST_FREE`].
    fn kind(&self) -> Kind;

    /// Returns its name for reports.
    fn name(&self) -> &'static str;

    /// Returns the fields of a valid shim at the start of `payload`, or `None` if there is no such
    /// shim. A port's law gets these fields in [`Carried::Own`](pathmark_cc::Carried::Own).
    fn read(&self, payload: &[u8]) -> Option<[u64; 3]>;

    /// Writes the words that the port's law put into [`Answer::Own`](pathmark_cc::Answer::Own) into
    /// a valid shim at the start of `payload`. `router` is the port's identity. Returns false,
    /// without changing anything, if there is no such shim. Bytes behind the shim must not change.
    fn write(&self, words: [u64; 3], router: u16, payload: &mut [u8]) -> bool;

    /// Merges the result of `outer`, a copy of a shim that has crossed a tunnel in front of one of
    /// the tunnel's packets, into `inner`, the shim itself. Both are valid and have the same
    /// length. Returns false, without changing anything, if the result is refused. By default, the
    /// copy replaces the shim, whatever routers wrote into it.
    fn merge(&self, inner: &mut [u8], outer: &[u8]) -> bool {
        inner.copy_from_slice(outer);
        true
    }

    /// Returns the signal for endpoints. One value serves all connections of an endpoint.
    #[cfg(feature = "transport")]
    fn signal(&self) -> Arc<dyn Signal>;
}

/// Why a protocol could not be registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// Its kind is used by another protocol.
    #[error("shims of kind {kind} belong to another protocol: choose a free one of 3 to 7")]
    Taken {
        /// The kind number.
        kind: u8,
    },
    /// Its name is used by a protocol of the library.
    #[error("`{name}` is a protocol of the library: choose another name")]
    Name {
        /// The name.
        name: &'static str,
    },
}

/// Registers a protocol in this process. It can't be removed.
///
/// # Errors
/// [`RegisterError`].
pub fn register(protocol: &'static dyn Protocol) -> Result<(), RegisterError> {
    let (kind, name) = (protocol.kind().number(), protocol.name());
    if NAMES.contains(&name) {
        return Err(RegisterError::Name { name });
    }
    let taken = RegisterError::Taken { kind };
    if kind < Kind::FIRST_FREE.number() {
        return Err(taken);
    }
    let slot = OWN.get(usize::from(kind)).ok_or(taken)?;
    slot.set(protocol).map_err(|_| taken)
}

/// Returns the registered protocol of this kind.
#[inline]
pub fn find(kind: u8) -> Option<&'static dyn Protocol> {
    OWN.get(usize::from(kind))?.get().copied()
}

/// Returns the name of the protocol to which this feedback belongs.
pub fn name_of(feedback: &Feedback) -> Option<&'static str> {
    let [vcp, xcp, quick_start] = NAMES;
    match feedback {
        Feedback::Vcp(_) => Some(vcp),
        Feedback::Xcp(_) => Some(xcp),
        Feedback::QuickStart(_) => Some(quick_start),
        Feedback::Own(own) => find(own.kind).map(Protocol::name),
        _ => None,
    }
}
