//! Names of senders' laws.

use core::fmt;
use core::str::FromStr;

use super::auto::{AUTO, AutoConfig};
use super::common::{BETA, HYSTART, INITIAL_WINDOW, PACE, initial_window, show_initial_window};
use super::error::ParseError;
use super::knob::{self, Knob};
use super::own::{OwnLaw, SENDERS};
use super::quick_start::{ADA, AdaConfig, CUBIQ};
use super::vcp::{self, VcpConfig};
use super::{value, xcp};
use crate::ada::Ada;
use crate::auto::AutoSender;
use crate::base::Instant;
use crate::cubiq::{Cubiq, CubiqParams};
use crate::law::{Controller, Halving};
use crate::quick_start::{AfterGrant, QuickStart, Startable};
use crate::signals::{Carrier, Explicit, XcpForm};
use crate::standard::bbr::Bbr;
use crate::standard::cubic::{BETA_PPM, Cubic};
use crate::standard::slow_start::HyStart;
use crate::standard::{LossBased, NewReno, SlowStart};
use crate::supervise::FallbackLaw;
use crate::vcp::{PublishedLoss, PublishedVcp, VcpSender};
use crate::xcp::{PublishedXcp, XcpParams, XcpSender};

/// A sender's law and its options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Algorithm {
    law: Law,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Law {
    Cubic(CubicConfig),
    Bbr(InitialConfig),
    NewReno(InitialConfig),
    Cubiq(CubiqParams),
    Ada(AdaConfig),
    Vcp(VcpConfig),
    Auto(AutoConfig),
    Xcp(XcpParams),
    /// XCP with headers that mark the beginning of clouds.
    XcpI(XcpParams),
    Own(OwnLaw),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct InitialConfig {
    /// Initial window in packets, or RFC 9002's with `None`.
    initial_window: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CubicConfig {
    /// Initial window in packets, or RFC 9002's with `None`.
    initial_window: Option<u32>,
    hystart: bool,
    /// Share of the window that remains after a cut, in 10^-6.
    beta_ppm: u64,
    /// True if packets are paced over the RTT.
    paced: bool,
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

pub(super) const CUBIC: &[Knob<CubicConfig>] = &[
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
        key: "hystart",
        expects: HYSTART,
        set: |config, text| {
            config.hystart = value::switch(text)?;
            Some(())
        },
        show: |config| value::show_switch(config.hystart),
    },
    Knob {
        key: "beta",
        expects: BETA,
        set: |config, text| {
            config.beta_ppm = value::ppm(text, 100_000, 999_999)?;
            Some(())
        },
        show: |config| value::show_ppm(config.beta_ppm),
    },
    Knob {
        key: "pace",
        expects: PACE,
        set: |config, text| {
            config.paced = value::switch(text)?;
            Some(())
        },
        show: |config| value::show_switch(config.paced),
    },
];

pub(super) const INITIAL: &[Knob<InitialConfig>] = &[Knob {
    key: "iw",
    expects: INITIAL_WINDOW,
    set: |config, text| {
        config.initial_window = initial_window(text)?;
        Some(())
    },
    show: |config| show_initial_window(config.initial_window),
}];

impl Default for Algorithm {
    /// Returns [`Algorithm::DEFAULT`].
    fn default() -> Self {
        Self {
            law: Law::Auto(AutoConfig::default()),
        }
    }
}

impl Algorithm {
    /// Name of the default law, which follows the law of the bottleneck port, and uses CUBIC while
    /// no router answers. `docs/laws/auto.md` contains measurements.
    pub const DEFAULT: &str = "auto";

    /// All names without options. Registered laws aren't included.
    pub const NAMES: &[&str] = &[
        "vcp+bise+wlte",
        "vcp",
        "vcp+bise",
        "vcp+wlte",
        "xcp",
        "xcp-i",
        "cubic",
        "bbr",
        "newreno",
        "cubiq",
        "ada",
        Self::DEFAULT,
    ];

    /// Parses a name, which can be followed by options in brackets.
    ///
    /// # Errors
    /// Returns a [`ParseError`] that describes the problem and suggests a solution.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let (name, options) = knob::split(text)?;
        let law = match name {
            "cubic" => {
                let mut config = CubicConfig::default();
                knob::apply("cubic", &[CUBIC], &mut config, options)?;
                Law::Cubic(config)
            }
            "bbr" => Law::Bbr(initial_only("bbr", options)?),
            "newreno" => Law::NewReno(initial_only("newreno", options)?),
            "cubiq" => {
                let mut params = CubiqParams::default();
                knob::apply("cubiq", &[CUBIQ], &mut params, options)?;
                Law::Cubiq(params)
            }
            "ada" => {
                let mut config = AdaConfig::default();
                knob::apply("ada", &[ADA], &mut config, options)?;
                Law::Ada(config)
            }
            "auto" => {
                let mut config = AutoConfig::default();
                knob::apply("auto", &[AUTO], &mut config, options)?;
                Law::Auto(config)
            }
            "vcp" => Law::Vcp(vcp_family(VcpConfig::new(false, false), options)?),
            "vcp+bise" => Law::Vcp(vcp_family(VcpConfig::new(true, false), options)?),
            "vcp+wlte" => Law::Vcp(vcp_family(VcpConfig::new(false, true), options)?),
            "vcp+bise+wlte" => Law::Vcp(vcp_family(VcpConfig::new(true, true), options)?),
            "xcp" => Law::Xcp(xcp::sender("xcp", options)?),
            "xcp-i" => {
                let params = xcp::sender("xcp-i", options)?;
                if params.form != XcpForm::Full {
                    return Err(ParseError::Conflict {
                        why: "the compact form has no room for a router's address: write \
                            `xcp[form=compact]`",
                    });
                }
                Law::XcpI(params)
            }
            _ => {
                if let Some(own) = SENDERS.named(name) {
                    knob::apply(own.name, &[], &mut (), options)?;
                    return Ok(Self { law: Law::Own(own) });
                }
                let names = Self::NAMES.iter().copied().chain(SENDERS.names());
                return Err(ParseError::UnknownName {
                    given: name.to_owned(),
                    nearest: value::nearest(name, names).unwrap_or("cubic"),
                    known: Self::NAMES,
                });
            }
        };
        Ok(Self { law })
    }

    /// Returns the name without options.
    pub fn name(&self) -> &'static str {
        match &self.law {
            Law::Cubic(_) => "cubic",
            Law::Bbr(_) => "bbr",
            Law::NewReno(_) => "newreno",
            Law::Cubiq(_) => "cubiq",
            Law::Ada(_) => "ada",
            Law::Vcp(config) => config.name(),
            Law::Auto(_) => "auto",
            Law::Xcp(_) => "xcp",
            Law::XcpI(_) => "xcp-i",
            Law::Own(own) => own.name,
        }
    }

    /// Returns true if the law reads both VCP's codes and XCP's headers, one protocol at a time.
    pub const fn chooses(&self) -> bool {
        matches!(self.law, Law::Auto(_))
    }

    /// Returns the protocol that the law reads, if any. If there are several, this is the one that
    /// it begins with.
    pub const fn explicit(&self) -> Option<Explicit> {
        match &self.law {
            Law::Cubic(_) | Law::Bbr(_) | Law::NewReno(_) => None,
            Law::Cubiq(_) | Law::Ada(_) => Some(Explicit::QuickStart),
            Law::Vcp(config) => Some(Explicit::Vcp(config.params.carrier)),
            Law::Auto(_) => Some(Explicit::Xcp(XcpForm::Full)),
            Law::Xcp(params) | Law::XcpI(params) => Some(Explicit::Xcp(params.form)),
            Law::Own(own) => own.hears,
        }
    }

    /// Returns true if the law asks routers for a starting rate.
    pub const fn asks_start(&self) -> bool {
        match &self.law {
            Law::Cubic(_) | Law::Bbr(_) | Law::NewReno(_) | Law::Own(_) => false,
            Law::Cubiq(_) | Law::Ada(_) => true,
            Law::Vcp(config) => config.asks_start,
            Law::Auto(config) => config.asks_start,
            Law::Xcp(params) | Law::XcpI(params) => params.asks_start,
        }
    }

    /// Returns the carrier of VCP's codes, if the law reads them.
    pub const fn carrier(&self) -> Option<Carrier> {
        match self.explicit() {
            Some(Explicit::Vcp(carrier)) => Some(carrier),
            Some(Explicit::Xcp(_) | Explicit::QuickStart | Explicit::Own(_)) | None => None,
        }
    }

    /// Creates a controller for a path that begins at `now`, with datagrams of `mtu` bytes of UDP
    /// payload.
    pub fn controller(&self, now: Instant, mtu: u16) -> Box<dyn Controller> {
        match &self.law {
            Law::Cubic(config) => {
                let initial = config.initial_window;
                let rule = Cubic::with_beta(config.beta_ppm);
                if config.hystart {
                    let law = LossBased::new(mtu, initial, rule, HyStart::default());
                    Box::new(law.with_pace(config.paced))
                } else {
                    let law = LossBased::new(mtu, initial, rule, SlowStart);
                    Box::new(law.with_pace(config.paced))
                }
            }
            Law::Bbr(config) => Box::new(Bbr::new(now, mtu, config.initial_window)),
            Law::NewReno(config) => Box::new(NewReno::newreno(mtu, config.initial_window)),
            Law::Cubiq(params) => Box::new(Cubiq::cubiq(mtu, params)),
            Law::Ada(config) => Box::new(Ada::ada(mtu, config.initial_window, config.rate)),
            Law::Vcp(config) => {
                let params = config.params.clone();
                let (name, asks) = (self.name(), config.asks_start);
                if config.published {
                    let loss = PublishedLoss {
                        wlte: config.wlte.is_some(),
                        sack: config.sack,
                    };
                    return Box::new(PublishedVcp::new(name, now, mtu, params, loss));
                }
                match config.wlte {
                    Some(wlte) => started(asks, mtu, VcpSender::new(name, now, mtu, params, wlte)),
                    None => started(asks, mtu, VcpSender::new(name, now, mtu, params, Halving)),
                }
            }
            Law::Auto(config) => {
                let law = AutoSender::new(now, mtu, config.initial_window, config.fallback);
                if config.asks_start {
                    let after = AfterGrant::WhatFits;
                    Box::new(QuickStart::new(None, mtu, None, after, law))
                } else {
                    Box::new(law)
                }
            }
            Law::Xcp(params) | Law::XcpI(params) if params.published => {
                Box::new(PublishedXcp::new(now, mtu, params.clone()))
            }
            Law::Xcp(params) | Law::XcpI(params) => {
                let law = XcpSender::new(now, mtu, params.clone());
                started(params.asks_start, mtu, law)
            }
            Law::Own(own) => own.controller(now, mtu),
        }
    }
}

