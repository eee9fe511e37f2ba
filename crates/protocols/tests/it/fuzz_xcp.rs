//! Fuzz targets for the XCP shim, the stamping rule and the 16-bit feedback.

use pathmark_cc::{Carried, CloudAnswer, XcpAnswer};
use pathmark_shim::{Kind, frame};
use xcp_proto::counters::{MOST, Totals};
use xcp_proto::header::{Body, Format};
use xcp_proto::stamp::{self, Outcome};
use xcp_proto::{Form, Identity, Packet, Repr, window};

use crate::support::sent;

/// The input consists of an answer of 8 bytes, whose lowest two bits are also the answer about a
/// cloud, and a datagram. The datagram is stamped if and only if it starts with a valid XCP shim
/// with a request, and the request can only be lowered. The same is tested after correcting prefix
/// and check, in each form.
fn shim(input: &[u8]) {
    let Some((answer, datagram)) = input.split_first_chunk::<8>() else {
        return;
    };
    let delta = i64::from_be_bytes(*answer);
    let [.., low] = *answer;
    let answer = XcpAnswer {
        delta,
        bounding: delta & 1 == 1,
        translated: delta & 2 == 2,
        corruption_ppm: u32::from(low >> 1) << 11,
        cloud: match low & 3 {
            1 => CloudAnswer::Passed,
            2 => CloudAnswer::Counted { hops: low },
            3 => CloudAnswer::Unknown { hops: low },
            _ => CloudAnswer::None,
        },
    };
    stamp_one(&answer, datagram);
    sealed::<36>(&answer, datagram);
    sealed::<48>(&answer, datagram);
    sealed::<16>(&answer, datagram);
}

fn sealed<const N: usize>(answer: &XcpAnswer, datagram: &[u8]) {
    let mut sealed = datagram.to_vec();
    if let Some(shim) = sealed.first_chunk_mut::<N>() {
        shim[4] = shim[4] & 0x0F | [0x10, 0x20, 0x30, 0x10][usize::from(shim[4] >> 6)];
        frame::seal(Kind::XCP, shim);
        assert!(Packet::parse(&sealed).is_ok());
        stamp_one(answer, &sealed);
    }
}

fn delta(repr: &Repr) -> i64 {
    match repr.body {
        Body::Full(full) => full.delta,
        Body::Compact(compact) => compact.feedback_q12(),
    }
}

fn stamp_one(answer: &XcpAnswer, datagram: &[u8]) {
    let mut stamped = datagram.to_vec();
    let outcome = stamp::stamp_payload(&mut stamped, answer, 1500, &Identity::new(7));
    let asks = matches!(stamp::from_payload(datagram, 1500), Carried::Xcp(_));
    assert_eq!(outcome == Outcome::Stamped, asks);
    if !asks {
        assert_eq!(stamped, datagram);
        return;
    }
    let before = Packet::parse(datagram).expect("it was stamped");
    let after = Packet::parse(&stamped).expect("it was sealed");
    let len = before.form().len();
    assert_eq!(stamped[len..], datagram[len..]);
    assert_eq!(after.form(), before.form());
    let (hops, unknown) = match answer.cloud {
        CloudAnswer::None | CloudAnswer::Passed => (0, false),
        CloudAnswer::Counted { hops } => (hops, false),
        CloudAnswer::Unknown { hops } => (hops, true),
    };
    let ttl = before.xcp_ttl().wrapping_sub(1).wrapping_sub(hops);
    assert_eq!(after.xcp_ttl(), ttl);
    // A router behind this one finds no cloud, unless there is another.
    let next = stamp::from_forwarded(&stamped, 1500, ttl.wrapping_sub(1), || None);
    assert!(matches!(next, Carried::Xcp(header) if header.cloud.is_none()));
    let host = || Some([192, 0, 2, 1].into());
    let behind = stamp::from_forwarded(&stamped, 1500, ttl.wrapping_sub(3), host);
    let full = after.form() != Form::Compact;
    assert!(matches!(
        behind,
        Carried::Xcp(header) if header.cloud.map(|cloud| cloud.hops) == full.then_some(2),
    ));
    assert!(after.stamped());
    assert!(after.corruption() >= before.corruption());
    let open = before.format() == Format::Uncounted || unknown;
    assert_eq!(after.format() == Format::Uncounted, open);
    assert!(after.format().asks());
    let (before, repr) = (before.repr(), after.repr());
    assert!(delta(&repr) <= delta(&before));
    assert_eq!(repr.router, if answer.bounding { 7 } else { before.router });

    // How a receiver reads it.
    let mut totals = Totals::default();
    for congested in [false, true] {
        totals.count(&after, 1500, Some(60), congested);
    }
    let feedback = totals.since(&Totals::default(), &sent(2, 1500), Some(64));
    let feedback = feedback.expect("it was counted just now");
    assert!((-2 * MOST..=MOST).contains(&feedback.delta));
    assert_eq!((feedback.packets, feedback.stamped), (2, 2));
    assert!(feedback.corruption_ppm <= 300_000);
}

/// The input consists of a value and a word. An encoded value never decodes to more than the value,
/// and encoding the meaning of any word returns this word.
fn word(input: &[u8]) {
    let Some((value, rest)) = input.split_first_chunk::<8>() else {
        return;
    };
    let value = i64::from_be_bytes(*value);
    let read = window::decode_feedback(window::encode_feedback(value));
    assert!(read <= value || value < window::MIN_Q12);
    if let Some(word) = rest.first_chunk() {
        let value = window::decode_feedback(u16::from_be_bytes(*word));
        let again = window::decode_feedback(window::encode_feedback(value));
        assert_eq!(again, value);
    }
}

target!(shims, shim, 256);

target!(words, word, 16);
