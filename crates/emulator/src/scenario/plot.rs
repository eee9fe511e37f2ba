//! `[[plot]]`: plots of several runs.

use serde::Deserialize;

use super::changes::Settings;
use super::metric::Metric;

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
