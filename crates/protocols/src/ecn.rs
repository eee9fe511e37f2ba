//! VCP's code in the IP ECN field.

use pathmark_cc::{Answer, Carried, VcpCarried, VcpCode};
use pathmark_shim::ip::Layout;

/// Reads the code from the two bits of an ECN field. A field without a code is foreign, because the
/// field has no room for anything else.
pub fn read(bits: u8) -> Carried {
    match VcpCode::from_bits(bits) {
        VcpCode::None => Carried::Foreign,
        code => Carried::Vcp(VcpCarried {
            code,
            ..VcpCarried::default()
        }),
    }
}

/// Returns the two bits of the field after a port's answer, taking the higher code. A field without
/// a code doesn't change.
pub fn marked(bits: u8, answer: &Answer) -> u8 {
    match (VcpCode::from_bits(bits), answer) {
        (VcpCode::None, _) => bits & 3,
        (found, Answer::Vcp(answer)) => found.max(answer.code) as u8,
        _ => bits & 3,
    }
}

/// Reads the code from the ECN field of an IP packet.
#[inline]
pub fn read_packet(bytes: &[u8], layout: &Layout) -> Carried {
    vcp_proto::mark::from_ecn(bytes, layout)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pathmark_cc::VcpAnswer;

    #[test]
    fn codes_only_rise_and_a_field_without_one_stays() {
        let answer = |code| {
            Answer::Vcp(VcpAnswer {
                code,
                ..VcpAnswer::default()
            })
        };
        assert_eq!(read(0), Carried::Foreign);
        assert_eq!(marked(0, &answer(VcpCode::Over)), 0);
        assert_eq!(marked(1, &answer(VcpCode::High)), 2);
        assert_eq!(marked(3, &answer(VcpCode::Low)), 3);
        assert_eq!(marked(2, &Answer::None), 2);
        let Carried::Vcp(carried) = read(3) else {
            panic!("a code")
        };
        assert_eq!(carried.code, VcpCode::Over);
    }
}
