//! Names of ports' laws.

use core::fmt;
use core::str::FromStr;

use super::error::ParseError;
use super::knob::{self, Knob};
use super::own::{OwnPort, PORTS};
use super::value::{self, duration, ppm, show_duration, show_ppm, show_switch, switch};
use super::vcp::interval;
use super::xcp;
use crate::base::{Duration, Instant};
use crate::law::{LinkController, Passive};
use crate::quick_start::QuickStartLink;
use crate::vcp::{
    Bise, BiseParams, Draw, Interval, Marking, Plain, QueueFilter, VcpLink, VcpLinkParams,
};
use crate::xcp::{CloudParams, ExactEstimate, XcpCapacity, XcpLink, XcpLinkParams};
use crate::xcp_i::XcpILink;

/// Longest automatic interval unless changed by `t_rho_max`.
const AUTO_CEILING: Duration = VcpLinkParams::AUTO_CEILING;

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

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct VcpLinkConfig {
    params: VcpLinkParams,
    bise: Option<BiseParams>,
}

impl VcpLinkConfig {
    fn new(bise: bool) -> Self {
        let params = if bise {
            VcpLinkParams::with_bise()
        } else {
            VcpLinkParams::default()
        };
        Self {
            params,
            bise: bise.then(BiseParams::default),
        }
    }

    const fn name(&self) -> &'static str {
        match self.bise {
            None => "vcp",
            Some(_) => "vcp+bise",
        }
    }
}

pub(super) const COMMON: &[Knob<VcpLinkConfig>] = &[
    Knob {
        key: "paper",
        expects: "nothing: `paper` selects the papers' own rules; options after it may still \
            differ",
        set: |config, text| {
            if switch(text)? {
                config.params.as_published();
                if let Some(bise) = &mut config.bise {
                    bise.as_published();
                }
            }
            Some(())
        },
        show: |_| String::new(),
    },
    Knob {
        key: "t_rho",
        expects: "`auto`, or a time from 1ms to 65.535s, such as 200ms",
        set: |config, text| {
            config.params.t_rho = match text {
                "auto" => Interval::Auto {
                    ceiling: AUTO_CEILING,
                },
                _ => Interval::Fixed(interval(text)?),
            };
            Some(())
        },
        show: |config| match config.params.t_rho {
            Interval::Auto { .. } => "auto".to_owned(),
            Interval::Fixed(fixed) => show_duration(fixed),
        },
    },
    Knob {
        key: "t_rho_max",
        expects: "a time from 1ms to 65.535s after `t_rho=auto`, such as 10s",
        set: |config, text| {
            let most = interval(text)?;
            match &mut config.params.t_rho {
                Interval::Auto { ceiling } => *ceiling = most,
                Interval::Fixed(_) => return None,
            }
            Some(())
        },
        show: |config| match config.params.t_rho {
            Interval::Auto { ceiling } => show_duration(ceiling),
            Interval::Fixed(_) => show_duration(AUTO_CEILING),
        },
    },
    Knob {
        key: "t_q",
        expects: "a time from 100us to 1s, such as 10ms",
        set: |config, text| {
            let t_q = duration(text)?;
            if !(Duration::from_micros(100)..=Duration::from_secs(1)).contains(&t_q) {
                return None;
            }
            config.params.t_q = t_q;
            Some(())
        },
        show: |config| show_duration(config.params.t_q),
    },
    Knob {
        key: "kappa",
        expects: "the weight of the queue from 0 to 1, such as 0.5",
        set: |config, text| {
            config.params.kappa_ppm = ppm(text, 0, 1_000_000)?;
            Some(())
        },
        show: |config| show_ppm(config.params.kappa_ppm),
    },
    Knob {
        key: "gamma",
        expects: "the usable share of the capacity from 0.5 to 1, such as 0.98",
        set: |config, text| {
            config.params.gamma_ppm = ppm(text, 500_000, 1_000_000)?;
            Some(())
        },
        show: |config| show_ppm(config.params.gamma_ppm),
    },
    Knob {
        key: "queue",
        expects: "`lowpass`, `mean` or `min`",
        set: |config, text| {
            config.params.queue = match text {
                "lowpass" => QueueFilter::LowPass,
                "mean" => QueueFilter::Mean,
                "min" => QueueFilter::Min,
                _ => return None,
            };
            Some(())
        },
        show: |config| {
            match config.params.queue {
                QueueFilter::LowPass => "lowpass",
                QueueFilter::Mean => "mean",
                QueueFilter::Min => "min",
            }
            .to_owned()
        },
    },
    Knob {
        key: "restart",
        expects: "`yes` or `no`",
        set: |config, text| {
            config.params.restart = switch(text)?;
            Some(())
        },
        show: |config| show_switch(config.params.restart),
    },
];

