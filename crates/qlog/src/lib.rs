//! Logs of connections in the format qlog, which qvis and other tools can draw.
//!
//! [`Directory`] writes a file for each connection:
//!
//! ```no_run
//! # fn configure(config: &mut pathmark_transport::TransportConfig) -> std::io::Result<()> {
//! let logs = pathmark_qlog::Directory::create("logs")?;
//! config.trace = Some(logs.factory());
//! // Connections run here. Before the program ends, wait until all is written:
//! logs.flush();
//! # Ok(())
//! # }
//! ```
//!
//! A file is a sequence of JSON texts (RFC 7464), as in draft-ietf-quic-qlog-main-schema-13. Its
//! events are those of draft-ietf-quic-qlog-quic-events-12, and the three of `pathmark`:
//!
//! | name | data |
//! |---|---|
//! | `pathmark:controller_updated` | `law` that controls the window from now on, and the reason (`fallback`) if routers don't although it asks them |
//! | `pathmark:feedback_received` | `protocol`, and what routers wrote into packets since the last such event |
//! | `pathmark:report` | each second and at the end: `controllers`, `bounded_by` and others as in the JSON of the commands, and counters |
//!
//! Logs contain sizes, numbers and times of packets, but no data of applications, no keys and no
//! addresses.
//!
//! [`Encoder`] creates the bytes without I/O, also in an emulator's virtual time.

#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]

mod directory;
mod encoder;
mod event;
mod read;

pub use directory::{Directory, Limits};
pub use encoder::Encoder;
pub use read::{LogError, Record, read};
