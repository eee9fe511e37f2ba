//! Encoding, decoding and validation of transport parameters.

use core::time::Duration;

use super::{BadKinds, PreferredAddress, SignalKinds, TransportParameters, id};
use crate::wire::{ConnectionId, IdTooLong};
use crate::wire::{
    Reader, Side, StreamId, TransportError, TransportErrorCode, UnexpectedEnd, WriteError, Writer,
    varint,
};

/// A reserved parameter, which receivers ignore (RFC 9000 §18.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grease {
    /// Any number, from which the id is derived.
    pub entropy: u64,
    /// Its value.
    pub value: [u8; 8],
    /// Number of bytes of the value that are written; at most 8.
    pub len: u8,
}

impl Grease {
    /// Returns its id, 31 N + 27.
    pub const fn id(&self) -> u64 {
        // The largest N for which the id is a varint.
        const N: u64 = (varint::MAX - 27) / 31;
        self.entropy % (N + 1) * 31 + 27
    }
}

impl TransportParameters {
    /// Size of a buffer that is sufficient for any parameters.
    pub const MAX_ENCODED_LEN: usize = 512;

    /// Writes the parameters that differ from their defaults, with `grease` last.
    ///
    /// # Errors
    /// [`WriteError`], with nothing written: no room (see
    /// [`MAX_ENCODED_LEN`](Self::MAX_ENCODED_LEN)), or a value above 2^62 − 1.
    pub fn encode(&self, w: &mut Writer<'_>, grease: Option<&Grease>) -> Result<(), WriteError> {
        w.all_or_nothing(|w| {
            self.numbers(w)?;
            self.others(w)?;
            if let Some(grease) = grease {
                let value = grease.value.get(..usize::from(grease.len));
                bytes(w, grease.id(), value.unwrap_or(&grease.value))?;
            }
            Ok(())
        })
    }

    /// Encodes the parameters into a vector, once per connection.
    ///
    /// # Errors
    /// [`WriteError::Value`] for a value above 2^62 − 1.
    // [9000 7.4 once]
    pub fn to_vec(&self, grease: Option<&Grease>) -> Result<Vec<u8>, WriteError> {
        let mut buffer = [0; Self::MAX_ENCODED_LEN];
        let mut w = Writer::new(&mut buffer);
        self.encode(&mut w, grease)?;
        Ok(w.written().to_vec())
    }

    fn numbers(&self, w: &mut Writer<'_>) -> Result<(), WriteError> {
        let default = Self::DEFAULT;
        for (id, value, default) in [
            (
                id::MAX_IDLE_TIMEOUT,
                millis(self.max_idle_timeout),
                millis(default.max_idle_timeout),
            ),
            (
                id::MAX_UDP_PAYLOAD_SIZE,
                self.max_udp_payload_size,
                default.max_udp_payload_size,
            ),
            (id::INITIAL_MAX_DATA, self.initial_max_data, 0),
            (
                id::INITIAL_MAX_STREAM_DATA_BIDI_LOCAL,
                self.initial_max_stream_data_bidi_local,
                0,
            ),
            (
                id::INITIAL_MAX_STREAM_DATA_BIDI_REMOTE,
                self.initial_max_stream_data_bidi_remote,
                0,
            ),
            (
                id::INITIAL_MAX_STREAM_DATA_UNI,
                self.initial_max_stream_data_uni,
                0,
            ),
            (
                id::INITIAL_MAX_STREAMS_BIDI,
                self.initial_max_streams_bidi,
                0,
            ),
            (id::INITIAL_MAX_STREAMS_UNI, self.initial_max_streams_uni, 0),
            (
                id::ACK_DELAY_EXPONENT,
                u64::from(self.ack_delay_exponent),
                u64::from(default.ack_delay_exponent),
            ),
            (
                id::MAX_ACK_DELAY,
                millis(self.max_ack_delay),
                millis(default.max_ack_delay),
            ),
            (
                id::ACTIVE_CONNECTION_ID_LIMIT,
                self.active_connection_id_limit,
                default.active_connection_id_limit,
            ),
            (id::MAX_DATAGRAM_FRAME_SIZE, self.max_datagram_frame_size, 0),
        ] {
            if value != default {
                number(w, id, value)?;
            }
        }
        self.min_ack_delay.map_or(Ok(()), |delay| {
            let micros = u64::try_from(delay.as_micros()).unwrap_or(u64::MAX);
            number(w, id::MIN_ACK_DELAY, micros)
        })
    }

