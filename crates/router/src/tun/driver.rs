//! The main loop: wait, read, forward, write.

use std::io;
use std::os::fd::RawFd;
use std::time::Instant as Clock;

use pathmark_cc::{Duration, Instant};

use super::device::{Device, Egress, Ingress};
use super::poller::{Gather, Poller, Presence, Ready};
use super::sys;
use crate::forward::{Refused, Router};
use crate::offload::Offload;

/// Packets read from one interface before the next one gets its turn.
const BATCH: usize = 64;
/// The same limit in bytes: half a millisecond at 16 Gbit/s.
const BATCH_BYTES: usize = 1 << 20;
/// Bytes read before writing starts. Small packets accumulate, whereas a super-packet is
/// forwarded while it is in the cache.
const FLUSH_BYTES: usize = 32 * 1024;

/// Maximum number of packets dropped from an interface as stale; further ones must be newer.
const MOST_STALE: usize = 100_000;

/// Minimum time between wake-ups for deadlines of links. With many packets per wake-up, the
/// average rate stays exact, and traffic is smooth down to this time scale.
#[derive(Clone, Copy, Debug)]
pub struct Pace(pub Duration);

impl Default for Pace {
    fn default() -> Self {
        Self(Duration::from_micros(100))
    }
}

/// The reason why [`Driver::turn`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The watched descriptor with this index is readable.
    Watched(usize),
    /// The interface of this port is gone, for example with its namespace. It is no longer read.
    Lost(usize),
}

/// An interface that cannot be waited for. It is not read, as if it were gone.
#[derive(Debug)]
pub struct Deaf {
    /// Its port.
    pub port: usize,
    /// The cause.
    pub source: io::Error,
}

/// A router and its interfaces, one per port.
#[derive(Debug)]
pub struct Driver {
    router: Router,
    devices: Vec<Device>,
    egress: Vec<Egress>,
    ingress: Ingress,
    poller: Poller,
    pace: Pace,
    gather: Gather,
    presence: Presence,
    start: Clock,
}

impl Driver {
    /// Creates a driver whose ports are added later: see [`Self::set_devices`].
    ///
    /// # Errors
    /// If the set of descriptors to wait for cannot be created.
    pub fn new(router: Router, pace: Pace) -> io::Result<Self> {
        sys::precise_timers();
        let poller = Poller::new()?;
        #[expect(
            clippy::disallowed_methods,
            reason = "this driver owns the router's clock"
        )]
        let start = Clock::now();
        Ok(Self {
            router,
            devices: Vec::new(),
            egress: Vec::new(),
            ingress: Ingress::new(),
            poller,
            pace,
            gather: Gather::new(Instant::ZERO),
            presence: Presence::default(),
            start,
        })
    }

    /// The current time.
    pub fn now(&self) -> Instant {
        since(self.start)
    }

    /// The router.
    pub fn router(&self) -> &Router {
        &self.router
    }

    /// The router, for changes.
    pub fn router_mut(&mut self) -> &mut Router {
        &mut self.router
    }

    /// The interfaces, in the order of the router's ports.
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// Replaces the interfaces. Returns the previous ones, and those new ones that cannot be
    /// waited for, which count as lost.
    pub fn set_devices(&mut self, devices: Vec<Device>) -> (Vec<Device>, Vec<Deaf>) {
        self.egress.resize_with(devices.len(), Egress::default);
        let before = std::mem::replace(&mut self.devices, devices);
        for device in &before {
            self.poller.remove(device.fd());
        }
        let mut deaf = Vec::new();
        for (port, device) in self.devices.iter_mut().enumerate() {
            if !device.is_lost()
                && let Err(source) = self.poller.add(port, device.fd())
            {
                device.close();
                deaf.push(Deaf { port, source });
            }
        }
        (before, deaf)
    }

    /// Replaces a lost interface.
    ///
    /// # Errors
    /// If it cannot be waited for; it then counts as lost, too.
    pub fn replace_device(&mut self, port: usize, device: Device) -> io::Result<()> {
        if let Some(place) = self.devices.get_mut(port) {
            self.poller.remove(place.fd());
            *place = device;
            if let Err(error) = self.poller.add(port, place.fd()) {
                place.close();
                return Err(error);
            }
        }
        Ok(())
    }

    /// Stops watching the descriptors of the last [`turn`](Self::turn), so that they can be closed.
    pub fn unwatch(&mut self) {
        // Nothing is added, so nothing can fail.
        let _ = self.poller.watch(&[]);
    }

    /// Forwards packets until one of the `watched` descriptors is readable, or until the time
    /// `until`.
    ///
    /// # Errors
    /// Errors of waiting. Errors of single interfaces are only counted, and their packets are
    /// lost.
    pub fn turn(&mut self, watched: &[RawFd], until: Option<Instant>) -> io::Result<Option<Event>> {
        self.poller.watch(watched)?;
        loop {
            let now = self.now();
            self.look_for_absence(now);
            self.flush(now);
            if self.router.pool_mut().tidy(now) {
                sys::return_memory();
            }
            self.wait(now, until)?;
            let (mut index, mut event) = (0, None);
            while let Some(ready) = self.poller.nth(index) {
                index += 1;
                match ready {
                    // Only the first is reported; others will still be ready in the next turn.
                    Ready::Watched(index) => event = event.or(Some(Event::Watched(index))),
                    Ready::Port(port) => {
                        if let Reading::Lost = self.read(port) {
                            return Ok(Some(Event::Lost(port)));
                        }
                    }
                }
            }
            self.gather.on_all_read(self.now());
            if event.is_some() {
                return Ok(event);
            }
            if until.is_some_and(|until| self.now() >= until) {
                let now = self.now();
                self.flush(now);
                return Ok(None);
            }
        }
    }

    /// Writes all packets that are due, looking only at ports with work to do.
    fn flush(&mut self, now: Instant) {
        while let Some(port) = self.router.due(now) {
            match (self.egress.get_mut(port), self.devices.get(port)) {
                (Some(egress), Some(device)) => egress.flush(now, &mut self.router, port, device),
                // The port has no interface, so its packets are dropped.
                _ => {
                    while let Some(frame) = self.router.poll(now, port) {
                        self.router.wrote(port, frame.packets().into(), false);
                        self.router.pool_mut().give(frame);
                    }
                }
            }
        }
    }

    fn wait(&mut self, now: Instant, until: Option<Instant>) -> io::Result<()> {
        // Packets that are due earlier wait until then, so that they are sent together.
        let pause = self.gather.pause();
        let pace = pause.max(self.pace.0);
        let links = self.router.deadline().map(|at| at.max(now + pace));
        let tidy = self.router.pool().tidy_at();
        let deadline = [links, tidy, until].into_iter().flatten().min();
        let timeout = deadline.map(|at| at.saturating_since(now));
        self.presence.expect(deadline.map(|at| at.max(now)));
        if pause > Duration::ZERO {
            let pause = timeout.map_or(pause, |timeout| timeout.min(pause));
            #[expect(clippy::disallowed_methods, reason = "a driver may wait")]
            std::thread::sleep(pause);
        }
        let waited = self
            .poller
            .wait(timeout.map(|timeout| timeout.saturating_sub(pause)));
        let now = self.now();
        self.look_for_absence(now);
        // Handling the events takes negligible time.
        self.presence.expect(Some(now));
        waited
    }

    /// Drops the packets waiting in ports and interfaces if this process was stopped for long.
    fn look_for_absence(&mut self, now: Instant) {
        if !self.presence.was_absent(now) {
            return;
        }
        self.presence.expect(Some(now));
        for port in 0..self.devices.len() {
            self.router.clear_port(now, port);
            let Some(device) = self.devices.get(port).filter(|device| !device.is_lost()) else {
                continue;
            };
            for _ in 0..MOST_STALE {
                match self.ingress.read(device) {
                    Ok(Some((buffer, len, offload))) => {
                        let bytes = buffer.get(..len).unwrap_or_default();
                        self.router.discard_stale(port, bytes, offload);
                    }
                    Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                        self.router.discard_stale(port, &[], Offload::default());
                    }
                    // None left, or the interface is gone, which the next read will report.
                    Ok(None) | Err(_) => break,
                }
            }
        }
    }

    fn read(&mut self, port: usize) -> Reading {
        let (mut bytes, mut unflushed) = (0, 0);
        for _ in 0..BATCH {
            let Some(device) = self.devices.get_mut(port) else {
                break;
            };
            match self.ingress.read(device) {
                Ok(Some((buffer, len, offload))) => {
                    let now = since(self.start);
                    self.router.receive(now, port, buffer, len, offload);
                    self.gather.on_packet(len);
                    bytes += len;
                    unflushed += len;
                    if bytes > BATCH_BYTES {
                        break;
                    }
                    if unflushed > FLUSH_BYTES {
                        self.flush(now);
                        unflushed = 0;
                    }
                }
                Ok(None) => break,
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    self.router.counters_mut().bad_offload += 1;
                    self.router.discard(port, Refused::BadOffload, 1);
                }
                Err(_) => {
                    self.poller.remove(device.fd());
                    device.close();
                    return Reading::Lost;
                }
            }
        }
        Reading::Done
    }
}

