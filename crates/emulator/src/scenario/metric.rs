//! What a scenario's runs are compared by: metrics, a paper's statements about them (`[[paper]]`),
//! and plots of several runs (`[[plot]]`).

use pathmark_link::keys::Span;
use serde::Deserialize;

use super::changes::Settings;

/// A metric that is compared with a paper. Metrics of links refer to the link used most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Metric {
    /// Mean completion time of the flows, seconds.
    Completion,
    /// Median completion time of the flows, seconds.
    CompletionMedian,
    /// 95th percentile of the flows' completion times, seconds: the smallest value that 95 % do
    /// not exceed.
    CompletionP95,
    /// Total goodput of the flows.
    Goodput,
    /// Total goodput of the flows in the last measuring window.
    LateGoodput,
    /// Jain's index over the flows' goodputs.
    Jain,
    /// Packets that the flows lost.
    Lost,
    /// Packets that the link's queue dropped.
    Drops,
    /// Packets that the link's queue dropped, in relation to those that the flows sent and it
    /// didn't drop.
    OverTransmission,
    /// Utilization of the link.
    Utilization,
    /// Utilization of the link in the last measuring window.
    LateUtilization,
    /// When the link was first used to 80 %, seconds after the first flow's start.
    #[serde(rename = "time-to-80")]
    TimeTo80,
    /// Mean queue, packets.
    Queue,
    /// Mean queue while it is not empty, packets.
    QueueNonempty,
    /// Longest queue, packets.
    QueueMax,
    /// Largest congestion window of a flow, bytes.
    WindowMax,
}

/// One statement in a paper.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// The quantity that it concerns.
    pub says: String,
    /// The corresponding metric. Absent: no single number expresses the claim.
    pub metric: Option<Metric>,
    /// The paper's number, as printed in the text. Absent: it only appears in a plot.
    pub value: Option<String>,
    /// The variant that it concerns; absent: all.
    pub variant: Option<String>,
    /// The flows that it concerns: the one with this name, or those numbered under it; absent:
    /// all.
    pub flow: Option<String>,
    /// The measuring window that it concerns; absent: the whole run. Useful for `goodput`,
    /// `lost`, `drops`, `utilization` and the queue.
    pub during: Option<[Span; 2]>,
    /// The payload's share of IP bytes, above 0 and at most 1, by which goodput is divided. For
    /// papers that count IP bytes if the metric counts payload.
    pub payload_share: Option<f64>,
    /// The values of the sweeps that it concerns; absent: all, from the lowest to the highest.
    #[serde(default, rename = "where")]
    pub only: Settings,
    /// Points (x, y) of a curve from the paper's equations, drawn in the plots along with the
    /// results.
    pub curve: Option<Vec<(f64, f64)>>,
    /// The plot for the curve, by its quantity; absent: the first.
    pub show: Option<Quantity>,
}

/// One plot.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plot {
    /// Headline; absent: the name of its quantity.
    pub title: Option<String>,
    /// A quantity over time, or a metric over the values of a sweep.
    pub show: Shown,
    /// The sweep on the horizontal axis; absent: the scenario's first. Ignored for quantities
    /// over time.
    pub over: Option<String>,
    /// Only this flow; absent: all.
    pub flow: Option<String>,
    /// Only runs with these values.
    #[serde(default, rename = "where")]
    pub only: Settings,
    /// Only these variants, in this order; absent: all.
    pub variants: Option<Vec<String>>,
    /// End of the horizontal axis; absent: the last point.
    pub x_max: Option<f64>,
    /// End of the vertical axis; absent: the highest point.
    pub y_max: Option<f64>,
}

/// The contents of a plot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Shown {
    /// Over time.
    Quantity(Quantity),
    /// Over a sweep.
    Metric(Metric),
}

/// A quantity over time. Quantities of links refer to the link used most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Quantity {
    /// Congestion windows in packets.
    Windows,
    /// Goodput of each flow, Mbit/s, averaged over a round trip.
    Goodputs,
    /// Smoothed round trips, milliseconds.
    RoundTrips,
    /// Packets that flows declare lost, per second.
    Losses,
    /// When flows reached their milestones, in seconds from their start. The axis shows bytes
    /// instead of time.
    Milestones,
    /// The link's utilization, averaged over a round trip.
    Use,
    /// The link's queue, packets.
    Queues,
    /// The load that the link's law measured.
    Load,
}

impl Quantity {
    /// Headline of a plot.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Windows => "Congestion windows",
            Self::Goodputs => "Goodput of flows",
            Self::RoundTrips => "Round trips",
            Self::Losses => "Losses of flows",
            Self::Milestones => "Time until milestones were reached",
            Self::Use => "Utilization of links",
            Self::Queues => "Queues",
            Self::Load => "Load",
        }
    }

    /// Label of its axis, with the unit.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Windows => "window [packets]",
            Self::Goodputs => "goodput [Mbit/s]",
            Self::RoundTrips => "smoothed RTT [ms]",
            Self::Losses => "packets lost [1/s]",
            Self::Milestones => "time [s]",
            Self::Use => "share of the rate",
            Self::Queues => "queue [packets]",
            Self::Load => "load",
        }
    }

    /// Upper end of its axis, if fixed.
    pub const fn most(self) -> Option<f64> {
        match self {
            Self::Use => Some(1.05),
            _ => None,
        }
    }

    /// Returns true if this is a quantity of links, not of flows.
    pub const fn is_of_links(self) -> bool {
        matches!(self, Self::Use | Self::Queues | Self::Load)
    }
}