    fn others(&self, w: &mut Writer<'_>) -> Result<(), WriteError> {
        for (id, value) in [
            (
                id::ORIGINAL_DESTINATION_CONNECTION_ID,
                &self.original_destination_connection_id,
            ),
            (
                id::INITIAL_SOURCE_CONNECTION_ID,
                &self.initial_source_connection_id,
            ),
            (
                id::RETRY_SOURCE_CONNECTION_ID,
                &self.retry_source_connection_id,
            ),
        ] {
            if let Some(value) = value {
                bytes(w, id, value.as_slice())?;
            }
        }
        if let Some(token) = &self.stateless_reset_token {
            bytes(w, id::STATELESS_RESET_TOKEN, token)?;
        }
        if self.disable_active_migration {
            bytes(w, id::DISABLE_ACTIVE_MIGRATION, &[])?;
        }
        if let Some(address) = &self.preferred_address {
            w.put_varint(id::PREFERRED_ADDRESS)?;
            w.put_varint(address.len() as u64)?;
            address.encode(w)?;
        }
        if self.grease_quic_bit {
            bytes(w, id::GREASE_QUIC_BIT, &[])?;
        }
        if let Some(kinds) = &self.explicit_feedback {
            bytes(w, id::EXPLICIT_FEEDBACK, kinds.as_slice())?;
        }
        Ok(())
    }
}

fn number(w: &mut Writer<'_>, id: u64, value: u64) -> Result<(), WriteError> {
    w.put_varint(id)?;
    w.put_varint(varint::len(value) as u64)?;
    w.put_varint(value)
}

