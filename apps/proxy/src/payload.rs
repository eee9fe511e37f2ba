//! HTTP datagrams of a UDP flow, which consist of a context and a payload (RFC 9298 section 5).
//! If both sides support the extension of draft-ietf-masque-connect-udp-ecn-dscp, the context
//! also gives the ECN field of the payload's packet. RFC 6040 (section 4.2) defines the ECN field
//! of a datagram leaving the tunnel.

use std::sync::atomic::{AtomicU64, Ordering};

use pathmark_http3::http::header::{HeaderName, HeaderValue};
use pathmark_transport::Ecn;

/// The field with which each side declares its contexts.
pub(crate) const FIELD: HeaderName = HeaderName::from_static("ecn-dscp-context-id");
/// The context of UDP payloads without an ECN field, with or without the extension.
const PLAIN: u8 = 0;
/// Maximum length of a UDP payload in bytes: 65,535 minus a UDP header.
pub(crate) const MOST: usize = 65_527;
/// Maximum length of an HTTP datagram in bytes: a payload and a context in its longest form.
pub(crate) const MOST_DATAGRAM: u64 = MOST as u64 + 8;

/// One side's contexts for Not-ECT, ECT(1), ECT(0) and CE. Each is encoded in one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Contexts([u8; 4]);

/// The contexts of both sides of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Marking {
    own: Contexts,
    /// `None` if the peer doesn't support the extension.
    peer: Option<Contexts>,
}

impl Contexts {
    /// A client's contexts, which have even numbers.
    pub(crate) const CLIENT: Self = Self([PLAIN, 2, 4, 6]);
    /// A proxy's contexts, which have odd numbers.
    pub(crate) const PROXY: Self = Self([PLAIN, 1, 3, 5]);

    /// Formats the field's value: a list of the differentiated services code point 0 and its
    /// contexts.
    pub(crate) fn value(self) -> Option<HeaderValue> {
        let [plain, ect1, ect0, ce] = self.0;
        HeaderValue::from_str(&format!("(0 {plain} {ect1} {ect0} {ce})")).ok()
    }

    /// Parses the contexts for code point 0. Contexts longer than one byte are treated as missing.
    pub(crate) fn read(value: &HeaderValue) -> Option<Self> {
        let value = value.to_str().ok()?;
        let lists = value.split('(').skip(1);
        let mut lists = lists.filter_map(|list| {
            let (items, _parameters) = list.split_once(')')?;
            let mut items = items.split_ascii_whitespace().map(str::parse::<u8>);
            let mut next = || items.next()?.ok();
            let all = [next()?, next()?, next()?, next()?, next()?];
            items.next().is_none().then_some(all)
        });
        let [_, contexts @ ..] = lists.find(|[code_point, ..]| *code_point == 0)?;
        contexts.iter().all(|id| *id < 64).then_some(Self(contexts))
    }

    fn ecn(self, context: u8) -> Option<Ecn> {
        let fields = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce];
        let mut known = self.0.into_iter().zip(fields);
        known.find(|(id, _)| *id == context).map(|(_, ecn)| ecn)
    }
}

impl Marking {
    pub(crate) const fn new(own: Contexts, peer: Option<Contexts>) -> Self {
        Self { own, peer }
    }

    /// Returns the context to put in front of a payload.
    pub(crate) fn context(&self, ecn: Ecn) -> u8 {
        match self.peer {
            Some(_) => {
                let [plain, ect1, ect0, ce] = self.own.0;
                match ecn {
                    Ecn::NotEct => plain,
                    Ecn::Ect1 => ect1,
                    Ecn::Ect0 => ect0,
                    Ecn::Ce => ce,
                }
            }
            // A peer without the extension always sends packets without the field.
            None => PLAIN,
        }
    }

    /// Returns the context to put in front of a payload, and the one to use if its packet gets
    /// CE. The latter is `None` if the packet can't be marked.
    pub(crate) fn contexts(&self, ecn: Ecn) -> (u8, Option<u8>) {
        let can_be_marked = self.peer.is_some() && ecn != Ecn::NotEct;
        (
            self.context(ecn),
            can_be_marked.then(|| self.context(Ecn::Ce)),
        )
    }