fn since(start: Clock) -> Instant {
    #[expect(
        clippy::disallowed_methods,
        reason = "this driver owns the router's clock"
    )]
    let elapsed = Clock::now() - start;
    Instant::from_nanos(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
}

enum Reading {
    Done,
    Lost,
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::forward::{Classifier, Identity, RouterConfig};
    use crate::ip::TokenBucket;

    /// An interface that epoll refuses (here a file) must not keep others from being read.
    #[test]
    fn an_interface_that_epoll_refuses_is_reported_and_others_are_read() {
        let config = RouterConfig {
            id: Identity::new(1),
            memory: 1 << 24,
            classifier: Classifier::default(),
            icmp: TokenBucket::new(0, 0),
        };
        let mut driver = Driver::new(Router::new(config), Pace::default()).unwrap();
        let (end, mut other) = UnixStream::pair().unwrap();
        end.set_nonblocking(true).unwrap();
        let devices = vec![
            Device::of_file(tempfile::tempfile().unwrap()),
            Device::of_file(File::from(OwnedFd::from(end))),
        ];
        let (before, deaf) = driver.set_devices(devices);
        assert!(before.is_empty());
        let ports: Vec<_> = deaf.iter().map(|deaf| deaf.port).collect();
        assert_eq!(ports, [0]);
        assert_eq!(deaf[0].source.raw_os_error(), Some(libc::EPERM));
        let lost: Vec<_> = driver.devices().iter().map(Device::is_lost).collect();
        assert_eq!(lost, [true, false]);
        // A packet shorter than its header, which must be counted.
        other.write_all(&[0xFF; 10]).unwrap();
        let soon = driver.now() + Duration::from_millis(10);
        driver.turn(&[], Some(soon)).unwrap();
        let counters = driver.router().counters();
        assert_eq!(counters.bad_offload + counters.malformed, 1);
        let again = Device::of_file(tempfile::tempfile().unwrap());
        assert!(driver.replace_device(1, again).is_err());
        assert!(driver.devices()[1].is_lost());
    }
}
