//! Requests at the limits of their fields: each gets a status, and the next request gets its file.

use pathmark_http3::fields::{AttributesField, sha256_field};
use pathmark_http3::origin::Limits;
use pathmark_http3::plan::{PutRights, Rules};
use pathmark_http3::wire::{LinkError, codes};
use sha2::{Digest, Sha256};

use crate::support::{Served, ask, bounded, content, request};

const FILE: usize = 100_000;

/// Sends a GET with these ranges, and returns its status and content.
async fn ranged(served: &Served, ranges: &str) -> (u16, Vec<u8>) {
    let link = served.link().await;
    let fields = [("range", ranges)];
    let answer = ask(&link, request("GET", "/file", &fields), b"").await;
    (answer.status().as_u16(), answer.content)
}

#[tokio::test]
async fn ranges_are_bounded_by_the_file() {
    bounded(async {
        let served = Served::new(PutRights::None);
        let file = content(FILE);
        served.write("file", &file).await;
        let last = u64::MAX;
        for (ranges, status, bytes) in [
            (format!("bytes=0-{last}"), 206, &file[..]),
            (format!("bytes={}-{last}", FILE - 1), 206, &file[FILE - 1..]),
            (format!("bytes=-{last}"), 206, &file),
            // Overlapping ranges are merged.
            ("bytes=10-20,15-30,5-12".to_owned(), 206, &file[5..=30]),
            (format!("bytes=0-{last}0"), 206, &file),
            // A field with an invalid range is ignored.
            ("bytes=9-3".to_owned(), 200, &file),
            ("bytes=--1".to_owned(), 200, &file),
            ("lines=0-3".to_owned(), 200, &file),
        ] {
            let (got, content) = ranged(&served, &ranges).await;
            assert_eq!((got, content.len()), (status, bytes.len()), "{ranges}");
            assert!(content == bytes, "{ranges}");
        }
        for ranges in [
            format!("bytes={last}-"),
            format!("bytes={last}-{last}"),
            format!("bytes={FILE}-{last}"),
            "bytes=-0".to_owned(),
        ] {
            assert_eq!(ranged(&served, &ranges).await.0, 416, "{ranges}");
        }
    })
    .await;
}

/// A thousand ranges cost no more than the file.
#[tokio::test]
async fn a_thousand_ranges_are_one_or_refused() {
    bounded(async {
        let served = Served::new(PutRights::None);
        let file = content(FILE);
        served.write("file", &file).await;
        let join = |range: fn(usize) -> String| {
            let ranges: Vec<_> = (0..1000).map(range).collect();
            format!("bytes={}", ranges.join(","))
        };
        let (status, whole) = ranged(&served, &join(|n| format!("{n}-{}", n + 50_000))).await;
        assert_eq!((status, whole.len()), (206, 51_000));
        assert!(whole == file[..51_000]);
        let (status, _) = ranged(&served, &join(|n| format!("{}-{}", 20 * n, 20 * n))).await;
        assert_eq!(status, 416);
        let (status, _) = ranged(&served, &join(|_| "0-".to_owned())).await;
        assert_eq!(status, 206);
    })
    .await;
}

/// Sends a GET for each name and, unless the name is refused, a PUT.
#[tokio::test]
async fn names_of_no_file_get_a_status() {
    bounded(async {
        let served = Served::new(PutRights::Replace);
        served.write("file", b"honest").await;
        let outer = served.directory.path().parent().unwrap().to_owned();
        let escaped = outer.join("pathmark-escaped");
        let link = served.link().await;
        let deep = "/d".repeat(1000);
        let long = format!("/{}", "x".repeat(30_000));
        for (target, status) in [
            ("/%00", 400),
            ("/file%00.txt", 400),
            ("/..", 400),
            ("/../pathmark-escaped", 400),
            ("/%2e%2E/pathmark-escaped", 400),
            ("/sub/.%2e/.%2e/pathmark-escaped", 400),
            ("/a%2fb", 400),
            ("/..%2fpathmark-escaped", 400),
            ("/%", 400),
            ("/%zz", 400),
            (&long, 400),
            (&deep, 404),
            ("/.pathmark-0.part", 404),
        ] {
            let shown = &target[..target.len().min(40)];
            let answer = ask(&link, request("GET", target, &[]), b"").await;
            assert_eq!(answer.status().as_u16(), status, "GET {shown}");
            let answer = ask(&link, request("PUT", target, &[]), b"content").await;
            assert!(answer.status().is_client_error(), "PUT {shown}: {answer:?}");
        }
        let fine = ask(&link, request("GET", "/file", &[]), b"").await;
        assert_eq!(fine.content, b"honest");
        assert!(!escaped.exists());
    })
    .await;
}

