//! Which packets carry feedback, and writing it into them.

use pathmark_cc::{Answer, Arrival, Carried};
use pathmark_shim::ip::Layout;
use pathmark_shim::udp::Datagram;
use vcp_proto::{carried, ecn};
use xcp_proto::Identity;

use super::frame::{Carrier, Frame};
use super::shim;
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
    /// What a port needs to know of a packet, and where its feedback is.
    #[inline]
    #[must_use]
    pub fn classify(&self, bytes: &[u8], layout: &Layout) -> (Arrival, Carrier) {
        self.classify_first(bytes, layout, layout.len())
    }

    /// The same of the first segment of a super-packet, which is to be an IP packet of `packet` bytes.
    #[inline]
    #[must_use]
    pub fn classify_first(
        &self,
        bytes: &[u8],
        layout: &Layout,
        packet: usize,
    ) -> (Arrival, Carrier) {
        let (carried, carrier) = self.carried(bytes, layout, packet);
        let arrival = Arrival {
            bytes: u32::try_from(layout.len()).unwrap_or(u32::MAX),
            flow_hash: layout.flow_hash(bytes, self.seed),
            carried,
        };
        (arrival, carrier)
    }

    #[inline]
    fn carried(&self, bytes: &[u8], layout: &Layout, packet: usize) -> (Carried, Carrier) {
        if self.shims
            && let Some(udp) = Datagram::locate(bytes, layout)
        {
            let packet = u32::try_from(packet).unwrap_or(u32::MAX);
            let carried = shim::read(udp.payload(bytes), packet);
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

/// Writes a port's answer into a packet, or into segment `index` of a super-packet. A segment without a sound shim is
/// left alone.
#[inline]
pub fn write_answer(frame: &mut Frame, index: u32, answer: &Answer, router: &Identity) {
    let size = frame.offload.gso.map_or(0, |gso| usize::from(gso.size));
    let offset = size * index as usize;
    let (carrier, partial) = (frame.carrier, frame.offload.checksum.is_some());
    let bytes = frame.bytes_mut();
    // False is no error: there was nothing to write into after all.
    let _ = match carrier {
        Carrier::None => false,
        Carrier::Shim { payload } => {
            let payload = usize::from(payload);
            let rest = bytes.len().saturating_sub(payload + offset);
            let own = if size > 0 { rest.min(size) } else { rest };
            let packet = u32::try_from(payload + own).unwrap_or(u32::MAX);
            if partial {
                // The checksum does not cover the payload yet: nothing else to renew.
                let shim = bytes.get_mut(payload + offset..).unwrap_or(&mut []);
                shim::write(shim, answer, packet, router)
            } else {
                located(bytes).is_some_and(|udp| {
                    shim::write_packet(bytes, &udp, offset, answer, packet, router)
                })
            }
        }
        Carrier::Ecn => match (answer, Layout::walk(bytes)) {
            (Answer::Vcp(answer), Ok(layout)) => {
                ecn::mark(bytes, &layout, answer.code) == vcp_proto::mark::Outcome::Marked
            }
            _ => false,
        },
    };
}

#[inline]
fn located(bytes: &[u8]) -> Option<Datagram> {
    Datagram::locate(bytes, &Layout::walk(bytes).ok()?)
}
