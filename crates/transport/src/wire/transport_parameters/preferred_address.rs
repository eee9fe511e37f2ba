//! The preferred_address parameter (RFC 9000 §9.6, figure 22).

use core::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};

use crate::wire::cid::ConnectionId;
use crate::wire::frame::ResetToken;
use crate::wire::{Reader, UnexpectedEnd, WriteError, Writer};

/// The address that a server prefers, and the connection id (sequence number 1) for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreferredAddress {
    /// IPv4 address, if any.
    pub v4: Option<SocketAddrV4>,
    /// IPv6 address, if any.
    pub v6: Option<SocketAddrV6>,
    /// 1 to 20 bytes.
    pub connection_id: ConnectionId,
    /// Stateless reset token for this connection id.
    pub reset_token: ResetToken,
}

impl PreferredAddress {
    /// Decodes the value. Returns `None` if the connection id is empty or too long.
    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Option<Self>, UnexpectedEnd> {
        let v4 = (Ipv4Addr::from(r.get_array::<4>()?), r.get_u16()?);
        let v6 = (Ipv6Addr::from(r.get_array::<16>()?), r.get_u16()?);
        let n = usize::from(r.get_u8()?);
        let connection_id = ConnectionId::new(r.get_slice(n)?);
        let reset_token = r.get_array()?;
        let Some(connection_id) = connection_id.ok().filter(|id| !id.is_empty()) else {
            return Ok(None);
        };
        // All zeros mean that there is no address of this family.
        let absent = |zero: bool, port: u16| zero && port == 0;
        Ok(Some(Self {
            v4: (!absent(v4.0.is_unspecified(), v4.1)).then(|| SocketAddrV4::new(v4.0, v4.1)),
            v6: (!absent(v6.0.is_unspecified(), v6.1)).then(|| SocketAddrV6::new(v6.0, v6.1, 0, 0)),
            connection_id,
            reset_token,
        }))
    }

    pub(super) const fn len(&self) -> usize {
        4 + 2 + 16 + 2 + 1 + self.connection_id.len() + 16
    }

    pub(super) fn encode(&self, w: &mut Writer<'_>) -> Result<(), WriteError> {
        let v4 = self
            .v4
            .map_or((Ipv4Addr::UNSPECIFIED, 0), |a| (*a.ip(), a.port()));
        let v6 = self
            .v6
            .map_or((Ipv6Addr::UNSPECIFIED, 0), |a| (*a.ip(), a.port()));
        w.put_slice(&v4.0.octets())?;
        w.put_u16(v4.1)?;
        w.put_slice(&v6.0.octets())?;
        w.put_u16(v6.1)?;
        crate::wire::packet::put_id(w, self.connection_id.as_slice())?;
        w.put_slice(&self.reset_token)
    }
}
