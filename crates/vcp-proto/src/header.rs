//! The VCP shim: kind 0, 16 bytes.
//!
//! ```text
//!    0 … 3    4        5      6    7      8    9   10   11   12     13        14   15
//!   ┌────────┬────────┬──────┬─────────┬─────────┬─────────┬──────┬─────────┬─────────┐
//!   │ prefix │ccBRTkkk│ hops │ router  │ r       │ t_ρ     │ load │ min RTT │ check   │
//!   └────────┴────────┴──────┴─────────┴─────────┴─────────┴──────┴─────────┴─────────┘
//!   cc       code, 2 bits: 0 not VCP, 1 LOW, 2 HIGH, 3 OVER
//!   B        BISE: set by a sender that can follow a large ε, cleared by VCP routers without BISE
//!   R        r is carried: routers must lower r instead of mixing marks
//!   T        the named router runs another law, and translates its answer into VCP's terms
//!   k        class of the total loss by corruption that routers declare, 3 bits ([`corruption`])
//!   hops     hops that the machines of VCP routers subtracted from the IP TTL, saturating
//!   router   identity of the router with the highest load so far (ties: the later), or 0
//!   r        share of LOW in 2⁻¹⁶ (65 535 means 1): the minimum over BISE routers
//!   t_ρ      measuring interval in ms: the maximum over routers; 0 before the first
//!   load     of that router, in 1/128; only informative, not for control
//!   min RTT  of the sender, as a class of quarter octaves ([`crate::rtt_class`])
//! ```

use core::time::Duration;

use pathmark_cc::{Request, VcpCode};
use pathmark_shim::{FramingError, Kind, corruption, frame};

use crate::rtt_class;

/// Length of a VCP shim in bytes.
pub const LEN: usize = 16;

/// r as written by a sender, before a BISE router lowers it.
pub const R_ONE: u16 = u16::MAX;

pub(crate) const CODE_SHIFT: u8 = 6;
pub(crate) const CODE_MASK: u8 = 0xC0;
pub(crate) const BISE: u8 = 0x20;
pub(crate) const CARRIES_R: u8 = 0x10;
pub(crate) const TRANSLATED: u8 = 0x08;

/// A view of a VCP shim whose prefix, length and check are valid, so that its methods never
/// fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a>(&'a [u8; LEN]);

impl<'a> Packet<'a> {
    /// Checks the shim at the start of `datagram`, ignoring the bytes after it.
    ///
    /// # Errors
    /// [`FramingError`]. Every value of every field is allowed, so a valid frame is a valid VCP
    /// shim.
    #[inline]
    pub fn parse(datagram: &'a [u8]) -> Result<Self, FramingError> {
        frame::expect::<LEN>(Kind::VCP, datagram).map(Self)
    }

    /// Creates a view of a shim that was checked before.
    #[inline]
    pub(crate) const fn checked(shim: &'a [u8; LEN]) -> Self {
        Self(shim)
    }

    /// All bytes of the shim.
    #[inline]
    pub const fn bytes(&self) -> &'a [u8; LEN] {
        self.0
    }

    /// The code, as raised by routers so far.
    #[inline]
    pub const fn code(&self) -> VcpCode {
        VcpCode::from_bits(self.0[4] >> CODE_SHIFT)
    }

    /// Returns true while the sender is willing to follow BISE and every VCP router so far runs
    /// it.
    #[inline]
    pub const fn bise(&self) -> bool {
        self.0[4] & BISE != 0
    }

    /// Returns true if the sender itself scales by r, so that routers must lower it instead of
    /// mixing marks.
    #[inline]
    pub const fn carries_r(&self) -> bool {
        self.0[4] & CARRIES_R != 0
    }

    /// Returns true if the router with the highest load so far runs another law than VCP.
    #[inline]
    pub const fn translated(&self) -> bool {
        self.0[4] & TRANSLATED != 0
    }

    /// Class of the loss by corruption that the routers so far declare in total, see
    /// [`corruption`].
    #[inline]
    pub const fn corruption(&self) -> u8 {
        self.0[4] & corruption::MASK
    }

    /// Number of VCP routers so far; 255 means at least 255.
    #[inline]
    pub const fn hops(&self) -> u8 {
        self.0[5]
    }

    /// Identity of the router with the highest load so far.
    #[inline]
    pub const fn router(&self) -> u16 {
        u16::from_be_bytes([self.0[6], self.0[7]])
    }

    /// r in 2⁻¹⁶; 65 535 means 1.
    #[inline]
    pub const fn r(&self) -> u16 {
        u16::from_be_bytes([self.0[8], self.0[9]])
    }

    /// The longest measuring interval so far, in milliseconds.
    #[inline]
    pub const fn t_rho_ms(&self) -> u16 {
        u16::from_be_bytes([self.0[10], self.0[11]])
    }

    /// The highest load so far in 1/128, saturating.
    #[inline]
    pub const fn load_128(&self) -> u8 {
        self.0[12]
    }

    /// The sender's minimum RTT, rounded up to its class; `None` if it has measured none.
    #[inline]
    pub const fn min_rtt(&self) -> Option<Duration> {
        rtt_class::decode(self.0[13])
    }
}

