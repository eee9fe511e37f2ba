//! The client over real sockets, with the origin and with servers that break rules.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::{HeaderMap, Response, StatusCode};
use pathmark_http3::client::{Client, ClientLimits, GetError, PutError, Refusal};
use pathmark_http3::plan::PutRights;
use pathmark_http3::root::{Existing, KeepError};
use pathmark_http3::wire::{ServerExchange, ServerLink};
use sha2::{Digest, Sha256};

use crate::support::{Identity, NAME, Served, bounded, connect, content, listen, names, path};

#[tokio::test]
async fn files_arrive_with_their_digests() {
    bounded(async {
        let served = Served::new(PutRights::None);
        let here = tempfile::tempdir().unwrap();
        let client = served.client().await;
        for (length, encoded) in [(0, "/empty"), (1, "/%ff%20one"), (3_000_000, "/large")] {
            let content = content(length);
            let source = path(encoded);
            let name: &std::ffi::OsStr =
                std::os::unix::ffi::OsStrExt::from_bytes(source.names[0].as_slice());
            served.write(name, &content).await;
            let target = here.path().join(name);
            let fetched = client.get(&source, &target, Existing::Keep).await.unwrap();
            assert_eq!((fetched.bytes, fetched.resumed), (length as u64, 0));
            assert!(fetched.verified && fetched.sha256 == *Sha256::digest(&content));
            assert!(std::fs::read(&target).unwrap() == content);
            let again = client.get(&source, &target, Existing::Keep).await;
            assert!(matches!(again, Err(GetError::Keep(KeepError::Exists))));
            client
                .get(&source, &target, Existing::Replace)
                .await
                .unwrap();
        }
        let missing = client
            .get(&path("/none"), &here.path().join("none"), Existing::Keep)
            .await;
        let Err(GetError::Refused(Refusal { status, detail })) = missing else {
            panic!("it is refused");
        };
        assert_eq!(status, StatusCode::NOT_FOUND);
        assert!(detail.contains("no file"), "{detail}");
        assert_eq!(names(here.path()).len(), 3);
    })
    .await;
}

#[tokio::test]
async fn directories_are_listed() {
    bounded(async {
        let served = Served::new(PutRights::None);
        let root = served.directory.path();
        std::fs::create_dir(root.join("sub")).unwrap();
        for n in 0..300 {
            std::fs::write(root.join(format!("sub/{n:03} &?")), "x").unwrap();
        }
        std::os::unix::fs::symlink("../a b", root.join("sub/link")).unwrap();
        let client = served.client().await;
        for directory in ["/sub", "/sub/"] {
            let entries = client.list(&path(directory)).await.unwrap();
            assert_eq!(entries.len(), 301);
            assert_eq!(
                (entries[7].name.as_slice(), entries[7].size),
                (&b"007 &?"[..], 1)
            );
            assert_eq!(entries[300].target.as_deref(), Some(&b"../a b"[..]));
        }
        let missing = client.list(&path("/none/")).await;
        assert!(matches!(missing, Err(GetError::Refused(_))), "{missing:?}");
    })
    .await;
}

