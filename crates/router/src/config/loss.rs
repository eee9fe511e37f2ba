//! Random loss and what protects from it, as files say it.

use std::num::NonZeroU32;

use serde::Deserialize;

use super::Chance;
use crate::core::impair::{Code, Redundancy, Short};

/// `loss = { kind = "bernoulli", per = 1e-3 }`, or `none`, `gilbert-elliott`, `bit-errors`.
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
    /// Packets with more wrong bits than a code puts right, bits going wrong in bursts.
    BitErrors {
        /// That a bit is wrong in the good state.
        ber_good: Chance,
        /// That a bit is wrong in the bad state.
        #[serde(default = "never")]
        ber_bad: Chance,
        /// From the good to the bad state, per bit.
        #[serde(default = "never")]
        p_good_bad: Chance,
        /// From the bad to the good state, per bit.
        #[serde(default = "always")]
        p_bad_good: Chance,
        /// What protects packets.
        #[serde(default)]
        fec: Option<FecSpec>,
    },
}

fn never() -> Chance {
    Chance(0.0)
}

fn always() -> Chance {
    Chance(1.0)
}

/// `fec = { rate = 0.95 }`, or `{ block = 255, corrects = 8 }`; `short = { below = 128, rate = 0.5 }` protects short
/// packets better.
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
                    "words of {block} bytes have no room for data: raise `block` or `rate`, or lower `corrects`"
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
            "a code needs either `rate`, the share of data in what is sent, or `corrects`, the wrong bytes that it puts right"
                .to_owned(),
        ),
    }
}
