//! Checks that the types of single keys cannot express.

mod arrivals;
mod flows;
mod links;
mod pace;
mod stalls;

use std::ops::Range;

use pathmark_cc::Duration;
use pathmark_link::keys::{Fault, Source};
use toml::Spanned;

use super::document::Document;
use super::schema::File;
use super::variant::Several;
use super::{FlowSetup, LinkSetup, Scenario};

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

    fn windows(
        &self,
        measure: &[Spanned<[pathmark_link::keys::Span; 2]>],
    ) -> Result<Vec<(Duration, Duration)>, Fault> {
        let window = |given: &Spanned<[pathmark_link::keys::Span; 2]>| {
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
