//! `[xcp_i]`: what routers that measure the clouds between them need to know.

use std::fmt;

use serde::{Deserialize, Deserializer, de};
use xcp_edge::Key;

use super::units::RateValue;

/// UDP port of messages between routers, unless another one is named.
const PORT: u16 = 6653;

/// A secret that routers share. It is not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The key that follows from it.
    #[must_use]
    pub fn key(&self) -> Option<Key> {
        Key::new(self.0.as_bytes()).ok()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match Key::new(text.as_bytes()) {
            Ok(_) => Ok(Self(text)),
            Err(short) => Err(de::Error::custom(short)),
        }
    }
}

/// `[xcp_i]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct XcpISpec {
    /// What all routers of the network share.
    pub secret: Secret,
    /// UDP port of messages, the same at all of them.
    #[serde(default = "port")]
    pub port: u16,
    /// What trains for others may take over time; absent: a hundredth of the rate of the fastest
    /// port that runs `xcp` or `xcp-i`.
    pub trains: Option<RateValue>,
}

const fn port() -> u16 {
    PORT
}
