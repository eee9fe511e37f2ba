//! Encoding of transport parameters.

use core::time::Duration;

use super::{TransportParameters, id};
use crate::wire::{WriteError, Writer, varint};

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
