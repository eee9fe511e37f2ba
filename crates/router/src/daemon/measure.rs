//! The capacities of ports that are not configured: reported by clients, until they withdraw them
//! or the reports expire, or measured.
//!
//! Measurements are ICMP echo requests through the links behind ports (RFC 792, RFC 4443 §4.1).
//! Because packets of this machine bypass the router, their round trips show the queue behind a
//! port.

use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};

use pathmark_cc::{Duration, Instant};
use pathmark_link::keys::RateValue;
use pathmark_link::measure::{RateEstimator, RateRange};
use socket2::{Domain, Protocol, Socket, Type};

use super::RunError;
use super::exchange::Hint;
use crate::config::{Config, MeasureSpec, PortSpec};
use crate::forward::{Router, RouterPort};
use crate::output::log_line;
use crate::tun::sys;

/// Bytes of the longest message that is read. An answer has header, cookie, and 8 bytes of padding.
const LENGTH: usize = 48;
/// Answers that are read in sequence before packets are forwarded again.
const TURN: usize = 32;
/// Without an answer for this time, a target counts as silent.
const SILENCE: Duration = Duration::from_secs(3);

/// Packets that wait for longer behind a port, and at each answer for [`LASTING`], are reported to
/// the log, at most once in [`AGAIN`].
const WAITS: Duration = Duration::from_millis(50);
const LASTING: Duration = Duration::from_secs(2);
const AGAIN: Duration = Duration::from_secs(600);

/// An answer that seems to have waited longer has not: the clock was set.
const MOST_AGE: Duration = Duration::from_secs(1);

/// The probes of a port.
#[derive(Debug)]
struct Measurement {
    /// The port's name, and its index in the configuration.
    port: String,
    index: usize,
    spec: MeasureSpec,
    socket: Socket,
    /// What answers must contain, so that only hosts that get the probes can answer them.
    cookie: [u8; 8],
    estimator: RateEstimator,
    /// When the first probe was sent.
    asked: Instant,
    /// Whether the log says that the target does not answer.
    is_silent: bool,
    /// Since when packets have waited for more than [`WAITS`].
    waits: Option<Instant>,
    /// When the log said so.
    reported: Option<Instant>,
}

/// The probes of all ports.
#[derive(Debug, Default)]
pub(super) struct Measurements(Vec<Measurement>);

impl Measurements {
    /// Opens a socket for each port with `probe`, and sets the rates of ports that follow their
    /// measurements. Ports whose keys have not changed keep what is measured; ports that no longer
    /// follow a measurement get their own rate. Returns an error for each port that cannot be
    /// measured.
    pub(super) fn apply(
        &mut self,
        config: &Config,
        now: Instant,
        router: &mut Router,
    ) -> Vec<RunError> {
        let mut before = std::mem::take(&mut self.0);
        let mut errors = Vec::new();
        for (index, port) in config.ports.iter().enumerate() {
            let known = before.iter().position(|known| known.port == port.name);
            let known = known.map(|at| before.swap_remove(at));
            let Some(running) = router.port_mut(index) else {
                continue;
            };
            if known
                .as_ref()
                .is_some_and(|known| known.spec.floor.is_some())
            {
                running
                    .link
                    .set_rate(now, port.link.rate.map(RateValue::bytes));
            }
            let Some(spec) = port.measure else {
                continue;
            };
            let range = range(port, spec);
            let is_same =
                |known: &Measurement| known.spec == spec && known.estimator.range() == range;
            let measurement = match known.filter(is_same) {
                Some(known) => Ok(Measurement { index, ..known }),
                None => Measurement::start(index, port, spec, now),
            };
            match measurement {
                Ok(measurement) => {
                    measurement.adjust(now, running);
                    self.0.push(measurement);
                }
                Err(source) => errors.push(RunError::Probe {
                    port: port.name.clone(),
                    source,
                }),
            }
        }
        errors
    }

    /// The sockets on which answers arrive.
    pub(super) fn sockets(&self) -> impl Iterator<Item = RawFd> {
        self.0.iter().map(|one| one.socket.as_raw_fd())
    }

    /// When the next probe must be sent.
    pub(super) fn due(&self) -> Option<Instant> {
        self.0.iter().map(|one| one.estimator.due()).min()
    }

