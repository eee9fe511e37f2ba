//! Names of ports' laws.

use core::fmt;
use core::str::FromStr;

use super::own::{OwnPort, PORTS};
use super::vcp::VcpLinkConfig;
use super::{ParseError, knob, xcp};
use crate::base::Instant;
use crate::law::{LinkController, Passive};
use crate::quick_start::QuickStartLink;
use crate::vcp::{Bise, Plain, VcpLink};
use crate::xcp::{CloudParams, ExactEstimate, XcpLink, XcpLinkParams};
use crate::xcp_i::XcpILink;

/// A port's law and its options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkAlgorithm {
    law: Law,
    grants: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Law {
    None,
    Vcp(VcpLinkConfig),
    Xcp(XcpLinkParams),
    QuickStart,
    Own(OwnPort),
}

impl LinkAlgorithm {
    /// All names without options. Registered laws aren't included.
    pub const NAMES: &[&str] = &["none", "vcp", "vcp+bise", "xcp", "xcp-i", "quick-start"];

    /// Parses a name, which can be followed by options in brackets.
    ///
    /// # Errors
    /// Returns a [`ParseError`] that describes the problem and suggests a solution.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let (name, options) = knob::split(text)?;
        let law = match name {
            "none" => {
                knob::apply("none", (), options)?;
                Law::None
            }
            "vcp" => Law::Vcp(knob::apply("vcp", VcpLinkConfig::new(false), options)?),
            "vcp+bise" => Law::Vcp(knob::apply("vcp+bise", VcpLinkConfig::new(true), options)?),
            "xcp" => Law::Xcp(knob::apply("xcp", XcpLinkParams::default(), options)?),
            "xcp-i" => {
                let params = XcpLinkParams {
                    clouds: Some(CloudParams::default()),
                    ..XcpLinkParams::default()
                };
                Law::Xcp(knob::apply("xcp-i", params, options)?)
            }
            "quick-start" => {
                knob::apply("quick-start", (), options)?;
                Law::QuickStart
            }
            _ => {
                let law = Law::Own(PORTS.parse(name, options, Self::NAMES, "vcp")?);
                return Ok(Self { law, grants: false });
            }
        };
        Ok(Self { law, grants: true })
    }

    /// Sets whether the port also grants starting rates, which it does by default.
    #[must_use]
    pub const fn with_grants(mut self, grants: bool) -> Self {
        self.grants = grants;
        self
    }

    /// Returns true if a port with this law grants starting rates.
    pub const fn grants(&self) -> bool {
        self.grants && !matches!(self.law, Law::None | Law::Own(_))
    }

    /// Returns the name without options.
    pub const fn name(&self) -> &'static str {
        match &self.law {
            Law::None => "none",
            Law::Vcp(config) => config.name(),
            Law::Xcp(params) => xcp::link_name(params),
            Law::QuickStart => "quick-start",
            Law::Own(own) => own.name,
        }
    }

    /// Returns true if the law continuously gives feedback to flows, so that they keep its queue
    /// short.
    pub const fn has_feedback(&self) -> bool {
        matches!(self.law, Law::Vcp(_) | Law::Xcp(_) | Law::Own(_))
    }

    /// Returns the exact estimate of clouds that the law needs. It must be provided by a caller
    /// that knows all links, such as an emulator.
    pub const fn exact_estimate(&self) -> Option<ExactEstimate> {
        match &self.law {
            Law::Xcp(XcpLinkParams {
                clouds: Some(clouds),
                ..
            }) => clouds.exact,
            _ => None,
        }
    }

    /// Returns true if the law uses estimates of clouds that are measured with packets.
    pub const fn measured_estimate(&self) -> bool {
        match &self.law {
            Law::Xcp(XcpLinkParams {
                clouds: Some(clouds),
                ..
            }) => clouds.measured,
            _ => false,
        }
    }

    /// Creates a controller for a port that starts at `now` with a capacity of `bytes_per_second`,
    /// after deductions made by the port itself. `seed` determines random numbers that should
    /// differ between ports.
    pub fn controller(
        &self,
        now: Instant,
        bytes_per_second: u64,
        seed: u64,
    ) -> Box<dyn LinkController> {
        let rate = bytes_per_second;
        let grants = self.grants.then_some(seed);
        match &self.law {
            Law::None => Box::new(Passive),
            Law::Own(own) => (own.build)(now, rate, seed),
            Law::QuickStart if !self.grants => Box::new(Passive),
            Law::QuickStart => Box::new(QuickStartLink::new(now, rate, seed, Passive)),
            Law::Xcp(params) if params.clouds.is_some() => {
                granting(now, rate, grants, XcpILink::new(now, rate, params.clone()))
            }
            Law::Xcp(params) => {
                granting(now, rate, grants, XcpLink::new(now, rate, params.clone()))
            }
            Law::Vcp(config) => {
                let params = config.params.clone();
                if config.has_bise {
                    let rule = Bise::new(config.bise, seed);
                    granting(now, rate, grants, VcpLink::new(now, rate, params, rule))
                } else {
                    granting(now, rate, grants, VcpLink::new(now, rate, params, Plain))
                }
            }
        }
    }
}

/// Boxes `law`. If there is a seed, its port also grants starting rates.
fn granting<L: LinkController + 'static>(
    now: Instant,
    rate: u64,
    seed: Option<u64>,
    law: L,
) -> Box<dyn LinkController> {
    match seed {
        Some(seed) => Box::new(QuickStartLink::with_law(now, rate, seed, law)),
        None => Box::new(law),
    }
}

impl FromStr for LinkAlgorithm {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        Self::parse(text)
    }
}

impl fmt::Display for LinkAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.law {
            Law::None | Law::QuickStart | Law::Own(_) => f.write_str(self.name()),
            Law::Xcp(params) => knob::show(f, self.name(), params),
            Law::Vcp(config) => knob::show(f, self.name(), config),
        }
    }
}
