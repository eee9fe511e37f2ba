//! A TUN interface. Each packet is read into a buffer in which it can stay. Consecutive packets of
//! a flow are written as a super-packet.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read as _, Write};
use std::os::fd::{AsRawFd, RawFd};

use super::links::{Namespaces, Watch};
use super::sys;
use super::sys::{Offloads, Unfit};
use crate::config::Interface;
use crate::forward::{Frame, LARGE, Router, USUAL};
use crate::offload::{Coalescer, GsoKind, Offload, VNET_LEN};

/// The reason why an interface cannot be used, with a remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The TUN driver is not loaded.
    #[error(
        "there is no /dev/net/tun here: load the kernel module tun, or pass the device into the \
         container"
    )]
    Missing,
    /// This user may not open the TUN driver's device.
    #[error(
        "the user that runs the router may not open /dev/net/tun: give it mode 0666, as udev does \
         (opening it gives access to the user's own interfaces only)"
    )]
    Closed,
    /// The kernel refuses this user.
    #[error(
        "not allowed to open the TUN interface {0}: let `vcp-router setup` make it for this \
         user, or run as root, with CAP_NET_ADMIN, or in a user namespace of your own (unshare -rn)"
    )]
    Refused(String),
    /// Another process has the interface open.
    #[error(
        "the TUN interface {0} is in use: stop the program that holds it, or choose another name"
    )]
    Busy(String),
    /// The interface has another kind.
    #[error("{0} is there, and is no TUN interface of one queue: choose another name")]
    Other(String),
    /// It has another MTU, which this user may not change.
    #[error(
        "the TUN interface {name} has an MTU of {has}, the configuration says {wanted}: run \
         `vcp-router setup`, or change `mtu`"
    )]
    Mtu {
        /// The interface.
        name: String,
        /// Its MTU.
        has: u32,
        /// The configured MTU.
        wanted: u32,
    },
    /// It is down, and this user may not bring it up.
    #[error("the TUN interface {0} is down: run `vcp-router setup`")]
    Down(String),
    /// Another error.
    #[error("cannot {what} {name}: {source}")]
    Failed {
        /// The operation.
        what: &'static str,
        /// The interface.
        name: String,
        /// The cause.
        source: io::Error,
    },
}

/// A TUN interface with virtio-net headers, non-blocking.
#[derive(Debug)]
pub struct Device {
    pub(super) file: File,
    pub(super) name: String,
    offloads: Offloads,
    lost: bool,
    watch: Option<Watch>,
}

impl Device {
    /// Opens an interface. If it is given by name, it is brought up with `mtu`. For a passed
    /// descriptor, the owner must have configured it.
    ///
    /// # Errors
    /// [`DeviceError`].
    pub fn open(interface: &Interface, mtu: u32) -> Result<Self, DeviceError> {
        let (file, name) = match interface {
            Interface::Tun(name) => {
                let file = sys::open_tun(name).map_err(|source| match source.raw_os_error() {
                    // A network card, a TAP interface, or one with several queues.
                    Some(libc::EINVAL) => DeviceError::Other(name.clone()),
                    _ => explain(source, name),
                })?;
                sys::bring_up(name, mtu).map_err(|unfit| unfit_for(unfit, name, mtu))?;
                (file, name.clone())
            }
            Interface::Fd(fd) => sys::adopt_tun(*fd).map_err(|source| DeviceError::Failed {
                what: "use descriptor",
                name: fd.to_string(),
                source,
            })?,
        };
        let offloads = sys::set_offloads(&file).map_err(|source| DeviceError::Failed {
            what: "set offloads of",
            name: name.clone(),
            source,
        })?;
        Ok(Self {
            file,
            name,
            offloads,
            lost: false,
            watch: None,
        })
    }

    /// Changes an open interface's `mtu`. For a passed descriptor, this is up to the owner.
    ///
    /// # Errors
    /// [`DeviceError`].
    pub fn fit(interface: &Interface, mtu: u32) -> Result<(), DeviceError> {
        match interface {
            Interface::Tun(name) => {
                sys::bring_up(name, mtu).map_err(|unfit| unfit_for(unfit, name, mtu))
            }
            Interface::Fd(_) => Ok(()),
        }
    }

