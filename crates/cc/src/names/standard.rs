//! Options of standard laws, of those that start with a granted rate, and of `auto`.

use super::knob::{
    BETA, FALLBACK, HYSTART, INITIAL_WINDOW, Knob, Options, PACE, RATE, START, Switch, Values, knob,
};
use crate::cubiq::CubiqParams;
use crate::quick_start::AfterGrant;
use crate::standard::cubic::{BETA_2008_PPM, BETA_PPM};
use crate::standard::slow_start::MAX_SSTHRESH;
use crate::supervise::FallbackLaw;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct InitialConfig {
    /// Initial window in packets, or RFC 9002's with `None`.
    pub(super) initial_window: Option<u32>,
}

impl Options for InitialConfig {
    const TABLE: &'static [Knob<Self>] = &[knob! { initial_window: INITIAL_WINDOW }];
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CubicConfig {
    /// Initial window in packets, or RFC 9002's with `None`.
    pub(super) initial_window: Option<u32>,
    pub(super) hystart: bool,
    /// Share of the window that remains after a cut, in 10^-6.
    pub(super) beta_ppm: u64,
    /// True if packets are paced over the RTT.
    pub(super) paced: bool,
}

impl Default for CubicConfig {
    fn default() -> Self {
        Self {
            initial_window: None,
            hystart: true,
            beta_ppm: BETA_PPM,
            paced: true,
        }
    }
}

impl Options for CubicConfig {
    const TABLE: &'static [Knob<Self>] = &[
        knob! { initial_window: INITIAL_WINDOW },
        knob! { hystart: HYSTART },
        knob! { beta_ppm: BETA },
        knob! { paced: PACE },
    ];
}

impl Options for CubiqParams {
    const TABLE: &'static [Knob<Self>] = &[
        Knob {
            key: "paper",
            expects: "nothing: `paper` selects the paper's own rules; options after it may still \
                differ",
            set: |params, text| {
                if Switch.read(text)? {
                    params.hystart = false;
                    params.beta_ppm = BETA_2008_PPM;
                }
                Some(())
            },
            show: |_| String::new(),
        },
        knob! { initial_window: INITIAL_WINDOW },
        knob! { rate: RATE },
        knob! { hystart: HYSTART },
        knob! { limited: "limited", Limited,
            "packets beyond which slow start is limited (RFC 3742), 2 and more; `yes`: 100; or `no`"
        },
        knob! { after: "threshold", Threshold,
            "`yes` (the grant ends slow start, as in `ada`) or `no`"
        },
        knob! { beta_ppm: BETA },
        knob! { paced: PACE },
    ];
}

/// A number of packets from 2, `yes` for RFC 3742's, or `no`.
struct Limited;

impl Values<Option<u32>> for Limited {
    fn read(&self, text: &str) -> Option<Option<u32>> {
        if let Some(on) = Switch.read(text) {
            return Some(on.then_some(MAX_SSTHRESH));
        }
        let packets: u32 = text.parse().ok()?;
        (packets >= 2).then_some(Some(packets))
    }

    fn show(&self, packets: &Option<u32>) -> String {
        packets.map_or_else(|| "no".to_owned(), |packets| packets.to_string())
    }
}

/// `yes` if the grant ends slow start.
struct Threshold;

impl Values<AfterGrant> for Threshold {
    fn read(&self, text: &str) -> Option<AfterGrant> {
        let ends = Switch.read(text)?;
        Some(if ends {
            AfterGrant::Avoidance
        } else {
            AfterGrant::SlowStart
        })
    }

    fn show(&self, after: &AfterGrant) -> String {
        Switch.show(&(*after == AfterGrant::Avoidance))
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AdaConfig {
    /// Initial window in packets, or RFC 9002's with `None`.
    pub(super) initial_window: Option<u32>,
    /// Rate to ask for in bytes of IP packets per second, or as much as can be used with `None`.
    pub(super) rate: Option<u64>,
}

impl Options for AdaConfig {
    const TABLE: &'static [Knob<Self>] = &[
        knob! { initial_window: INITIAL_WINDOW },
        knob! { rate: RATE },
    ];
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AutoConfig {
    /// Initial window in packets, or RFC 9002's with `None`.
    pub(super) initial_window: Option<u32>,
    pub(super) fallback: FallbackLaw,
    pub(super) asks_start: bool,
}

impl Default for AutoConfig {
    fn default() -> Self {
        Self {
            initial_window: None,
            fallback: FallbackLaw::Cubic,
            asks_start: true,
        }
    }
}

impl Options for AutoConfig {
    const TABLE: &'static [Knob<Self>] = &[
        knob! { initial_window: INITIAL_WINDOW },
        knob! { fallback: FALLBACK },
        knob! { asks_start: START },
    ];
}
