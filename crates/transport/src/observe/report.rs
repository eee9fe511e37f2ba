//! What results, logs and commands report of a connection, in its JSON form.

use std::fmt::Write as _;

use pathmark_cc::{ControllerShares, Ruler};
use serde::{Deserialize, Serialize};

use super::RttHistogram;
use crate::Duration;

/// The share below which a law is omitted from sentences.
const LEAST: f64 = 0.005;

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands over a reference"
)]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The laws that controlled a flow's window, and the changes between them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Controllers {
    /// Each law and reason, in the order in which they first occurred.
    pub shares: Vec<ControllerPart>,
    /// The latest changes, oldest first. The first one of all is the start.
    pub changes: Vec<ControllerTurn>,
    /// Number of changes before these.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub earlier_changes: u64,
}

/// The time and bytes for which a law controlled the window for one reason.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ControllerPart {
    /// The law that had it.
    pub law: String,
    /// Why routers did not control it, if the flow's law requests answers.
    pub fallback: Option<String>,
    /// Share of the time since the first data packet.
    pub time: f64,
    /// Share of the bytes of packets, including retransmissions.
    pub bytes: f64,
}

/// A change to another law.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ControllerTurn {
    /// Seconds since the first data packet.
    pub at_s: f64,
    /// The new law.
    pub law: String,
    /// Why routers do not control it, if the flow's law requests answers.
    pub fallback: Option<String>,
}

fn reason(ruler: Ruler) -> Option<String> {
    ruler.fallback.map(|reason| reason.name().to_owned())
}

impl From<&ControllerShares> for Controllers {
    fn from(known: &ControllerShares) -> Self {
        let parts = known.shares();
        let time: f64 = parts.iter().map(|part| part.time.as_secs_f64()).sum();
        let bytes: f64 = parts.iter().map(|part| part.bytes as f64).sum();
        let share = |part: f64, all: f64| if all > 0.0 { part / all } else { 0.0 };
        let shares = parts.iter().map(|part| ControllerPart {
            law: part.ruler.law.to_owned(),
            fallback: reason(part.ruler),
            time: share(part.time.as_secs_f64(), time),
            bytes: share(part.bytes as f64, bytes),
        });
        let changes = known.changes().iter().map(|change| ControllerTurn {
            at_s: change.at.as_secs_f64(),
            law: change.ruler.law.to_owned(),
            fallback: reason(change.ruler),
        });
        Self {
            shares: shares.collect(),
            changes: changes.collect(),
            earlier_changes: known.forgotten(),
        }
    }
}

impl Controllers {
    /// Averages over flows: one set of shares, without changes.
    pub fn together<'a>(flows: impl Iterator<Item = &'a Self>) -> Self {
        let mut shares: Vec<ControllerPart> = Vec::new();
        let mut count = 0.0;
        for flow in flows.filter(|flow| !flow.shares.is_empty()) {
            count += 1.0;
            for part in &flow.shares {
                let same = |known: &&mut ControllerPart| {
                    (&known.law, &known.fallback) == (&part.law, &part.fallback)
                };
                match shares.iter_mut().find(same) {
                    Some(known) => {
                        known.time += part.time;
                        known.bytes += part.bytes;
                    }
                    None => shares.push(part.clone()),
                }
            }
        }
        for part in &mut shares {
            part.time /= count;
            part.bytes /= count;
        }
        Self {
            shares,
            ..Self::default()
        }
    }

    /// The shares in descending order.
    fn sorted(&self) -> Vec<&ControllerPart> {
        let mut sorted: Vec<_> = self.shares.iter().collect();
        sorted.sort_by(|one, other| other.time.total_cmp(&one.time));
        sorted
    }

    /// The law with the largest share of the time: `cubic 91 %: plain-hop`. Empty before any
    /// data.
    pub fn largest(&self) -> String {
        self.sorted().first().map_or_else(String::new, |part| {
            let reason = part.fallback.as_ref();
            let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
            format!("{} {:.0} %{reason}", part.law, part.time * 100.0)
        })
    }

    /// All laws as a sentence: `cubic 91 % of the time, 84 % of the bytes (plain-hop); ada …`.
    pub fn explain(&self) -> String {
        let mut text = String::new();
        for part in self.sorted() {
            if part.time < LEAST && part.bytes < LEAST {
                continue;
            }
            let (time, bytes) = (part.time * 100.0, part.bytes * 100.0);
            let before = if text.is_empty() { "" } else { "; " };
            let _ = write!(
                text,
                "{before}{} {time:.0} % of the time, {bytes:.0} % of the bytes",
                part.law
            );
            if let Some(reason) = &part.fallback {
                let _ = write!(text, " ({reason})");
            }
        }
        text
    }
}

/// A distribution of samples; of round trips, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// Minimum.
    pub min: f64,
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Maximum.
    pub max: f64,
}

impl From<&RttHistogram> for Distribution {
    fn from(rtt: &RttHistogram) -> Self {
        let millis = |time: Option<Duration>| time.unwrap_or_default().as_nanos() as f64 / 1e6;
        Self {
            min: millis(rtt.min()),
            mean: millis(rtt.mean()),
            p50: millis(rtt.quantile(500)),
            p99: millis(rtt.quantile(990)),
            max: millis(rtt.max()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(law: &str, fallback: Option<&str>, time: f64, bytes: f64) -> ControllerPart {
        ControllerPart {
            law: law.to_owned(),
            fallback: fallback.map(str::to_owned),
            time,
            bytes,
        }
    }

    fn controllers(shares: Vec<ControllerPart>) -> Controllers {
        Controllers {
            shares,
            ..Controllers::default()
        }
    }

    #[test]
    fn the_largest_share_comes_first_with_its_reason() {
        let mostly_cubic = controllers(vec![
            part("ada", None, 0.09, 0.5),
            part("cubic", Some("plain-hop"), 0.907, 0.499),
            part("cubic", Some("no-answer"), 0.003, 0.001),
        ]);
        assert_eq!(mostly_cubic.largest(), "cubic 91 %: plain-hop");
        assert_eq!(
            mostly_cubic.explain(),
            "cubic 91 % of the time, 50 % of the bytes (plain-hop); ada 9 % of the time, 50 % of \
             the bytes"
        );
        let steered = controllers(vec![
            part("ada", None, 0.9, 0.9),
            part("cubic", Some("no-answer"), 0.1, 0.1),
        ]);
        let standard = controllers(vec![part("cubic", None, 1.0, 1.0)]);
        assert_eq!(Controllers::default().largest(), "");
        let both = [steered, standard];
        let both = Controllers::together(both.iter());
        assert_eq!(both.largest(), "cubic 50 %");
    }
}
