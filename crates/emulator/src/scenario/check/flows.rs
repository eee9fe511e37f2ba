//! Checks of flows: names, ways, sources.

use std::collections::HashSet;
use std::ops::Range;

use pathmark_cc::{Algorithm, Duration};
use pathmark_link::keys::{Fault, nearest};
use pathmark_protocols::forged::names_router;
use toml::Spanned;

use super::super::route::route;
use super::super::schema::{FileFlow, OnOffSpec};
use super::super::{App, Connects, FlowSetup, Forge, LinkSetup, OnOff, Pattern};
use super::{Check, PACKET};

/// Packets without a connection or a law.
const UDP: &str = "udp";
/// The default round trip in forged shims.
const FORGED_RTT: Duration = Duration::from_millis(20);
/// Minimum packet size of udp in bytes.
const UDP_PACKET: u32 = 64;
/// Maximum bytes of a flow without a rate on its path, because they may all be in flight at
/// once.
const MOST_UNPACED: u64 = 1 << 28;
/// Limit for the columns of a table and the points of a line.
const MOST_MILESTONES: usize = 16;

impl Check<'_> {
    pub(super) fn flows(
        &self,
        files: &[FileFlow],
        links: &[LinkSetup],
    ) -> Result<Vec<FlowSetup>, Fault> {
        if files.is_empty() {
            return Err(self
                .source
                .locate(None, "a scenario needs at least one [[flow]]"));
        }
        let mut sections = HashSet::new();
        let mut names = HashSet::new();
        let mut flows = Vec::new();
        for file in files {
            // `flow.NAME.KEY`, plots and rows of results identify a section only by its name.
            let name = file.name.get_ref();
            if !sections.insert(name) {
                let message = format!("another [[flow]] is called `{name}` already");
                return Err(self.fault(file.name.span(), message));
            }
            for flow in self.flow(file, links)? {
                if !names.insert(flow.name.clone()) {
                    let message = format!("another flow is called `{}` already", flow.name);
                    return Err(self.fault(file.name.span(), message));
                }
                flows.push(flow);
            }
        }
        Ok(flows)
    }

    fn flow(&self, file: &FileFlow, links: &[LinkSetup]) -> Result<Vec<FlowSetup>, Fault> {
        let (from, to) = (self.known_node(&file.from)?, self.known_node(&file.to)?);
        if from == to {
            return Err(self.fault(file.to.span(), "the flow leads to where it comes from"));
        }
        let path = self.paths(file, links, from, to)?;
        self.bounded(file, links, &path)?;
        let starts = self.starts(file)?;
        let sizes = self.sizes(file, starts.len())?;
        let algorithm = self.algorithm(file)?;
        let source = self.pattern(file, algorithm.is_none())?;
        let forge = self.forge(file, algorithm.is_none())?;
        let stop = file.stop.as_ref().map(|stop| stop.get_ref().0);
        let packet = self.flow_packet(file, algorithm.is_none())?;
        let max_ack_ranges = self.ack_ranges(file, algorithm.is_none())?;
        let known_rate = self.known_rate(file, algorithm.is_none())?;
        let app = self.app(file, algorithm.is_none())?;
        let connects = self.connects(file, app, algorithm.is_none())?;
        let milestones = self.milestones(file, algorithm.is_none())?;
        let name = file.name.get_ref();
        let numbered = file.count.is_some() || file.start_gap.is_some() || starts.len() > 1;
        let mut flows = Vec::with_capacity(starts.len());
        for (index, (start, bytes)) in starts.into_iter().zip(sizes).enumerate() {
            if let Some(given) = &file.stop
                && given.get_ref().0 <= start
            {
                return Err(self.fault(given.span(), "the flow stops before it starts"));
            }
            flows.push(FlowSetup {
                name: if numbered {
                    format!("{name}{index}")
                } else {
                    name.clone()
                },
                from,
                to,
                algorithm: algorithm.clone(),
                bytes,
                source,
                forge,
                start,
                stop,
                milestones: milestones.clone(),
                receive_window: file
                    .receive_window
                    .as_ref()
                    .map(|window| window.get_ref().0),
                max_ack_ranges,
                known_rate,
                app,
                connects,
                receiver_estimate: file.receiver_estimate,
                packet,
                path: path.clone(),
            });
        }
        Ok(flows)
    }

    /// The sender's law; `None` for `udp`, which has none.
    fn algorithm(&self, file: &FileFlow) -> Result<Option<Algorithm>, Fault> {
        let Some(given) = &file.algorithm else {
            return Ok(Some(Algorithm::default()));
        };
        match given.get_ref().as_str() {
            UDP => Ok(None),
            name => match name.parse() {
                Ok(algorithm) => Ok(Some(algorithm)),
                Err(error) => Err(self.parse_fault(given.span(), &error)),
            },
        }
    }

    /// The largest packet: the scenario's, or a smaller one. With `udp`, it can even be too
    /// small for a handshake.
    fn flow_packet(&self, file: &FileFlow, udp: bool) -> Result<u16, Fault> {
        let Some(given) = &file.packet else {
            return Ok(self.packet);
        };
        let least = if udp { UDP_PACKET } else { *PACKET.start() };
        let bounds = least..=u32::from(self.packet);
        let packet = bounds.contains(given.get_ref()).then_some(*given.get_ref());
        packet
            .and_then(|bytes| u16::try_from(bytes).ok())
            .ok_or_else(|| {
                let (least, most) = bounds.into_inner();
                let message =
                    format!("the flow's largest packet is from {least} to the run's {most} bytes");
                self.fault(given.span(), message)
            })
    }

    /// The maximum number of ranges in acknowledgements.
    fn ack_ranges(&self, file: &FileFlow, udp: bool) -> Result<Option<u32>, Fault> {
        let Some(given) = &file.max_ack_ranges else {
            return Ok(None);
        };
        let fail = |message: &str| Err(self.fault(given.span(), message));
        match given.get_ref() {
            0 => fail("an acknowledgement has 1 range at least"),
            _ if udp => fail("nothing acknowledges packets of udp"),
            ranges => Ok(Some(*ranges)),
        }
    }

    /// The rate that both ends remember for the path, in bytes per second.
    fn known_rate(&self, file: &FileFlow, udp: bool) -> Result<Option<u64>, Fault> {
        let Some(given) = &file.known_rate else {
            return Ok(None);
        };
        let fail = |message: &str| Err(self.fault(given.span(), message));
        match given.get_ref().bits / 8 {
            _ if udp => fail("udp asks for no starting rate"),
            0 => fail("a known rate is at least 8bit"),
            rate => Ok(Some(rate)),
        }
    }

    /// The numbers of bytes whose arrival times are part of the result.
    fn milestones(&self, file: &FileFlow, udp: bool) -> Result<Vec<u64>, Fault> {
        let Some(given) = &file.milestones else {
            return Ok(Vec::new());
        };
        let fail = |message: &str| Err(self.fault(given.span(), message));
        let bytes: Vec<u64> = given.get_ref().iter().map(|bytes| bytes.0).collect();
        match bytes.as_slice() {
            _ if udp => fail("milestones need a connection: no receiver counts bytes of udp"),
            [] | [0, ..] => fail("milestones are numbers of bytes from 1 on"),
            all if all.len() > MOST_MILESTONES => fail("a flow has 16 milestones at most"),
            all if !all.is_sorted_by(|one, next| one < next) => {
                fail("each milestone is more than the one before")
            }
            _ => Ok(bytes),
        }
    }

    /// The application protocol.
    fn app(&self, file: &FileFlow, udp: bool) -> Result<App, Fault> {
        match &file.app {
            Some(given) if udp => Err(self.fault(given.span(), "udp has no connection")),
            given => Ok(given.as_ref().map_or_else(App::default, |a| *a.get_ref())),
        }
    }

    /// The end that connects; for HTTP, the one that requests the data.
    fn connects(&self, file: &FileFlow, app: App, udp: bool) -> Result<Connects, Fault> {
        match &file.connects {
            Some(given) if udp => Err(self.fault(given.span(), "udp has no connection")),
            Some(given) => Ok(*given.get_ref()),
            None if app == App::Http => Ok(Connects::Receiver),
            None => Ok(Connects::Sender),
        }
    }

    fn parse_fault(&self, span: Range<usize>, error: &pathmark_cc::ParseError) -> Fault {
        self.fault(span, error.to_string())
    }

    /// When the application has something to send. `None`: always.
    fn pattern(&self, file: &FileFlow, udp: bool) -> Result<Option<Pattern>, Fault> {
        let fail = |span, message: &str| Err(self.fault(span, message));
        if let (true, Some(bytes)) = (udp, &file.bytes) {
            return fail(
                bytes.span(),
                "udp sends until `stop` or the end: nothing that is lost comes again, so no number \
                 of bytes arrives",
            );
        }
        let Some(rate) = &file.rate else {
            return match (&file.on_off, file.poisson, udp) {
                (Some(on_off), ..) => fail(on_off.span(), "`on_off` needs a `rate`"),
                (None, true, _) => fail(file.name.span(), "`poisson` needs a `rate`"),
                (None, false, true) => {
                    fail(file.name.span(), "a flow of udp needs a `rate` to send at")
                }
                (None, false, false) => Ok(None),
            };
        };
        if rate.get_ref().bytes() == 0 {
            return fail(rate.span(), "the rate must be at least 8bit");
        }
        let on_off = match &file.on_off {
            Some(given) if given.get_ref().on.0.is_zero() || given.get_ref().off.0.is_zero() => {
                return fail(given.span(), "`on` and `off` must be longer than 0");
            }
            Some(given) => {
                let OnOffSpec { on, off, random } = *given.get_ref();
                Some(OnOff {
                    on: on.0,
                    off: off.0,
                    random,
                })
            }
            None => None,
        };
        Ok(Some(Pattern {
            rate: rate.get_ref().bytes(),
            poisson: file.poisson,
            on_off,
        }))
    }

    /// The shims of udp packets.
    fn forge(&self, file: &FileFlow, udp: bool) -> Result<Option<Forge>, Fault> {
        let Some(given) = &file.forge else {
            return Ok(None);
        };
        let spec = given.get_ref();
        if !udp {
            let message = "only flows of udp forge shims: a law writes its own";
            return Err(self.fault(given.span(), message));
        }
        let ports = spec.ports.map(|ports| ports.0);
        if ports.is_some_and(|ports| ports.is_zero()) {
            let message = "`ports` must be longer than 0";
            return Err(self.fault(given.span(), message));
        }
        if let Some(names) = &spec.names
            && !names_router(spec.shim.0)
        {
            let message = "only XCP's headers name a router";
            return Err(self.fault(names.span(), message));
        }
        let names = spec.names.as_ref().map(|name| self.known_node(name));
        Ok(Some(Forge {
            shim: spec.shim,
            rtt: spec.rtt.map_or(FORGED_RTT, |rtt| rtt.0),
            ports,
            names: names.transpose()?,
        }))
    }

    pub(super) fn known_node(&self, name: &Spanned<String>) -> Result<usize, Fault> {
        let given = name.get_ref();
        let found = self.nodes.iter().position(|known| known == given);
        found.ok_or_else(|| {
            let hint = nearest(given, self.nodes.iter().map(String::as_str))
                .map_or_else(String::new, |meant| format!(": did you mean `{meant}`?"));
            self.fault(
                name.span(),
                format!("no link leads to or from `{given}`{hint}"),
            )
        })
    }

    fn paths(
        &self,
        file: &FileFlow,
        links: &[LinkSetup],
        from: usize,
        to: usize,
    ) -> Result<[Vec<usize>; 2], Fault> {
        let (sender, receiver) = (file.from.get_ref(), file.to.get_ref());
        let there = route(self.nodes.len(), links, from, to).ok_or_else(|| {
            self.fault(
                file.to.span(),
                format!("no way leads from `{sender}` to `{receiver}`: add a [[link]]"),
            )
        })?;
        let back = route(self.nodes.len(), links, to, from).ok_or_else(|| {
            self.fault(
                file.to.span(),
                format!(
                    "acknowledgements find no way back from `{receiver}` to `{sender}`: add duplex \
                     = true to the links, or a [[link]]"
                ),
            )
        })?;
        Ok([there, back])
    }

    /// The path must have a delay and a rate or queue limit, because a flow could otherwise send
    /// forever at one time.
    fn bounded(
        &self,
        file: &FileFlow,
        links: &[LinkSetup],
        path: &[Vec<usize>; 2],
    ) -> Result<(), Fault> {
        let specs = || path.iter().flatten().filter_map(|i| links.get(*i));
        let [there, _] = path;
        let paced = there
            .iter()
            .filter_map(|i| links.get(*i))
            .any(|link| link.spec.rate.is_some());
        let delayed = specs().any(|link| !link.spec.delay.0.is_zero());
        let small = file
            .bytes
            .as_ref()
            .is_some_and(|bytes| bytes.get_ref().largest() <= MOST_UNPACED);
        let ends = delayed && small;
        if !(paced || ends) {
            return Err(self.fault(
                file.name.span(),
                "nothing on this flow's path limits it: give a link a `rate`",
            ));
        }
        Ok(())
    }
}
