//! Options of `auto`.

use super::common::{
    FALLBACK, INITIAL_WINDOW, START, asks_start, fallback, initial_window, show_asks_start,
    show_fallback, show_initial_window,
};
use super::knob::Knob;
use crate::supervise::FallbackLaw;

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

pub(super) const AUTO: &[Knob<AutoConfig>] = &[
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
        key: "fallback",
        expects: FALLBACK,
        set: |config, text| {
            config.fallback = fallback(text)?;
            Some(())
        },
        show: |config| show_fallback(config.fallback),
    },
    Knob {
        key: "start",
        expects: START,
        set: |config, text| {
            config.asks_start = asks_start(text)?;
            Some(())
        },
        show: |config| show_asks_start(config.asks_start),
    },
];
