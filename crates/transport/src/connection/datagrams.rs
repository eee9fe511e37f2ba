//! Unreliable datagrams between their queues, packets and the application (RFC 9221).

use bytes::Bytes;

use super::Connection;
use crate::datagrams::DatagramError;

impl Connection {
    /// The longest datagram that can be sent now, bytes: by the path's MTU, what stands in front of
    /// its packets, and the peer's limit. It changes with the path. `None`: the peer takes none, or
    /// its parameters have not arrived.
    #[must_use]
    pub fn max_datagram_size(&self) -> Option<usize> {
        self.sources.max_datagram_size(self.paths.path())
    }

    /// Queues an unreliable datagram, which leaves once the window allows and is never sent again.
    /// Where the queue is full its oldest are dropped and counted
    /// ([`Stats::datagram_frames_unsent`](super::Stats::datagram_frames_unsent)).
    ///
    /// # Errors
    /// [`DatagramError`].
    pub fn send_datagram(&mut self, data: Bytes) -> Result<(), DatagramError> {
        self.sources.check_datagram(self.paths.path(), data.len())?;
        if self.lifecycle.is_open() {
            self.sources.datagrams.send(data);
        }
        Ok(())
    }

    /// The same without dropping: false if there is no room in the queue, and
    /// [`Event::DatagramRoom`] says when to try again.
    ///
    /// # Errors
    /// [`DatagramError`].
    pub fn try_send_datagram(&mut self, data: &Bytes) -> Result<bool, DatagramError> {
        self.sources.check_datagram(self.paths.path(), data.len())?;
        Ok(!self.lifecycle.is_open() || self.sources.datagrams.try_send(data))
    }

    /// Bytes of one more datagram for which none in the queue has to be dropped.
    #[must_use]
    pub const fn datagram_send_room(&self) -> usize {
        self.sources.datagrams.send_room()
    }

    /// The oldest datagram that arrived and was not read. After `None`,
    /// [`Event::DatagramReceived`] says when to ask again.
    pub fn read_datagram(&mut self) -> Option<Bytes> {
        self.sources.read_datagram()
    }
}
