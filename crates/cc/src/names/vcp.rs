//! Options of VCP senders.

use super::common::{
    FALLBACK, INITIAL_WINDOW, START, asks_start, fallback, initial_window, show_asks_start,
    show_fallback, show_initial_window,
};
use super::knob::Knob;
use super::value::{
    decimal, duration, ppm, show_decimal, show_duration, show_ppm, show_switch, switch,
};
use crate::base::Duration;
use crate::signals::Carrier;
use crate::vcp::{AiBase, AiGrowth, VcpParams, Wlte};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct VcpConfig {
    pub(super) params: VcpParams,
    pub(super) wlte: Option<Wlte>,
    pub(super) asks_start: bool,
    /// True for the papers' sender, without any of this library's rules.
    pub(super) published: bool,
    /// True if this sender uses a TCP with SACK.
    pub(super) sack: bool,
}

impl VcpConfig {
    pub(super) fn new(bise: bool, wlte: bool) -> Self {
        Self {
            params: if bise {
                VcpParams::with_bise()
            } else {
                VcpParams::default()
            },
            wlte: wlte.then(Wlte::default),
            asks_start: false,
            published: false,
            sack: false,
        }
    }

    pub(super) const fn name(&self) -> &'static str {
        match (self.params.bise_epsilon_ppm, self.wlte) {
            (None, None) => "vcp",
            (Some(_), None) => "vcp+bise",
            (None, Some(_)) => "vcp+wlte",
            (Some(_), Some(_)) => "vcp+bise+wlte",
        }
    }
}

pub(super) const COMMON: &[Knob<VcpConfig>] = &[
    Knob {
        key: "paper",
        expects: "nothing: `paper` selects the papers' sender, without any rule of this library's; \
            options after it may still differ",
        set: |config, text| {
            if switch(text)? {
                config.params.as_published();
                config.published = true;
            }
            Some(())
        },
        show: |config| show_switch(config.published),
    },
    Knob {
        key: "sack",
        expects: "after `paper`: `yes` (the timeout of a TCP with SACK) or `no` (of one without)",
        set: |config, text| {
            if !config.published {
                return None;
            }
            config.sack = switch(text)?;
            Some(())
        },
        show: |config| show_switch(config.sack),
    },
    Knob {
        key: "iw",
        expects: INITIAL_WINDOW,
        set: |config, text| {
            config.params.initial_window = initial_window(text)?;
            Some(())
        },
        show: |config| show_initial_window(config.params.initial_window),
    },
    Knob {
        key: "fallback",
        expects: FALLBACK,
        set: |config, text| {
            config.params.fallback = fallback(text)?;
            Some(())
        },
        show: |config| show_fallback(config.params.fallback),
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
    Knob {
        key: "epsilon",
        expects: "ε of MI from 0.000001 to 100, such as 0.0625",
        set: |config, text| {
            config.params.epsilon_ppm = ppm(text, 1, 100_000_000)?;
            Some(())
        },
        show: |config| show_ppm(config.params.epsilon_ppm),
    },
    Knob {
        key: "alpha",
        expects: "packets per round trip from 0.000001 to 1000, such as 1",
        set: |config, text| {
            config.params.alpha_ppm = ppm(text, 1, 1_000_000_000)?;
            Some(())
        },
        show: |config| show_ppm(config.params.alpha_ppm),
    },
    Knob {
        key: "beta",
        expects: "the share that a cut leaves, from 0.1 to 0.999999, such as 0.875",
        set: |config, text| {
            config.params.beta_ppm = ppm(text, 100_000, 999_999)?;
            Some(())
        },
        show: |config| show_ppm(config.params.beta_ppm),
    },
    Knob {
        key: "beta_again",
        expects: "the share that a further cut leaves while overload goes on, from 0.1 to \
            0.999999, such as 0.875",
        set: |config, text| {
            config.params.beta_again_ppm = ppm(text, 100_000, 999_999)?;
            Some(())
        },
        show: |config| show_ppm(config.params.beta_again_ppm),
    },
    Knob {
        key: "t_rho",
        expects: "a time from 1ms to 65.535s, such as 200ms (used where routers do not tell \
            theirs)",
        set: |config, text| {
            config.params.t_rho = interval(text)?;
            Some(())
        },
        show: |config| show_duration(config.params.t_rho),
    },
    Knob {
        key: "ai",
        expects: "`constant`, or the number of intervals from 1 to 1000 after which α doubles",
        set: |config, text| {
            config.params.ai_growth = if text == "constant" {
                AiGrowth::Constant
            } else {
                let intervals = u32::try_from(decimal(text, 0)?).ok()?;
                if !(1..=1000).contains(&intervals) {
                    return None;
                }
                AiGrowth::Doubling { intervals }
            };
            Some(())
        },
        show: |config| match config.params.ai_growth {
            AiGrowth::Constant => "constant".to_owned(),
            AiGrowth::Doubling { intervals } => show_decimal(u64::from(intervals), 0),
        },
    },
    Knob {
        key: "ai_base",
        expects: "`t_rho`, or a time such as 100ms",
        set: |config, text| {
            config.params.ai_base = if text == "t_rho" {
                AiBase::TRho
            } else {
                AiBase::Fixed(interval(text)?)
            };
            Some(())
        },
        show: |config| match config.params.ai_base {
            AiBase::TRho => "t_rho".to_owned(),
            AiBase::Fixed(base) => show_duration(base),
        },
    },
    Knob {
        key: "ai_clamp",
        expects: "`yes` or `no`",
        set: |config, text| {
            config.params.ai_clamp = switch(text)?;
            Some(())
        },
        show: |config| show_switch(config.params.ai_clamp),
    },
    Knob {
        key: "mi_cap",
        expects: "`yes` or `no`",
        set: |config, text| {
            config.params.mi_cap = switch(text)?;
            Some(())
        },
        show: |config| show_switch(config.params.mi_cap),
    },
    Knob {
        key: "freeze_all",
        expects: "`yes` or `no`",
        set: |config, text| {
            config.params.freeze_all = switch(text)?;
            Some(())
        },
        show: |config| show_switch(config.params.freeze_all),
    },
    Knob {
        key: "carrier",
        expects: "`shim` or `ecn`",
        set: |config, text| {
            config.params.carrier = match text {
                "shim" => Carrier::Shim,
                "ecn" => Carrier::Ecn,
                _ => return None,
            };
            Some(())
        },
        show: |config| {
            match config.params.carrier {
                Carrier::Shim => "shim",
                Carrier::Ecn => "ecn",
            }
            .to_owned()
        },
    },
];

pub(super) const BISE: &[Knob<VcpConfig>] = &[Knob {
    key: "bise_epsilon",
    expects: "ε under BISE from 0.000001 to 100, such as 10",
    set: |config, text| {
        config.params.bise_epsilon_ppm = Some(ppm(text, 1, 100_000_000)?);
        Some(())
    },
    show: |config| {
        config
            .params
            .bise_epsilon_ppm
            .map_or_else(String::new, show_ppm)
    },
}];

pub(super) const WLTE: &[Knob<VcpConfig>] = &[Knob {
    key: "pure",
    expects: "`yes` or `no`",
    set: |config, text| {
        config.wlte = Some(Wlte {
            pure: switch(text)?,
        });
        Some(())
    },
    show: |config| show_switch(config.wlte.is_some_and(|wlte| wlte.pure)),
}];

pub(super) fn interval(text: &str) -> Option<Duration> {
    let interval = duration(text)?;
    (Duration::from_millis(1)..=Duration::from_millis(65_535))
        .contains(&interval)
        .then_some(interval)
}