    /// Sends the probes that are due, and sets rates that change because answers are overdue.
    pub(super) fn send(&mut self, now: Instant, config: &Config, router: &mut Router) {
        for one in &mut self.0 {
            let spec = config.ports.get(one.index);
            if one.estimator.due() > now {
                continue;
            }
            if let (Some(port), Some(spec)) = (router.port_mut(one.index), spec) {
                let number = one.estimator.on_probe(now, sent(port, spec));
                // A probe that cannot be sent counts as lost.
                let target = SocketAddr::new(one.spec.probe, 0).into();
                let _ = one.socket.send_to(&one.request(number), &target);
                one.adjust(now, port);
            }
            let heard = one.estimator.answered().unwrap_or(one.asked);
            if !one.is_silent && now.saturating_since(heard) > SILENCE {
                one.is_silent = true;
                log_line!(
                    "port {}: {} does not answer echo requests, so the link behind the port is not \
                     measured: look whether it is up, or choose another `probe`",
                    one.port,
                    one.spec.probe
                );
            }
        }
    }

    /// Reads the answers that have arrived at the socket with this index.
    pub(super) fn receive(&mut self, socket: usize, now: Instant, router: &mut Router) {
        let Some(one) = self.0.get_mut(socket) else {
            return;
        };
        for _ in 0..TURN {
            let mut message = [0; LENGTH];
            // Errors are those of earlier probes, which count as lost.
            let length = match (&one.socket).read(&mut message) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => continue,
            };
            let Some(number) = one.answered(message.get(..length).unwrap_or_default()) else {
                continue;
            };
            // The answer may have waited for this process, or the clock may have been set.
            let age = sys::age_of_last(one.socket.as_raw_fd()).unwrap_or_default();
            let age = if age < MOST_AGE { age } else { Duration::ZERO };
            let arrived = Instant::from_nanos(now.as_nanos().saturating_sub(nanos(age)));
            one.estimator.on_answer(arrived, number);
            if std::mem::take(&mut one.is_silent) {
                one.waits = None;
                log_line!("port {}: {} answers again", one.port, one.spec.probe);
            }
            one.report(arrived);
        }
        if let Some(port) = router.port_mut(one.index) {
            one.adjust(now, port);
        }
    }

    /// Continues from a rate that is reported for the link behind the port with this index.
    pub(super) fn on_report(&mut self, port: usize, now: Instant, rate: Option<u64>) {
        if let (Some(one), Some(rate)) = (self.0.iter_mut().find(|one| one.index == port), rate) {
            one.estimator.on_report(now, rate);
        }
    }

    /// How long packets wait behind the port at present, in milliseconds; `None`: it is not known.
    pub(super) fn delay_ms(&self, port: &str, now: Instant) -> Option<f64> {
        let one = self.0.iter().find(|one| one.port == port)?;
        let heard = one.estimator.answered()?;
        let is_recent = now.saturating_since(heard) <= SILENCE;
        let delay = one.estimator.delay().filter(|_| is_recent)?;
        Some(delay.as_secs_f64() * 1e3)
    }
}

impl Measurement {
    fn start(index: usize, port: &PortSpec, spec: MeasureSpec, now: Instant) -> io::Result<Self> {
        let mut cookie = [0; 8];
        sys::random(&mut cookie)?;
        Ok(Self {
            port: port.name.clone(),
            index,
            spec,
            socket: open(spec.probe)?,
            cookie,
            estimator: RateEstimator::new(range(port, spec), now),
            asked: now,
            is_silent: false,
            waits: None,
            reported: None,
        })
    }

    fn request(&self, number: u16) -> Vec<u8> {
        // The kernel writes checksum and identifier.
        let kind = if self.spec.probe.is_ipv4() { 8 } else { 128 };
        let [high, low] = number.to_be_bytes();
        [[kind, 0, 0, 0, 0, 0, high, low], self.cookie, [0; 8]].concat()
    }

    /// The number of the probe that a message answers.
    fn answered(&self, message: &[u8]) -> Option<u16> {
        let kind = if self.spec.probe.is_ipv4() { 0 } else { 129 };
        match message {
            [first, 0, _, _, _, _, high, low, cookie @ ..]
                if *first == kind && cookie.starts_with(&self.cookie) =>
            {
                Some(u16::from_be_bytes([*high, *low]))
            }
            _ => None,
        }
    }

