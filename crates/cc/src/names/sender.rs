//! Names of senders' laws.

use core::fmt;
use core::str::FromStr;

use super::own::{OwnLaw, PORTS, SENDERS};
use super::port::LinkAlgorithm;
use super::standard::{AdaConfig, AutoConfig, CubicConfig, InitialConfig};
use super::vcp::VcpConfig;
use super::{ParseError, knob, xcp};
use crate::ada::Ada;
use crate::auto::AutoSender;
use crate::base::Instant;
use crate::cubiq::{Cubiq, CubiqParams};
use crate::law::{Controller, Halving};
use crate::prague::Prague;
use crate::quick_start::{AfterGrant, QuickStart, Startable};
use crate::signals::{Carrier, Explicit, XcpForm};
use crate::standard::bbr::Bbr;
use crate::standard::cubic::Cubic;
use crate::standard::slow_start::Ending;
use crate::standard::{LossBased, NewReno};
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
    Prague(InitialConfig),
    Cubiq(CubiqParams),
    Ada(AdaConfig),
    Vcp(VcpConfig),
    Auto(AutoConfig),
    Xcp(XcpParams),
    /// XCP with headers that mark the beginning of clouds.
    XcpI(XcpParams),
    Own(OwnLaw),
}

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
        "prague",
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
            "cubic" => Law::Cubic(knob::apply("cubic", CubicConfig::default(), options)?),
            "bbr" => Law::Bbr(knob::apply("bbr", InitialConfig::default(), options)?),
            "newreno" => Law::NewReno(knob::apply("newreno", InitialConfig::default(), options)?),
            "prague" => Law::Prague(knob::apply("prague", InitialConfig::default(), options)?),
            "cubiq" => Law::Cubiq(knob::apply("cubiq", CubiqParams::default(), options)?),
            "ada" => Law::Ada(knob::apply("ada", AdaConfig::default(), options)?),
            "auto" => Law::Auto(knob::apply("auto", AutoConfig::default(), options)?),
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
            _ => Law::Own(SENDERS.parse(name, options, Self::NAMES, "cubic")?),
        };
        Ok(Self { law })
    }

    /// Returns the name without options.
    pub fn name(&self) -> &'static str {
        match &self.law {
            Law::Cubic(_) => "cubic",
            Law::Bbr(_) => "bbr",
            Law::NewReno(_) => "newreno",
            Law::Prague(_) => "prague",
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
            Law::Cubic(_) | Law::Bbr(_) | Law::NewReno(_) | Law::Prague(_) => None,
            Law::Cubiq(_) | Law::Ada(_) => Some(Explicit::QuickStart),
            Law::Vcp(config) => Some(Explicit::Vcp(config.params.carrier)),
            Law::Auto(_) => Some(Explicit::Xcp(XcpForm::Full)),
            Law::Xcp(params) | Law::XcpI(params) => Some(Explicit::Xcp(params.form)),
            Law::Own(own) => own.protocol,
        }
    }

    /// Returns true if the law asks routers for a starting rate.
    pub const fn asks_start(&self) -> bool {
        match &self.law {
            Law::Cubic(_) | Law::Bbr(_) | Law::NewReno(_) | Law::Prague(_) | Law::Own(_) => false,
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
                let rule = Cubic::with_beta(config.beta_ppm);
                let start = Ending::new(config.hystart);
                let law = LossBased::new(mtu, config.initial_window, rule, start);
                Box::new(law.with_pace(config.paced))
            }
            Law::Bbr(config) => Box::new(Bbr::new(now, mtu, config.initial_window)),
            Law::NewReno(config) => Box::new(NewReno::newreno(mtu, config.initial_window)),
            Law::Prague(config) => Box::new(Prague::new(mtu, config.initial_window)),
            Law::Cubiq(params) => Box::new(Cubiq::cubiq(mtu, params)),
            Law::Ada(config) => Box::new(Ada::ada(mtu, config.initial_window, config.rate)),
            Law::Vcp(config) => {
                let params = config.params.clone();
                let (name, asks) = (self.name(), config.asks_start);
                let after = AfterGrant::Avoidance;
                if config.published {
                    let loss = PublishedLoss {
                        wlte: config.has_wlte,
                        sack: config.sack,
                    };
                    return Box::new(PublishedVcp::new(name, now, mtu, params, loss));
                }
                if config.has_wlte {
                    let law = VcpSender::new(name, now, mtu, params, config.wlte);
                    started(asks, after, mtu, law)
                } else {
                    started(
                        asks,
                        after,
                        mtu,
                        VcpSender::new(name, now, mtu, params, Halving),
                    )
                }
            }
            Law::Auto(config) => {
                let law = AutoSender::new(now, mtu, config.initial_window, config.fallback);
                started(config.asks_start, AfterGrant::WhatFits, mtu, law)
            }
            Law::Xcp(params) | Law::XcpI(params) if params.published => {
                Box::new(PublishedXcp::new(now, mtu, params.clone()))
            }
            Law::Xcp(params) | Law::XcpI(params) => {
                let law = XcpSender::new(now, mtu, params.clone());
                started(params.asks_start, AfterGrant::Avoidance, mtu, law)
            }
            Law::Own(own) => (own.build)(now, mtu),
        }
    }
}