fn initial_only(name: &'static str, options: Option<&str>) -> Result<InitialConfig, ParseError> {
    let mut config = InitialConfig::default();
    knob::apply(name, &[INITIAL], &mut config, options)?;
    Ok(config)
}

fn vcp_knobs(config: &VcpConfig) -> [&'static [Knob<VcpConfig>]; 3] {
    let bise = config
        .params
        .bise_epsilon_ppm
        .map_or(&[][..], |_| vcp::BISE);
    let wlte = config.wlte.map_or(&[][..], |_| vcp::WLTE);
    [vcp::COMMON, bise, wlte]
}

fn vcp_family(mut config: VcpConfig, options: Option<&str>) -> Result<VcpConfig, ParseError> {
    let knobs = vcp_knobs(&config);
    knob::apply(config.name(), &knobs, &mut config, options)?;
    if config.params.carrier == Carrier::Ecn && config.name() != "vcp" {
        return Err(ParseError::Conflict {
            why: "the ECN field has no room for BISE's r and no proof of a router for WLTE: write \
                `vcp[carrier=ecn]`",
        });
    }
    if config.published && (config.asks_start || config.params.fallback != FallbackLaw::Cubic) {
        return Err(ParseError::Conflict {
            why: "`paper` is the papers' sender: leave `fallback` and `start` out",
        });
    }
    Ok(config)
}

