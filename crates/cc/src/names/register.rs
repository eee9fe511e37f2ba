//! Registration of your own laws.

use std::sync::Arc;

use super::own::{Own, PORTS, SENDERS};
use super::port::LinkAlgorithm;
use super::sender::Algorithm;
use crate::base::Instant;
use crate::law::{Controller, LinkController};
use crate::signals::Explicit;

/// Reason why a law can't be registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// There's already a law with this name.
    #[error("there is an algorithm `{name}` already: choose another name")]
    Taken {
        /// The name that was given.
        name: &'static str,
    },
    /// The number isn't one of those for your own protocols, which are 3 to 7.
    #[error("{kind} is not the number of a protocol of one's own: write 3 to 7")]
    BadKind {
        /// The number that was given.
        kind: u8,
    },
    /// The name contains other characters than lower-case letters, digits, `-`, `_`, `.` and `+`,
    /// or is empty.
    #[error("`{name}` is no name: write lower-case letters, digits, `-`, `_`, `.` and `+`")]
    BadName {
        /// The name that was given.
        name: &'static str,
    },
}

impl Algorithm {
    /// Registers your own law of a sender in this process. You can then use its name like those of
    /// this library's laws, for example in scenarios, with `parse`, and on command lines. `hears`
    /// is the signal that the law reads. `build` creates a controller for a path that begins at the
    /// given time, with datagrams of the given number of bytes of UDP payload.
    ///
    /// # Errors
    /// Returns a [`RegisterError`] if the name is invalid or already taken, or if `hears` has an
    /// invalid protocol number.
    pub fn register(
        name: &'static str,
        hears: Option<Explicit>,
        build: impl Fn(Instant, u16) -> Box<dyn Controller> + Send + Sync + 'static,
    ) -> Result<(), RegisterError> {
        if let Some(Explicit::Own(kind)) = hears {
            check_kind(kind)?;
        }
        let own = Own {
            name,
            protocol: hears,
            build: Arc::new(build) as _,
        };
        check(name, Self::NAMES, || SENDERS.add(own))
    }
}

impl LinkAlgorithm {
    /// Registers your own law of a port in this process. `kind` is the number of the protocol that
    /// it answers, from 3 to 7. Senders' laws that read this protocol will use this port
    /// ([`Algorithm::port`]). `build` creates a controller for a port that starts at the given time
    /// with the given bytes per second; the last argument is a seed.
    ///
    /// # Errors
    /// Returns a [`RegisterError`] if the name is invalid or already taken, or if `kind` is
    /// invalid.
    pub fn register(
        name: &'static str,
        kind: u8,
        build: impl Fn(Instant, u64, u64) -> Box<dyn LinkController> + Send + Sync + 'static,
    ) -> Result<(), RegisterError> {
        check_kind(kind)?;
        let own = Own {
            name,
            protocol: kind,
            build: Arc::new(build) as _,
        };
        check(name, Self::NAMES, || PORTS.add(own))
    }
}

/// Checks that a kind is one of those for registered protocols. There are eight kinds of shims, of
/// which 0 to 2 are the library's.
fn check_kind(kind: u8) -> Result<(), RegisterError> {
    match kind {
        3..=7 => Ok(()),
        _ => Err(RegisterError::BadKind { kind }),
    }
}

/// Adds a law if its name is valid and isn't already taken.
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
    // Scenarios use these names for packets without a law.
    if known.contains(&name) || ["udp", "none"].contains(&name) || !add() {
        return Err(RegisterError::Taken { name });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::law::Passive;
    use crate::names::ParseError;
    use crate::signals::Carrier;

    fn five(_: Instant, mtu: u16) -> Box<dyn Controller> {
        let law = Algorithm::parse("cubic[iw=5]").unwrap();
        law.controller(Instant::ZERO, mtu)
    }

    #[test]
    fn a_registered_law_is_like_any_other() {
        Algorithm::register("five-packets", None, five).unwrap();
        let law = Algorithm::parse("five-packets").unwrap();
        assert_eq!(law.name(), "five-packets");
        assert_eq!(law.to_string(), "five-packets");
        assert_eq!(law.controller(Instant::ZERO, 1000).window(), 5000);
        assert_eq!((law.explicit(), law.asks_start()), (None, false));
        assert_eq!(law, Algorithm::parse("five-packets").unwrap());
        assert_ne!(law, Algorithm::default());

        let codes = Some(Explicit::Vcp(Carrier::Shim));
        Algorithm::register("hears-codes", codes, five).unwrap();
        let hears = Algorithm::parse("hears-codes").unwrap();
        assert_eq!(hears.carrier(), Some(Carrier::Shim));

        let options = Algorithm::parse("five-packets[iw=3]").unwrap_err();
        let name = "five-packets";
        assert_eq!(options, ParseError::NoOptions { name });
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
