//! Capacities that clients report for ports, until they withdraw them or the reports expire.

use pathmark_cc::{Instant, LinkAlgorithm};
use pathmark_link::keys::RateValue;

use super::query::Hint;
use crate::config::Config;

/// The report about a port.
#[derive(Clone, Debug)]
pub(super) struct Report {
    port: String,
    pub(super) rate: RateValue,
    /// When it expires; `None`: never.
    pub(super) until: Option<Instant>,
}

impl Report {
    /// The capacity in bits per second that the laws of a port with `rate` bytes per second get.
    pub(super) fn taken(&self, rate: Option<u64>) -> u64 {
        let most = rate.map_or(u64::MAX, |rate| rate.saturating_mul(8));
        self.rate.bits.min(most)
    }
}

/// The reports in force, at most one per port.
#[derive(Debug, Default)]
pub(super) struct Reports(Vec<Report>);

impl Reports {
    /// The report about a port.
    pub(super) fn of(&self, port: &str) -> Option<&Report> {
        self.0.iter().find(|report| report.port == port)
    }

    /// Replaces or withdraws the report about a port. Returns a line for the log if it is the
    /// port's first report or withdraws one. Because programs report each second, the reports
    /// between these give none.
    pub(super) fn set(&mut self, hint: &Hint, now: Instant) -> Option<String> {
        let (port, before) = (&hint.port, self.0.len());
        self.0.retain(|report| report.port != *port);
        let was_reported = self.0.len() < before;
        self.0.extend(hint.rate.map(|rate| Report {
            port: port.clone(),
            rate,
            until: hint.hold.map(|hold| now + hold),
        }));
        match (hint.rate, was_reported) {
            (Some(rate), false) => Some(format!("port {port}: its capacity is reported as {rate}")),
            (None, true) => Some(format!("port {port}: its capacity is as configured again")),
            _ => None,
        }
    }

    /// When the next report expires.
    pub(super) fn due(&self) -> Option<Instant> {
        self.0.iter().filter_map(|report| report.until).min()
    }

    /// Removes a report that has expired, and returns the port's name.
    pub(super) fn expired(&mut self, now: Instant) -> Option<String> {
        let is_over = |report: &Report| report.until.is_some_and(|until| until <= now);
        let index = self.0.iter().position(is_over)?;
        Some(self.0.swap_remove(index).port)
    }

    /// Removes reports whose port has another `capacity` in the new configuration, which replaces
    /// them, or has no law there that uses one. Returns the names of the ports that had a report.
    pub(super) fn keep(&mut self, old: &Config, new: &Config) -> Vec<String> {
        let ports = self.0.iter().map(|report| report.port.clone()).collect();
        self.0.retain(|report| {
            let configured = |config| reached(config, &report.port).map(|(_, capacity)| capacity);
            configured(new).is_ok_and(|capacity| configured(old) == Ok(capacity))
        });
        ports
    }
}

