//! Authentication of the handshake's connection ids by transport parameters (RFC 9000 §7.3).

use super::TransportParameters;
use crate::wire::error::{TransportError, TransportErrorCode};
use crate::wire::{ConnectionId, Side};

/// The connection ids that an endpoint received and sent during the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandshakeIds {
    /// Source connection id of the peer's first Initial.
    pub initial_source: ConnectionId,
    /// For a client: destination connection id of its very first Initial, before any Retry.
    pub original_destination: ConnectionId,
    /// For a client: source connection id of the Retry that it accepted.
    pub retry_source: Option<ConnectionId>,
}

impl TransportParameters {
    /// Checks the connection ids in the parameters of the peer, in the role of `sender`,
    /// against those in its packets.
    ///
    /// # Errors
    /// TRANSPORT_PARAMETER_ERROR if one is missing, unexpected, or different.
    pub fn authenticate(&self, sender: Side, seen: &HandshakeIds) -> Result<(), TransportError> {
        let wrong = |reason| {
            Err(TransportError::new(
                TransportErrorCode::TRANSPORT_PARAMETER_ERROR,
                reason,
            ))
        };
        // [9000 7.3 ids-match] [9000 7.3 ids-present]
        if self.initial_source_connection_id != Some(seen.initial_source) {
            return wrong("initial_source_connection_id is not that of the packets");
        }
        if sender.is_client() {
            return Ok(());
        }
        if self.original_destination_connection_id != Some(seen.original_destination) {
            return wrong("original_destination_connection_id is not the one we chose");
        }
        if self.retry_source_connection_id != seen.retry_source {
            return wrong("retry_source_connection_id is not that of the Retry");
        }
        // [9000 18.2 preferred-with-id]
        if self.preferred_address.is_some() && seen.initial_source.is_empty() {
            return wrong("preferred_address of a server whose connection id has length zero");
        }
        Ok(())
    }
}