/// The fields of a VCP shim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Load code.
    pub code: VcpCode,
    /// True if the sender is willing to follow BISE, and every VCP router so far runs it.
    pub bise: bool,
    /// True if r is carried, so that routers must lower it instead of mixing marks.
    pub carries_r: bool,
    /// True if the router with the highest load runs another law.
    pub translated: bool,
    /// Class of the declared loss by corruption, 0 to 7, see [`corruption`].
    pub corruption: u8,
    /// Number of VCP routers so far.
    pub hops: u8,
    /// Identity of the router with the highest load; 0 before the first.
    pub router: u16,
    /// r in 2⁻¹⁶; 65 535 means 1.
    pub r: u16,
    /// Longest measuring interval in milliseconds; 0 before the first router.
    pub t_rho_ms: u16,
    /// Highest load in 1/128.
    pub load_128: u8,
    /// The sender's minimum RTT as a class, see [`rtt_class`].
    pub rtt_class: u8,
}

impl Repr {
    /// The fields that a sender writes: LOW, and no fields of routers.
    #[inline]
    pub fn initial(request: &Request, carries_r: bool) -> Self {
        Self {
            code: VcpCode::Low,
            bise: request.bise,
            carries_r,
            translated: false,
            corruption: 0,
            hops: 0,
            router: 0,
            r: R_ONE,
            t_rho_ms: 0,
            load_128: 0,
            rtt_class: rtt_class::encode(request.min_rtt),
        }
    }

    /// Reads the fields of a checked shim.
    #[inline]
    pub const fn parse(packet: &Packet<'_>) -> Self {
        Self {
            code: packet.code(),
            bise: packet.bise(),
            carries_r: packet.carries_r(),
            translated: packet.translated(),
            corruption: packet.corruption(),
            hops: packet.hops(),
            router: packet.router(),
            r: packet.r(),
            t_rho_ms: packet.t_rho_ms(),
            load_128: packet.load_128(),
            rtt_class: packet.0[13],
        }
    }

    /// Creates the shim, sealed.
    #[inline]
    pub fn emit(&self) -> [u8; LEN] {
        let mut first = (self.code as u8) << CODE_SHIFT | self.corruption & corruption::MASK;
        if self.bise {
            first |= BISE;
        }
        if self.carries_r {
            first |= CARRIES_R;
        }
        if self.translated {
            first |= TRANSLATED;
        }
        let [router0, router1] = self.router.to_be_bytes();
        let [r0, r1] = self.r.to_be_bytes();
        let [t0, t1] = self.t_rho_ms.to_be_bytes();
        let mut shim = [
            0,
            0,
            0,
            0,
            first,
            self.hops,
            router0,
            router1,
            r0,
            r1,
            t0,
            t1,
            self.load_128,
            self.rtt_class,
            0,
            0,
        ];
        frame::seal(Kind::VCP, &mut shim);
        shim
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The header of a sender that runs BISE, uses r, and has measured 250 ms.
    pub(crate) fn fresh() -> Repr {
        let mut request = Request::default();
        request.bise = true;
        request.min_rtt = Some(Duration::from_millis(250));
        Repr::initial(&request, true)
    }

    prop_compose! {
        pub(crate) fn repr()(
            code in 0..4u8, bise: bool, carries_r: bool, translated: bool, corruption in 0..8u8,
            hops: u8, router: u16, r: u16, t_rho_ms: u16, load_128: u8, rtt_class: u8,
        ) -> Repr {
            let code = VcpCode::from_bits(code);
            Repr {
                code,
                bise,
                carries_r,
                translated,
                corruption,
                hops,
                router,
                r,
                t_rho_ms,
                load_128,
                rtt_class,
            }
        }
    }

    #[test]
    fn known_shims() {
        let mut request = Request::default();
        request.bise = true;
        request.min_rtt = Some(Duration::from_millis(250));
        let initial = Repr::initial(&request, true).emit();
        let expected = [
            0x08, 0x14, 0x7A, 0x3D, 0x70, 0, 0, 0, 0xFF, 0xFF, 0, 0, 0, 47,
        ];
        assert_eq!(initial[..14], expected);

        let repr = Repr {
            code: VcpCode::Over,
            bise: false,
            carries_r: true,
            translated: false,
            corruption: 5,
            hops: 3,
            router: 0xABCD,
            r: 0x1234,
            t_rho_ms: 1250,
            load_128: 130,
            rtt_class: 51,
        };
        let shim = repr.emit();
        let expected = [
            0x08, 0x14, 0x7A, 0x3D, 0xD5, 3, 0xAB, 0xCD, 0x12, 0x34, 0x04, 0xE2, 130, 51,
        ];
        assert_eq!(shim[..14], expected);
        let packet = Packet::parse(&shim).unwrap();
        assert_eq!(packet.code(), VcpCode::Over);
        assert_eq!(packet.router(), 0xABCD);
        assert_eq!(packet.t_rho_ms(), 1250);
        assert_eq!(packet.load_128(), 130);
    }

    proptest! {
        #[test]
        fn round_trip(repr in repr(), behind in proptest::collection::vec(any::<u8>(), 0..40)) {
            let mut datagram = repr.emit().to_vec();
            datagram.extend(behind);
            let packet = Packet::parse(&datagram).unwrap();
            prop_assert_eq!(Repr::parse(&packet), repr);
            prop_assert_eq!(packet.bytes(), &repr.emit());
        }
    }
}
