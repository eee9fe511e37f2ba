//! A figure over several seeds.

use serde::{Deserialize, Serialize};

/// Two-sided 95 % quantiles of Student's t for 1 to 30 degrees of freedom (any table of this
/// distribution, such as NIST's e-Handbook of Statistical Methods, §1.3.6.7.2).
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];
/// The same for any larger number.
const NORMAL: f64 = 1.960;

/// The mean of a figure over seeds, and its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// Mean.
    pub mean: f64,
    /// Half of the 95 % confidence interval of the mean; 0 for one seed, where it is unknown.
    pub ci95: f64,
    /// Least value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// Number of values.
    pub n: usize,
}

impl Tally {
    /// Computes the tally, or `None` without values.
    pub fn new(values: &[f64]) -> Option<Self> {
        let n = values.len();
        if n == 0 {
            return None;
        }
        let count = n as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let ci95 = match n - 1 {
            0 => 0.0,
            freedom => {
                let t = STUDENT.get(freedom - 1).copied().unwrap_or(NORMAL);
                t * (squares / freedom as f64 / count).sqrt()
            }
        };
        Some(Self {
            mean,
            ci95,
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            n,
        })
    }

    /// True if the intervals of both means overlap, so that the seeds may cause the difference.
    pub fn overlaps(&self, other: &Self) -> bool {
        (self.mean - other.mean).abs() <= self.ci95 + other.ci95
    }
}