/// Boxes `law`, which asks for a starting rate if `asks` is true.
fn started<C: Startable + 'static>(asks: bool, mtu: u16, law: C) -> Box<dyn Controller> {
    if asks {
        let after = AfterGrant::Avoidance;
        Box::new(QuickStart::new(None, mtu, None, after, law))
    } else {
        Box::new(law)
    }
}

impl FromStr for Algorithm {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        Self::parse(text)
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.law {
            Law::Cubic(config) => {
                let default = CubicConfig::default();
                knob::show(f, self.name(), &[CUBIC], config, &default)
            }
            Law::Bbr(config) | Law::NewReno(config) => knob::show(
                f,
                self.name(),
                &[INITIAL],
                config,
                &InitialConfig::default(),
            ),
            Law::Cubiq(params) => {
                let default = CubiqParams::default();
                knob::show(f, self.name(), &[CUBIQ], params, &default)
            }
            Law::Ada(config) => {
                let default = AdaConfig::default();
                knob::show(f, self.name(), &[ADA], config, &default)
            }
            Law::Vcp(config) => {
                let default = VcpConfig::new(
                    config.params.bise_epsilon_ppm.is_some(),
                    config.wlte.is_some(),
                );
                knob::show(f, self.name(), &vcp_knobs(config), config, &default)
            }
            Law::Auto(config) => {
                knob::show(f, self.name(), &[AUTO], config, &AutoConfig::default())
            }
            Law::Xcp(params) | Law::XcpI(params) => {
                let default = XcpParams::default();
                knob::show(f, self.name(), &[xcp::SENDER], params, &default)
            }
            Law::Own(own) => f.write_str(own.name),
        }
    }
}
