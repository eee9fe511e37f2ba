//! Wake-ups of a thread that waits for descriptors: bytes in a pair of sockets.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

/// Writes one byte, which makes the other end readable.
pub(super) fn wake(mut waker: &UnixStream) {
    // An error means a full buffer, with a wake-up pending already, or that the other end is gone.
    let _ = waker.write(&[1]);
}

/// Reads away pending wake-ups.
pub(super) fn clear(mut waker: &UnixStream) {
    let mut bytes = [0; 16];
    while matches!(waker.read(&mut bytes), Ok(1..)) {}
}
