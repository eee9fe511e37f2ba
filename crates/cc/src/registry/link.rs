//! Ports' laws by name.

use core::fmt;
use core::str::FromStr;

use super::error::ParseError;
use super::knob;
use super::value;
use crate::{Instant, LinkController, Passive};

/// A port's law and its options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkAlgorithm {
    law: Law,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Law {
    None,
}

impl LinkAlgorithm {
    /// All names, without options.
    pub const NAMES: &[&str] = &["none"];

    /// Reads a name, with options in brackets.
    ///
    /// # Errors
    /// [`ParseError`] says what is wrong and what to write instead.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let (name, options) = knob::split(text)?;
        let law = match name {
            "none" => {
                knob::apply("none", &[], &mut (), options)?;
                Law::None
            }
            _ => {
                return Err(ParseError::UnknownName {
                    given: name.to_owned(),
                    nearest: value::nearest(name, Self::NAMES.iter().copied()).unwrap_or("none"),
                    known: Self::NAMES,
                });
            }
        };
        Ok(Self { law })
    }

    /// The name without options.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match &self.law {
            Law::None => "none",
        }
    }

    /// A controller for a port that starts at `now` and sends `bytes_per_second`, net of what the port subtracts itself.
    /// `seed` draws what should differ between ports.
    #[must_use]
    pub fn controller(
        &self,
        now: Instant,
        bytes_per_second: u64,
        seed: u64,
    ) -> Box<dyn LinkController> {
        let _ = (now, bytes_per_second, seed);
        match &self.law {
            Law::None => Box::new(Passive),
        }
    }
}

impl FromStr for LinkAlgorithm {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        Self::parse(text)
    }
}

impl fmt::Display for LinkAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