/// Fetches until a part of this size is on disk, and then gives up.
async fn fetch_part(served: &Served, target: &std::path::Path, bytes: u64) {
    let client = served.client().await;
    let directory = target.parent().unwrap();
    let enough = || {
        let names = names(directory).into_iter();
        let mut parts = names.filter(|name| name.starts_with(".pathmark-"));
        parts.any(|part| {
            let part = directory.join(part).metadata();
            part.is_ok_and(|part| part.len() >= bytes)
        })
    };
    let source = path("/file");
    let getting = client.get(&source, target, Existing::Keep);
    tokio::select! {
        got = getting => panic!("it should take longer: {got:?}"),
        () = async {
            while !enough() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        } => {}
    }
    // If a piece is being written at this time, the write is completed.
    tokio::time::sleep(Duration::from_millis(100)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_get_goes_on_where_it_stopped() {
    bounded(async {
        let served = Served::new(PutRights::None);
        let first = content(60_000_000);
        served.write("file", &first).await;
        let here = tempfile::tempdir().unwrap();
        let target = here.path().join("x".repeat(255));
        fetch_part(&served, &target, 1_000_000).await;
        let client = served.client().await;
        let fetched = client
            .get(&path("/file"), &target, Existing::Keep)
            .await
            .unwrap();
        assert!(
            fetched.resumed >= 1_000_000 && fetched.verified,
            "{fetched:?}"
        );
        assert!(std::fs::read(&target).unwrap() == first);
        assert_eq!(names(here.path()).len(), 1);

        // Another version with the same size is fetched completely.
        std::fs::remove_file(&target).unwrap();
        fetch_part(&served, &target, 1_000_000).await;
        let second: Vec<u8> = first.iter().rev().copied().collect();
        served.write("file", &second).await;
        let fetched = client
            .get(&path("/file"), &target, Existing::Keep)
            .await
            .unwrap();
        assert_eq!(fetched.resumed, 0);
        assert!(std::fs::read(&target).unwrap() == second);

        // Bytes of the part that have changed on disk are detected by the digest before the file
        // gets its name, whether they are hashed at the beginning or read back at the end.
        std::fs::remove_file(&target).unwrap();
        fetch_part(&served, &target, 1_000_000).await;
        let part = std::fs::read_dir(here.path())
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let part = part
            .max_by_key(|path| path.metadata().unwrap().len())
            .unwrap();
        let file = std::fs::File::options().write(true).open(part).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, b"damage", 1000).unwrap();
        let damaged = client.get(&path("/file"), &target, Existing::Keep).await;
        assert!(matches!(damaged, Err(GetError::Digest)), "{damaged:?}");
        assert!(names(here.path()).is_empty());
    })
    .await;
}

#[tokio::test]
async fn puts_are_confirmed() {
    bounded(async {
        let served = Served::new(PutRights::Replace);
        let here = tempfile::tempdir().unwrap();
        let client = served.client().await;
        let source = here.path().join("source");
        for length in [0, 1, 3_000_000] {
            let content = content(length);
            std::fs::write(&source, &content).unwrap();
            let to = path(&format!("/{length}"));
            let stored = client.put(&source, &to, Existing::Keep).await.unwrap();
            assert!(stored.verified && stored.bytes == length as u64);
            assert!(served.read(length.to_string()) == content);
            let again = client.put(&source, &to, Existing::Keep).await;
            let Err(PutError::Refused(Refusal { status, .. })) = again else {
                panic!("it is refused: {again:?}");
            };
            assert_eq!(status, StatusCode::PRECONDITION_FAILED);
            client.put(&source, &to, Existing::Replace).await.unwrap();
        }
        let closed = Served::new(PutRights::None);
        let refused = closed
            .client()
            .await
            .put(&source, &path("/x"), Existing::Keep)
            .await;
        let Err(PutError::Refused(Refusal { status, detail })) = refused else {
            panic!("it is refused: {refused:?}");
        };
        assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
        assert!(detail.contains("operator"), "{detail}");
        let directory = client.put(here.path(), &path("/x"), Existing::Keep).await;
        assert!(matches!(directory, Err(PutError::Source)));
    })
    .await;
}

/// If a source changes in the meantime, it is not stored and leaves nothing behind.
#[tokio::test]
async fn a_put_of_a_file_that_changes_is_cancelled() {
    bounded(async {
        let served = Served::new(PutRights::New);
        let here = tempfile::tempdir().unwrap();
        let source = here.path().join("source");
        std::fs::write(&source, content(60_000_000)).unwrap();
        let client = served.client().await;
        let file = std::fs::File::options().write(true).open(&source).unwrap();
        let begun = || {
            let names = served.names();
            names
                .first()
                .is_some_and(|name| name.starts_with(".pathmark-"))
        };
        let changing = async {
            while !begun() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            std::os::unix::fs::FileExt::write_all_at(&file, b"changed", 1000).unwrap();
        };
        let to = path("/stored");
        let putting = client.put(&source, &to, Existing::Keep);
        let (put, ()) = tokio::join!(putting, changing);
        assert!(matches!(put, Err(PutError::Changed)), "{put:?}");
        while !served.names().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

/// Returns a client of a server that answers each request by calling `respond`.
async fn against<F>(respond: impl Fn(ServerExchange) -> F + Send + 'static) -> Client
where
    F: Future<Output = ()> + Send,
{
    let identity = Identity::new();
    let endpoint = listen(&identity);
    let address = endpoint.local_address();
    tokio::spawn(async move {
        let connection = endpoint
            .accept()
            .await
            .unwrap()
            .accept()
            .unwrap()
            .await
            .unwrap();
        let mut link = ServerLink::new(connection, 64 * 1024).await.unwrap();
        while let Ok(Some(incoming)) = link.next().await {
            let (_, exchange) = incoming.head(Duration::from_secs(5)).await.unwrap();
            respond(exchange).await;
        }
    });
    let connection = connect(&identity, address).await;
    let limits = ClientLimits {
        answer: Duration::from_secs(1),
        stall: Duration::from_secs(1),
        ..ClientLimits::default()
    };
    Client::new(connection, NAME, limits).await.unwrap()
}

fn head(status: u16, fields: &[(&str, &str)]) -> Response<()> {
    let mut head = Response::builder().status(status);
    for (name, value) in fields {
        head = head.header(*name, *value);
    }
    head.body(()).unwrap()
}

#[tokio::test]
async fn servers_that_break_rules_are_refused() {
    type Case = (u16, &'static [(&'static str, &'static str)], &'static [u8]);
    const WRONG: &str = "sha-256=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:";
    let get = async |(status, fields, body): Case, trailer: Option<&'static str>| {
        let client = against(move |mut exchange| async move {
            let early = head(103, &[]);
            exchange.respond(early).await.unwrap();
            exchange.respond(head(status, fields)).await.unwrap();
            exchange.send(body.into()).await.unwrap();
            let trailers = trailer.map(|value| {
                let mut trailers = HeaderMap::new();
                trailers.insert("repr-digest", value.parse().unwrap());
                trailers
            });
            exchange.finish(trailers).await.unwrap();
        });
        let here = tempfile::tempdir().unwrap();
        let target = here.path().join("target");
        let got = client.await.get(&path("/x"), &target, Existing::Keep).await;
        (got, names(here.path()))
    };
    bounded(async {
        let (got, names) = get((200, &[("content-length", "5")], b"hello"), None).await;
        assert!(!got.unwrap().verified && names == ["target"]);
        let (got, names) = get((200, &[("content-length", "4")], b"hello"), None).await;
        assert!(
            matches!(got, Err(GetError::Response(_))) && names.is_empty(),
            "{got:?}"
        );
        let (got, _) = get((200, &[("content-length", "6")], b"hello"), None).await;
        assert!(
            matches!(got, Err(GetError::Short { received: 5, .. })),
            "{got:?}"
        );
        let (got, names) = get((200, &[("repr-digest", WRONG)], b"hello"), None).await;
        assert!(
            matches!(got, Err(GetError::Digest)) && names.is_empty(),
            "{got:?}"
        );
        let (got, names) = get((200, &[], b"hello"), Some(WRONG)).await;
        assert!(
            matches!(got, Err(GetError::Digest)) && names.is_empty(),
            "{got:?}"
        );
        let (got, _) = get((206, &[("content-range", "bytes 0-4/9")], b"hello"), None).await;
        assert!(matches!(got, Err(GetError::Response(_))), "{got:?}");
        let (got, _) = get((204, &[], b""), None).await;
        assert!(matches!(got, Err(GetError::Response(_))), "{got:?}");
        let (got, names) = get((301, &[("location", "/y")], b""), None).await;
        assert!(
            matches!(got, Err(GetError::Refused(_))) && names.is_empty(),
            "{got:?}"
        );
    })
    .await;
}

#[tokio::test]
async fn a_response_that_breaks_off_leaves_a_part() {
    bounded(async {
        let client = against(|mut exchange| async move {
            let fields = [("content-length", "1000"), ("etag", "\"v1\"")];
            exchange.respond(head(200, &fields)).await.unwrap();
            exchange.send(b"hello"[..].into()).await.unwrap();
            tokio::time::sleep(Duration::from_millis(100)).await;
        })
        .await;
        let here = tempfile::tempdir().unwrap();
        let target = here.path().join("target");
        let got = client.get(&path("/x"), &target, Existing::Keep).await;
        assert!(matches!(got, Err(GetError::Kept(_))), "{got:?}");
        assert_eq!(names(here.path()).len(), 2);
        // Without a tag, no transfer can resume, and the error doesn't suggest it.
        let client = against(|mut exchange| async move {
            let fields = [("content-length", "1000")];
            exchange.respond(head(200, &fields)).await.unwrap();
            exchange.send(b"hello"[..].into()).await.unwrap();
            tokio::time::sleep(Duration::from_millis(100)).await;
        })
        .await;
        let untagged = here.path().join("untagged");
        let got = client.get(&path("/x"), &untagged, Existing::Keep).await;
        assert!(matches!(got, Err(GetError::Link(_))), "{got:?}");
        // After all of the content without an end, the last byte is enough.
        let first = Arc::new(AtomicBool::new(true));
        let client = against(move |mut exchange| {
            let first = first.swap(false, Ordering::Relaxed);
            async move {
                if first {
                    let fields = [("content-length", "5"), ("etag", "\"v1\"")];
                    exchange.respond(head(200, &fields)).await.unwrap();
                    exchange.send(b"hello"[..].into()).await.unwrap();
                    tokio::time::sleep(Duration::from_millis(100)).await;
                } else {
                    let fields = [("content-range", "bytes 4-4/5"), ("etag", "\"v1\"")];
                    exchange.respond(head(206, &fields)).await.unwrap();
                    exchange.send(b"o"[..].into()).await.unwrap();
                    exchange.finish(None).await.unwrap();
                }
            }
        })
        .await;
        let whole = here.path().join("whole");
        let got = client.get(&path("/x"), &whole, Existing::Keep).await;
        assert!(matches!(got, Err(GetError::Kept(_))), "{got:?}");
        let got = client
            .get(&path("/x"), &whole, Existing::Keep)
            .await
            .unwrap();
        assert_eq!((got.bytes, got.resumed), (5, 4));
        assert_eq!(std::fs::read(&whole).unwrap(), b"hello");
        // A server that sends nothing.
        let client = against(|exchange| async move {
            tokio::time::sleep(Duration::from_secs(60)).await;
            drop(exchange);
        })
        .await;
        let got = client.get(&path("/x"), &target, Existing::Keep).await;
        assert!(matches!(got, Err(GetError::Link(_))), "{got:?}");
    })
    .await;
}
