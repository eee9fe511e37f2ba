//! Checks that the types of single keys cannot express: of runs, starts of flows and the bytes
//! that each must transfer, and stalls.

mod flows;
mod links;

use std::ops::Range;

use pathmark_cc::Duration;
use pathmark_link::impair::Random;
use pathmark_link::keys::{Fault, Source, Span};
use toml::Spanned;

use super::document::Document;
use super::model::exponential;
use super::schema::{File, FileFlow, FileStall, Sizes, Starts};
use super::variant::Several;
use super::{FlowSetup, LinkSetup, Scenario, Stall};

const DEFAULT_SEED: u64 = 1;
const DEFAULT_PACKET: u32 = 1500;
/// From the smallest packet for a handshake to the largest common one.
const PACKET: std::ops::RangeInclusive<u32> = 512..=9216;
const DEFAULT_SAMPLE: Duration = Duration::from_millis(100);
const LEAST_SAMPLE: Duration = Duration::from_millis(1);

/// The file's text, and values that all checks need.
struct Check<'a> {
    source: &'a Source<'a>,
    duration: Duration,
    seed: u64,
    packet: u16,
    nodes: Vec<String>,
    media: Vec<String>,
}

/// Checks the file of a document.
pub(super) fn scenario(document: &Document, file: File) -> Result<Scenario, Fault> {
    let source = &document.source();
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
        seed: file.seed.unwrap_or(DEFAULT_SEED),
        packet: u16::try_from(packet).unwrap_or(u16::MAX),
        nodes: Vec::new(),
        media: Vec::new(),
    };
    let measure = check.windows(&file.measure)?;
    let mut links = check.links(&file.link)?;
    let flows = check.flows(&file.flow, &links)?;
    settle_round_trips(&mut links, &flows);
    check.queues(&file.link, &links)?;
    let stalls = check.stalls(&file.stall)?;
    let several = Several::new(source, &file)?;
    Ok(Scenario {
        name: file.name.unwrap_or_else(|| document.id().to_owned()),
        duration,
        seed: check.seed,
        packet: check.packet,
        measure,
        sample,
        nodes: check.nodes,
        media: check.media,
        links,
        flows,
        stalls,
        variants: several.variants,
        sweeps: several.sweeps,
        repeat: several.repeat,
        paper: several.paper,
        plots: several.plots,
        note: several.note,
        document: document.clone(),
    })
}

