//! Random loss and error correction, as described in files.

use std::num::NonZeroU32;

use pathmark_cc::Duration;
use serde::Deserialize;

use super::units::{Chance, Span};
use crate::impair::{Antennas, Code, Redundancy, Short};

/// `loss = { kind = "bernoulli", per = 1e-3 }`, or `none`, `gilbert-elliott`,
/// `gilbert-elliott-time`, `bursts`, `bit-errors`, `fading`.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum LossSpec {
    /// No loss.
    None,
    /// Each packet with the same probability.
    Bernoulli {
        /// That probability.
        per: Chance,
    },
    /// In bursts.
    GilbertElliott {
        /// From the good to the bad state, per packet.
        p_good_bad: Chance,
        /// From the bad to the good state, per packet.
        p_bad_good: Chance,
        /// Loss in the good state.
        #[serde(default = "never")]
        per_good: Chance,
        /// Loss in the bad state.
        #[serde(default = "always")]
        per_bad: Chance,
    },
    /// In bursts that last for some time, regardless of the number of packets.
    GilbertElliottTime {
        /// Mean time in the good state.
        good: MeanStay,
        /// Mean time in the bad state.
        bad: MeanStay,
        /// Loss in the good state.
        #[serde(default = "never")]
        per_good: Chance,
        /// Loss in the bad state.
        #[serde(default = "always")]
        per_bad: Chance,
    },
    /// In bursts, by their mean length.
    Bursts {
        /// Share of packets that are lost, less than 1.
        per: Chance,
        /// Mean number of consecutive lost packets.
        burst: MeanBurst,
    },
    /// Packets with more bit errors than a code corrects, where the errors occur in bursts.
    BitErrors {
        /// Probability of a bit error in the good state.
        ber_good: Chance,
        /// Probability of a bit error in the bad state.
        #[serde(default = "never")]
        ber_bad: Chance,
        /// From the good to the bad state, per bit.
        #[serde(default = "never")]
        p_good_bad: Chance,
        /// From the bad to the good state, per bit.
        #[serde(default = "always")]
        p_bad_good: Chance,
        /// The code that protects packets.
        #[serde(default)]
        fec: Option<FecSpec>,
    },
    /// The same, with bit errors determined by antennas and signal.
    Fading {
        /// Mean signal-to-noise ratio per bit in the good state, dB.
        snr: Decibel,
        /// Difference of this ratio in the bad state, dB.
        fade: Decibel,
        /// Antennas of the sender and of the receiver: "2x1".
        antennas: AntennasText,
        /// From the good to the bad state, per bit.
        p_good_bad: Chance,
        /// From the bad to the good state, per bit.
        p_bad_good: Chance,
        /// The code that protects packets.
        #[serde(default)]
        fec: Option<FecSpec>,
    },
}

/// A mean length of at least one packet.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(try_from = "f64")]
pub struct MeanBurst(pub f64);

impl TryFrom<f64> for MeanBurst {
    type Error = String;

    fn try_from(packets: f64) -> Result<Self, String> {
        if (1.0..=1e6).contains(&packets) {
            Ok(Self(packets))
        } else {
            Err(format!(
                "bursts are 1 to 1000000 packets long on average, not {packets}"
            ))
        }
    }
}

/// A mean time in a state: one microsecond to a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Span")]
pub struct MeanStay(pub Span);

impl TryFrom<Span> for MeanStay {
    type Error = String;

    fn try_from(time: Span) -> Result<Self, String> {
        let most = Duration::from_secs(86_400);
        if (Duration::from_micros(1)..=most).contains(&time.0) {
            Ok(Self(time))
        } else {
            Err("a state lasts from 1us to 86400s on average".to_owned())
        }
    }
}

/// A ratio in dB between -100 and 100.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(try_from = "f64")]
pub struct Decibel(pub f64);

impl TryFrom<f64> for Decibel {
    type Error = String;

    fn try_from(ratio: f64) -> Result<Self, String> {
        if ratio.abs() <= 100.0 {
            Ok(Self(ratio))
        } else {
            Err(format!("{ratio} dB is not between -100 and 100"))
        }
    }
}

/// Antennas as written in files: `"2x1"`, two senders and one receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct AntennasText(pub Antennas);

impl TryFrom<String> for AntennasText {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let count = |text: &str| {
            text.parse()
                .ok()
                .filter(|n| (1..=Antennas::MOST).contains(n))
        };
        text.split_once('x')
            .and_then(|(send, receive)| {
                Some(Antennas {
                    send: count(send)?,
                    receive: count(receive)?,
                })
            })
            .map(Self)
            .ok_or_else(|| {
                format!("`{text}` is not SENDxRECEIVE with 1 to 8 antennas each, as in \"2x1\"")
            })
    }
}

fn never() -> Chance {
    Chance(0.0)
}

fn always() -> Chance {
    Chance(1.0)
}

/// `fec = { rate = 0.95 }`, or `{ block = 255, corrects = 8 }`;
/// `short = { below = 128, rate = 0.5 }` improves the protection of short packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "FecTable")]
pub struct FecSpec(pub Code);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FecTable {
    block: Option<NonZeroU32>,
    rate: Option<Chance>,
    corrects: Option<u32>,
    short: Option<ShortTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ShortTable {
    below: u32,
    rate: Option<Chance>,
    corrects: Option<u32>,
}

impl TryFrom<FecTable> for FecSpec {
    type Error = String;

    fn try_from(table: FecTable) -> Result<Self, String> {
        let short = table.short.map(|short| {
            Ok::<_, String>(Short {
                below: short.below,
                redundancy: redundancy(short.rate, short.corrects)?,
            })
        });
        let code = Code {
            block: table.block,
            redundancy: redundancy(table.rate, table.corrects)?,
            short: short.transpose()?,
        };
        if code.is_possible() {
            Ok(Self(code))
        } else {
            Err(match table.block {
                Some(block) => format!(
                    "words of {block} bytes have no room for data: raise `block` or `rate`, or \
                     lower `corrects`"
                ),
                None => "a code of rate 0 carries nothing: raise `rate`".to_owned(),
            })
        }
    }
}

fn redundancy(rate: Option<Chance>, corrects: Option<u32>) -> Result<Redundancy, String> {
    match (rate, corrects) {
        // A chance is at most 1, so this fits.
        (Some(Chance(rate)), None) => Ok(Redundancy::Rate((rate * 1e6).round() as u32)),
        (None, Some(bytes)) => Ok(Redundancy::Corrects(bytes)),
        _ => Err(
            "a code needs either `rate`, the share of data in what is sent, or `corrects`, the \
             wrong bytes that it puts right"
                .to_owned(),
        ),
    }
}