/// The field section exceeds the limit.
#[tokio::test]
async fn a_name_of_64_kilobytes_gets_a_status() {
    bounded(async {
        let served = Served::new(PutRights::Replace);
        served.write("file", b"honest").await;
        let link = served.link().await;
        let long = format!("/{}", "x".repeat(65_000));
        for method in ["GET", "PUT", "HEAD"] {
            let mut exchange = link.request(request(method, &long, &[])).await.unwrap();
            // By now, the server may have refused the request and stopped the stream.
            let _ = exchange.finish(None).await;
            let status = exchange.response().await.unwrap().status();
            assert!(status.is_client_error(), "{method}: {status}");
        }
        let fine = ask(&link, request("GET", "/file", &[]), b"").await;
        assert_eq!(fine.content, b"honest");
    })
    .await;
}

#[tokio::test]
async fn false_lengths_and_digests_store_nothing() {
    bounded(async {
        let served = Served::new(PutRights::Replace);
        let link = served.link().await;
        let other = sha256_field(&Sha256::digest(b"other").into());
        let most = u64::MAX.to_string();
        for (name, value) in [
            ("content-length", "0"),
            ("content-length", most.as_str()),
            ("content-length", "18446744073709551616"),
            ("content-length", "-1"),
            ("content-length", "+7"),
            ("content-length", "1, 1"),
            ("repr-digest", other.as_str()),
            ("repr-digest", "sha-256=:AAAA:"),
            ("repr-digest", "sha-256=1"),
            ("repr-digest", "sha-256=:"),
        ] {
            let put = request("PUT", "/f", &[(name, value)]);
            let answer = ask(&link, put, b"content").await;
            // 507 if the disk has no room for this length.
            assert!(answer.status().as_u16() >= 400, "{name}: {value}");
            assert!(served.names().is_empty(), "{name}: {value}");
        }
        let fine = ask(&link, request("PUT", "/f", &[]), b"content").await;
        assert_eq!(fine.status().as_u16(), 201);
    })
    .await;
}

/// A client confined to a directory stores links there, and requests the directory itself.
#[tokio::test]
async fn no_link_leads_a_client_out_of_its_directory() {
    bounded(async {
        let rules = Rules {
            put: PutRights::Replace,
            prefix: vec![b"own".to_vec()],
            ..Rules::default()
        };
        let served = Served::with(rules, Limits::default());
        let at = |name: &str| served.directory.path().join(name);
        std::fs::create_dir(at("other")).unwrap();
        served.write("other/file", b"secret").await;
        let link = served.link().await;
        let put = async |path: &str, target: &str| {
            let attributes = AttributesField {
                link: Some(target.as_bytes().to_vec()),
                ..AttributesField::default()
            };
            let attributes = attributes.write();
            let fields = [("pathmark-attributes", attributes.as_str())];
            ask(&link, request("PUT", path, &fields), b"")
                .await
                .status()
                .as_u16()
        };
        assert_eq!(put("/own", "other").await, 403);
        assert_eq!(put("/own/way", "../other").await, 403);
        std::fs::create_dir_all(at("own/a/b")).unwrap();
        for (path, target, status) in [
            ("/own/fine", "./a/b/file", 201),
            ("/own/a/b/top", "../..", 201),
            ("/own/a/b/out", "../../../other", 403),
            // Both go through the link to the top.
            ("/own/a/b/top/out", "../other", 403),
            ("/own/out", "a/b/top/../other", 403),
        ] {
            assert_eq!(put(path, target).await, status, "{path} -> {target}");
        }
        assert_eq!(
            ask(&link, request("PUT", "/own", &[]), b"x")
                .await
                .status()
                .as_u16(),
            403
        );
        // A link that already existed, or that another client stored.
        std::os::unix::fs::symlink("../other", at("own/way")).unwrap();
        for (method, path) in [
            ("GET", "/own/way/file"),
            ("HEAD", "/own/way/file"),
            ("GET", "/own/way/"),
            ("PUT", "/own/way/new"),
        ] {
            let status = ask(&link, request(method, path, &[]), b"").await.status();
            assert!(status.is_client_error(), "{method} {path}: {status}");
        }
        assert_eq!(std::fs::read_dir(at("other")).unwrap().count(), 1);
    })
    .await;
}

#[tokio::test]
async fn fields_of_a_connection_are_malformed() {
    bounded(async {
        let served = Served::new(PutRights::None);
        served.write("file", b"honest").await;
        let link = served.link().await;
        for field in [
            ("connection", "close"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "websocket"),
            ("te", "gzip"),
        ] {
            let sent = link.request(request("GET", "/file", &[field])).await;
            let error = sent.unwrap().response().await.unwrap_err();
            let code = codes::MESSAGE_ERROR;
            assert!(
                matches!(error, LinkError::Reset { code: other } if other == code),
                "{field:?}: {error}"
            );
        }
        let fine = request("GET", "/file", &[("te", "trailers")]);
        assert_eq!(ask(&link, fine, b"").await.content, b"honest");
    })
    .await;
}
