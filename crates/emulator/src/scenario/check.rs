//! What the types of single keys cannot say.

use std::collections::HashSet;
use std::ops::Range;

use pathmark_cc::{Algorithm, Duration, LinkAlgorithm};
use pathmark_router::config::{Fault, LimitSpec, LinkSpec, QueueKind, QueueSpec, Source, nearest};
use pathmark_router::core::queue::Limit;
use toml::Spanned;

use super::document::Document;
use super::route::route;
use super::schema::{File, FileFlow, FileLink, FileReverse, OnOffSpec, Starts};
use super::variant::Several;
use super::{FlowSetup, LinkSetup, OnOff, Pattern, Scenario};

const DEFAULT_PACKET: u32 = 1500;
/// Smallest packet that a handshake fits, and the largest common one.
const PACKET: std::ops::RangeInclusive<u32> = 512..=9216;
const DEFAULT_SAMPLE: Duration = Duration::from_millis(100);
const LEAST_SAMPLE: Duration = Duration::from_millis(1);
const DEFAULT_ALGORITHM: &str = "vcp+bise+wlte";
/// Packets without a connection or a law.
const UDP: &str = "udp";
const MAX_FLOWS: u32 = 1 << 16;
/// Bytes that a flow without a rate on its path may move: memory is bounded by what is under way at once.
const MOST_UNPACED: u64 = 1 << 28;
/// Room of the queue in the other direction of a duplex link: large.
const REVERSE_QUEUE: LimitSpec = LimitSpec::Packets(100_000);

/// What a scenario is made of, without the text that it came from.
pub(super) struct Parts {
    name: String,
    duration: Duration,
    seed: u64,
    packet: u16,
    measure: Vec<(Duration, Duration)>,
    sample: Duration,
    nodes: Vec<String>,
    links: Vec<LinkSetup>,
    flows: Vec<FlowSetup>,
    several: Several,
}

impl Parts {
    pub(super) fn into_scenario(self, document: Document) -> Scenario {
        Scenario {
            name: self.name,
            duration: self.duration,
            seed: self.seed,
            packet: self.packet,
            measure: self.measure,
            sample: self.sample,
            nodes: self.nodes,
            links: self.links,
            flows: self.flows,
            variants: self.several.variants,
            sweeps: self.several.sweeps,
            paper: self.several.paper,
            document,
        }
    }
}

/// The file's text, and what is known of all of it.
struct Check<'a> {
    source: &'a Source<'a>,
    duration: Duration,
    packet: u16,
    nodes: Vec<String>,
}

pub(super) fn scenario(source: &Source<'_>, file: File, id: &str) -> Result<Parts, Fault> {
    let fail = |span, message: &str| source.locate(Some(span), message);
    let duration = file.duration.get_ref().0;
    if duration.is_zero() {
        return Err(fail(file.duration.span(), "the run needs a duration"));
    }
    let packet = match &file.packet {
        Some(given) if !PACKET.contains(given.get_ref()) => {
            return Err(fail(
                given.span(),
                "the largest packet is from 512 to 9216 bytes",
            ));
        }
        given => given.as_ref().map_or(DEFAULT_PACKET, |p| *p.get_ref()),
    };
    let sample = match &file.sample {
        Some(given) if given.get_ref().0 < LEAST_SAMPLE => {
            return Err(fail(given.span(), "series take a point per 1ms at most"));
        }
        given => given.as_ref().map_or(DEFAULT_SAMPLE, |s| s.get_ref().0),
    };
    let mut check = Check {
        source,
        duration,
        packet: u16::try_from(packet).unwrap_or(u16::MAX),
        nodes: Vec::new(),
    };
    let measure = check.windows(&file.measure)?;
    let links = check.links(&file.link)?;
    let mut links: Vec<LinkSetup> = links;
    let flows = check.flows(&file.flow, &links)?;
    settle_round_trips(&mut links, &flows);
    check.queues(&file.link, &links)?;
    let several = Several::new(source, &file)?;
    Ok(Parts {
        name: file.name.unwrap_or_else(|| id.to_owned()),
        duration,
        seed: file.seed.unwrap_or(1),
        packet: check.packet,
        measure,
        sample,
        nodes: check.nodes,
        links,
        flows,
        several,
    })
}

