//! Time series as comma-separated values, with one row per point and flow or link. Empty values
//! are unknown or do not apply.

use std::fmt::Display;
use std::io::Write;
use std::path::Path;

use pathmark_cc::FallbackReason;

use super::{OutputError, OutputFile};
use crate::observe::Sample;
use crate::scenario::Scenario;

pub(super) const FLOWS: &str = "time_s,flow,cwnd_bytes,in_flight_bytes,srtt_ms,goodput_bps,\
    delivered_bytes,packets_lost,timeouts,fallback";
pub(super) const LINKS: &str = "time_s,link,rate_bps,utilization,queue_packets,queue_bytes,drops,\
    random_losses,load,r,marked_low,marked_high,marked_over";

/// Creates a file that starts with its headings.
pub(super) fn create(path: &Path, headings: &str) -> Result<OutputFile, OutputError> {
    OutputFile::create(path, |file| writeln!(file, "{headings}"))
}

/// Writes a row per flow that has started.
pub(super) fn flows(
    out: &mut OutputFile,
    scenario: &Scenario,
    sample: &Sample<'_>,
) -> Result<(), OutputError> {
    out.write(|file| {
        for (setup, point) in scenario.flows.iter().zip(sample.flows) {
            if setup.start > sample.at {
                continue;
            }
            writeln!(
                file,
                "{},{},{},{},{},{},{},{},{},{}",
                sample.at.as_secs_f64(),
                Text(&setup.name),
                point.cwnd,
                point.in_flight,
                Maybe(point.srtt.map(|srtt| srtt.as_secs_f64() * 1e3)),
                point.goodput_bps,
                point.delivered,
                point.lost,
                point.timeouts,
                Maybe(point.fallback.map(FallbackReason::name)),
            )?;
        }
        Ok(())
    })
}

/// Writes a row per link.
pub(super) fn links(
    out: &mut OutputFile,
    scenario: &Scenario,
    sample: &Sample<'_>,
) -> Result<(), OutputError> {
    out.write(|file| {
        for (setup, point) in scenario.links.iter().zip(sample.links) {
            let marked = point.law.map(|law| law.marked);
            let [_, low, high, over] = marked.map_or([None; 4], |marked| marked.map(Some));
            writeln!(
                file,
                "{},{},{},{},{},{},{},{},{},{},{},{},{}",
                sample.at.as_secs_f64(),
                Text(&setup.name),
                Maybe(point.rate_bps),
                Maybe(point.utilization),
                point.queue_packets,
                point.queue_bytes,
                point.drops,
                point.losses,
                Maybe(point.law.map(|law| law.load)),
                Maybe(point.law.and_then(|law| law.r)),
                Maybe(low),
                Maybe(high),
                Maybe(over),
            )?;
        }
        Ok(())
    })
}

/// Displays nothing for `None`.
struct Maybe<T>(Option<T>);

impl<T: Display> Display for Maybe<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Some(value) => value.fmt(f),
            None => Ok(()),
        }
    }
}

/// Quotes text if necessary (RFC 4180).
struct Text<'a>(&'a str);

impl Display for Text<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.contains([',', '"', '\n', '\r']) {
            write!(f, "\"{}\"", self.0.replace('"', "\"\""))
        } else {
            f.write_str(self.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_commas_are_quoted() {
        assert_eq!(Text("a,\"b\"").to_string(), "\"a,\"\"b\"\"\"");
        assert_eq!(Text("plain").to_string(), "plain");
        assert_eq!(Maybe::<f64>(None).to_string(), "");
        assert_eq!(Maybe(Some(0.5)).to_string(), "0.5");
    }
}
