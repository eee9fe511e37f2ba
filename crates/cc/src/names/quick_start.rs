//! Options of senders that ask for a starting rate.

use super::common::{BETA, HYSTART, INITIAL_WINDOW, PACE, initial_window, show_initial_window};
use super::knob::Knob;
use super::value::{ppm, rate, show_ppm, show_rate, show_switch, switch};
use crate::cubiq::CubiqParams;
use crate::quick_start::AfterGrant;
use crate::standard::cubic::BETA_2008_PPM;
use crate::standard::slow_start::MAX_SSTHRESH;

const RATE: &str = "the rate that is asked for, such as 1Gbit, or `auto`: as much as can be used";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AdaConfig {
    /// Initial window in packets, or RFC 9002's with `None`.
    pub(super) initial_window: Option<u32>,
    /// Rate to ask for in bytes of IP packets per second, or as much as can be used with `None`.
    pub(super) rate: Option<u64>,
}

fn wanted(text: &str) -> Option<Option<u64>> {
    if text == "auto" {
        return Some(None);
    }
    rate(text).map(Some)
}

fn show_wanted(wanted: Option<u64>) -> String {
    wanted.map_or_else(|| "auto".to_owned(), show_rate)
}

fn limited(text: &str) -> Option<Option<u32>> {
    if let Some(on) = switch(text) {
        return Some(on.then_some(MAX_SSTHRESH));
    }
    let packets: u32 = text.parse().ok()?;
    (packets >= 2).then_some(Some(packets))
}

pub(super) const CUBIQ: &[Knob<CubiqParams>] = &[
    Knob {
        key: "paper",
        expects: "nothing: `paper` selects the paper's own rules; options after it may still \
            differ",
        set: |params, text| {
            if switch(text)? {
                params.hystart = false;
                params.beta_ppm = BETA_2008_PPM;
            }
            Some(())
        },
        show: |_| String::new(),
    },
    Knob {
        key: "iw",
        expects: INITIAL_WINDOW,
        set: |params, text| {
            params.initial_window = initial_window(text)?;
            Some(())
        },
        show: |params| show_initial_window(params.initial_window),
    },
    Knob {
        key: "rate",
        expects: RATE,
        set: |params, text| {
            params.rate = wanted(text)?;
            Some(())
        },
        show: |params| show_wanted(params.rate),
    },
    Knob {
        key: "hystart",
        expects: HYSTART,
        set: |params, text| {
            params.hystart = switch(text)?;
            Some(())
        },
        show: |params| show_switch(params.hystart),
    },
    Knob {
        key: "limited",
        expects: "packets beyond which slow start is limited (RFC 3742), 2 and more; `yes`: 100; \
            or `no`",
        set: |params, text| {
            params.limited = limited(text)?;
            Some(())
        },
        show: |params| {
            params
                .limited
                .map_or_else(|| "no".to_owned(), |packets| packets.to_string())
        },
    },
    Knob {
        key: "threshold",
        expects: "`yes` (the grant ends slow start, as in `ada`) or `no`",
        set: |params, text| {
            params.after = if switch(text)? {
                AfterGrant::Avoidance
            } else {
                AfterGrant::SlowStart
            };
            Some(())
        },
        show: |params| show_switch(params.after == AfterGrant::Avoidance),
    },
    Knob {
        key: "beta",
        expects: BETA,
        set: |params, text| {
            params.beta_ppm = ppm(text, 100_000, 999_999)?;
            Some(())
        },
        show: |params| show_ppm(params.beta_ppm),
    },
    Knob {
        key: "pace",
        expects: PACE,
        set: |params, text| {
            params.paced = switch(text)?;
            Some(())
        },
        show: |params| show_switch(params.paced),
    },
];

pub(super) const ADA: &[Knob<AdaConfig>] = &[
    Knob {
        key: "iw",
        expects: INITIAL_WINDOW,
        set: |config, text| {
            config.initial_window = initial_window(text)?;
            Some(())
        },
        show: |config| show_initial_window(config.initial_window),
    },
    Knob {
        key: "rate",
        expects: RATE,
        set: |config, text| {
            config.rate = wanted(text)?;
            Some(())
        },
        show: |config| show_wanted(config.rate),
    },
];
