//! Moving files over a connection: the `pathmark-file` application protocol.
//!
//! ```text
//!   get:  client ── request (name, offset, law) ──►  server
//!         client ◄── answer (size, law) · bytes from offset · SHA-256 of the whole file · report ── server
//!   put:  client ── request (name, size, overwrite) · bytes · SHA-256 ──►  server
//!         client ◄── answer (stored) ── server
//! ```
//!
//! Each file travels on a bidirectional stream of its own. Requests and answers are JSON behind a
//! 4-byte length. A file appears under its name only when its hash is right ([`incoming`]), so no
//! reader sees a half-written file. A `get` that broke off goes on where it stopped. An unfinished
//! file has one writer at a time. Success is reported after the file under the name was read back.
//! The server's operator lists its laws: clients choose among them, and store files only where that
//! is allowed ([`server`]).

pub mod client;
pub mod incoming;
pub mod protocol;
pub mod receive;
pub mod report;
pub mod send;
pub mod server;
pub mod source;
pub mod store;

/// The application protocol's name in TLS (ALPN).
pub const ALPN: &[u8] = b"pathmark-file";
