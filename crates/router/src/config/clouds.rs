//! `[xcp_i]`: settings of routers that measure the clouds between them.

use std::fmt;

use pathmark_link::keys::RateValue;
use serde::{Deserialize, Deserializer, de};
use xcp_edge::Key;

/// Default UDP port of messages between routers.
const PORT: u16 = 6653;

/// A secret that routers share. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Derives the key.
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
        // The other programs read it from a file that ends with a line break, so whitespace is
        // trimmed.
        let text = String::deserialize(deserializer)?;
        let text = text.trim();
        match Key::new(text.as_bytes()) {
            Ok(_) => Ok(Self(text.to_owned())),
            Err(short) => Err(de::Error::custom(short)),
        }
    }
}

/// `[xcp_i]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct XcpISpec {
    /// The secret shared by all routers of the network.
    pub secret: Secret,
    /// UDP port of messages, the same on all of these routers.
    #[serde(default = "port")]
    pub port: u16,
    /// The rate of trains for other routers; absent: a hundredth of the rate of the fastest port
    /// that runs `xcp` or `xcp-i`.
    #[serde(default, deserialize_with = "trains")]
    pub trains: Option<RateValue>,
}

/// Minimum rate in bytes per second. A train may take the bytes of 10 s. Below this rate, it
/// would have less than the four packets that a measurement needs.
pub(super) const LEAST_TRAINS: u64 = 600;

fn trains<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<RateValue>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Form {
        Text(String),
        Number(i64),
    }
    let rate: RateValue = match Form::deserialize(deserializer)? {
        Form::Text(text) => text.parse().map_err(de::Error::custom)?,
        Form::Number(number) => {
            return Err(de::Error::custom(format!(
                "{number} what? a rate has a unit: write \"{number}kbit\", for example"
            )));
        }
    };
    match rate.bytes() >= LEAST_TRAINS {
        true => Ok(Some(rate)),
        false => Err(de::Error::custom(
            "no train has enough packets at such a rate: `trains` is at least \"4800bit\"",
        )),
    }
}

const fn port() -> u16 {
    PORT
}
