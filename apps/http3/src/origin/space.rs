//! Reserves disk space for active requests, because the free space that a file system reports
//! doesn't account for bytes that have yet to arrive.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use crate::root::file_stat;

/// Promised bytes per device.
#[derive(Debug, Default)]
pub(super) struct Space(Mutex<BTreeMap<u64, u64>>);

/// Space promised to one file. Dropping it frees the space for others.
#[derive(Debug)]
pub(super) struct Promise {
    space: Arc<Space>,
    device: u64,
    left: u64,
}

impl Space {
    /// Promises `bytes` on the device of `file`. Returns `None` if they exceed the free space
    /// that is not yet promised.
    pub(super) fn promise(
        self: &Arc<Self>,
        file: &File,
        bytes: u64,
    ) -> io::Result<Option<Promise>> {
        let device = file_stat(file)?.device;
        let free = || {
            let space = rustix::fs::fstatvfs(file)?;
            Ok::<_, io::Error>(space.f_bavail.saturating_mul(space.f_frsize))
        };
        let free = free()?;
        Ok(self.take(device, free, bytes))
    }

    fn take(self: &Arc<Self>, device: u64, free: u64, bytes: u64) -> Option<Promise> {
        let mut promised = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let sum = promised.entry(device).or_default();
        let more = sum.saturating_add(bytes);
        // An empty file needs no space.
        if bytes > 0 && more > free {
            return None;
        }
        *sum = more;
        Some(Promise {
            space: Arc::clone(self),
            device,
            left: bytes,
        })
    }
}

impl Promise {
    /// Records the arrival of bytes, which the file system accounts for from now on.
    pub(super) fn spend(&mut self, bytes: u64) {
        let spent = bytes.min(self.left);
        self.left -= spent;
        let mut promised = self.space.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sum) = promised.get_mut(&self.device) {
            *sum = sum.saturating_sub(spent);
        }
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.spend(self.left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_is_promised_once() {
        let space = Arc::new(Space::default());
        let mut first = space.take(1, 100, 60).unwrap();
        assert!(space.take(1, 100, 41).is_none());
        assert!(space.take(2, 100, 41).is_some(), "another disk");
        // After 60 bytes have arrived, the file system has 40 left.
        first.spend(60);
        assert!(space.take(1, 40, 41).is_none());
        assert!(space.take(1, 40, 40).is_some());
        drop(first);
        assert!(space.take(1, 0, 0).is_some());
        let file = tempfile::tempfile().unwrap();
        assert!(space.promise(&file, 1).unwrap().is_some());
        assert!(space.promise(&file, u64::MAX).unwrap().is_none());
    }
}
