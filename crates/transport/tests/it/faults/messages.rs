//! Unreliable datagrams in both directions: each must arrive as it was sent, and only once.

use std::collections::BTreeSet;

use pathmark_transport::Connection;

use super::applications::byte;

/// Largest tested length in bytes, which exceeds some paths' MTU.
const LONGEST: u32 = 1400;
/// Bytes that contain the datagram's number.
const INDEX: usize = 4;

/// The datagrams that one end sends and has received.
#[derive(Debug)]
pub(crate) struct Messages {
    side: usize,
    /// Number of datagrams that this end and the other must send.
    totals: [u32; 2],
    sent: u32,
    got: BTreeSet<u32>,
}

/// Returns datagram `index` of `side`, with up to `longest` bytes.
fn content(side: usize, index: u32, longest: usize) -> Vec<u8> {
    let len = (index.wrapping_mul(0x9e37_79b9) >> 8) % LONGEST;
    let len = (len as usize).min(longest).max(INDEX);
    let mut bytes = index.to_be_bytes().to_vec();
    bytes.extend((INDEX..len).map(|at| byte(side, index as usize, at as u64)));
    bytes
}

impl Messages {
    pub(crate) fn new(counts: [u32; 2], side: usize) -> Self {
        Self {
            side,
            totals: [counts[side], counts[1 - side]],
            sent: 0,
            got: BTreeSet::new(),
        }
    }

    /// Returns how many have arrived.
    pub(crate) fn arrived(&self) -> u64 {
        self.got.len() as u64
    }

    /// Sends as many datagrams as possible, and reads those that have arrived.
    ///
    /// # Errors
    /// A datagram that differs from the one sent, or that arrived twice.
    pub(crate) fn run(&mut self, connection: &mut Connection) -> Result<(), String> {
        // Only a few at a time, so that they are sent between streams and after incidents.
        for _ in 0..3 {
            let Some(longest) = connection
                .datagrams()
                .max_size()
                .filter(|max| *max >= INDEX)
            else {
                break;
            };
            if self.sent == self.totals[0] {
                break;
            }
            let data = content(self.side, self.sent, longest);
            let sent = connection.datagrams().send(data.into());
            sent.map_err(|error| error.to_string())?;
            self.sent += 1;
        }
        while let Some(data) = connection.datagrams().read() {
            let index = data.first_chunk().map(|bytes| u32::from_be_bytes(*bytes));
            let index = index.ok_or("a datagram without its number")?;
            if index >= self.totals[1] || *data != content(1 - self.side, index, data.len()) {
                return Err(format!("corrupt: datagram {index}"));
            }
            if !self.got.insert(index) {
                return Err(format!("datagram {index} came twice"));
            }
        }
        Ok(())
    }
}