fn bytes(w: &mut Writer<'_>, id: u64, value: &[u8]) -> Result<(), WriteError> {
    w.put_varint(id)?;
    w.put_prefixed(value)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Invalid transport parameters, because of which the connection must be closed with
/// TRANSPORT_PARAMETER_ERROR.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParameterError {
    /// The parameters, or a value, are incomplete.
    #[error("transport parameters end inside a parameter")]
    Truncated,
    /// A duplicate parameter.
    #[error("transport parameter {0:#x} twice")]
    Twice(u64),
    /// A value with bytes left over.
    #[error("transport parameter {0:#x} is longer than its value")]
    Trailing(u64),
    /// A value out of range.
    #[error("transport parameter {0:#x} is out of range")]
    Range(u64),
    /// A client sent a parameter that only servers may send.
    #[error("transport parameter {0:#x} from a client")]
    FromClient(u64),
    /// A connection id of more than 20 bytes.
    #[error(transparent)]
    ConnectionId(#[from] IdTooLong),
    /// An invalid list of signal kinds.
    #[error(transparent)]
    Kinds(#[from] BadKinds),
}

impl From<UnexpectedEnd> for ParameterError {
    fn from(_: UnexpectedEnd) -> Self {
        Self::Truncated
    }
}

impl From<ParameterError> for TransportError {
    fn from(error: ParameterError) -> Self {
        Self::new(
            // [9000 7.4 invalid-value]
            TransportErrorCode::TRANSPORT_PARAMETER_ERROR,
            error.to_string(),
        )
    }
}

impl TransportParameters {
    /// Decodes the parameters of a peer in the role of `sender`. Unknown parameters are
    /// ignored. Connection ids are checked separately, by [`authenticate`](Self::authenticate).
    ///
    /// # Errors
    /// [`ParameterError`], which is a TRANSPORT_PARAMETER_ERROR.
    pub fn decode(bytes: &[u8], sender: Side) -> Result<Self, ParameterError> {
        let mut parameters = Self::DEFAULT;
        let mut seen = Seen::default();
        let mut r = Reader::new(bytes);
        while !r.is_empty() {
            let id = r.get_varint()?;
            let value = Reader::new(r.get_prefixed()?);
            if !seen.insert(id) {
                return Err(ParameterError::Twice(id));
            }
            // [9000 18.2 server-only]
            if sender.is_client() && is_server_only(id) {
                return Err(ParameterError::FromClient(id));
            }
            parameters.read(id, value)?;
        }
        // The minimum delay must not exceed the maximum (draft-ietf-quic-ack-frequency §3).
        if parameters.min_ack_delay > Some(parameters.max_ack_delay) {
            return Err(ParameterError::Range(id::MIN_ACK_DELAY));
        }
        Ok(parameters)
    }

    fn read(&mut self, id: u64, mut r: Reader<'_>) -> Result<(), ParameterError> {
        let out_of_range = ParameterError::Range(id);
        match id {
            id::ORIGINAL_DESTINATION_CONNECTION_ID => {
                self.original_destination_connection_id = Some(connection_id(&mut r)?);
            }
            id::MAX_IDLE_TIMEOUT => self.max_idle_timeout = Duration::from_millis(r.get_varint()?),
            id::STATELESS_RESET_TOKEN => self.stateless_reset_token = Some(r.get_array()?),
            id::MAX_UDP_PAYLOAD_SIZE => match r.get_varint()? {
                0..1200 => return Err(out_of_range),
                size => self.max_udp_payload_size = size,
            },
            id::INITIAL_MAX_DATA => self.initial_max_data = r.get_varint()?,
            id::INITIAL_MAX_STREAM_DATA_BIDI_LOCAL => {
                self.initial_max_stream_data_bidi_local = r.get_varint()?;
            }
            id::INITIAL_MAX_STREAM_DATA_BIDI_REMOTE => {
                self.initial_max_stream_data_bidi_remote = r.get_varint()?;
            }
            id::INITIAL_MAX_STREAM_DATA_UNI => self.initial_max_stream_data_uni = r.get_varint()?,
            id::INITIAL_MAX_STREAMS_BIDI => match r.get_varint()? {
                // [9000 4.6 limit-too-large]
                count @ 0..=StreamId::MAX_STREAMS => self.initial_max_streams_bidi = count,
                _ => return Err(out_of_range),
            },
            id::INITIAL_MAX_STREAMS_UNI => match r.get_varint()? {
                count @ 0..=StreamId::MAX_STREAMS => self.initial_max_streams_uni = count,
                _ => return Err(out_of_range),
            },
            id::ACK_DELAY_EXPONENT => match u8::try_from(r.get_varint()?) {
                Ok(exponent @ 0..=20) => self.ack_delay_exponent = exponent,
                _ => return Err(out_of_range),
            },
            id::MAX_ACK_DELAY => match r.get_varint()? {
                millis @ 0..0x4000 => self.max_ack_delay = Duration::from_millis(millis),
                _ => return Err(out_of_range),
            },
            id::DISABLE_ACTIVE_MIGRATION => self.disable_active_migration = true,
            id::PREFERRED_ADDRESS => {
                let address = PreferredAddress::decode(&mut r)?;
                self.preferred_address = Some(address.ok_or(out_of_range)?);
            }
            id::ACTIVE_CONNECTION_ID_LIMIT => match r.get_varint()? {
                // [9000 18.2 two-ids]
                0 | 1 => return Err(out_of_range),
                limit => self.active_connection_id_limit = limit,
            },
            id::INITIAL_SOURCE_CONNECTION_ID => {
                self.initial_source_connection_id = Some(connection_id(&mut r)?);
            }
            id::RETRY_SOURCE_CONNECTION_ID => {
                self.retry_source_connection_id = Some(connection_id(&mut r)?);
            }
            id::MAX_DATAGRAM_FRAME_SIZE => self.max_datagram_frame_size = r.get_varint()?,
            id::MIN_ACK_DELAY => {
                self.min_ack_delay = Some(Duration::from_micros(r.get_varint()?));
            }
            id::GREASE_QUIC_BIT => self.grease_quic_bit = true,
            id::EXPLICIT_FEEDBACK => {
                self.explicit_feedback = Some(SignalKinds::new(r.take_rest())?);
            }
            // [9000 7.4.2 unknown-parameters]
            _ => return Ok(()),
        }
        if r.is_empty() {
            Ok(())
        } else {
            Err(ParameterError::Trailing(id))
        }
    }
}

const fn is_server_only(id: u64) -> bool {
    matches!(
        id,
        id::ORIGINAL_DESTINATION_CONNECTION_ID
            | id::STATELESS_RESET_TOKEN
            | id::PREFERRED_ADDRESS
            | id::RETRY_SOURCE_CONNECTION_ID
    )
}

fn connection_id(r: &mut Reader<'_>) -> Result<ConnectionId, IdTooLong> {
    ConnectionId::new(r.take_rest())
}

/// Ids seen so far, for detecting duplicates. All known ids are remembered, but unknown ids
/// only up to a bound. A duplicate among hundreds of unknown parameters is harmless, whereas
/// searching them all would be costly.
#[derive(Default)]
struct Seen {
    low: u64,
    others: [u64; Self::OTHERS],
    len: usize,
}

impl Seen {
    const OTHERS: usize = 32;

    /// Returns false if `id` was seen before.
    fn insert(&mut self, id: u64) -> bool {
        if let 0..64 = id {
            let bit = 1 << id;
            let new = self.low & bit == 0;
            self.low |= bit;
            return new;
        }
        let seen = self.others.get(..self.len).unwrap_or(&self.others);
        if seen.contains(&id) {
            return false;
        }
        // The last three places are reserved for known ids.
        let known = matches!(
            id,
            id::GREASE_QUIC_BIT | id::EXPLICIT_FEEDBACK | id::MIN_ACK_DELAY
        );
        let free = if known {
            Self::OTHERS
        } else {
            Self::OTHERS - 3
        };
        if self.len < free
            && let Some(place) = self.others.get_mut(self.len)
        {
            *place = id;
            self.len += 1;
        }
        true
    }
}
