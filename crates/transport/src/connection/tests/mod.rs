//! Pairs of whole connections, over links with a virtual clock.

mod acks;
mod ahead;
mod bad_peers;
mod closing;
mod datagrams;
mod ecn;
mod ending;
mod feedback;
pub(crate) mod fixed_window;
mod floods;
mod followed;
mod fuzz_live;
mod gaps;
mod handshake;
mod handshake_probes;
mod ids;
pub(crate) mod inject;
mod key_update;
mod lies;
mod limits;
mod link;
mod little_credit;
mod long_headers;
mod long_silences;
mod memory;
mod mtu;
mod no_parameters;
mod odd_configurations;
mod one_after_the_other;
mod outage;
mod pair;
mod paths;
mod probed;
pub(crate) mod questions;
mod recovery;
mod reports;
mod rules;
mod sealed;
mod setup;
pub(crate) mod signal;
mod small_datagrams;
mod starts;
mod streams;
#[cfg(feature = "rustls")]
mod tls;
mod traced;
mod turns;
mod warm_return;
mod window_limited;
#[cfg(feature = "rustls")]
mod zero_rtt;

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use pathmark_cc::{Algorithm, Controller, Countable, Explicit, Feedback, Request, VcpFeedback};

use self::fixed_window::{ControllerLog, fixed_window};
use self::inject::{
    From, first_packet, frames, packet, packet_from, packets, sealed, send, send_frames, types,
};
use self::link::{Datagram, Faults, Rng};
use self::pair::{CLIENT, Host, Pair, SERVER, Setup, drain, pattern};
use self::signal::{LEN, TestSignal, counters, mark};
use crate::config::{ControllerFactory, TransportConfig};
use crate::connection::{Connection, ConnectionError, Event, Received, ServerStart};
use crate::crypto::null::{NullCrypto, NullEndpointKey};
use crate::crypto::{ClientCrypto, InitialCrypto, Random, ResetToken, ServerCrypto};
use crate::path::EcnState;
use crate::streams::{ReadError, ReceiveMemory, WriteError};
use crate::wire::frame::{AckFrequency, Crypto, ResetStream, StopSending, Stream};
use crate::wire::packet::{encode_retry, version};
use crate::wire::{
    ConnectionId, Dir, Frame, PacketType, PartialDecode, Side, SpaceId, StreamId,
    TransportErrorCode as Code, Writer,
};
use crate::{BadFeedback, Counters, Duration, Ecn, Instant, Meter, Signal};
