//! Merges a copy of a VCP shim in front of a tunnel's packet into the inner shim.
//!
//! | inner field | becomes |
//! |---|---|
//! | code | the higher of both |
//! | BISE | cleared if it is cleared in the copy |
//! | hops | 1 instead of 0 if a router outside answered; the inner TTL does not decrease either |
//! | router, load, translated | those of the copy, if its load is not below the inner one |
//! | r | the lower of both, if the inner shim carries r |
//! | t_ρ, corruption | the higher of both |
//!
//! The sender's fields stay unchanged. No field of the copy can make the inner shim allow more.

use pathmark_cc::VcpCode;

use crate::header::{LEN, Packet, Repr};

/// Merges the result of a copy at the start of `outer` into the shim at the start of `inner`.
/// Returns false without changing anything if either shim is invalid or has code 0.
pub fn merge(inner: &mut [u8], outer: &[u8]) -> bool {
    let merged = merged(inner, outer);
    match inner.first_chunk_mut::<LEN>().zip(merged) {
        Some((shim, merged)) => {
            *shim = merged.emit();
            true
        }
        None => false,
    }
}

fn merged(inner: &[u8], outer: &[u8]) -> Option<Repr> {
    let inner = Repr::parse(&Packet::parse(inner).ok()?);
    let outer = Repr::parse(&Packet::parse(outer).ok()?);
    if [inner.code, outer.code].contains(&VcpCode::None) {
        return None;
    }
    let named = match outer.load_128 >= inner.load_128 {
        true => outer,
        false => inner,
    };
    Some(Repr {
        code: inner.code.max(outer.code),
        bise: inner.bise && outer.bise,
        hops: inner.hops.max(outer.hops.min(1)),
        r: match inner.carries_r {
            true => inner.r.min(outer.r),
            false => inner.r,
        },
        t_rho_ms: inner.t_rho_ms.max(outer.t_rho_ms),
        corruption: inner.corruption.max(outer.corruption),
        router: named.router,
        load_128: named.load_128,
        translated: named.translated,
        ..inner
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::header::R_ONE;
    use crate::header::tests::{fresh, repr};
    use crate::support::changed;

    fn merged(inner: Repr, outer: Repr) -> Option<Repr> {
        let mut shim = inner.emit();
        let done = merge(&mut shim, &outer.emit());
        assert!(done || shim == inner.emit());
        done.then(|| Repr::parse(&Packet::parse(&shim).unwrap()))
    }

    /// A shim that passed a router before the tunnel, and the results of a router outside.
    #[test]
    fn the_higher_code_and_the_lower_r_remain() {
        let mut before = fresh();
        (before.code, before.hops, before.router, before.r) = (VcpCode::High, 2, 11, 30_000);
        (before.t_rho_ms, before.load_128, before.corruption) = (200, 110, 3);
        let mut low = before;
        (low.load_128, low.r, low.router) = (60, 50_000, 22);
        let mut over = before;
        (over.code, over.bise, over.translated, over.hops) = (VcpCode::Over, false, true, 5);
        (over.router, over.r, over.t_rho_ms, over.load_128) = (22, 20_000, 400, 130);
        over.corruption = 4;
        // Inner and outer shims, with the merged results.
        for (inner, outer, left) in [
            (fresh(), fresh(), fresh()),
            (before, before, before),
            (before, low, before),
            (before, over, Repr { hops: 2, ..over }),
            (fresh(), over, Repr { hops: 1, ..over }),
            // A router that overwrites the sender's fields and lowers the load.
            (
                over,
                Repr {
                    rtt_class: 1,
                    carries_r: false,
                    ..fresh()
                },
                over,
            ),
        ] {
            assert_eq!(merged(inner, outer), Some(left), "{inner:?} {outer:?}");
        }
        let mixed = changed(fresh(), |repr| repr.carries_r = false);
        assert_eq!(merged(mixed, over).unwrap().r, R_ONE);
        let erased = changed(fresh(), |repr| repr.code = VcpCode::None);
        assert_eq!(merged(erased, over), None);
        assert_eq!(merged(fresh(), erased), None);
        let mut damaged = over.emit();
        damaged[4] ^= 1;
        assert!(!merge(&mut fresh().emit(), &damaged));
        assert!(!merge(&mut damaged, &over.emit()));
        assert!(!merge(&mut fresh().emit()[..15], &over.emit()));
    }

    /// True if no field of `a` lets a sender send more than the same field of `b`.
    fn allows_no_more(a: &Repr, b: &Repr) -> bool {
        a.code >= b.code
            && a.r <= b.r
            && a.t_rho_ms >= b.t_rho_ms
            && a.load_128 >= b.load_128
            && (b.bise || !a.bise)
    }

    proptest! {
        #[test]
        fn no_shim_outside_raises_what_is_allowed_inside(inner in repr(), outer in repr()) {
            if let Some(left) = merged(inner, outer) {
                prop_assert!(allows_no_more(&left, &inner));
                prop_assert!(left.code >= outer.code);
                prop_assert_eq!(left.rtt_class, inner.rtt_class);
                prop_assert_eq!(merged(left, outer), Some(left), "merged twice");
                prop_assert_eq!(merged(left, left), Some(left));
            }
        }

        /// If an outer result allows less, the merged result must not allow more.
        #[test]
        fn merging_keeps_the_order(inner in repr(), one in repr(), other in repr()) {
            let mut one = one;
            (one.code, one.r) = (one.code.max(other.code), one.r.min(other.r));
            one.t_rho_ms = one.t_rho_ms.max(other.t_rho_ms);
            (one.load_128, one.bise) = (one.load_128.max(other.load_128), one.bise && other.bise);
            if let (Some(one), Some(other)) = (merged(inner, one), merged(inner, other)) {
                prop_assert!(allows_no_more(&one, &other));
            }
        }
    }
}
