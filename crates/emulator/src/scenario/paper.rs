//! `[[paper]]`: a paper's statements about a scenario, for comparison with the results.

use pathmark_link::keys::Span;
use serde::Deserialize;

use super::changes::Settings;
use super::metric::Metric;
use super::plot::Quantity;

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
