//! Protocols of one's own.

#[cfg(feature = "transport")]
use std::sync::Arc;
use std::sync::OnceLock;

use pathmark_cc::Feedback;
use pathmark_shim::Kind;
#[cfg(feature = "transport")]
use pathmark_transport::Signal;

/// Names of the library's protocols, by kind.
const NAMES: [&str; 3] = ["vcp", "xcp", "quick-start"];
/// Kinds of shim.
const KINDS: usize = 8;

/// The protocols that this process registered, by kind.
static OWN: [OnceLock<&'static dyn Protocol>; KINDS] = [const { OnceLock::new() }; KINDS];

/// A signalling protocol of one's own: its shim, and its signal.
///
/// Its control laws are registered next to it, the sender's with
/// [`Algorithm::register`](pathmark_cc::Algorithm::register), the port's with
/// [`LinkAlgorithm::register`](pathmark_cc::LinkAlgorithm::register). All methods take bytes from
/// outside: none may panic.
pub trait Protocol: Send + Sync {
    /// The number of its shims, of [`Kind::FIRST_FREE`] or more.
    fn kind(&self) -> Kind;

    /// Its name in reports.
    fn name(&self) -> &'static str;

    /// Its fields in a sound shim at the start of `payload`; `None` if there is none. A port's law
    /// gets them in [`Carried::Own`](pathmark_cc::Carried::Own).
    fn read(&self, payload: &[u8]) -> Option<[u64; 3]>;

    /// Writes what the port's law put into [`Answer::Own`](pathmark_cc::Answer::Own) into a sound
    /// shim at the start of `payload`. `router` is the port's identity. False, and nothing
    /// changed, if there is none. No byte behind the shim may change.
    fn write(&self, words: [u64; 3], router: u16, payload: &mut [u8]) -> bool;

    /// Merges the result of `outer`, a copy of a shim that crossed a tunnel in front of a packet of
    /// the tunnel, into `inner`, the shim itself. Both are sound and of the same length. False, and
    /// nothing changed, if the result is refused. By default the copy replaces the shim, whatever
    /// routers wrote into it.
    fn merge(&self, inner: &mut [u8], outer: &[u8]) -> bool {
        inner.copy_from_slice(outer);
        true
    }

    /// The signal of endpoints. One value serves all connections of an endpoint.
    #[cfg(feature = "transport")]
    fn signal(&self) -> Arc<dyn Signal>;
}

/// A protocol that cannot be registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// Its kind belongs to another protocol.
    #[error("shims of kind {kind} belong to another protocol: choose a free one of 3 to 7")]
    Taken {
        /// The kind.
        kind: u8,
    },
    /// Its name is one of the library's.
    #[error("`{name}` is a protocol of the library: choose another name")]
    Name {
        /// The name.
        name: &'static str,
    },
}

/// Makes a protocol known to this process, until it ends.
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

/// The registered protocol of this kind.
#[inline]
pub fn find(kind: u8) -> Option<&'static dyn Protocol> {
    OWN.get(usize::from(kind))?.get().copied()
}

/// The name of the protocol that feedback is of.
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
