//! Reads a packet's fields for a port's law.

use pathmark_cc::{Carried, VcpCarried, VcpCode};
use pathmark_shim::ip::Layout;

use crate::{ecn, header::Packet};

/// Reads the shim in front of a UDP payload. Returns [`Carried::Foreign`] if there is no valid
/// VCP shim, or its code is 0.
#[inline]
pub fn from_payload(payload: &[u8]) -> Carried {
    match Packet::parse(payload) {
        Ok(packet) => from_packet(&packet),
        Err(_) => Carried::Foreign,
    }
}

/// Reads a valid shim. Returns [`Carried::Foreign`] if its code is 0.
#[inline]
pub fn from_packet(packet: &Packet<'_>) -> Carried {
    match packet.code() {
        VcpCode::None => Carried::Foreign,
        code => Carried::Vcp(VcpCarried {
            code,
            min_rtt: packet.min_rtt(),
            bise: packet.bise(),
            carries_r: packet.carries_r(),
        }),
    }
}

/// Reads the ECN field of a packet that is known to use it for VCP. Returns [`Carried::Foreign`]
/// if it is 00.
#[inline]
pub fn from_ecn(bytes: &[u8], ip: &Layout) -> Carried {
    match ecn::read(bytes, ip) {
        VcpCode::None => Carried::Foreign,
        code => Carried::Vcp(VcpCarried {
            code,
            min_rtt: None,
            bise: false,
            carries_r: false,
        }),
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::Repr;

    fn repr() -> Repr {
        Repr {
            code: VcpCode::High,
            bise: true,
            carries_r: true,
            translated: false,
            corruption: 0,
            hops: 1,
            router: 7,
            r: 99,
            t_rho_ms: 200,
            load_128: 110,
            rtt_class: 5,
        }
    }

    #[test]
    fn a_shim_is_read() {
        let expected = VcpCarried {
            code: VcpCode::High,
            min_rtt: Some(Duration::from_micros(200)),
            bise: true,
            carries_r: true,
        };
        assert_eq!(from_payload(&repr().emit()), Carried::Vcp(expected));
    }

    #[test]
    fn code_0_damage_and_others_are_foreign() {
        let none = Repr {
            code: VcpCode::None,
            ..repr()
        };
        assert_eq!(from_payload(&none.emit()), Carried::Foreign);
        let mut damaged = repr().emit();
        damaged[12] ^= 1;
        assert_eq!(from_payload(&damaged), Carried::Foreign);
        assert_eq!(from_payload(&[0x40; 1200]), Carried::Foreign);
        assert_eq!(from_payload(&[]), Carried::Foreign);
    }
}