    /// Tells the log that packets wait behind the port. The cause can also be a path that became
    /// longer, or a queue on the way back, so the line doesn't say that the link is slower.
    fn report(&mut self, now: Instant) {
        let Some(delay) = self.estimator.delay().filter(|delay| *delay > WAITS) else {
            self.waits = None;
            return;
        };
        let since = *self.waits.get_or_insert(now);
        let is_known = |at: Instant| now.saturating_since(at) < AGAIN;
        if now.saturating_since(since) < LASTING || self.reported.is_some_and(is_known) {
            return;
        }
        self.reported = Some(now);
        let remedy = match self.spec.floor {
            None => "`rate`, lower `rate`, or add `floor`",
            Some(_) => "`floor`, lower `floor`",
        };
        log_line!(
            "port {}: packets wait {} ms behind the port: if its link is slower than {remedy}",
            self.port,
            delay.as_millis()
        );
    }

    /// Lets the port send at the measured rate, if it follows this rate.
    fn adjust(&self, now: Instant, port: &mut RouterPort) {
        let rate = Some(self.estimator.rate());
        if self.spec.floor.is_some() && port.link.port().own_rate() != rate {
            port.link.set_rate(now, rate);
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Bytes that the port has sent, counted like its rate.
fn sent(port: &RouterPort, spec: &PortSpec) -> u64 {
    let stats = port.link.port().stats();
    let overhead = u64::from(spec.link.frame_overhead);
    stats
        .sent_bytes()
        .wrapping_add(stats.sent_packets().wrapping_mul(overhead))
}

/// The range of a port's rate. A port that does not follow the measurement keeps its own.
fn range(port: &PortSpec, spec: MeasureSpec) -> RateRange {
    let ceiling = port.link.rate.map_or(u64::MAX, |rate| rate.bytes());
    RateRange {
        floor: spec.floor.map_or(ceiling, |floor| floor.bytes()),
        ceiling,
    }
}

/// A socket for echo requests, which needs no privilege where `net.ipv4.ping_group_range` contains
/// the process' group. It is not connected, because there may be no route yet.
fn open(target: IpAddr) -> io::Result<Socket> {
    let (domain, protocol) = match target {
        IpAddr::V4(_) => (Domain::IPV4, Protocol::ICMPV4),
        IpAddr::V6(_) => (Domain::IPV6, Protocol::ICMPV6),
    };
    let socket = Socket::new(domain, Type::DGRAM, Some(protocol))?;
    socket.set_nonblocking(true)?;
    // From now on, the kernel notes when answers arrive.
    let _none_yet = sys::age_of_last(socket.as_raw_fd());
    Ok(socket)
}

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
    /// them, or is not there any more. Returns the names of the ports that had a report.
    pub(super) fn keep(&mut self, old: &Config, new: &Config) -> Vec<String> {
        let ports = self.0.iter().map(|report| report.port.clone()).collect();
        self.0.retain(|report| {
            let configured = |config| reached(config, &report.port).map(|(_, capacity)| capacity);
            configured(new).is_ok_and(|capacity| configured(old) == Ok(capacity))
        });
        ports
    }
}

/// Returns the port with this name, and its configured `capacity`, or an error if its rate can't be
/// limited.
pub(super) fn reached(config: &Config, name: &str) -> Result<(usize, Option<RateValue>), String> {
    let mut ports = config.ports.iter().enumerate();
    let Some((index, port)) = ports.find(|(_, port)| port.name == name) else {
        return Err(format!("no port is called `{name}`"));
    };
    if port.link.trace.is_some() {
        return Err(format!("port `{name}` has the capacity of its `trace`"));
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
    fn a_reload_keeps_a_set_capacity_unless_the_file_has_another() {
        let law = "controller = \"xcp\"\n";
        let before = config(&format!("{law}capacity = \"10Mbit\"\n"));
        let queue = format!("{law}capacity = \"10Mbit\"\nqueue = {{ kind = \"codel\" }}\n");
        let other = config(&format!("{law}capacity = \"20Mbit\"\n"));
        let mut reports = Reports::default();
        let _first = reports.set(&hint("8Mbit", None), Instant::ZERO);
        assert_eq!(reports.keep(&before, &config(&queue)), ["a"]);
        assert!(reports.of("a").is_some());
        let none = config("rate = \"10Mbit\"\n");
        for new in [other, none] {
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
