//! The loop: wait, read, forward, write.

use std::io;
use std::os::fd::RawFd;
use std::time::Instant as Clock;

use pathmark_cc::{Duration, Instant};

use super::device::Device;
use super::egress::Egress;
use super::ingress::Ingress;
use super::links::Namespaces;
use super::sys;
use crate::forward::Router;

/// Packets read from one interface before the others have their turn.
const BATCH: usize = 64;
/// Bytes likewise: half a millisecond at 16 Gbit/s.
const BATCH_BYTES: usize = 1 << 20;
/// Bytes read before they are written: small packets gather, a super-packet goes on while it is in the cache.
const FLUSH_BYTES: usize = 32 * 1024;

/// How often the loop may wake up for links' deadlines: a rate of many packets per wake-up keeps its
/// average exactly and is smooth to this time.
#[derive(Clone, Copy, Debug)]
pub struct Pace(pub Duration);

impl Default for Pace {
    fn default() -> Self {
        Self(Duration::from_micros(100))
    }
}

/// What ended a [`Driver::turn`] besides packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The watched descriptor with this index is readable.
    Watched(usize),
    /// The interface of this port is gone, with its namespace perhaps. Nothing is read from it any more.
    Lost(usize),
}

/// A router and its interfaces, port by port.
#[derive(Debug)]
pub struct Driver {
    router: Router,
    devices: Vec<Device>,
    egress: Vec<Egress>,
    ingress: Ingress,
    fds: Vec<libc::pollfd>,
    namespaces: Namespaces,
    pace: Pace,
    start: Clock,
}

impl Driver {
    /// A driver whose ports are yet to come: see [`Self::set_devices`].
    #[must_use]
    pub fn new(router: Router, pace: Pace) -> Self {
        sys::precise_timers();
        #[expect(
            clippy::disallowed_methods,
            reason = "this driver owns the router's clock"
        )]
        let start = Clock::now();
        Self {
            router,
            devices: Vec::new(),
            egress: Vec::new(),
            ingress: Ingress::new(),
            fds: Vec::new(),
            namespaces: Namespaces::default(),
            pace,
            start,
        }
    }

    /// The time now.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Instant {
        since(self.start)
    }

    /// The router.
    #[must_use]
    pub fn router(&self) -> &Router {
        &self.router
    }

    /// The router, to change it.
    pub fn router_mut(&mut self) -> &mut Router {
        &mut self.router
    }

    /// The interfaces, in the order of the router's ports.
    #[must_use]
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// Replaces the interfaces; returns the previous ones.
    pub fn set_devices(&mut self, mut devices: Vec<Device>) -> Vec<Device> {
        for device in &mut devices {
            if device.watched().is_none() {
                device.find(&mut self.namespaces);
            }
        }
        self.namespaces.tidy();
        self.egress.resize_with(devices.len(), Egress::default);
        std::mem::replace(&mut self.devices, devices)
    }

    /// Puts another interface in the place of one that was lost.
    pub fn replace_device(&mut self, port: usize, mut device: Device) {
        device.find(&mut self.namespaces);
        if let Some(place) = self.devices.get_mut(port) {
            *place = device;
        }
        self.namespaces.tidy();
    }

    /// Moves packets until one of the `watched` descriptors is readable, or `until` has come.
    ///
    /// # Errors
    /// Those of waiting. Errors of single interfaces are counted, and the packets lost.
    pub fn turn(&mut self, watched: &[RawFd], until: Option<Instant>) -> io::Result<Option<Event>> {
        loop {
            let now = self.now();
            self.flush(now);
            if self.router.pool_mut().tidy(now) {
                sys::return_memory();
            }
            let ready = self.wait(watched, now, until)?;
            if let Some(index) = ready {
                return Ok(Some(Event::Watched(index)));
            }
            for port in 0..self.devices.len() {
                if self.fds.get(port).is_some_and(|fd| fd.revents != 0)
                    && let Reading::Lost = self.read(port)
                {
                    return Ok(Some(Event::Lost(port)));
                }
            }
            if until.is_some_and(|until| self.now() >= until) {
                let now = self.now();
                self.flush(now);
                return Ok(None);
            }
        }
    }

    fn flush(&mut self, now: Instant) {
        for (port, (egress, device)) in self.egress.iter_mut().zip(&self.devices).enumerate() {
            egress.flush(now, &mut self.router, port, device);
        }
    }

    /// Waits; returns the first watched descriptor that is readable.
    fn wait(
        &mut self,
        watched: &[RawFd],
        now: Instant,
        until: Option<Instant>,
    ) -> io::Result<Option<usize>> {
        self.fds.clear();
        self.fds
            .extend(self.devices.iter().map(|device| sys::readable(device.fd())));
        self.fds.extend(watched.iter().map(|fd| sys::readable(*fd)));
        // What is due sooner waits a little, to be sent together.
        let links = self.router.deadline().map(|at| at.max(now + self.pace.0));
        let tidy = self.router.pool().tidy_at();
        let deadline = [links, tidy, until].into_iter().flatten().min();
        let timeout = deadline.map(|at| at.saturating_since(now));
        sys::wait(&mut self.fds, timeout)?;
        let watched = self.fds.get(self.devices.len()..).unwrap_or(&[]);
        Ok(watched.iter().position(|fd| fd.revents != 0))
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
                }
                Err(_) => {
                    device.close();
                    return Reading::Lost;
                }
            }
        }
        Reading::Done
    }
}

#[inline]
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
