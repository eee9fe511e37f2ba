//! The way to make a law of one's own known by name.

use super::link::LinkAlgorithm;
use super::own::{OwnLaw, OwnPort, PORTS, SENDERS};
use super::sender::Algorithm;
use crate::base::Instant;
use crate::law::{Controller, LinkController};
use crate::signals::Explicit;

/// A law that cannot be registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// There is such a law.
    #[error("there is an algorithm `{name}` already: choose another name")]
    Taken {
        /// The name.
        name: &'static str,
    },
    /// The number is one of the library's protocols, or above 7.
    #[error("{kind} is not the number of a protocol of one's own: write 3 to 7")]
    BadKind {
        /// The number.
        kind: u8,
    },
    /// The name cannot be written where algorithms are named.
    #[error("`{name}` is no name: write lower-case letters, digits, `-`, `_`, `.` and `+`")]
    BadName {
        /// The name.
        name: &'static str,
    },
}

impl Algorithm {
    /// Makes a sender's law of the caller's own known to this process, so that it can be named
    /// wherever a law of this library can: in scenarios, to `parse`, on command lines. `hears` is
    /// the signal that it reads; `build` makes a controller for a path that begins at an instant
    /// and carries datagrams of the given bytes of UDP payload.
    ///
    /// # Errors
    /// [`RegisterError`].
    pub fn register(
        name: &'static str,
        hears: Option<Explicit>,
        build: impl Fn(Instant, u16) -> Box<dyn Controller> + Send + Sync + 'static,
    ) -> Result<(), RegisterError> {
        if let Some(Explicit::Own(kind)) = hears {
            check_kind(kind)?;
        }
        let own = OwnLaw::new(name, hears, build);
        check(name, Self::NAMES, || SENDERS.add(own))
    }
}

impl LinkAlgorithm {
    /// Makes a port's law of the caller's own known to this process. `kind` is the number of the
    /// protocol that it answers, 3 to 7; senders' laws that read this protocol are then at home at
    /// such a port ([`Algorithm::port`]). `build` makes a controller for a port that starts at an
    /// instant and sends the given bytes per second; the last argument is a seed.
    ///
    /// # Errors
    /// [`RegisterError`].
    pub fn register(
        name: &'static str,
        kind: u8,
        build: impl Fn(Instant, u64, u64) -> Box<dyn LinkController> + Send + Sync + 'static,
    ) -> Result<(), RegisterError> {
        check_kind(kind)?;
        let own = OwnPort::new(name, kind, build);
        check(name, Self::NAMES, || PORTS.add(own))
    }
}

/// Kinds 0 to 2 of shims are the library's, and there are eight.
fn check_kind(kind: u8) -> Result<(), RegisterError> {
    match kind {
        3..=7 => Ok(()),
        _ => Err(RegisterError::BadKind { kind }),
    }
}

/// Adds a law under a name that can be written and that none of the library has.
fn check(
    name: &'static str,
    known: &[&str],
    add: impl FnOnce() -> bool,
) -> Result<(), RegisterError> {
    let fits =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.+".contains(&byte);
    if name.is_empty() || !name.bytes().all(fits) {
        return Err(RegisterError::BadName { name });
    }
    // What scenarios call packets without a law.
    if known.contains(&name) || ["udp", "none"].contains(&name) || !add() {
        return Err(RegisterError::Taken { name });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::law::Passive;
    use crate::names::error::ParseError;
    use crate::signals::Carrier;

    fn five(_: Instant, mtu: u16) -> Box<dyn Controller> {
        let law = Algorithm::parse("cubic[iw=5]").unwrap();
        law.controller(Instant::ZERO, mtu)
    }

    #[test]
    fn a_registered_law_is_like_any_other() {
        Algorithm::register("five-packets", None, five).unwrap();
        let law = Algorithm::parse("five-packets").unwrap();
        assert_eq!(
            (law.name(), &*law.to_string()),
            ("five-packets", "five-packets")
        );
        assert_eq!(law.controller(Instant::ZERO, 1000).window(), 5000);
        assert_eq!((law.explicit(), law.asks_start()), (None, false));
        assert_eq!(law, Algorithm::parse("five-packets").unwrap());
        assert_ne!(law, Algorithm::default());

        let codes = Some(Explicit::Vcp(Carrier::Shim));
        Algorithm::register("hears-codes", codes, five).unwrap();
        assert_eq!(
            Algorithm::parse("hears-codes").unwrap().carrier(),
            Some(Carrier::Shim)
        );

        let options = Algorithm::parse("five-packets[iw=3]").unwrap_err();
        assert_eq!(
            options,
            ParseError::NoOptions {
                name: "five-packets"
            }
        );
        let missed = Algorithm::parse("five-packet").unwrap_err().to_string();
        assert!(missed.contains("did you mean `five-packets`"), "{missed}");
    }

    #[test]
    fn names_that_are_taken_or_cannot_be_written() {
        for name in ["cubic", "vcp+bise+wlte", "udp", "none"] {
            let taken = Algorithm::register(name, None, five);
            assert_eq!(taken, Err(RegisterError::Taken { name }));
        }
        Algorithm::register("twice", None, five).unwrap();
        assert!(Algorithm::register("twice", None, five).is_err());
        for name in ["", "a b", "a[b]", "a,b", "a@b", "Law", "gesetz\u{df}"] {
            let bad = Algorithm::register(name, None, five);
            assert_eq!(bad, Err(RegisterError::BadName { name }));
        }
    }

    #[test]
    fn a_registered_port_serves_the_laws_of_its_protocol() {
        let passive = |_, _, _| Box::new(Passive) as Box<dyn LinkController>;
        LinkAlgorithm::register("own-port", 6, passive).unwrap();
        let port = LinkAlgorithm::parse("own-port").unwrap();
        assert_eq!((port.name(), port.grants()), ("own-port", false));
        assert!(port.has_feedback());
        assert_eq!(port.to_string(), "own-port");

        Algorithm::register("reads-six", Some(Explicit::Own(6)), five).unwrap();
        Algorithm::register("reads-seven", Some(Explicit::Own(7)), five).unwrap();
        let law = Algorithm::parse("reads-six").unwrap();
        assert_eq!(law.port(), Some(port));
        assert_eq!(law.signals(), [Explicit::Own(6)]);
        assert_eq!(Algorithm::parse("reads-seven").unwrap().port(), None);

        for kind in [0, 2, 8, 255] {
            let bad = Err(RegisterError::BadKind { kind });
            assert_eq!(LinkAlgorithm::register("far-port", kind, passive), bad);
            let own = Some(Explicit::Own(kind));
            assert_eq!(Algorithm::register("far-law", own, five), bad);
        }
        let taken = LinkAlgorithm::register("xcp", 6, passive);
        assert_eq!(taken, Err(RegisterError::Taken { name: "xcp" }));
        let again = LinkAlgorithm::register("own-port", 5, passive);
        assert_eq!(again, Err(RegisterError::Taken { name: "own-port" }));
        let missed = LinkAlgorithm::parse("own-prt").unwrap_err().to_string();
        assert!(missed.contains("did you mean `own-port`"), "{missed}");
    }
}
