//! Wakes up a thread that waits for descriptors, by sending bytes through a pair of sockets.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

/// Writes one byte, which makes the other end readable.
pub(super) fn wake(mut waker: &UnixStream) {
    // An error means that the buffer is full, so that a wake-up is already pending, or that the
    // other end is gone.
    let _ = waker.write(&[1]);
}

/// Discards pending wake-ups.
pub(super) fn clear(mut waker: &UnixStream) {
    let mut bytes = [0; 16];
    while matches!(waker.read(&mut bytes), Ok(1..)) {}
}