    /// Wraps any file that can be read and written.
    #[cfg(test)]
    pub(super) fn of_file(file: File) -> Self {
        Self {
            file,
            name: String::new(),
            offloads: Offloads::default(),
            lost: false,
            watch: None,
        }
    }

    /// The interface's name when it was opened.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The offloads in use.
    pub fn offloads(&self) -> Offloads {
        self.offloads
    }

    /// The descriptor to wait for. A closed interface returns -1, which waiting ignores.
    pub(super) fn fd(&self) -> RawFd {
        if self.lost { -1 } else { self.file.as_raw_fd() }
    }

    /// Returns true once the interface is gone.
    pub fn is_lost(&self) -> bool {
        self.lost
    }

    /// Stops reading, because the interface is gone.
    pub(super) fn close(&mut self) {
        self.lost = true;
    }

    /// Reads a packet into `start`, and continues in `rest` if it is longer. Returns its length
    /// and its remaining offload work, or `None` if no packet is waiting.
    ///
    /// # Errors
    /// Errors of the interface, or [`io::ErrorKind::InvalidData`] for a packet with an invalid
    /// virtio-net header.
    pub fn read(
        &self,
        start: &mut [u8],
        rest: Option<&mut [u8]>,
    ) -> io::Result<Option<(usize, Offload)>> {
        let mut header = [0; VNET_LEN];
        let used = if rest.is_some() { 3 } else { 2 };
        let mut slices = [&mut header, start, rest.unwrap_or_default()].map(IoSliceMut::new);
        match (&self.file).read_vectored(slices.get_mut(..used).unwrap_or_default()) {
            Ok(read) => {
                let len = read.saturating_sub(VNET_LEN);
                let offload = Offload::parse(&header)
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
                Ok(Some((len, offload)))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes a packet, given as a virtio-net header and parts.
    ///
    /// # Errors
    /// Errors of the interface.
    pub fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<()> {
        (&self.file).write_vectored(parts).map(drop)
    }

    /// Returns how to query the kernel about the interface; `None` if this is impossible.
    pub fn watched(&self) -> Option<Watch> {
        self.watch.clone()
    }

    /// Prepares [`watched`](Self::watched).
    pub fn find(&mut self, namespaces: &mut Namespaces) {
        self.watch = namespaces.watch(self.file.as_raw_fd(), &self.name);
    }
}

fn unfit_for(unfit: Unfit, name: &str, wanted: u32) -> DeviceError {
    let name = name.to_owned();
    match unfit {
        Unfit::Mtu(has) => DeviceError::Mtu { name, has, wanted },
        Unfit::Down => DeviceError::Down(name),
        Unfit::Failed(source) => explain(source, &name),
    }
}

fn explain(source: io::Error, name: &str) -> DeviceError {
    let name = name.to_owned();
    match source.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => DeviceError::Missing,
        // Caused by the device's mode; refused interfaces return EPERM.
        Some(libc::EACCES) => DeviceError::Closed,
        Some(libc::EPERM) => DeviceError::Refused(name),
        Some(libc::EBUSY) => DeviceError::Busy(name),
        _ => DeviceError::Failed {
            what: "open the TUN interface",
            name,
            source,
        },
    }
}

/// Slices per write: virtio-net header, packet header, and the payloads of a super-packet.
const SLICES: usize = 66;

/// The output of one port, which keeps its allocation between uses.
#[derive(Debug, Default)]
pub struct Egress {
    segments: Vec<Frame>,
}

impl Egress {
    /// Writes all packets that have reached the far end of `port`'s link.
    pub fn flush(
        &mut self,
        now: pathmark_cc::Instant,
        router: &mut Router,
        port: usize,
        device: &Device,
    ) {
        let mut coalescer: Option<Coalescer> = None;
        while let Some(frame) = router.poll(now, port) {
            let appended = coalescer
                .as_mut()
                .is_some_and(|coalescer| coalescer.append(frame.bytes(), frame.offload));
            if !appended {
                self.write(coalescer.take(), router, port, device);
                coalescer = start(&frame, device);
            }
            self.segments.push(frame);
        }
        self.write(coalescer, router, port, device);
    }

    fn write(
        &mut self,
        coalescer: Option<Coalescer>,
        router: &mut Router,
        port: usize,
        device: &Device,
    ) {
        let Some(first) = self.segments.first() else {
            return;
        };
        let mut coalescer = coalescer;
        let header_len = coalescer.as_ref().map_or(0, Coalescer::header_len);
        let result = if let Some((header, offload)) = coalescer.as_mut().and_then(Coalescer::finish)
        {
            let vnet = offload.emit(u16::try_from(header_len).unwrap_or(0));
            let mut slices = [IoSlice::new(&[]); SLICES];
            let payloads = self
                .segments
                .iter()
                .map(|segment| segment.bytes().get(header_len..));
            let parts = [&vnet, header].into_iter();
            let parts = parts.chain(payloads.map(Option::unwrap_or_default));
            let mut used = 0;
            for (slice, part) in slices.iter_mut().zip(parts) {
                *slice = IoSlice::new(part);
                used += 1;
            }
            device.write(slices.get(..used).unwrap_or(&[]))
        } else {
            let vnet = first.offload.emit(first.header_len());
            device.write(&[IoSlice::new(&vnet), IoSlice::new(first.bytes())])
        };
        let packets = self
            .segments
            .iter()
            .map(|segment| u64::from(segment.packets()))
            .sum();
        router.wrote(port, packets, result.is_ok());
        let counters = router.counters_mut();
        match result {
            Ok(()) => counters.written += 1,
            Err(_) => counters.write_errors += 1,
        }
        for frame in self.segments.drain(..) {
            router.pool_mut().give(frame);
        }
    }
}

/// Starts coalescing only if the interface accepts the resulting kind of super-packet.
fn start(frame: &Frame, device: &Device) -> Option<Coalescer> {
    let coalescer = Coalescer::start(frame.bytes(), frame.offload)?;
    let allowed = match coalescer.kind() {
        GsoKind::Udp => device.offloads().udp,
        GsoKind::TcpV4 | GsoKind::TcpV6 => device.offloads().tcp,
    };
    allowed.then_some(coalescer)
}

/// A packet that was read: the buffer that it starts in, which the router may keep and replace,
/// its length, and its remaining offload work.
pub(super) type Read<'a> = (&'a mut Box<[u8]>, usize, Offload);

/// Buffers for reading.
#[derive(Debug)]
pub(super) struct Ingress {
    usual: Box<[u8]>,
    large: Box<[u8]>,
    /// True if the last packet exceeded the usual buffer.
    in_large: bool,
}

impl Ingress {
    pub(super) fn new() -> Self {
        Self {
            usual: vec![0; USUAL].into_boxed_slice(),
            large: vec![0; LARGE].into_boxed_slice(),
            in_large: false,
        }
    }

    /// Reads the next packet of an interface; `None` if there is none.
    ///
    /// Because super-packets usually follow each other, the packet after one is read into a
    /// large buffer, in which it can stay. Others are read into a buffer of the usual size, and
    /// continue in the large one if they are longer.
    ///
    /// # Errors
    /// See [`Device::read`].
    pub(super) fn read(&mut self, device: &Device) -> io::Result<Option<Read<'_>>> {
        if self.in_large {
            let Some((len, offload)) = device.read(&mut self.large, None)? else {
                return Ok(None);
            };
            self.in_large = len > USUAL;
            return Ok(Some((&mut self.large, len, offload)));
        }
        let (start, rest) = self.large.split_at_mut(USUAL);
        let Some((len, offload)) = device.read(&mut self.usual, Some(rest))? else {
            return Ok(None);
        };
        if len <= USUAL {
            return Ok(Some((&mut self.usual, len, offload)));
        }
        start.copy_from_slice(&self.usual);
        self.in_large = true;
        Ok(Some((&mut self.large, len, offload)))
    }
}
