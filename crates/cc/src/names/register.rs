//! The way to make a law of one's own known by name.

use super::own::{self, OwnLaw};
use super::sender::Algorithm;
use crate::base::Instant;
use crate::law::Controller;
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
    /// Nobody could write the name where algorithms are named.
    #[error("`{name}` is no name: write lower-case letters, digits, `-`, `_`, `.` and `+`")]
    BadName {
        /// The name.
        name: &'static str,
    },
}

impl Algorithm {
    /// Makes a law of the caller's own known to this process, so that it can be named wherever a
    /// law of this library can: in scenarios, to `parse`, on command lines. `hears` says whose
    /// answers it listens to; `build` makes a controller for a path that begins at an instant and
    /// carries datagrams of so many bytes of UDP payload.
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
        // What scenarios call packets without a law.
        let known = Self::NAMES.contains(&name) || name == "udp" || name == "none";
        if known || !own::add(OwnLaw::new(name, hears, build)) {
            return Err(RegisterError::Taken { name });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
}
