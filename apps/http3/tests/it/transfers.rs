//! The client over real sockets, with the origin and with servers that break rules.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::{HeaderMap, Response, StatusCode};
use pathmark_http3::client::{Client, ClientLimits, Fetched, GetError, PutError, Refusal};
use pathmark_http3::plan::PutRights;
use pathmark_http3::root::{Existing, KeepError};
use pathmark_http3::wire::{ServerExchange, ServerLink};
use sha2::{Digest, Sha256};

use crate::support::{Served, against, bounded, content, names, path, unfinished, until};

#[tokio::test]
pub(crate) async fn files_arrive_with_their_digests() {
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
        // The file is already there, or another one is.
        let again = client.get(&source, &target, Existing::Keep).await.unwrap();
        assert_eq!((again.bytes, again.resumed), (length as u64, length as u64));
        std::fs::write(&target, "own").unwrap();
        let kept = client.get(&source, &target, Existing::Keep).await;
        assert!(matches!(kept, Err(GetError::Keep(KeepError::Exists))));
        assert_eq!(std::fs::read(&target).unwrap(), b"own");
        let replaced = client.get(&source, &target, Existing::Replace).await;
        replaced.unwrap();
    }
    let (none, target) = (path("/none"), here.path().join("none"));
    let missing = client.get(&none, &target, Existing::Keep).await;
    let Err(GetError::Refused(Refusal { status, detail })) = missing else {
        panic!("it is refused");
    };
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert!(detail.contains("no file"), "{detail}");
    assert_eq!(names(here.path()).len(), 3);
}

