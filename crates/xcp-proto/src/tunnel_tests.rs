use core::net::Ipv4Addr;

use proptest::prelude::*;

use super::*;
use crate::header::tests::{emit, feedback, repr, request};
use crate::header::{Form, LastRouter};
use crate::support::changed;

fn read(shim: &[u8]) -> Repr {
    Packet::parse(shim).unwrap().repr()
}

fn merge_of(inner: &Repr, outer: &Repr, shift: u8) -> Option<Repr> {
    let mut shim = emit(inner);
    let done = merge(&mut shim, &emit(outer), shift);
    assert!(done || shim == emit(inner));
    done.then(|| read(&shim))
}

fn asking(form: Form, ttl: u8) -> Repr {
    Repr::initial(form, Some(&request()), ttl)
}

fn full(repr: Repr, change: impl FnOnce(&mut Full)) -> Repr {
    let Body::Full(mut full) = repr.body else {
        panic!("compact");
    };
    change(&mut full);
    changed(repr, |repr| repr.body = Body::Full(full))
}

/// Results of routers outside, and the merged inner shims.
#[test]
fn the_lower_feedback_remains() {
    let fresh = asking(Form::V4, 64);
    let at = |delta, router| {
        let stamped = changed(fresh, |repr| (repr.stamped, repr.router) = (true, router));
        full(stamped, |full| full.delta = delta)
    };
    for (inner, outer, left) in [
        (fresh, fresh, fresh),
        (fresh, at(1000, 22), at(1000, 22)),
        (at(1000, 11), at(-70_000, 22), at(-70_000, 22)),
        (at(1000, 11), at(1000, 11), at(1000, 11)),
        // A router that raises the grant of an earlier one.
        (at(1000, 11), at(i64::MAX, 22), at(1000, 11)),
    ] {
        let merged = merge_of(&inner, &outer, 0);
        assert_eq!(merged, Some(left), "{inner:?} {outer:?}");
    }
    let cloud = Repr {
        format: Format::Uncounted,
        ..full(fresh, |full| {
            full.corruption = 5;
            full.last = LastRouter::V4(Ipv4Addr::new(192, 0, 2, 1));
        })
    };
    assert_eq!(merge_of(&fresh, &cloud, 0), Some(cloud));
    let other_request = full(fresh, |full| {
        (full.covers, full.rtt_us, full.x) = (8, 1, 2);
    });
    assert_eq!(merge_of(&fresh, &other_request, 0), Some(fresh));
}

/// The inner TTLs must be as far apart as the outer ones, whatever the tunnel's own TTL is.
#[test]
fn silent_hops_of_the_tunnel_show_inside() {
    let (inner_ttl, outer_ttl) = (60u8, 255u8);
    let inner = asking(Form::V4, inner_ttl + 1);
    let mut copy = emit(&inner);
    assert!(shift_ttl(&mut copy, outer_ttl.wrapping_sub(inner_ttl)));
    let ttl = read(&copy).xcp_ttl;
    assert_eq!(ttl, outer_ttl.wrapping_add(1), "one hop before it");
    // Five hops, including two XCP routers.
    let arrived = outer_ttl - 5;
    let stamped = changed(read(&copy), |repr| {
        (repr.stamped, repr.xcp_ttl) = (true, read(&copy).xcp_ttl.wrapping_sub(2));
    });
    let left = merge_of(&inner, &stamped, arrived.wrapping_sub(inner_ttl)).unwrap();
    assert_eq!(left.xcp_ttl, inner_ttl + 1 + 3);
}

#[test]
fn what_routers_leave_alone_is_not_merged() {
    let fresh = asking(Form::V4, 64);
    let minimal = Repr::initial(Form::V4, None, 64);
    assert!(!shift_ttl(&mut emit(&minimal), 1));
    assert_eq!(merge_of(&minimal, &fresh, 0), None);
    assert_eq!(merge_of(&fresh, &minimal, 0), None);
    for form in [Form::V6, Form::Compact] {
        assert_eq!(merge_of(&fresh, &asking(form, 64), 0), None);
        assert_eq!(merge_of(&asking(form, 64), &fresh, 0), None);
    }
    let mut damaged = emit(&fresh);
    damaged[20] ^= 1;
    assert!(!shift_ttl(&mut damaged.clone(), 1));
    assert!(!merge(&mut emit(&fresh), &damaged, 0));
    assert!(!merge(&mut damaged, &emit(&fresh), 0));
}

proptest! {
    #[test]
    fn no_shim_outside_raises_the_feedback(inner in repr(), outer in repr(), shift: u8) {
        if let Some(left) = merge_of(&inner, &outer, shift) {
            prop_assert_eq!(feedback(&left), feedback(&inner).min(feedback(&outer)));
            prop_assert!(left.stamped >= inner.stamped.max(outer.stamped));
            prop_assert_eq!(merge_of(&left, &outer, shift), Some(left), "merged twice");
        }
    }

    /// A lower outer result must not yield a higher merged result.
    #[test]
    fn merging_keeps_the_order(inner in repr(), one in repr(), other in repr()) {
        if let (Some(a), Some(b)) = (merge_of(&inner, &one, 0), merge_of(&inner, &other, 0)) {
            prop_assume!(feedback(&one) <= feedback(&other));
            prop_assert!(feedback(&a) <= feedback(&b));
        }
    }

    #[test]
    fn a_shift_is_undone(repr in repr(), shift: u8) {
        let mut shim = emit(&repr);
        if shift_ttl(&mut shim, shift) {
            prop_assert!(shift_ttl(&mut shim, 0u8.wrapping_sub(shift)));
            prop_assert_eq!(read(&shim), repr);
        }
    }
}
