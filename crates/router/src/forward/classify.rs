//! Which packets carry feedback, and writing it into them.

use pathmark_cc::{Answer, Arrival, Carried};
use pathmark_shim::ip::Layout;
use pathmark_shim::udp::{ChecksumState, Datagram};
use vcp_proto::{carried, ecn, mark};

use super::frame::{Carrier, Frame};
use crate::ip::Prefix;

/// Names packets whose ECN field carries VCP's code. Nothing else's ECN field is ever read or written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EcnRule {
    /// Their DSCP, if that tells them.
    pub dscp: Option<u8>,
    /// Their UDP source or destination port, if that tells them.
    pub port: Option<u16>,
    /// A prefix that holds their source or destination, if that tells them.
    pub prefix: Option<Prefix>,
}

impl EcnRule {
    fn matches(&self, bytes: &[u8], layout: &Layout) -> bool {
        let dscp = self
            .dscp
            .is_none_or(|dscp| layout.dscp(bytes) == Some(dscp));
        let port = || {
            self.port.is_none_or(|port| {
                Datagram::locate(bytes, layout)
                    .and_then(|udp| udp.ports(bytes))
                    .is_some_and(|(from, to)| from == port || to == port)
            })
        };
        let prefix = || {
            self.prefix.as_ref().is_none_or(|prefix| {
                let (from, to) = (layout.source(bytes), layout.destination(bytes));
                from.is_some_and(|a| prefix.contains(a)) || to.is_some_and(|a| prefix.contains(a))
            })
        };
        dscp && port() && prefix()
    }
}

/// Tells packets with feedback from foreign ones.
#[derive(Clone, Debug, Default)]
pub struct Classifier {
    /// Looks for shims in every UDP datagram. Switched off by operators who classify otherwise.
    pub shims: bool,
    /// Packets with VCP in the ECN field.
    pub ecn: Vec<EcnRule>,
    /// Seed of flow hashes.
    pub seed: u64,
}

impl Classifier {
    /// What a port needs to know of a packet, and where its feedback is. Of a super-packet it reads the first segment.
    #[inline]
    #[must_use]
    pub fn classify(&self, bytes: &[u8], layout: &Layout) -> (Arrival, Carrier) {
        let (carried, carrier) = self.carried(bytes, layout);
        let arrival = Arrival {
            bytes: u32::try_from(layout.len()).unwrap_or(u32::MAX),
            flow_hash: layout.flow_hash(bytes, self.seed),
            carried,
        };
        (arrival, carrier)
    }

    #[inline]
    fn carried(&self, bytes: &[u8], layout: &Layout) -> (Carried, Carrier) {
        if self.shims
            && let Some(udp) = Datagram::locate(bytes, layout)
        {
            let carried = carried::from_payload(udp.payload(bytes));
            if carried != Carried::Foreign {
                let payload = u16::try_from(udp.payload_offset()).unwrap_or(u16::MAX);
                return (carried, Carrier::Shim { payload });
            }
        }
        if self.ecn.iter().any(|rule| rule.matches(bytes, layout)) {
            let carried = carried::from_ecn(bytes, layout);
            if carried != Carried::Foreign {
                return (carried, Carrier::Ecn);
            }
        }
        (Carried::Foreign, Carrier::None)
    }
}

/// Writes a port's answer into a packet, or into segment `index` of a super-packet; `router` is this router's identity.
/// A segment without a sound shim is left alone.
#[inline]
pub fn write_answer(frame: &mut Frame, index: u32, answer: &Answer, router: u16) {
    let Answer::Vcp(answer) = answer else {
        return;
    };
    let size = frame.offload.gso.map_or(0, |gso| usize::from(gso.size));
    let offset = size * index as usize;
    let (carrier, partial) = (frame.carrier, frame.offload.checksum.is_some());
    let bytes = frame.bytes_mut();
    // `Untouched` is no error: there was nothing to mark after all.
    let _ = match carrier {
        Carrier::None => mark::Outcome::Untouched,
        // The checksum does not cover the payload yet: nothing else to renew.
        Carrier::Shim { payload } if partial => {
            let shim = bytes.get_mut(usize::from(payload) + offset..);
            mark::mark_payload(shim.unwrap_or(&mut []), answer, router)
        }
        Carrier::Shim { .. } => match located(bytes) {
            Some(udp) => {
                mark::mark_packet(bytes, &udp, offset, answer, router, ChecksumState::Complete)
            }
            None => mark::Outcome::Untouched,
        },
        Carrier::Ecn => match Layout::walk(bytes) {
            Ok(layout) => ecn::mark(bytes, &layout, answer.code),
            Err(_) => mark::Outcome::Untouched,
        },
    };
}

#[inline]
fn located(bytes: &[u8]) -> Option<Datagram> {
    Datagram::locate(bytes, &Layout::walk(bytes).ok()?)
}