/// Fetches until a part of 1 MB is on disk, and then gives up.
async fn fetch_part(served: &Served, target: &std::path::Path) {
    let client = served.client().await;
    let source = path("/file");
    tokio::select! {
        got = client.get(&source, target, Existing::Keep) => {
            panic!("it should take longer: {got:?}")
        }
        () = until(|| unfinished(target.parent().unwrap()) >= 1_000_000) => {}
    }
    // If a piece is being written at this time, the write is completed.
    tokio::time::sleep(Duration::from_millis(100)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
pub(crate) async fn a_get_goes_on_where_it_stopped() {
    let served = Served::new(PutRights::None);
    let first = content(60_000_000);
    served.write("file", &first).await;
    let here = tempfile::tempdir().unwrap();
    let target = here.path().join("x".repeat(255));
    fetch_part(&served, &target).await;
    let (client, source) = (served.client().await, path("/file"));
    let fetched = client.get(&source, &target, Existing::Keep).await.unwrap();
    assert!(fetched.resumed >= 1_000_000 && fetched.verified);
    assert!(std::fs::read(&target).unwrap() == first);
    assert_eq!(names(here.path()).len(), 1);

    // Another version with the same size is fetched completely.
    std::fs::remove_file(&target).unwrap();
    fetch_part(&served, &target).await;
    let second: Vec<u8> = first.iter().rev().copied().collect();
    served.write("file", &second).await;
    let fetched = client.get(&source, &target, Existing::Keep).await.unwrap();
    assert_eq!(fetched.resumed, 0);
    assert!(std::fs::read(&target).unwrap() == second);

    // Bytes of the part that have changed on disk are detected by the digest before the file
    // gets its name, whether they are hashed at the beginning or read back at the end.
    std::fs::remove_file(&target).unwrap();
    fetch_part(&served, &target).await;
    let parts = std::fs::read_dir(here.path()).unwrap();
    let parts = parts.map(|entry| entry.unwrap().path());
    let part = parts
        .max_by_key(|path| path.metadata().unwrap().len())
        .unwrap();
    let file = std::fs::File::options().write(true).open(part).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"damage", 1000).unwrap();
    let damaged = client.get(&source, &target, Existing::Keep).await;
    assert!(matches!(damaged, Err(GetError::Digest)), "{damaged:?}");
    assert!(names(here.path()).is_empty());
}

#[tokio::test]
pub(crate) async fn puts_are_confirmed() {
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
    let closed = closed.client().await;
    let refused = closed.put(&source, &path("/x"), Existing::Keep).await;
    let Err(PutError::Refused(Refusal { status, detail })) = refused else {
        panic!("it is refused: {refused:?}");
    };
    assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
    assert!(detail.contains("operator"), "{detail}");
    let directory = client.put(here.path(), &path("/x"), Existing::Keep).await;
    assert!(matches!(directory, Err(PutError::Source)));
}

/// If a source changes in the meantime, it is not stored and leaves nothing behind.
#[tokio::test]
pub(crate) async fn a_put_of_a_file_that_changes_is_cancelled() {
    let served = Served::new(PutRights::New);
    let here = tempfile::tempdir().unwrap();
    let source = here.path().join("source");
    std::fs::write(&source, content(60_000_000)).unwrap();
    let client = served.client().await;
    let file = std::fs::File::options().write(true).open(&source).unwrap();
    let begun = || {
        served
            .names()
            .iter()
            .any(|name| name.starts_with(".pathmark-"))
    };
    let changing = async {
        until(begun).await;
        std::os::unix::fs::FileExt::write_all_at(&file, b"changed", 1000).unwrap();
    };
    let to = path("/stored");
    let putting = client.put(&source, &to, Existing::Keep);
    let (put, ()) = tokio::join!(putting, changing);
    assert!(matches!(put, Err(PutError::Changed)), "{put:?}");
    until(|| served.names().is_empty()).await;
}

/// Returns a client of a server that answers each request by calling `respond`.
async fn answering<F>(respond: impl Fn(ServerExchange) -> F + Send + 'static) -> Client
where
    F: Future<Output = ()> + Send,
{
    let mut limits = ClientLimits::default();
    (limits.answer, limits.stall) = (Duration::from_secs(1), Duration::from_secs(1));
    let serve = async move |mut link: ServerLink| {
        while let Ok(Some(incoming)) = link.next().await {
            let (_, exchange) = incoming.head(Duration::from_secs(5)).await.unwrap();
            respond(exchange).await;
        }
    };
    against(limits, serve).await
}

fn head(status: u16, fields: &[(&str, &str)]) -> Response<()> {
    let mut head = Response::builder().status(status);
    for (name, value) in fields {
        head = head.header(*name, *value);
    }
    head.body(()).unwrap()
}

type Fields = &'static [(&'static str, &'static str)];

#[tokio::test]
async fn servers_that_break_rules_are_refused() {
    type Got = Result<Fetched, GetError>;
    /// Status, fields, content, digest in the trailer section, and what is expected.
    type Case = (
        u16,
        Fields,
        &'static [u8],
        Option<&'static str>,
        fn(&Got) -> bool,
    );
    const WRONG: &str = "sha-256=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:";
    const PART: Fields = &[("content-range", "bytes 0-4/9")];
    const IN_HEADER: Fields = &[("repr-digest", WRONG)];
    fn malformed(got: &Got) -> bool {
        matches!(got, Err(GetError::Response(_)))
    }
    fn forged(got: &Got) -> bool {
        matches!(got, Err(GetError::Digest))
    }
    let cases: [Case; 8] = [
        (200, &[("content-length", "5")], b"hello", None, |got| {
            got.as_ref().is_ok_and(|got| !got.verified)
        }),
        (200, &[("content-length", "4")], b"hello", None, malformed),
        (200, &[("content-length", "6")], b"hello", None, |got| {
            matches!(got, Err(GetError::Short { received: 5, .. }))
        }),
        (200, IN_HEADER, b"hello", None, forged),
        (200, &[], b"hello", Some(WRONG), forged),
        (206, PART, b"hello", None, malformed),
        (204, &[], b"", None, malformed),
        (301, &[("location", "/y")], b"", None, |got| {
            matches!(got, Err(GetError::Refused(_)))
        }),
    ];
    for (status, fields, body, trailer, is_expected) in cases {
        let client = answering(move |mut exchange| async move {
            exchange.respond(head(103, &[])).await.unwrap();
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
        let (client, from) = (client.await, path("/x"));
        let got = bounded(client.get(&from, &target, Existing::Keep)).await;
        assert!(is_expected(&got), "{status} {fields:?}: {got:?}");
        let left: &[&str] = match got {
            Ok(_) => &["target"],
            // What has arrived of it stays.
            Err(GetError::Short { .. }) => continue,
            Err(_) => &[],
        };
        assert_eq!(names(here.path()), left, "{status} {fields:?}");
    }
}

/// Responds with these fields and `hello`, and breaks off.
async fn break_off(mut exchange: ServerExchange, fields: Fields) {
    exchange.respond(head(200, fields)).await.unwrap();
    exchange.send(b"hello"[..].into()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
}

#[tokio::test]
async fn a_response_that_breaks_off_leaves_a_part() {
    let here = tempfile::tempdir().unwrap();
    let get = async |client: &Client, name: &str| {
        client
            .get(&path("/x"), &here.path().join(name), Existing::Keep)
            .await
    };
    let tagged: Fields = &[("content-length", "1000"), ("etag", "\"v1\"")];
    let client = answering(move |exchange| break_off(exchange, tagged)).await;
    let got = get(&client, "target").await;
    assert!(matches!(got, Err(GetError::Kept(_))), "{got:?}");
    assert_eq!(names(here.path()).len(), 2);
    // Without a tag, no transfer can resume, and the error doesn't suggest it.
    let client = answering(|exchange| break_off(exchange, &[("content-length", "1000")])).await;
    let got = get(&client, "untagged").await;
    assert!(matches!(got, Err(GetError::Link(_))), "{got:?}");
    // After all of the content without an end, the last byte is enough.
    let first = Arc::new(AtomicBool::new(true));
    let client = answering(move |mut exchange| {
        let first = first.swap(false, Ordering::Relaxed);
        async move {
            if first {
                break_off(exchange, &[("content-length", "5"), ("etag", "\"v1\"")]).await;
            } else {
                let fields = [("content-range", "bytes 4-4/5"), ("etag", "\"v1\"")];
                exchange.respond(head(206, &fields)).await.unwrap();
                exchange.send(b"o"[..].into()).await.unwrap();
                exchange.finish(None).await.unwrap();
            }
        }
    })
    .await;
    let got = get(&client, "whole").await;
    assert!(matches!(got, Err(GetError::Kept(_))), "{got:?}");
    let got = get(&client, "whole").await.unwrap();
    assert_eq!((got.bytes, got.resumed), (5, 4));
    assert_eq!(std::fs::read(here.path().join("whole")).unwrap(), b"hello");
    // A server that sends nothing.
    let client = answering(|exchange| async move {
        tokio::time::sleep(Duration::from_secs(60)).await;
        drop(exchange);
    })
    .await;
    let got = get(&client, "target").await;
    assert!(matches!(got, Err(GetError::Link(_))), "{got:?}");
}
