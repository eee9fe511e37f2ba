//! One TUN interface.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsRawFd, RawFd};

use super::links::{Namespaces, Watch};
use super::sys::{self, Offloads, Unfit};
use crate::config::Interface;
use crate::offload::{Offload, VNET_LEN};

/// An interface that cannot be had, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// There is no TUN driver.
    #[error(
        "there is no /dev/net/tun here: load the kernel module tun, or pass the device into the \
         container"
    )]
    Missing,
    /// The TUN driver's own device is closed to this user.
    #[error(
        "the user that runs the router may not open /dev/net/tun: give it mode 0666, as udev does \
         (opening it gives access to the user's own interfaces only)"
    )]
    Closed,
    /// The kernel refuses this user.
    #[error(
        "not allowed to open the TUN interface {name}: let `vcp-router setup` make it for this \
         user, or run as root, with CAP_NET_ADMIN, or in a user namespace of your own (unshare -rn)"
    )]
    Refused {
        /// The interface.
        name: String,
    },
    /// Another process has it.
    #[error(
        "the TUN interface {name} is in use: stop the program that holds it, or choose another name"
    )]
    Busy {
        /// The interface.
        name: String,
    },
    /// It is something else.
    #[error("{name} is there, and is no TUN interface of one queue: choose another name")]
    Other {
        /// The interface.
        name: String,
    },
    /// Its MTU is another one, and may not be changed.
    #[error(
        "the TUN interface {name} has an MTU of {has}, the configuration says {wanted}: run \
         `vcp-router setup`, or change `mtu`"
    )]
    Mtu {
        /// The interface.
        name: String,
        /// Its MTU.
        has: u32,
        /// The configuration's.
        wanted: u32,
    },
    /// It is down, and may not be brought up.
    #[error("the TUN interface {name} is down: run `vcp-router setup`")]
    Down {
        /// The interface.
        name: String,
    },
    /// Something else.
    #[error("cannot {what} {name}: {source}")]
    Failed {
        /// What was tried.
        what: &'static str,
        /// The interface.
        name: String,
        /// Why not.
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
    /// Opens an interface. One that is opened by name is brought up with `mtu`; a passed
    /// descriptor's interface is its owner's to configure.
    ///
    /// # Errors
    /// [`DeviceError`].
    pub fn open(interface: &Interface, mtu: u32) -> Result<Self, DeviceError> {
        let (file, name) = match interface {
            Interface::Tun(name) => {
                let file = sys::open_tun(name).map_err(|source| match source.raw_os_error() {
                    // Of a card, a TAP interface, one of several queues.
                    Some(libc::EINVAL) => DeviceError::Other { name: name.clone() },
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

    /// Gives an interface that is open another `mtu`; one of a passed descriptor is its owner's to
    /// configure.
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

    /// Anything that can be read and written.
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
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The offloads in use.
    #[must_use]
    pub fn offloads(&self) -> Offloads {
        self.offloads
    }

    /// The descriptor to wait for; a closed interface has none, which waiting passes over.
    pub(super) fn fd(&self) -> RawFd {
        if self.lost { -1 } else { self.file.as_raw_fd() }
    }

    /// True once the interface has gone.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.lost
    }

    /// Stops reading: the interface is gone.
    pub(super) fn close(&mut self) {
        self.lost = true;
    }

    /// Reads a packet into `start`, and on into `rest` where it is longer: its length, and what is
    /// left undone in it. `None` if there is none.
    ///
    /// # Errors
    /// Those of the interface; a packet whose header means nothing is
    /// [`io::ErrorKind::InvalidData`].
    #[inline]
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

    /// Writes a packet: virtio-net header first, then its parts.
    ///
    /// # Errors
    /// Those of the interface.
    #[inline]
    pub fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<()> {
        (&self.file).write_vectored(parts).map(drop)
    }

    /// How the kernel is to be asked about the interface; `None`: it cannot be.
    #[must_use]
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
        Unfit::Down => DeviceError::Down { name },
        Unfit::Failed(source) => explain(source, &name),
    }
}

fn explain(source: io::Error, name: &str) -> DeviceError {
    let name = name.to_owned();
    match source.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => DeviceError::Missing,
        // By the device's mode; interfaces are refused with EPERM.
        Some(libc::EACCES) => DeviceError::Closed,
        Some(libc::EPERM) => DeviceError::Refused { name },
        Some(libc::EBUSY) => DeviceError::Busy { name },
        _ => DeviceError::Failed {
            what: "open the TUN interface",
            name,
            source,
        },
    }
}
