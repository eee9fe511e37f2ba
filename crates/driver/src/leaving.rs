//! The end of a connection, from the perspective of the process that closed it.

use super::connection::Connection;

impl Connection {
    /// Returns true once this side has closed the connection and built a packet with
    /// CONNECTION_CLOSE, which is sent immediately. By waiting for this before it exits, a process
    /// saves its peer from waiting for the idle timeout.
    pub fn has_sent_close(&self) -> bool {
        self.shared().lock().core.has_sent_close()
    }
}