fn vcp_family(config: VcpConfig, options: Option<&str>) -> Result<VcpConfig, ParseError> {
    let config = knob::apply(config.name(), config, options)?;
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

/// Boxes `law`, which asks for a starting rate if `asks` is true. `after` is what follows a grant.
fn started<C: Startable + 'static>(
    asks: bool,
    after: AfterGrant,
    mtu: u16,
    law: C,
) -> Box<dyn Controller> {
    if asks {
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
            Law::Cubic(config) => knob::show(f, self.name(), config),
            Law::Bbr(config) | Law::NewReno(config) | Law::Prague(config) => {
                knob::show(f, self.name(), config)
            }
            Law::Cubiq(params) => knob::show(f, self.name(), params),
            Law::Ada(config) => knob::show(f, self.name(), config),
            Law::Vcp(config) => knob::show(f, self.name(), config),
            Law::Auto(config) => knob::show(f, self.name(), config),
            Law::Xcp(params) | Law::XcpI(params) => knob::show(f, self.name(), params),
            Law::Own(own) => f.write_str(own.name),
        }
    }
}

// Ports and signals that a sender's law uses.

impl Algorithm {
    /// Returns the law of ports that answer this law's requests, or `None` if this law doesn't read
    /// any routers' answers, or if its protocol doesn't have a registered port.
    pub fn port(&self) -> Option<LinkAlgorithm> {
        let name = match self.explicit()? {
            Explicit::QuickStart => "quick-start",
            Explicit::Xcp(_) if self.name() == "xcp-i" => "xcp-i",
            Explicit::Xcp(_) => "xcp",
            Explicit::Vcp(_) if self.name().contains("bise") => "vcp+bise",
            Explicit::Vcp(_) => "vcp",
            Explicit::Own(kind) => PORTS.find(|port| port.protocol == kind)?.name,
        };
        LinkAlgorithm::parse(name).ok()
    }

    /// Returns the signals that the law reads, starting with the one that it begins with.
    pub fn signals(&self) -> Vec<Explicit> {
        let mut signals: Vec<_> = self.explicit().into_iter().collect();
        if self.chooses() {
            signals.push(Explicit::Vcp(Carrier::Shim));
        }
        if self.asks_start() && !signals.contains(&Explicit::QuickStart) {
            signals.push(Explicit::QuickStart);
        }
        signals
    }

    /// Returns true if a router may grant the law a large rate at once, so that its peer must offer
    /// a large window beforehand.
    pub const fn is_granted(&self) -> bool {
        self.asks_start() || matches!(self.explicit(), Some(Explicit::Xcp(_) | Explicit::Own(_)))
    }
}

#[cfg(test)]
mod serves_tests {
    use super::*;

    #[test]
    fn each_law_has_a_port_if_it_reads_one() {
        for (law, port) in [
            ("cubic", None),
            ("bbr", None),
            ("newreno", None),
            ("prague", None),
            ("cubiq", Some("quick-start")),
            ("ada", Some("quick-start")),
            ("vcp", Some("vcp")),
            ("vcp+wlte", Some("vcp")),
            ("vcp[carrier=ecn]", Some("vcp")),
            ("vcp+bise", Some("vcp+bise")),
            ("vcp+bise+wlte", Some("vcp+bise")),
            ("xcp", Some("xcp")),
            ("xcp-i", Some("xcp-i")),
            ("auto", Some("xcp")),
        ] {
            let found = Algorithm::parse(law).unwrap().port();
            assert_eq!(found.as_ref().map(LinkAlgorithm::name), port, "{law}");
        }
    }

    #[test]
    fn signals_of_laws_that_read_several() {
        let of = |law: &str| Algorithm::parse(law).unwrap().signals().len();
        assert_eq!((of("cubic"), of("xcp"), of("cubiq")), (0, 1, 1));
        assert_eq!((of("xcp[start=quick-start]"), of("auto")), (2, 3));
    }
}
