//! Senders' laws of the caller's own, under names of their own.

use core::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use super::sender::{Algorithm, Explicit};
use crate::{Controller, Instant};

type Build = dyn Fn(Instant, u16) -> Box<dyn Controller> + Send + Sync;

/// All that this process registered.
static LAWS: RwLock<Vec<OwnLaw>> = RwLock::new(Vec::new());

/// A law that was registered. No two have the same name.
#[derive(Clone)]
pub(super) struct OwnLaw {
    pub(super) name: &'static str,
    /// The protocol whose answers it reads.
    pub(super) hears: Option<Explicit>,
    build: Arc<Build>,
}

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
    /// The name contains a character that names must not have.
    #[error(
        "`{name}` is not a valid name: write lower-case letters, digits, `-`, `_`, `.` and `+`"
    )]
    BadName {
        /// The name.
        name: &'static str,
    },
}

impl Algorithm {
    /// Makes a law of the caller's own known to this process, so that it can be named wherever a
    /// law of this library can: in scenarios, to `parse`, on command lines. `hears` selects the
    /// protocol whose answers it reads; `build` makes a controller for a path that begins at an
    /// instant and carries datagrams of a given number of bytes of UDP payload.
    ///
    /// # Errors
    /// [`RegisterError`].
    pub fn register(
        name: &'static str,
        hears: Option<Explicit>,
        build: impl Fn(Instant, u16) -> Box<dyn Controller> + Send + Sync + 'static,
    ) -> Result<(), RegisterError> {
        let fits = |byte: u8| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.+".contains(&byte)
        };
        if name.is_empty() || !name.bytes().all(fits) {
            return Err(RegisterError::BadName { name });
        }
        let mut laws = LAWS.write().unwrap_or_else(PoisonError::into_inner);
        // What scenarios call packets without a law.
        let known = Self::NAMES.contains(&name) || name == "udp" || name == "none";
        if known || laws.iter().any(|law| law.name == name) {
            return Err(RegisterError::Taken { name });
        }
        laws.push(OwnLaw {
            name,
            hears,
            build: Arc::new(build),
        });
        Ok(())
    }
}

impl OwnLaw {
    pub(super) fn controller(&self, now: Instant, mtu: u16) -> Box<dyn Controller> {
        (self.build)(now, mtu)
    }
}

impl fmt::Debug for OwnLaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OwnLaw").field(&self.name).finish()
    }
}

impl PartialEq for OwnLaw {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for OwnLaw {}

/// The law of this name.
pub(super) fn find(name: &str) -> Option<OwnLaw> {
    let laws = LAWS.read().unwrap_or_else(PoisonError::into_inner);
    laws.iter().find(|law| law.name == name).cloned()
}

/// All names.
pub(super) fn names() -> Vec<&'static str> {
    let laws = LAWS.read().unwrap_or_else(PoisonError::into_inner);
    laws.iter().map(|law| law.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Carrier, ParseError};

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
}
