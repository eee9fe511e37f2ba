//! `[[paper]]`: a paper's statements about a scenario, for comparison with the results here.

use pathmark_link::keys::Span;
use serde::Deserialize;

use super::changes::Settings;
use super::metric::Metric;
use super::plot::Quantity;

/// One statement of a paper.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// The quantity that it is about.
    pub says: String,
    /// The metric that measures it here. Absent: no single number expresses the claim.
    pub metric: Option<Metric>,
    /// The paper's number as it stands in its text. Absent: it is in a plot only.
    pub value: Option<String>,
    /// The variant that it is about; absent: all.
    pub variant: Option<String>,
    /// The flows that it is about: this one, or those numbered under this name; absent: all.
    pub flow: Option<String>,
    /// Only this measuring window of the run; absent: all of it. Of use for `goodput`, `lost`,
    /// `drops`, `utilization` and the queue.
    pub during: Option<[Span; 2]>,
    /// Where the paper counts IP bytes and the metric counts payload: the payload's share of IP
    /// bytes, above 0 and at most 1. Goodput is divided by it.
    pub payload_share: Option<f64>,
    /// Only runs with these values of the sweeps; absent: all, from the least to the greatest.
    #[serde(default, rename = "where")]
    pub only: Settings,
    /// Points (x, y) of a curve that follows from the paper's equations, drawn with ours in the
    /// plots.
    pub curve: Option<Vec<(f64, f64)>>,
    /// The plot that the curve belongs in, by what it shows; absent: the first.
    pub show: Option<Quantity>,
}
