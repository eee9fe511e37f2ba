use proptest::prelude::*;

use super::super::*;
use super::*;

#[test]
fn a_length_is_left_out_only_at_the_end_of_the_room() {
    let header = StreamHeader {
        id: StreamId::new(Side::Client, Dir::Bi, 0).unwrap(),
        offset: 0,
        fin: false,
    };
    let fit = |room, available| header.fit(room, available).map(|f| (f.len, f.explicit_len));
    assert_eq!(fit(1, 0), None);
    assert_eq!(fit(2, 0), Some((0, false)));
    assert_eq!(fit(3, 0), Some((0, true)));
    assert_eq!(fit(2, 1), None);
    assert_eq!(fit(3, 1), Some((1, false)));
    assert_eq!(fit(4, 1), Some((1, true)));
    assert_eq!(fit(1200, 1199), Some((1198, false)));
    assert_eq!(fit(1200, 1198), Some((1198, false)));
    assert_eq!(fit(1200, 1197), Some((1197, false)));
    assert_eq!(fit(1200, 1196), Some((1196, true)));
    assert_eq!(fit(1200, 3), Some((3, true)));
}

#[test]
fn data_does_not_end_beyond_the_last_offset() {
    let id = StreamId::new(Side::Client, Dir::Bi, 0).unwrap();
    let mut buffer = [0; 64];
    let mut w = Writer::new(&mut buffer);
    let stream = |offset| stream(id, offset, true, b"ab");
    let crypto = |offset| crypto(offset, b"ab");
    let beyond = varint::MAX - 1;
    let of_stream = stream(beyond).encode(&mut w, true);
    for refused in [of_stream, crypto(beyond).encode(&mut w)] {
        assert!(matches!(refused, Err(WriteError::Value(_))));
    }
    assert_eq!(w.position(), 0);
    stream(beyond - 1).encode(&mut w, true).unwrap();
    crypto(beyond - 1).encode(&mut w).unwrap();
    assert_eq!(frames(w.written()).len(), 2);
}

#[test]
fn crypto_frames_take_the_most_that_fits() {
    // Sizes around those at which the length field grows: 1 to 2 bytes at 64, 2 to 4 at 16 384.
    for room in (0..80).chain(16_370..16_410) {
        for offset in [0, 64, 16_384, 1 << 30] {
            for available in (1..70).chain(16_375..16_400) {
                // The maximum for which a frame fits, tried one by one from above.
                let fits = |n: &usize| Crypto::header_len(offset, *n) + *n <= room;
                let most = (1..=available.min(room)).rev().find(fits);
                let fit = Crypto::fit(offset, room, available);
                assert_eq!(fit, most, "{room} {offset} {available}");
            }
        }
    }
}

proptest! {
    #[test]
    fn stream_frames_fill_the_room(
        index in 0u64..1 << 60, shift in 0u32..60, offset in 0u64..1 << 61,
        offset_shift in 0u32..62,
        room in 0usize..3000, available in 0usize..4000, fin: bool,
    ) {
        let id = StreamId::new(Side::Server, Dir::Uni, index >> shift).unwrap();
        let header = StreamHeader { id, offset: offset >> offset_shift, fin };
        let data = vec![7; available];
        let mut buffer = vec![0; room];
        let mut w = Writer::new(&mut buffer);
        match header.fit(room, available) {
            Some(fit) => {
                header.encode(&mut w, fit).unwrap();
                w.put_slice(&data[..fit.len]).unwrap();
                let expected = Stream { id, offset: header.offset, fin, data: &data[..fit.len] };
                prop_assert_eq!(expected.len(fit.explicit_len), w.position());
                let decoded = frames(w.written());
                prop_assert_eq!(&decoded[..], &[Frame::Stream(expected)][..]);
                // If data is left over, the room is full.
                prop_assert!(fit.len == available || w.remaining() == 0);
                prop_assert!(fit.len > 0 || available == 0);
            }
            None => prop_assert!(header.len(None) + usize::from(available > 0) > room),
        }
    }
}
