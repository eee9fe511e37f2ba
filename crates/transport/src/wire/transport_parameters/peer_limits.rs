//! The peer's limits. A client remembers those of its server for early data (RFC 9000 §7.4.1).

use super::TransportParameters;

/// The peer's limits, from its transport parameters (RFC 9000 §18.2). Local and remote are meant
/// from the peer's viewpoint: the peer opens the "local" streams.
///
/// Those of an earlier connection limit early data. A server that accepts early data must not have
/// lowered them since. No other parameters are remembered for data, in particular not
/// `explicit_feedback`: until the new handshake has negotiated it, it is used for at most one
/// question for a starting rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerLimits {
    /// `initial_max_data`, bytes.
    pub max_data: u64,
    /// `initial_max_stream_data_bidi_local`, bytes.
    pub max_stream_data_bidi_local: u64,
    /// `initial_max_stream_data_bidi_remote`, bytes.
    pub max_stream_data_bidi_remote: u64,
    /// `initial_max_stream_data_uni`, bytes.
    pub max_stream_data_uni: u64,
    /// `initial_max_streams_bidi`.
    pub max_streams_bidi: u64,
    /// `initial_max_streams_uni`.
    pub max_streams_uni: u64,
    /// `active_connection_id_limit`.
    pub active_connection_ids: u64,
    /// `max_datagram_frame_size`, bytes (RFC 9221 §3).
    pub max_datagram_frame_size: u64,
}

// [9000 7.4.1 fresh-values] [9000 7.4.1 remembered]
impl From<&TransportParameters> for PeerLimits {
    fn from(parameters: &TransportParameters) -> Self {
        Self {
            max_data: parameters.initial_max_data,
            max_stream_data_bidi_local: parameters.initial_max_stream_data_bidi_local,
            max_stream_data_bidi_remote: parameters.initial_max_stream_data_bidi_remote,
            max_stream_data_uni: parameters.initial_max_stream_data_uni,
            max_streams_bidi: parameters.initial_max_streams_bidi,
            max_streams_uni: parameters.initial_max_streams_uni,
            active_connection_ids: parameters.active_connection_id_limit,
            max_datagram_frame_size: parameters.max_datagram_frame_size,
        }
    }
}

impl PeerLimits {
    const fn values(&self) -> [u64; 8] {
        [
            self.max_data,
            self.max_stream_data_bidi_local,
            self.max_stream_data_bidi_remote,
            self.max_stream_data_uni,
            self.max_streams_bidi,
            self.max_streams_uni,
            self.active_connection_ids,
            self.max_datagram_frame_size,
        ]
    }

    /// Returns true if data that respects `other` respects these limits as well.
    pub fn include(&self, other: &Self) -> bool {
        let mut pairs = self.values().into_iter().zip(other.values());
        pairs.all(|(these, others)| these >= others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The list of RFC 9000 §7.4.1, and the one of RFC 9221 §3.
    #[test]
    fn none_may_be_lowered_and_all_others_may_change() {
        // [9000 7.4.1 fresh-values] [9000 7.4.1 remembered]
        type Change = fn(&mut TransportParameters, u64);
        let before = TransportParameters {
            initial_max_data: 10,
            initial_max_stream_data_bidi_local: 10,
            initial_max_stream_data_bidi_remote: 10,
            initial_max_stream_data_uni: 10,
            initial_max_streams_bidi: 10,
            initial_max_streams_uni: 10,
            active_connection_id_limit: 10,
            max_datagram_frame_size: 10,
            ..TransportParameters::DEFAULT
        };
        let limits: [Change; 8] = [
            |p, v| p.initial_max_data = v,
            |p, v| p.initial_max_stream_data_bidi_local = v,
            |p, v| p.initial_max_stream_data_bidi_remote = v,
            |p, v| p.initial_max_stream_data_uni = v,
            |p, v| p.initial_max_streams_bidi = v,
            |p, v| p.initial_max_streams_uni = v,
            |p, v| p.active_connection_id_limit = v,
            |p, v| p.max_datagram_frame_size = v,
        ];
        let remembered = PeerLimits::from(&before);
        for change in limits {
            for (value, fits) in [(9, false), (10, true), (11, true)] {
                let mut now = before.clone();
                change(&mut now, value);
                assert_eq!(PeerLimits::from(&now).include(&remembered), fits);
            }
        }
        let mut now = before;
        now.max_idle_timeout = core::time::Duration::from_secs(1);
        now.max_udp_payload_size = 1200;
        now.explicit_feedback = Some(super::super::SignalKinds::new(&[1]).unwrap());
        assert_eq!(PeerLimits::from(&now), remembered);
    }
}