/// Computes the round trip for `1bdp` of each link: the longest propagation round trip of the
/// flows that cross it.
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

    fn windows(&self, measure: &[Spanned<[Span; 2]>]) -> Result<Vec<(Duration, Duration)>, Fault> {
        let window = |given: &Spanned<[Span; 2]>| {
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
}

const MAX_FLOWS: u32 = 1 << 16;

impl Check<'_> {
    /// A start for each flow, relative to the start of the run.
    fn starts(&self, file: &FileFlow) -> Result<Vec<Duration>, Fault> {
        if let Some(given) = &file.count
            && !(1..=MAX_FLOWS).contains(given.get_ref())
        {
            let message = format!("`count` is from 1 to {MAX_FLOWS}");
            return Err(self.fault(given.span(), message));
        }
        match &file.start_gap {
            Some(gap) => self.poisson_starts(file, gap),
            None => self.given_starts(file),
        }
    }

    /// Starts as a Poisson process: either `count` starts, or all starts before the flows' stop or
    /// the run's end.
    fn poisson_starts(&self, file: &FileFlow, gap: &Spanned<Span>) -> Result<Vec<Duration>, Fault> {
        let mean = gap.get_ref().0;
        if mean.is_zero() {
            return Err(self.fault(gap.span(), "`start_gap` must be longer than 0"));
        }
        if let Some(spread) = &file.start_spread {
            let message = "`start_gap` draws the starts already: leave out `start_spread`";
            return Err(self.fault(spread.span(), message));
        }
        let mut at = match &file.start {
            None => Duration::ZERO,
            Some(start) => match start.get_ref() {
                Starts::One(start) => start.0,
                Starts::List(_) => {
                    let message = "`start_gap` draws the starts already: give `start` one time";
                    return Err(self.fault(start.span(), message));
                }
            },
        };
        let count = file.count.as_ref().map(|count| *count.get_ref());
        let stop = file.stop.as_ref().map(|stop| stop.get_ref().0);
        let end = self.duration.min(stop.unwrap_or(self.duration));
        let mut random = Random::new(self.seed, &format!("{} start", file.name.get_ref()));
        let wanted = count.map_or(MAX_FLOWS as usize + 1, |count| count as usize);
        let mut starts = Vec::new();
        while starts.len() < wanted {
            at = at.saturating_add(mean.mul_f64(exponential(&mut random)));
            if at >= end {
                break;
            }
            starts.push(at);
        }
        let message = match (starts.len(), count) {
            (begun, Some(count)) if begun < wanted => format!(
                "only {begun} of {count} flows start before the end with this seed: raise \
                 `duration`, or `stop`, or leave out `count`"
            ),
            (0, None) => "no flow starts before the end: raise `duration`, or `stop`".to_owned(),
            (begun, None) if begun == wanted => {
                format!("more than {MAX_FLOWS} flows: raise `start_gap`")
            }
            _ => return Ok(starts),
        };
        Err(self.fault(gap.span(), message))
    }

    fn given_starts(&self, file: &FileFlow) -> Result<Vec<Duration>, Fault> {
        let count = file.count.as_ref().map(|count| *count.get_ref());
        let copies = count.unwrap_or(1) as usize;
        let mut starts = match file.start.as_ref().map(|start| (start, start.get_ref())) {
            None => vec![Duration::ZERO; copies],
            Some((_, Starts::One(start))) => vec![start.0; copies],
            Some((given, Starts::List(list))) => {
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
        let spread = file.start_spread.as_ref().map(|spread| spread.get_ref().0);
        let latest = starts.iter().max().copied().unwrap_or_default() + spread.unwrap_or_default();
        let given = [
            file.start.as_ref().map(Spanned::span),
            file.start_spread.as_ref().map(Spanned::span),
        ];
        if let (true, Some(span)) = (
            latest >= self.duration,
            given.into_iter().flatten().next_back(),
        ) {
            return Err(self.fault(span, "the flow starts after the run: raise `duration`"));
        }
        if let Some(spread) = spread {
            let mut random = Random::new(self.seed, &format!("{} start", file.name.get_ref()));
            let nanos = u64::try_from(spread.as_nanos()).unwrap_or(u64::MAX);
            for start in &mut starts {
                *start += Duration::from_nanos(random.below(nanos));
            }
        }
        Ok(starts)
    }

    /// The bytes of each of `count` flows; `None`: as many as possible.
    fn sizes(&self, file: &FileFlow, count: usize) -> Result<Vec<Option<u64>>, Fault> {
        let Some(given) = &file.bytes else {
            return Ok(vec![None; count]);
        };
        let list = match given.get_ref() {
            Sizes::One(bytes) => return Ok(vec![Some(bytes.0); count]),
            Sizes::List(list) => list,
        };
        if list.is_empty() || list.len() > MAX_FLOWS as usize {
            let message = format!("`bytes` lists 1 to {MAX_FLOWS} sizes, of which each flow draws");
            return Err(self.fault(given.span(), message));
        }
        let mut random = Random::new(self.seed, &format!("{} bytes", file.name.get_ref()));
        let draw = |_| {
            let drawn = usize::try_from(random.below(list.len() as u64)).unwrap_or(0);
            list.get(drawn).map(|bytes| bytes.0)
        };
        Ok((0..count).map(draw).collect())
    }
}

impl Check<'_> {
    /// The stalls, ordered by time.
    fn stalls(&self, files: &[FileStall]) -> Result<Vec<Stall>, Fault> {
        let mut stalls: Vec<Stall> = Vec::with_capacity(files.len());
        for file in files {
            let (at, lasts) = (file.at.get_ref().0, file.lasts.get_ref().0);
            if lasts.is_zero() {
                return Err(self.fault(file.lasts.span(), "`lasts` must be longer than 0"));
            }
            if at >= self.duration {
                let message = "the stall begins after the run: raise `duration`";
                return Err(self.fault(file.at.span(), message));
            }
            let stall = Stall {
                node: self.known_node(&file.node)?,
                from: at,
                until: at.saturating_add(lasts),
            };
            let overlaps = |other: &&Stall| {
                other.node == stall.node && other.from < stall.until && stall.from < other.until
            };
            if let Some(other) = stalls.iter().find(overlaps) {
                let name = file.node.get_ref();
                let (from, until) = (other.from, other.until);
                let message =
                    format!("`{name}` stalls from {from:?} to {until:?} already: stalls overlap");
                return Err(self.fault(file.at.span(), message));
            }
            stalls.push(stall);
        }
        stalls.sort_by_key(|stall| stall.from);
        Ok(stalls)
    }
}