/// Returns the port with this name, and its configured `capacity`, or an error if none of its
/// control laws uses one.
pub(super) fn reached(config: &Config, name: &str) -> Result<(usize, Option<RateValue>), String> {
    let mut ports = config.ports.iter().enumerate();
    let Some((index, port)) = ports.find(|(_, port)| port.name == name) else {
        return Err(format!("no port is called `{name}`"));
    };
    let mut laws = port.link.laws().peekable();
    if laws.peek().is_none() {
        return Err(format!(
            "port `{name}` has no control law to reckon with a capacity: give it a `controller`"
        ));
    }
    if laws.all(LinkAlgorithm::fixed_capacity) {
        return Err(format!(
            "the control law of port `{name}` has a capacity of its own in brackets"
        ));
    }
    Ok((index, port.link.capacity))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use pathmark_cc::Duration;

    use super::*;

    fn config(keys: &str) -> Config {
        let text = format!("id = 1\n[[port]]\nname = \"a\"\ntun = \"a\"\n{keys}");
        Config::parse(Path::new("a.toml"), &text).unwrap()
    }

    #[test]
    fn a_capacity_that_reaches_no_law_is_an_error() {
        let rate = "rate = \"10Mbit\"\n";
        let with = |law: &str| config(&format!("{rate}controller = \"{law}\"\n"));
        assert_eq!(reached(&with("xcp"), "a"), Ok((0, None)));
        assert_eq!(reached(&with("xcp[capacity=auto]"), "a"), Ok((0, None)));
        let error = |config: &Config, name: &str| reached(config, name).unwrap_err();
        assert!(error(&with("vcp"), "b").contains("no port is called `b`"));
        assert!(error(&config(rate), "a").contains("no control law"));
        assert!(error(&with("none"), "a").contains("no control law"));
        let fixed = with("xcp[capacity=5Mbit]");
        assert!(error(&fixed, "a").contains("capacity of its own"));
    }

    #[test]
    fn a_reload_keeps_a_set_capacity_unless_the_file_has_another() {
        let law = "controller = \"xcp\"\n";
        let before = config(&format!("{law}capacity = \"10Mbit\"\n"));
        let queue = format!("{law}capacity = \"10Mbit\"\nqueue = {{ kind = \"codel\" }}\n");
        let other = config(&format!("{law}capacity = \"20Mbit\"\n"));
        let mut reports = Reports::default();
        let _first = reports.set(&hint("8Mbit", None), Instant::ZERO);
        assert_eq!(reports.keep(&before, &config(&queue)), ["a"]);
        assert!(reports.of("a").is_some());
        let gone = config("rate = \"10Mbit\"\n");
        for new in [other, gone] {
            let _again = reports.set(&hint("8Mbit", None), Instant::ZERO);
            assert_eq!(reports.keep(&before, &new), ["a"]);
            assert!(reports.of("a").is_none());
        }
    }

    fn hint(rate: &str, hold: Option<Duration>) -> Hint {
        Hint {
            port: "a".to_owned(),
            rate: rate.parse().ok(),
            hold,
        }
    }

    /// A program that reports each second may not fill the log.
    #[test]
    fn only_the_first_report_and_the_last_are_logged() {
        let mut reports = Reports::default();
        let mut set = |hint| reports.set(&hint, Instant::ZERO);
        assert_eq!(set(hint("none", None)), None);
        let first = set(hint("8Mbit", None));
        let line = "port a: its capacity is reported as 8Mbit";
        assert_eq!(first.as_deref(), Some(line));
        assert_eq!(set(hint("8Mbit", None)), None);
        assert_eq!(set(hint("6Mbit", Some(Duration::from_secs(5)))), None);
        let line = "port a: its capacity is as configured again";
        assert_eq!(set(hint("none", None)).as_deref(), Some(line));
        assert_eq!(set(hint("none", None)), None);
        assert!(set(hint("8Mbit", None)).is_some());
    }

    #[test]
    fn a_report_expires_unless_it_is_repeated() {
        let at = Instant::from_millis;
        let five = Some(Duration::from_secs(5));
        let mut reports = Reports::default();
        let _first = reports.set(&hint("8Mbit", five), at(1000));
        assert_eq!(reports.due(), Some(at(6000)));
        assert_eq!(reports.expired(at(5999)), None);
        let _again = reports.set(&hint("8Mbit", five), at(5999));
        assert_eq!(reports.expired(at(6000)), None);
        assert_eq!(reports.expired(at(10_999)).as_deref(), Some("a"));
        assert_eq!(reports.expired(at(10_999)), None);
        assert!(reports.of("a").is_none() && reports.due().is_none());
        // Without a time, it stays.
        let _timed = reports.set(&hint("8Mbit", five), at(0));
        let _forever = reports.set(&hint("8Mbit", None), at(1));
        assert_eq!(reports.expired(Instant::FAR_FUTURE), None);
        assert!(reports.of("a").is_some());
        let _forever = reports.set(&hint("8Mbit", Some(Duration::MAX)), at(1));
        assert_eq!(reports.expired(at(u64::from(u32::MAX))), None);
    }

    #[test]
    fn a_report_above_the_rate_is_taken_as_the_rate() {
        let mut reports = Reports::default();
        let _first = reports.set(&hint("100Gbit", None), Instant::ZERO);
        let report = reports.of("a").unwrap();
        assert_eq!(report.taken(Some(25_000_000 / 8)), 25_000_000);
        assert_eq!(report.taken(Some(u64::MAX)), 100_000_000_000);
        assert_eq!(report.taken(None), 100_000_000_000);
    }
}
