//! Streams and flow control (RFC 9000 §2–4, §19.4–19.14), without I/O.
//!
//! ```text
//!  application ─write─► SendPart ─ SendBuffer ─► Turns ─► packet ─ SentFrames ─► acked, lost
//!                          ▲ room: SendAccount     ▲ credit: SendCredit, Opening
//!                          │ MAX_DATA, MAX_STREAM_DATA, MAX_STREAMS
//!                          │ promise: ReceiveWindow, Opening
//!  application ◄─read── RecvPart ─ Reassembly ◄── Receiving ◄── on_stream ◄─ packet
//! ```
//!
//! [`Streams`] combines the parts for one connection. Each part owns the state of one task that all
//! streams share, and receives the record of a stream, or all records, as an argument. No part
//! holds a clock or a packet. Instead, the contents of a packet are stored in a [`SentFrames`]
//! record, which the connection keeps and later returns. The memory that a peer can make the parts
//! hold is bounded by the limits promised to it; a stream that is done leaves nothing but counters.

mod account;
mod application;
mod config;
mod control;
mod error;
mod event;
mod flow;
mod frames;
mod limits;
mod memory;
mod opening;
mod ranges;
mod reassembly;
mod receiving;
mod record;
mod recv;
mod repeats;
mod schedule;
mod send;
mod send_buffer;
mod sent;
mod turns;

#[cfg(test)]
mod tests;

pub use crate::wire::transport_parameters::PeerLimits;
pub use crate::wire::{Dir, Side, StreamId};
pub use config::StreamsConfig;
pub use error::{ClosedStream, FinishError, OpenError, ReadError, WriteError};
pub use event::StreamEvent;
pub use flow::{CreditExceeded, ReceiveWindow, SendCredit};
pub use limits::{LocalStreams, RemoteStreams, StreamLimitExceeded};
pub use memory::ReceiveMemory;
pub use reassembly::Reassembly;
pub use recv::{RecvError, RecvPart, RecvState};
pub use schedule::Schedule;
pub use send::{Piece, SendPart, SendState};
pub use send_buffer::SendBuffer;
pub use sent::{AckedRun, SentFrames};

use account::SendAccount;
use control::Control;
use event::Events;
use opening::Opening;
use receiving::Receiving;
use record::Records;
use turns::Turns;

#[cfg(test)]
fn id(n: u64) -> StreamId {
    StreamId::from_u64(n).unwrap()
}

/// All streams of a connection.
///
/// You can freely mix the application's calls ([`open`](Self::open), [`write`](Self::write),
/// [`read`](Self::read), …) and the connection's ([`on_stream`](Self::on_stream),
/// [`write_frames`](Self::write_frames), [`gather_acked`](Self::gather_acked), …). After any of
/// these, call [`poll_event`](Self::poll_event) to learn about changes, and
/// [`wants_to_send`](Self::wants_to_send) to decide whether to build packets.
#[derive(Debug)]
pub struct Streams {
    pub(crate) opening: Opening,
    pub(crate) account: SendAccount,
    pub(crate) turns: Turns,
    pub(crate) receiving: Receiving,
    control: Control,
    records: Records,
    events: Events,
}
