//! The end of a connection as the process that closed it sees it.

use super::connection::Connection;

impl Connection {
    /// True once this side has closed the connection and a packet with CONNECTION_CLOSE was built,
    /// which leaves at once. A process that waits for this before it exits spares its peer the idle
    /// timeout.
    pub fn has_sent_close(&self) -> bool {
        self.shared().lock().core.has_sent_close()
    }
}
