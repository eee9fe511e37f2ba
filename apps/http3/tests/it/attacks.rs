//! Clients that waste time and memory, and files that change: the origin keeps its limits, and
//! other clients get their responses.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pathmark_http3::client::{Get, Progress};
use pathmark_http3::plan::PutRights;
use pathmark_http3::root::Existing;
use pathmark_http3::wire::{ALPN, LinkError};
use tokio::task::JoinSet;

use crate::support::{Served, ask, bounded, content, get, link, path, request, run, serves, until};

#[test]
pub(crate) fn requests_without_progress_are_reset() {
    run(async {
        let served = Served::limited(PutRights::New, |limits| {
            limits.requests = 5;
            limits.head_time = Duration::from_millis(300);
            limits.stall = Duration::from_millis(300);
        });
        served.write("large", &content(20_000_000)).await;
        served.write("small", b"small").await;
        // Streams without a request.
        let connection = served.connect().await;
        assert_eq!(connection.handshake_data().protocol.as_deref(), Some(ALPN));
        let mut silent = Vec::new();
        for _ in 0..4 {
            let mut stream = connection.open_bi().await.unwrap();
            stream.0.write_all(&[1]).await.unwrap();
            silent.push(stream);
        }
        for (_, mut recv) in silent {
            assert!(recv.read_chunk().await.is_err());
        }
        // A PUT that stops, one that sends a byte at a time, and a GET whose response isn't read.
        let link = served.link().await;
        let mut put = link.request(request("PUT", "/x", &[])).await.unwrap();
        put.send(b"begin"[..].into()).await.unwrap();
        let mut drip = link.request(request("PUT", "/y", &[])).await.unwrap();
        let dripping = tokio::spawn(async move {
            while drip.send(b"y"[..].into()).await.is_ok() {
                // This pace is the attack: 20 bytes per second.
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        let mut unread = link.request(request("GET", "/large", &[])).await.unwrap();
        unread.finish(None).await.unwrap();
        assert!(matches!(put.response().await, Err(LinkError::Reset { .. })));
        serves(&link, "/small", b"small").await;
        dripping.await.unwrap();
        until(|| served.origin.counts().timed_out >= 7).await;
        assert_eq!(served.names(), ["large", "small"]);
    });
}

/// Trailer sections have no pseudo-header fields.
#[test]
fn a_path_in_a_trailer_section_stores_nothing() {
    run(async {
        let served = Served::new(PutRights::New);
        let connection = served.connect().await;
        let cases = [
            (&b"\x51\x02/b"[..], &[][..]),
            (&b"\x21x\x01s"[..], &["f"][..]),
        ];
        for (trailer, names) in cases {
            let (mut send, mut recv) = connection.open_bi().await.unwrap();
            // `:method: PUT`, `:scheme: https`, `:authority: a`, `:path: /f`; `content`.
            let head = b"\0\0\xd5\xd7\x50\x01a\x51\x02/f";
            let section = [&b"\0\0"[..], trailer].concat();
            let lengths = [head.len(), section.len()].map(|length| u8::try_from(length).unwrap());
            let request = [
                &[1, lengths[0]][..],
                head,
                b"\0\x07content",
                &[1, lengths[1]],
                &section,
            ];
            send.write_all(&request.concat()).await.unwrap();
            send.finish().unwrap();
            assert_eq!(recv.read_chunk().await.is_ok(), !names.is_empty());
            until(|| served.names() == names).await;
        }
    });
}

/// Of two paths, something in front of the server may have checked the other one.
#[test]
fn a_request_with_two_paths_is_reset() {
    run(async {
        let served = Served::new(PutRights::None);
        served.write("a", b"a").await;
        served.write("b", b"b").await;
        let connection = served.connect().await;
        // `:method: GET`, `:scheme: https`, `:authority: a`, `:path: /a`.
        let head = b"\0\0\xd1\xd7\x50\x01a\x51\x02/a";
        for (more, is_fine) in [
            (&b""[..], true),
            (b"\x51\x02/b", false),
            (b"\x21x\x01s", true),
        ] {
            let length = u8::try_from(head.len() + more.len()).unwrap();
            let (mut send, mut recv) = connection.open_bi().await.unwrap();
            let frame = [&[1, length], &head[..], more].concat();
            send.write_all(&frame).await.unwrap();
            send.finish().unwrap();
            assert_eq!(recv.read_chunk().await.is_ok(), is_fine, "{more:x?}");
        }
    });
}

/// If a file changes during its response, the client must not accept the response as complete.
#[test]
fn a_file_that_changes_meanwhile_breaks_its_response() {
    run(async {
        let served = Served::new(PutRights::None);
        served.write("file", &content(30_000_000)).await;
        let link = served.link().await;
        let mut exchange = link.request(request("GET", "/file", &[])).await.unwrap();
        exchange.finish(None).await.unwrap();
        exchange.response().await.unwrap();
        let file = served.directory.path().join("file");
        let file = std::fs::File::options().write(true).open(file).unwrap();
        file.write_all_at(b"changed", 29_000_000).unwrap();
        let end = loop {
            match exchange.data().await {
                Ok(Some(_)) => {}
                end => break end,
            }
        };
        assert!(matches!(end, Err(LinkError::Reset { .. })), "{end:?}");
        assert_eq!(served.origin.counts().broken_off, 1);
    });
}

/// If only the metadata of a file changes, or its name leads to another file, then the transferred
/// content is that of the original file, in both directions. A write still counts as a change if
/// the time is set back.
#[tokio::test]
async fn metadata_alone_breaks_no_transfer() {
    fn link(file: &Path) {
        std::fs::hard_link(file, file.with_extension("link")).unwrap();
    }
    fn mode(file: &Path) {
        std::fs::set_permissions(file, file.metadata().unwrap().permissions()).unwrap();
    }
    fn replace(file: &Path) {
        let other = file.with_extension("other");
        std::fs::write(&other, "other").unwrap();
        std::fs::rename(other, file).unwrap();
    }
    fn remove(file: &Path) {
        std::fs::remove_file(file).unwrap();
    }
    fn write(file: &Path) {
        let modified = file.metadata().unwrap().modified().unwrap();
        let opened = std::fs::File::options().write(true).open(file).unwrap();
        opened.write_all_at(b"changed", 9_000_000).unwrap();
        opened.set_modified(modified).unwrap();
    }
    bounded(async {
        let served = Served::new(PutRights::Replace);
        let here = tempfile::tempdir().unwrap();
        let (client, file) = (served.client().await, content(10_000_000));
        let there = served.directory.path().join("file");
        let own = here.path().join("own");
        type Change = (&'static str, fn(&Path));
        let changes: [Change; 5] = [
            ("link", link),
            ("mode", mode),
            ("replace", replace),
            ("remove", remove),
            ("write", write),
        ];
        for (name, change) in changes {
            served.write("file", &file).await;
            // Changes a file once bytes of it are on their way.
            let once = |at: PathBuf| {
                let mut has_changed = false;
                move |progress: Progress| {
                    let has_begun = matches!(progress, Progress::Bytes(_));
                    if has_begun && !std::mem::replace(&mut has_changed, true) {
                        change(&at);
                    }
                }
            };
            // If a file was read before a write to it, what was made of it is complete, too.
            let check = |what: &str, is_ok: bool, made: &Path, from: &Path| {
                assert!(is_ok || name == "write", "{what}, {name}");
                if is_ok {
                    let (made, changed) = (std::fs::read(made), || std::fs::read(from));
                    let made = made.unwrap();
                    assert!(made == file || made == changed().unwrap(), "{what}, {name}");
                }
            };
            let how = Get {
                existing: Existing::Replace,
                headers: http::HeaderMap::new(),
            };
            let from = path("/file");
            let getting = client.get_with(&from, &own, how, once(there.clone()));
            check("get", getting.await.is_ok(), &own, &there);
            std::fs::write(&own, &file).unwrap();
            let (to, mut once) = (path("/put"), once(own.clone()));
            let putting = client.put_with(&own, &to, Existing::Replace, &mut once);
            let stored = served.directory.path().join("put");
            check("put", putting.await.is_ok(), &stored, &own);
            let _ = std::fs::remove_file(own.with_extension("link"));
            let _ = std::fs::remove_file(there.with_extension("link"));
        }
    })
    .await;
}

/// A header section above the limit gets a status, and a frame far above it a reset. The origin
/// continues to serve.
#[test]
fn large_heads_are_refused() {
    run(async {
        let served = Served::limited(PutRights::None, |limits| limits.head_bytes = 4096);
        served.write("small", b"small").await;
        let link = served.link().await;
        serves(&link, "/small", b"small").await;
        // HEADERS of 2^62 - 1 bytes.
        let connection = served.connect().await;
        let (mut send, mut recv) = connection.open_bi().await.unwrap();
        send.write_all(b"\x01\xff\xff\xff\xff\xff\xff\xff\xff")
            .await
            .unwrap();
        assert!(recv.read_chunk().await.is_err());
        assert!(connection.close_reason().is_none());
        serves(&link, "/small", b"small").await;
    });
}

/// A thousand requests that never end, on ten connections: each is reset in time, and in the
/// meantime another client gets its file.
#[test]
fn a_thousand_slow_requests_stop_no_other() {
    run(async {
        let served = Served::limited(PutRights::None, |limits| {
            limits.head_time = Duration::from_secs(1);
        });
        let file = content(1_000_000);
        served.write("file", &file).await;
        let mut silent = Vec::new();
        for _ in 0..10 {
            let connection = served.connect().await;
            for _ in 0..100 {
                let (mut send, recv) = connection.open_bi().await.unwrap();
                // One and a half frame headers.
                send.write_all(b"\x01\x40\x80\x00").await.unwrap();
                silent.push((connection.clone(), send, recv));
            }
        }
        let link = served.link().await;
        let fine = get(&link, "/file", &[]).await;
        assert!(fine.content == file);
        for (_, _, recv) in &mut silent {
            assert!(recv.read_chunk().await.is_err());
        }
        assert_eq!(served.origin.counts().timed_out, 1000);
    });
}

/// The number of incomplete requests is limited. Those above the limit end immediately instead of
/// timing out. In the meantime, another host is served.
#[test]
fn requests_that_have_begun_are_bounded() {
    run(async {
        let served = Served::limited(PutRights::None, |limits| {
            limits.heads = 64;
            limits.head_time = Duration::from_secs(600);
        });
        served.write("small", b"small").await;
        let (mut silent, mut connections) = (JoinSet::new(), Vec::new());
        for _ in 0..3 {
            let connection = served.connect().await;
            for _ in 0..100 {
                let (mut send, mut recv) = connection.open_bi().await.unwrap();
                send.write_all(b"\x01\x40\x80\x00").await.unwrap();
                silent.spawn(async move {
                    let ended = recv.read_chunk().await;
                    drop(send);
                    ended
                });
            }
            connections.push(connection);
        }
        for _ in 0..300 - 64 {
            let ended = silent.join_next().await.unwrap().unwrap();
            assert!(ended.is_err());
        }
        let link = served.link_from("127.0.0.2").await;
        serves(&link, "/small", b"small").await;
        assert_eq!(served.origin.counts().timed_out, 0);
        // A client can only open few streams until its requests arrive.
        let connection = served.connect().await;
        let mut streams = Vec::new();
        while let Ok(stream) =
            tokio::time::timeout(Duration::from_millis(100), connection.open_bi()).await
        {
            streams.push(stream.unwrap());
        }
        assert_eq!(streams.len(), 128);
    });
}

/// One host or two occupy all places with content that never ends, over one connection or many.
/// Another host gets its file immediately, and keeps its place for another request.
#[tokio::test]
async fn no_host_holds_the_places_of_others() {
    let holding = [(1, 20, "127.0.0.2"), (20, 1, "127.0.0.3")];
    for hosts in [&holding[..], &holding[1..]] {
        bounded(async {
            let served = Served::limited(PutRights::New, |limits| {
                limits.transfers = 8;
                limits.stall = Duration::from_secs(600);
            });
            served.write("small", b"small").await;
            let mut held = Vec::new();
            for (links, puts, host) in hosts {
                for link in 0..*links {
                    let other = served.link_from(host).await;
                    for put in 0..*puts {
                        let target = format!("/{host}-{link}-{put}");
                        let put = other.request(request("PUT", &target, &[])).await;
                        let mut put = put.unwrap();
                        put.send(content(2000).into()).await.unwrap();
                        held.push((other.clone(), put));
                    }
                }
            }
            until(|| served.names().len() > 8).await;
            let link = served.link_from("127.0.0.4").await;
            for _ in 0..3 {
                let asking = get(&link, "/small", &[]);
                let answer = tokio::time::timeout(Duration::from_secs(10), asking).await;
                assert_eq!(answer.expect("a place").content, b"small");
            }
            // The slowest got a status.
            assert!(served.origin.counts().refused >= 1);
        })
        .await;
    }
}

/// Hashing large files ends with the clients that requested it, and doesn't delay others.
#[test]
fn hashing_ends_with_its_client() {
    run(async {
        let served = Served::new(PutRights::None);
        let large = std::fs::File::create(served.directory.path().join("large")).unwrap();
        large.set_len(1 << 40).unwrap();
        served.write("small", b"small").await;
        let wanted = [("want-repr-digest", "sha-256=10")];
        let connection = served.connect().await;
        let link = link(connection.clone()).await;
        let mut heads = Vec::new();
        for _ in 0..8 {
            let head = link.request(request("HEAD", "/large", &wanted)).await;
            let mut head = head.unwrap();
            head.finish(None).await.unwrap();
            heads.push(head);
        }
        let other = served.link_from("127.0.0.2").await;
        let answer = ask(&other, request("HEAD", "/small", &wanted), b"").await;
        assert!(answer.field("repr-digest").starts_with("sha-256="));
        drop(heads.pop());
        until(|| served.origin.counts().broken_off >= 1).await;
        connection.close(0x10c_u32.into(), b"");
        until(|| served.origin.counts().broken_off >= 8).await;
    });
}

/// While one client occupies all places, others get a status that tells them to try again.
#[test]
fn requests_above_the_limit_of_all_connections_are_refused() {
    run(async {
        let served = Served::limited(PutRights::New, |limits| {
            limits.transfers = 1;
            limits.stall = Duration::from_millis(300);
        });
        served.write("small", b"small").await;
        let link = served.link().await;
        let mut put = link.request(request("PUT", "/x", &[])).await.unwrap();
        put.send(content(2000).into()).await.unwrap();
        until(|| served.names() != ["small"]).await;
        let other = served.link().await;
        let asking = get(&other, "/small", &[]);
        let holding = async {
            for _ in 0..10 {
                put.send(content(2000).into()).await.unwrap();
                // This pace makes the transfer take a second without ever stalling for 300 ms.
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            put.finish(None).await.unwrap();
            put.response().await.unwrap().status()
        };
        let (refused, stored) = tokio::join!(asking, holding);
        assert_eq!(refused.status().as_u16(), 503);
        assert_eq!(refused.field("retry-after"), "5");
        assert_eq!(stored.as_u16(), 201);
        serves(&other, "/small", b"small").await;
    });
}
