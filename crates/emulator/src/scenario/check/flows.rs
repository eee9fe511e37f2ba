//! Checks of flows: names, ways, sources.

use std::collections::HashSet;

use pathmark_cc::{Algorithm, Duration};
use pathmark_link::keys::{Fault, nearest};
use pathmark_protocols::forged::names_router;
use toml::Spanned;

use super::{Check, PACKET};
use crate::scenario::schema::{FileFlow, OnOffSpec};
use crate::scenario::{
    App, Connects, FlowSetup, Forge, LinkSetup, OnOff, Pattern, Sender, TcpLaw, UDP, route,
};

/// What is said of keys that these flows don't have.
const NOT_OF_TCP: &str = "a flow of a TCP can't have this key";
/// The default round trip in forged shims.
const FORGED_RTT: Duration = Duration::from_millis(20);
/// Minimum packet size of udp in bytes.
const UDP_PACKET: u32 = 64;
/// Maximum bytes of a flow without a rate on its path, because they may all be in flight at
/// once.
const MOST_UNPACED: u64 = 1 << 28;
/// Limit for the columns of a table and the points of a line.
const MOST_MILESTONES: usize = 16;

/// Checks a key that only flows with a connection of this library have.
fn connected<T: Copy>(sender: &Sender) -> impl FnOnce(&T) -> Result<T, &'static str> {
    move |given| match sender {
        Sender::Law(_) => Ok(*given),
        Sender::Udp => Err("udp has no connection"),
        Sender::Tcp(_) => Err(NOT_OF_TCP),
    }
}

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
        let sender = self.sender(file)?;
        let udp = sender.is_udp();
        let tcp = matches!(sender, Sender::Tcp(_));
        if let Some(given) = file
            .bytes
            .as_ref()
            .filter(|_| tcp && sizes.contains(&Some(0)))
        {
            return Err(self.fault(given.span(), "a TCP sends 1 byte at least"));
        }
        let source = self.pattern(file, udp)?;
        let forge = self.forge(file, udp)?;
        let stop = file.stop.as_ref().map(|stop| stop.get_ref().0);
        let packet = self.flow_packet(file, udp)?;
        let max_ack_ranges = self.key(file.max_ack_ranges.as_ref(), |ranges| match ranges {
            0 => Err("an acknowledgement has 1 range at least"),
            _ if udp => Err("nothing acknowledges packets of udp"),
            _ if tcp => Err(NOT_OF_TCP),
            ranges => Ok(*ranges),
        })?;
        // In bytes per second.
        let known_rate = self.key(file.known_rate.as_ref(), |rate| match rate.bits / 8 {
            _ if udp => Err("udp asks for no starting rate"),
            _ if tcp => Err(NOT_OF_TCP),
            0 => Err("a known rate is at least 8bit"),
            rate => Ok(rate),
        })?;
        let app = self
            .key(file.app.as_ref(), connected(&sender))?
            .unwrap_or_default();
        let connects = self.key(file.connects.as_ref(), connected(&sender))?;
        // For HTTP, the end that requests the data connects.
        let connects = connects.unwrap_or(match app {
            App::Http => Connects::Receiver,
            App::Bulk => Connects::Sender,
        });
        let milestones = self.key(file.milestones.as_ref(), |given| {
            let bytes: Vec<u64> = given.iter().map(|bytes| bytes.0).collect();
            match bytes.as_slice() {
                _ if udp => Err("milestones need a connection: no receiver counts bytes of udp"),
                _ if tcp => Err(NOT_OF_TCP),
                [] | [0, ..] => Err("milestones are numbers of bytes from 1 on"),
                all if all.len() > MOST_MILESTONES => Err("a flow has 16 milestones at most"),
                all if !all.is_sorted_by(|one, next| one < next) => {
                    Err("each milestone is more than the one before")
                }
                _ => Ok(bytes),
            }
        })?;
        let milestones = milestones.unwrap_or_default();
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
                sender: sender.clone(),
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

    /// What sends: a law, or what else `algorithm` can name.
    fn sender(&self, file: &FileFlow) -> Result<Sender, Fault> {
        let Some(given) = &file.algorithm else {
            return Ok(Sender::Law(Algorithm::default()));
        };
        let sender = match given.get_ref().as_str() {
            UDP => Sender::Udp,
            name => match (TcpLaw::find(name), name.parse()) {
                (Some(tcp), _) => Sender::Tcp(tcp),
                (None, Ok(law)) => Sender::Law(law),
                (None, Err(error)) => return Err(self.fault(given.span(), error.to_string())),
            },
        };
        let has_more = file.rate.is_some() || file.receiver_estimate.is_some();
        if has_more && matches!(sender, Sender::Tcp(_)) {
            let message = "a flow of a TCP has no `rate` and no `receiver_estimate`";
            return Err(self.fault(given.span(), message));
        }
        Ok(sender)
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

    /// Returns what `check` makes of a key's value, or its message about the key.
    fn key<T, V>(
        &self,
        given: Option<&Spanned<T>>,
        check: impl FnOnce(&T) -> Result<V, &'static str>,
    ) -> Result<Option<V>, Fault> {
        let checked = given.map(|given| {
            check(given.get_ref()).map_err(|message| self.fault(given.span(), message))
        });
        checked.transpose()
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
        let on_off = self.key(file.on_off.as_ref(), |given| {
            let OnOffSpec { on, off, random } = *given;
            let (on, off) = (on.0, off.0);
            if on.is_zero() || off.is_zero() {
                return Err("`on` and `off` must be longer than 0");
            }
            Ok(OnOff { on, off, random })
        })?;
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
        let way = |from, to, missing: String| {
            let route = route(self.nodes.len(), links, from, to);
            route.ok_or_else(|| self.fault(file.to.span(), missing))
        };
        let message = format!("no way leads from `{sender}` to `{receiver}`: add a [[link]]");
        let there = way(from, to, message)?;
        let message = format!(
            "acknowledgements find no way back from `{receiver}` to `{sender}`: add duplex = true \
             to the links, or a [[link]]"
        );
        let back = way(to, from, message)?;
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
