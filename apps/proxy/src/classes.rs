//! Classes of flows by the ports of their targets. A class sets a weight and a timeout for idle
//! UDP flows.

use std::fmt;
use std::num::NonZeroU8;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

/// The maximum weight. A higher one would let a flow send that many packets in a row.
const MOST_WEIGHT: u8 = 100;

/// The minimum timeout of idle UDP flows in seconds (RFC 4787 section 4.3, REQ-5), except for
/// ports up to [`WELL_KNOWN`].
const LEAST_IDLE: u64 = 120;
const WELL_KNOWN: u16 = 1023;

/// Classes in the order of a file. A flow belongs to the first class that has its port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Vec<Class>")]
pub struct Classes(Arc<[Class]>);

/// A class in a file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Written")]
struct Class {
    ports: Vec<Ports>,
    treatment: Treatment,
}

/// How to treat a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Treatment {
    /// The flow's share of the window, relative to a flow with weight 1.
    pub weight: NonZeroU8,
    /// Time without a datagram after which a UDP flow ends, or `None` for the general timeout.
    pub udp_idle: Option<Duration>,
}

impl Default for Treatment {
    fn default() -> Self {
        Self {
            weight: NonZeroU8::MIN,
            udp_idle: None,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    ports: Vec<Ports>,
    #[serde(default = "one", deserialize_with = "weight")]
    weight: NonZeroU8,
    udp_idle_seconds: Option<u64>,
}

/// A port or an inclusive range of ports.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Ports(RangeInclusive<u16>);

impl From<Vec<Class>> for Classes {
    fn from(classes: Vec<Class>) -> Self {
        Self(classes.into())
    }
}

impl Classes {
    /// Returns the treatment of a flow to this port.
    pub fn of(&self, port: u16) -> Treatment {
        let has = |class: &&Class| class.ports.iter().any(|ports| ports.0.contains(&port));
        let found = self.0.iter().find(has);
        found.map_or_else(Treatment::default, |class| class.treatment)
    }
}

impl TryFrom<Written> for Class {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let mut ports = written.ports.iter();
        let least = if ports.all(|ports| *ports.0.end() <= WELL_KNOWN) {
            1
        } else {
            LEAST_IDLE
        };
        if written.ports.is_empty() {
            return Err("a class has ports; write, for example, ports = [22]".to_owned());
        }
        match written.udp_idle_seconds {
            Some(idle) if idle < least => Err(format!(
                "udp_idle_seconds is {least} at least for these ports"
            )),
            idle => Ok(Self {
                ports: written.ports,
                treatment: Treatment {
                    weight: written.weight,
                    udp_idle: idle.map(Duration::from_secs),
                },
            }),
        }
    }
}

const fn one() -> NonZeroU8 {
    NonZeroU8::MIN
}

fn weight<'de, D: Deserializer<'de>>(deserializer: D) -> Result<NonZeroU8, D::Error> {
    let number = i64::deserialize(deserializer)?;
    let weight = u8::try_from(number)
        .ok()
        .filter(|weight| *weight <= MOST_WEIGHT);
    weight
        .and_then(NonZeroU8::new)
        .ok_or_else(|| D::Error::custom(format!("a weight is a number from 1 to {MOST_WEIGHT}")))
}

impl<'de> Deserialize<'de> for Ports {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Port;

        impl Visitor<'_> for Port {
            type Value = Ports;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a port from 1 to 65535, or ports such as \"5000-5999\"")
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Ports, E> {
                let port = u16::try_from(number).ok().filter(|port| *port > 0);
                let port = port.ok_or_else(|| E::invalid_value(Unexpected::Signed(number), &self));
                port.map(|port| Ports(port..=port))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Ports, E> {
                let wrong = || E::invalid_value(Unexpected::Str(text), &self);
                let (first, last) = text.split_once('-').unwrap_or((text, text));
                let (first, last): (u16, u16) = (
                    first.parse().map_err(|_| wrong())?,
                    last.parse().map_err(|_| wrong())?,
                );
                if 0 < first && first <= last {
                    Ok(Ports(first..=last))
                } else {
                    Err(wrong())
                }
            }
        }

        deserializer.deserialize_any(Port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    struct File {
        #[serde(default)]
        class: Classes,
    }

    fn treatment(weight: u8, idle: Option<u64>) -> Treatment {
        Treatment {
            weight: NonZeroU8::new(weight).unwrap(),
            udp_idle: idle.map(Duration::from_secs),
        }
    }

    #[test]
    fn the_first_class_with_the_port_counts() {
        let text = r#"
            [[class]]
            ports = [53, "67-68"]
            udp_idle_seconds = 10
            [[class]]
            ports = ["60-5999"]
            weight = 100
            udp_idle_seconds = 120
        "#;
        let file: File = toml::from_str(text).unwrap();
        for (port, expected) in [
            (52, treatment(1, None)),
            (53, treatment(1, Some(10))),
            (60, treatment(100, Some(120))),
            (67, treatment(1, Some(10))),
            (68, treatment(1, Some(10))),
            (69, treatment(100, Some(120))),
            (5999, treatment(100, Some(120))),
            (6000, treatment(1, None)),
        ] {
            assert_eq!(file.class.of(port), expected, "{port}");
        }
        let file: File = toml::from_str("").unwrap();
        assert_eq!(file.class.of(53), Treatment::default());
    }

    #[test]
    fn a_wrong_class_is_refused_with_what_to_write() {
        for (text, message) in [
            ("weight = 2", "missing field `ports`"),
            ("ports = []", "write, for example, ports = [22]"),
            ("ports = [0]", "from 1 to 65535"),
            ("ports = [65536]", "from 1 to 65535"),
            ("ports = [-1]", "from 1 to 65535"),
            ("ports = ['x']", "such as \"5000-5999\""),
            ("ports = ['9-8']", "such as \"5000-5999\""),
            ("ports = ['0-8']", "such as \"5000-5999\""),
            ("ports = ['1-2-3']", "such as \"5000-5999\""),
            ("ports = [1.5]", "such as \"5000-5999\""),
            ("ports = [1]\nweight = 0", "from 1 to 100"),
            ("ports = [1]\nweight = 101", "from 1 to 100"),
            ("ports = [1]\nweight = -1", "from 1 to 100"),
            ("ports = [1]\nudp_idle_seconds = 0", "is 1 at least"),
            ("ports = [1024]\nudp_idle_seconds = 119", "is 120 at least"),
            ("ports = [1]\nidle = 1", "unknown field `idle`"),
        ] {
            let text = format!("[[class]]\n{text}\n");
            let error = toml::from_str::<File>(&text).unwrap_err();
            assert!(error.message().contains(message), "{text}: {error}");
            assert!(error.span().is_some(), "{text}");
        }
    }
}
