//! The ECN field of a datagram leaving the tunnel (RFC 6040 section 4.2).

use std::sync::atomic::{AtomicU64, Ordering};

use pathmark_transport::Ecn;

/// Looks up the ECN fields of the inner and the outer packet in RFC 6040's table (figure 4).
/// `None` is the table's "drop".
const fn decapsulate(inner: Ecn, outer: Ecn) -> Option<Ecn> {
    match (inner, outer) {
        (Ecn::NotEct, Ecn::Ce) => None,
        (Ecn::Ect0 | Ecn::Ect1 | Ecn::Ce, Ecn::Ce) => Some(Ecn::Ce),
        (Ecn::Ect0, Ecn::Ect1) => Some(Ecn::Ect1),
        (inner, _) => Some(inner),
    }
}

/// Returns the ECN field of a datagram leaving the tunnel. If the table has "drop", the datagram
/// leaves without ECN and is counted instead. Since QUIC already responds to the mark, a loss
/// would signal it a second time.
pub(crate) fn leaving(inner: Ecn, outer: Ecn, refused: &AtomicU64) -> Ecn {
    // QUIC sets ECT on every packet regardless of its content. Therefore only CE in the outer
    // field comes from the path.
    let outer = match outer {
        Ecn::Ce => Ecn::Ce,
        Ecn::NotEct | Ecn::Ect0 | Ecn::Ect1 => Ecn::NotEct,
    };
    decapsulate(inner, outer).unwrap_or_else(|| {
        refused.fetch_add(1, Ordering::Relaxed);
        Ecn::NotEct
    })
}

#[cfg(test)]
mod tests {
    use pathmark_transport::Ecn::{Ce, Ect0, Ect1, NotEct};

    use super::*;

    const OUTER: [Ecn; 4] = [NotEct, Ect0, Ect1, Ce];

    #[test]
    fn all_cells_are_those_of_the_rfc() {
        for (inner, row) in [
            (NotEct, [Some(NotEct), Some(NotEct), Some(NotEct), None]),
            (Ect0, [Some(Ect0), Some(Ect0), Some(Ect1), Some(Ce)]),
            (Ect1, [Some(Ect1), Some(Ect1), Some(Ect1), Some(Ce)]),
            (Ce, [Some(Ce), Some(Ce), Some(Ce), Some(Ce)]),
        ] {
            assert_eq!(
                OUTER.map(|outer| decapsulate(inner, outer)),
                row,
                "{inner:?}"
            );
        }
    }

    /// QUIC's own ECT changes nothing, and a mark that a datagram can't carry is counted.
    #[test]
    fn marks_of_the_path_alone_pass_inside() {
        let refused = AtomicU64::new(0);
        for (inner, marked) in [(NotEct, NotEct), (Ect0, Ce), (Ect1, Ce), (Ce, Ce)] {
            let left = OUTER.map(|outer| leaving(inner, outer, &refused));
            assert_eq!(left, [inner, inner, inner, marked]);
        }
        assert_eq!(refused.into_inner(), 1);
    }
}