    /// Returns the ECN field and the UDP payload of an HTTP datagram, or `None` if its context
    /// is unknown or missing.
    pub(crate) fn udp<'a>(&self, datagram: &'a [u8]) -> Option<(Ecn, &'a [u8])> {
        let first = datagram.first()?;
        let length = 1_usize << (first >> 6);
        let (context, payload) = datagram.split_at_checked(length)?;
        let (last, others) = context.split_last()?;
        let mut others = others.iter().enumerate();
        let is_small = others.all(|(place, byte)| match place {
            0 => byte & 0x3f == 0,
            _ => *byte == 0,
        });
        let context = match length {
            1 => *last & 0x3f,
            _ => *last,
        };
        let known = |contexts: Contexts| contexts.ecn(context);
        let ecn = match (context, self.peer) {
            (PLAIN, _) => Some(Ecn::NotEct),
            // Contexts of either side are valid in both directions.
            (_, Some(peer)) => known(peer).or_else(|| known(self.own)),
            (_, None) => None,
        }?;
        (is_small && payload.len() <= MOST).then_some((ecn, payload))
    }
}

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

    const PLAINLY: Marking = Marking::new(Contexts::CLIENT, None);
    const BOTH: Marking = Marking::new(Contexts::CLIENT, Some(Contexts::PROXY));

    #[test]
    fn payloads_of_known_contexts_alone() {
        let plain = |payload| Some((Ecn::NotEct, payload));
        for marking in [PLAINLY, BOTH] {
            assert_eq!(marking.udp(b"\x00ab"), plain(&b"ab"[..]));
            assert_eq!(marking.udp(b"\x00"), plain(&b""[..]));
            assert_eq!(marking.udp(b"\x40\x00ab"), plain(&b"ab"[..]));
            for other in [
                &b""[..],
                b"\x07ab",
                b"\x40",
                b"\x41\x00a",
                b"\xc0\0\0\0\0\0\0",
            ] {
                assert_eq!(marking.udp(other), None, "{other:?}");
            }
        }
        let mut most = vec![0; MOST + 1];
        assert!(BOTH.udp(&most).is_some());
        most.push(0);
        assert!(BOTH.udp(&most).is_none());
    }

    #[test]
    fn each_field_has_a_context_of_either_side() {
        let proxy = Marking::new(Contexts::PROXY, Some(Contexts::CLIENT));
        for ecn in [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce] {
            for (from, to) in [(BOTH, proxy), (proxy, BOTH), (BOTH, BOTH)] {
                let datagram = [from.context(ecn), b'a'];
                assert_eq!(to.udp(&datagram), Some((ecn, &b"a"[..])));
                let long = [0x40, from.context(ecn), b'a'];
                assert_eq!(to.udp(&long), Some((ecn, &b"a"[..])));
            }
            assert_eq!(PLAINLY.contexts(ecn), (0, None));
            let ce = (ecn != Ecn::NotEct).then_some(6);
            assert_eq!(BOTH.contexts(ecn), (BOTH.context(ecn), ce));
            let marked = [BOTH.context(ecn)];
            assert_eq!(PLAINLY.udp(&marked).is_some(), ecn == Ecn::NotEct);
        }
    }

    #[test]
    fn fields_are_read() {
        for own in [Contexts::CLIENT, Contexts::PROXY] {
            assert_eq!(Contexts::read(&own.value().unwrap()), Some(own));
        }
        for (value, expected) in [
            ("(46 8 10 12 14), (0 0 2 4 6)", Some([0, 2, 4, 6])),
            ("(0  16 18 20 22);a=1", Some([16, 18, 20, 22])),
            ("(46 8 10 12 14)", None),
            ("(0 0 2 4)", None),
            ("(0 0 2 4 6 8)", None),
            ("(0 0 2 4 64)", None),
            ("(0 0 2 4 -6)", None),
            ("(0 0 2 4 6", None),
            ("", None),
        ] {
            let read = Contexts::read(&HeaderValue::from_static(value));
            assert_eq!(read, expected.map(Contexts), "{value}");
        }
    }

    const OUTER: [Ecn; 4] = [NotEct, Ect0, Ect1, Ce];

    #[test]
    fn all_cells_are_those_of_the_rfc() {
        for (inner, row) in [
            (NotEct, [Some(NotEct), Some(NotEct), Some(NotEct), None]),
            (Ect0, [Some(Ect0), Some(Ect0), Some(Ect1), Some(Ce)]),
            (Ect1, [Some(Ect1), Some(Ect1), Some(Ect1), Some(Ce)]),
            (Ce, [Some(Ce), Some(Ce), Some(Ce), Some(Ce)]),
        ] {
            let left = OUTER.map(|outer| decapsulate(inner, outer));
            assert_eq!(left, row, "{inner:?}");
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
