//! Frames in every order, with every length and cut anywhere, on request and control streams of a
//! live origin. Nothing panics, and an honest client gets its file.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pathmark_http3::plan::PutRights;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::support::{Served, bounded, serves};

/// Number of connections that send garbage.
const CONNECTIONS: usize = 150;

static PANICS: AtomicUsize = AtomicUsize::new(0);

/// Field sections in QPACK without a dynamic table: GET and PUT of `/x` at `localhost`, a request
/// without a path, one with an invalid length, and trailers with a digest.
fn sections() -> impl Strategy<Value = Vec<u8>> {
    let authority = b"\x50\x09localhost";
    let path = b"\x51\x02/x";
    let section = |parts: &[&[u8]]| [&b"\x00\x00"[..], &parts.concat()].concat();
    prop_oneof![
        Just(section(&[b"\xd1\xd7", authority, path])),
        Just(section(&[b"\xd5\xd7", authority, path])),
        Just(section(&[b"\xd5\xd7", authority, path, b"\x54\x01x"])),
        Just(section(&[b"\xd1\xd7", authority])),
        Just(section(&[b"\xd1\xd1\xd7", authority, path])),
        Just(section(&[b"\x27\x04repr-digest\x07sha-256"])),
        Just(b"\x02\x00\x80".to_vec()),
        proptest::collection::vec(any::<u8>(), 0..40),
    ]
}

fn frame(kind: u8, announced: usize, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(announced).unwrap() | 0x4000;
    [&[kind][..], &length.to_be_bytes(), payload].concat()
}

fn frames() -> impl Strategy<Value = Vec<u8>> {
    let kinds = prop_oneof![
        4 => Just(0_u8),
        4 => Just(1),
        1 => prop_oneof![Just(3), Just(4), Just(5), Just(7), Just(13)],
        1 => prop_oneof![Just(2), Just(6), Just(0x21), Just(0x3f)],
    ];
    let data = proptest::collection::vec(any::<u8>(), 0..2000);
    let content = prop_oneof![3 => sections(), 1 => data];
    let one = (kinds, content, 0..10_usize).prop_map(|(kind, content, lie)| {
        let announced = match lie {
            0 => content.len() + 5,
            1 => content.len() / 2,
            _ => content.len(),
        };
        frame(kind, announced, &content)
    });
    proptest::collection::vec(one, 1..6).prop_map(|frames| frames.concat())
}

/// Bytes of a stream, how many bytes are sent, and how the stream ends.
fn streams() -> impl Strategy<Value = Vec<(Vec<u8>, usize, u8)>> {
    let begun = prop_oneof![
        3 => Just(Vec::new()),
        3 => sections().prop_map(|section| frame(1, section.len(), &section)),
    ];
    let bytes = (begun, frames()).prop_map(|(begun, rest)| [begun, rest].concat());
    let stream = (bytes, any::<proptest::sample::Index>(), any::<u8>());
    let stream = stream.prop_map(|(bytes, cut, end)| {
        let sent = if end & 1 == 0 {
            bytes.len()
        } else {
            cut.index(bytes.len())
        };
        (bytes, sent, end)
    });
    proptest::collection::vec(stream, 1..5)
}

async fn throw(served: &Served, streams: Vec<(Vec<u8>, usize, u8)>, control: &[u8]) {
    let connection = served.connect().await;
    let Ok(mut uni) = connection.open_uni().await else {
        return;
    };
    let _ = uni.write_all(control).await;
    let mut open = Vec::new();
    for (bytes, sent, end) in streams {
        let Ok((mut send, recv)) = connection.open_bi().await else {
            return;
        };
        let _ = send.write_all(&bytes[..sent]).await;
        match end >> 1 & 3 {
            0 => drop(send.reset(7_u32.into())),
            1 => open.push((send, recv)),
            _ => {
                let _ = send.finish();
                open.push((send, recv));
            }
        }
    }
    // Nothing tells whether the server has read garbage that it doesn't answer.
    tokio::time::sleep(Duration::from_millis(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_origin_outlives_garbage() {
    bounded(async {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            PANICS.fetch_add(1, Ordering::Relaxed);
            before(info);
        }));
        let served = Served::limited(PutRights::Replace, |limits| {
            limits.head_time = Duration::from_millis(200);
            limits.stall = Duration::from_millis(200);
        });
        served.write("file", b"honest").await;
        let honest = served.link().await;
        let mut runner = TestRunner::deterministic();
        for n in 0..CONNECTIONS {
            let streams = streams().new_tree(&mut runner).unwrap().current();
            let frames = frames().new_tree(&mut runner).unwrap().current();
            let control = match n % 4 {
                0 => frames,
                1 => [b"\x00\x04\x00".to_vec(), frames].concat(),
                _ => b"\x00\x04\x00".to_vec(),
            };
            throw(&served, streams, &control).await;
            if n % 10 == 0 {
                serves(&honest, "/file", b"honest").await;
            }
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(PANICS.load(Ordering::Relaxed), 0);
        // No part of a PUT is left.
        let mut names = served.names().into_iter();
        assert!(names.all(|name| name == "file" || name == "x"));
        let counts = served.origin.counts();
        let fates = [counts.refused, counts.broken_off];
        assert!(fates.iter().all(|count| *count > 0), "{counts:?}");
    })
    .await;
}