pub(super) const BISE: &[Knob<VcpLinkConfig>] = &[
    Knob {
        key: "foresee",
        expects: "a share of the running interval's load from 0 to 1, such as 0.5",
        set: |config, text| {
            config.params.foresee_ppm = ppm(text, 0, 1_000_000)?;
            Some(())
        },
        show: |config| show_ppm(config.params.foresee_ppm),
    },
    Knob {
        key: "equalize",
        expects: "`yes` or `no`",
        set: |config, text| {
            config.params.equalize = switch(text)?;
            Some(())
        },
        show: |config| show_switch(config.params.equalize),
    },
    Knob {
        key: "epsilon",
        expects: "the senders' ε from 0.000001 to 100, such as 10",
        set: |config, text| {
            config.bise.as_mut()?.epsilon_ppm = ppm(text, 1, 100_000_000)?;
            Some(())
        },
        show: |config| show_bise(config, |bise| show_ppm(bise.epsilon_ppm)),
    },
    Knob {
        key: "k",
        expects: "the share of the gap closed per interval, from 0.01 to 0.99, such as 0.33",
        set: |config, text| {
            config.bise.as_mut()?.k_ppm = ppm(text, 10_000, 990_000)?;
            Some(())
        },
        show: |config| show_bise(config, |bise| show_ppm(bise.k_ppm)),
    },
    Knob {
        key: "target",
        expects: "the load aimed at from 0.5 to 1, such as 1",
        set: |config, text| {
            config.bise.as_mut()?.target_ppm = ppm(text, 500_000, 1_000_000)?;
            Some(())
        },
        show: |config| show_bise(config, |bise| show_ppm(bise.target_ppm)),
    },
    Knob {
        key: "x_ref",
        expects: "an RTT as a share of the interval from 0.01 to 1, such as 1",
        set: |config, text| {
            config.bise.as_mut()?.x_ref_ppm = ppm(text, 10_000, 1_000_000)?;
            Some(())
        },
        show: |config| show_bise(config, |bise| show_ppm(bise.x_ref_ppm)),
    },
    Knob {
        key: "ceiling",
        expects: "the load up to which MI and AI are mixed, from 0.5 to 1, such as 0.98",
        set: |config, text| {
            config.bise.as_mut()?.ceiling_ppm = ppm(text, 500_000, 1_000_000)?;
            Some(())
        },
        show: |config| show_bise(config, |bise| show_ppm(bise.ceiling_ppm)),
    },
    Knob {
        key: "marking",
        expects: "`carried`, `lottery`, `lottery-random` or `lottery-diffusion`",
        set: |config, text| {
            config.bise.as_mut()?.marking = match text {
                "carried" => Marking::Carried,
                "lottery" => Marking::Lottery(Draw::Weyl),
                "lottery-random" => Marking::Lottery(Draw::Random),
                "lottery-diffusion" => Marking::Lottery(Draw::Diffusion),
                _ => return None,
            };
            Some(())
        },
        show: |config| {
            show_bise(config, |bise| {
                match bise.marking {
                    Marking::Carried => "carried",
                    Marking::Lottery(Draw::Random) => "lottery-random",
                    Marking::Lottery(Draw::Weyl) => "lottery",
                    Marking::Lottery(Draw::Diffusion) => "lottery-diffusion",
                }
                .to_owned()
            })
        },
    },
];

fn show_bise(config: &VcpLinkConfig, show: impl FnOnce(&BiseParams) -> String) -> String {
    config.bise.as_ref().map_or_else(String::new, show)
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
                knob::apply("none", &[], &mut (), options)?;
                Law::None
            }
            "vcp" => Law::Vcp(vcp_family(VcpLinkConfig::new(false), options)?),
            "vcp+bise" => Law::Vcp(vcp_family(VcpLinkConfig::new(true), options)?),
            "xcp" => {
                let mut params = XcpLinkParams::default();
                knob::apply("xcp", &[xcp::LINK], &mut params, options)?;
                Law::Xcp(params)
            }
            "xcp-i" => Law::Xcp(xcp_i(options)?),
            "quick-start" => {
                knob::apply("quick-start", &[], &mut (), options)?;
                Law::QuickStart
            }
            _ => {
                if let Some(own) = PORTS.named(name) {
                    knob::apply(own.name, &[], &mut (), options)?;
                    let law = Law::Own(own);
                    return Ok(Self { law, grants: false });
                }
                let names = Self::NAMES.iter().copied().chain(PORTS.names());
                return Err(ParseError::UnknownName {
                    given: name.to_owned(),
                    nearest: value::nearest(name, names).unwrap_or("vcp"),
                    known: Self::NAMES,
                });
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

    /// Returns true if the law has its own capacity, regardless of the port's rate.
    pub const fn fixed_capacity(&self) -> bool {
        matches!(
            &self.law,
            Law::Xcp(XcpLinkParams {
                capacity: XcpCapacity::Fixed(_),
                ..
            })
        )
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
            Law::Own(own) => own.controller(now, rate, seed),
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
                match config.bise {
                    None => granting(now, rate, grants, VcpLink::new(now, rate, params, Plain)),
                    Some(bise) => {
                        let rule = Bise::new(bise, seed);
                        granting(now, rate, grants, VcpLink::new(now, rate, params, rule))
                    }
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

fn xcp_i(options: Option<&str>) -> Result<XcpLinkParams, ParseError> {
    let mut params = XcpLinkParams {
        clouds: Some(CloudParams::default()),
        ..XcpLinkParams::default()
    };
    let knobs = xcp::link_knobs(&params);
    knob::apply("xcp-i", knobs, &mut params, options)?;
    Ok(params)
}

fn vcp_knobs(config: &VcpLinkConfig) -> [&'static [Knob<VcpLinkConfig>]; 2] {
    [COMMON, config.bise.map_or(&[][..], |_| BISE)]
}

fn vcp_family(
    mut config: VcpLinkConfig,
    options: Option<&str>,
) -> Result<VcpLinkConfig, ParseError> {
    let knobs = vcp_knobs(&config);
    knob::apply(config.name(), &knobs, &mut config, options)?;
    Ok(config)
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
            Law::Xcp(params) => {
                let default = XcpLinkParams {
                    clouds: params.clouds.map(|_| CloudParams::default()),
                    ..XcpLinkParams::default()
                };
                knob::show(f, self.name(), xcp::link_knobs(params), params, &default)
            }
            Law::Vcp(config) => {
                let default = VcpLinkConfig::new(config.bise.is_some());
                knob::show(f, self.name(), &vcp_knobs(config), config, &default)
            }
        }
    }
}