/// `1bdp` of a link is its rate times the longest propagation round trip of the flows that cross it.
fn settle_round_trips(links: &mut [LinkSetup], flows: &[FlowSetup]) {
    for flow in flows {
        let all = || flow.path.iter().flatten().copied();
        let delays = all()
            .filter_map(|index| links.get(index))
            .map(|l| l.spec.delay.0);
        let rtt = delays.fold(Duration::ZERO, Duration::saturating_add);
        for index in all() {
            if let Some(link) = links.get_mut(index) {
                link.rtt = Some(link.rtt.map_or(rtt, |longest| longest.max(rtt)));
            }
        }
    }
}

impl Check<'_> {
    fn fault(&self, span: Range<usize>, message: impl Into<String>) -> Fault {
        self.source.locate(Some(span), message)
    }

    fn windows(
        &self,
        measure: &[Spanned<[pathmark_router::config::Span; 2]>],
    ) -> Result<Vec<(Duration, Duration)>, Fault> {
        let window = |given: &Spanned<[pathmark_router::config::Span; 2]>| {
            let [from, to] = given.get_ref().map(|at| at.0);
            if from >= to {
                return Err(self.fault(given.span(), "a measuring window ends after it begins"));
            }
            if to > self.duration {
                return Err(self.fault(
                    given.span(),
                    "the measuring window ends after the run: raise `duration`",
                ));
            }
            Ok((from, to))
        };
        measure.iter().map(window).collect()
    }

    fn links(&mut self, files: &[FileLink]) -> Result<Vec<LinkSetup>, Fault> {
        let Some(_) = files.first() else {
            return Err(self
                .source
                .locate(None, "a scenario needs at least one [[link]]"));
        };
        let mut names = HashSet::new();
        let mut links = Vec::new();
        for file in files {
            let name = file.name.get_ref().clone();
            let (from, to) = (self.node(&file.from), self.node(&file.to));
            if from == to {
                return Err(self.fault(file.to.span(), "the link leads to where it comes from"));
            }
            let reversed = format!("{name}.reverse");
            let taken =
                !names.insert(name.clone()) || (file.duplex && !names.insert(reversed.clone()));
            if taken || name.is_empty() {
                let message = format!("another link is called `{name}` already");
                return Err(self.fault(file.name.span(), message));
            }
            links.push(LinkSetup {
                name,
                from,
                to,
                spec: self.forward(file)?,
                rtt: None,
            });
            if file.duplex {
                links.push(LinkSetup {
                    name: reversed,
                    from: to,
                    to: from,
                    spec: self.backward(file)?,
                    rtt: None,
                });
            } else if let Some(reverse) = &file.reverse {
                return Err(self.fault(
                    reverse.span(),
                    "`reverse` changes the other direction of a duplex link: add duplex = true",
                ));
            }
        }
        Ok(links)
    }

    /// The index of a node, which exists by being named.
    fn node(&mut self, name: &Spanned<String>) -> usize {
        let name = name.get_ref();
        self.nodes
            .iter()
            .position(|known| known == name)
            .unwrap_or_else(|| {
                self.nodes.push(name.clone());
                self.nodes.len() - 1
            })
    }

    fn forward(&self, file: &FileLink) -> Result<LinkSpec, Fault> {
        let spec = LinkSpec {
            rate: file.rate.as_ref().map(|rate| *rate.get_ref()),
            delay: file.delay.unwrap_or_default(),
            queue: file
                .queue
                .as_ref()
                .map(|q| *q.get_ref())
                .unwrap_or_default(),
            controller: self.law(file.controller.as_ref())?,
            frame_overhead: file.frame_overhead.unwrap_or(0),
            loss: file.loss,
            jitter: file.jitter,
            at: file.at.clone(),
        };
        self.rate(&spec, file.rate.as_ref().map(Spanned::span), file)?;
        Ok(spec)
    }

    fn backward(&self, file: &FileLink) -> Result<LinkSpec, Fault> {
        let default = FileReverse::default();
        let own = file.reverse.as_ref().map_or(&default, Spanned::get_ref);
        let rate = own.rate.as_ref().or(file.rate.as_ref());
        let large = || QueueSpec {
            limit: Some(REVERSE_QUEUE),
            ..QueueSpec::default()
        };
        let spec = LinkSpec {
            rate: rate.map(|rate| *rate.get_ref()),
            delay: own.delay.or(file.delay).unwrap_or_default(),
            queue: own.queue.as_ref().map_or_else(large, |q| *q.get_ref()),
            controller: self.law(own.controller.as_ref())?,
            frame_overhead: own.frame_overhead.or(file.frame_overhead).unwrap_or(0),
            loss: own.loss,
            jitter: own.jitter,
            at: own.at.clone(),
        };
        self.rate(&spec, rate.map(Spanned::span), file)?;
        Ok(spec)
    }

    fn rate(
        &self,
        spec: &LinkSpec,
        span: Option<Range<usize>>,
        file: &FileLink,
    ) -> Result<(), Fault> {
        let span = span.unwrap_or_else(|| file.name.span());
        match spec.rate {
            Some(rate) if rate.bytes() == 0 => Err(self.fault(
                span,
                "the rate must be at least 8bit; leave it out for an unlimited link",
            )),
            None if spec.controller.is_some() => Err(self.fault(
                span,
                "a controller measures load against the link's rate: add `rate`",
            )),
            _ => Ok(()),
        }
    }

    fn law(&self, given: Option<&Spanned<String>>) -> Result<Option<LinkAlgorithm>, Fault> {
        let Some(given) = given else {
            return Ok(None);
        };
        let law: LinkAlgorithm =
            given
                .get_ref()
                .parse()
                .map_err(|error: pathmark_cc::ParseError| {
                    self.fault(given.span(), error.to_string())
                })?;
        Ok((law.name() != "none").then_some(law))
    }

    /// Queues that cannot work, now that it is known what a bandwidth-delay product is.
    fn queues(&self, files: &[FileLink], links: &[LinkSetup]) -> Result<(), Fault> {
        let mut link = links.iter();
        for file in files {
            let queues = [
                Some(file.queue.as_ref()),
                file.duplex.then(|| {
                    let own = file.reverse.as_ref().map(Spanned::get_ref);
                    own.and_then(|reverse| reverse.queue.as_ref())
                }),
            ];
            for queue in queues.into_iter().flatten() {
                if let (Some(link), Some(queue)) = (link.next(), queue) {
                    self.queue(queue, link)?;
                }
            }
        }
        Ok(())
    }

    fn queue(&self, given: &Spanned<QueueSpec>, link: &LinkSetup) -> Result<(), Fault> {
        let fail = |message: &str| Err(self.fault(given.span(), message));
        let queue = given.get_ref();
        let packet = u64::from(self.packet) + u64::from(link.spec.frame_overhead);
        let limit = match (queue.limit, link.spec.rate) {
            (Some(LimitSpec::MilliBdp(_)), None) => {
                return fail(
                    "`bdp` needs the link's rate: add `rate`, or write the limit in packets or bytes",
                );
            }
            // As it was asked for, before the router rounds it up to what works.
            (Some(LimitSpec::MilliBdp(milli)), Some(rate)) => {
                let rtt = queue.rtt.map(|rtt| rtt.0).or(link.rtt);
                Limit::bdp(milli, rate.bytes(), rtt.unwrap_or(Duration::MAX))
            }
            _ => link.spec.limit(link.rtt),
        };
        match limit {
            Limit::Packets(0) => return fail("a queue needs room for a packet: raise `limit`"),
            Limit::Bytes(bytes) if bytes < packet => {
                return fail("the queue cannot hold one packet: raise `limit`");
            }
            _ => {}
        }
        let (min, max) = (queue.min.unwrap_or(5), queue.max.unwrap_or(15));
        match queue.kind {
            QueueKind::Red if min >= max => fail("RED needs `min` below `max`"),
            _ => Ok(()),
        }
    }

    fn flows(&self, files: &[FileFlow], links: &[LinkSetup]) -> Result<Vec<FlowSetup>, Fault> {
        if files.is_empty() {
            return Err(self
                .source
                .locate(None, "a scenario needs at least one [[flow]]"));
        }
        let mut names = HashSet::new();
        let mut flows = Vec::new();
        for file in files {
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
        let algorithm = self.algorithm(file)?;
        let source = self.pattern(file, algorithm.is_none())?;
        let stop = file.stop.as_ref().map(|stop| stop.get_ref().0);
        let name = file.name.get_ref();
        let numbered = file.count.is_some() || starts.len() > 1;
        let mut flows = Vec::with_capacity(starts.len());
        for (index, start) in starts.into_iter().enumerate() {
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
                bytes: file.bytes.as_ref().map(|bytes| bytes.get_ref().0),
                source,
                start,
                stop,
                receive_window: file
                    .receive_window
                    .as_ref()
                    .map(|window| window.get_ref().0),
                path: path.clone(),
            });
        }
        Ok(flows)
    }

    /// The sender's law; `None` for `udp`, which has none.
    fn algorithm(&self, file: &FileFlow) -> Result<Option<Algorithm>, Fault> {
        let Some(given) = &file.algorithm else {
            return match DEFAULT_ALGORITHM.parse() {
                Ok(algorithm) => Ok(Some(algorithm)),
                Err(error) => Err(self.parse_fault(file.name.span(), &error)),
            };
        };
        match given.get_ref().as_str() {
            UDP => Ok(None),
            name => match name.parse() {
                Ok(algorithm) => Ok(Some(algorithm)),
                Err(error) => Err(self.parse_fault(given.span(), &error)),
            },
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
                "udp sends until `stop` or the end: nothing that is lost comes again, so no number of bytes arrives",
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

    fn known_node(&self, name: &Spanned<String>) -> Result<usize, Fault> {
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
                    "acknowledgements find no way back from `{receiver}` to `{sender}`: add duplex = true to the links, or a [[link]]"
                ),
            )
        })?;
        Ok([there, back])
    }

    /// Something must take time and something must take turns, or a flow would send without end at one instant.
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
            .is_some_and(|bytes| bytes.get_ref().0 <= MOST_UNPACED);
        let ends = delayed && small;
        if !(paced || ends) {
            return Err(self.fault(
                file.name.span(),
                "nothing on this flow's path limits it: give a link a `rate`",
            ));
        }
        Ok(())
    }

    fn starts(&self, file: &FileFlow) -> Result<Vec<Duration>, Fault> {
        let count = file.count.as_ref().map(|count| *count.get_ref());
        if let Some(given) = &file.count
            && !(1..=MAX_FLOWS).contains(given.get_ref())
        {
            let message = format!("`count` is from 1 to {MAX_FLOWS}");
            return Err(self.fault(given.span(), message));
        }
        let copies = count.unwrap_or(1) as usize;
        let Some(given) = &file.start else {
            return Ok(vec![Duration::ZERO; copies]);
        };
        let starts = match given.get_ref() {
            Starts::All(start) => vec![start.0; copies],
            Starts::Each(list) => {
                let wanted = count.map_or(list.len(), |count| count as usize);
                if list.is_empty() || list.len() != wanted || list.len() > MAX_FLOWS as usize {
                    let message = format!(
                        "`start` lists {} times for {wanted} flows: give one for each",
                        list.len()
                    );
                    return Err(self.fault(given.span(), message));
                }
                list.iter().map(|start| start.0).collect()
            }
        };
        if starts.iter().any(|start| *start >= self.duration) {
            return Err(self.fault(
                given.span(),
                "the flow starts after the run: raise `duration`",
            ));
        }
        Ok(starts)
    }
}
