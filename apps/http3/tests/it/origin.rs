//! The origin over real sockets, with requests of every kind.

use http::StatusCode;
use pathmark_http3::fields::sha256_field;
use pathmark_http3::plan::PutRights;
use sha2::{Digest, Sha256};

use crate::support::{Answer, Served, ask, content, get, request, serves, status, until};

const LARGE: usize = 3_000_000;

#[tokio::test]
pub(crate) async fn files_are_served_whole_and_in_parts() {
    let served = Served::new(PutRights::None);
    let large = content(LARGE);
    served.write("large", &large).await;
    served.write("empty", b"").await;
    let link = served.link().await;
    let whole = get(&link, "/large", &[]).await;
    let seen = (whole.status(), whole.content.len());
    assert_eq!(seen, (StatusCode::OK, LARGE));
    assert!(whole.content == large);
    let tag = whole.field("etag").to_owned();
    assert!(tag.starts_with('"'), "{tag}");

    let empty = get(&link, "/empty", &[]).await;
    assert_eq!((empty.status(), empty.content.len()), (StatusCode::OK, 0));

    let range = [("range", "bytes=1000000-1999999"), ("if-range", &tag)];
    let part = get(&link, "/large", &range).await;
    assert_eq!(part.status(), StatusCode::PARTIAL_CONTENT);
    assert!(part.content == large[1_000_000..2_000_000]);

    let range = [("range", "bytes=0-9,2000000-2000009,-10")];
    let parts = get(&link, "/large", &range).await;
    assert_eq!(parts.status(), StatusCode::PARTIAL_CONTENT);
    let length: usize = parts.field("content-length").parse().unwrap();
    assert_eq!(parts.content.len(), length);
    let has = |bytes: &[u8]| parts.content.windows(bytes.len()).any(|seen| seen == bytes);
    assert!(has(&large[..10]) && has(&large[2_000_000..2_000_010]));

    let head = ask(&link, request("HEAD", "/large", &[]), b"").await;
    assert_eq!((head.status(), head.content.len()), (StatusCode::OK, 0));
    assert_eq!(head.field("content-length"), LARGE.to_string());

    let known = [("if-none-match", tag.as_str())];
    let unchanged = get(&link, "/large", &known).await;
    assert_eq!(unchanged.status(), StatusCode::NOT_MODIFIED);
    assert_eq!(served.origin.counts().broken_off, 0);
}

#[tokio::test]
pub(crate) async fn a_digest_is_in_the_header_or_the_trailer_section() {
    let served = Served::new(PutRights::None);
    let large = content(LARGE);
    let digest = sha256_field(&Sha256::digest(&large).into());
    served.write("large", &large).await;
    served.write("small", b"small").await;
    let wish = ("want-repr-digest", "sha-256=10");
    let in_trailer = |answer: &Answer| {
        let trailers = answer.trailers.as_ref().unwrap();
        trailers["repr-digest"].to_str().unwrap().to_owned()
    };
    let link = served.link().await;
    let small = get(&link, "/small", &[wish]).await;
    let expected = sha256_field(&Sha256::digest(b"small").into());
    assert_eq!(small.field("repr-digest"), expected);
    // A range of a file whose digest isn't known yet: the whole file is hashed in the meantime.
    let range = [wish, ("range", "bytes=-5")];
    let part = get(&link, "/large", &range).await;
    assert_eq!(part.content, &large[LARGE - 5..]);
    assert_eq!(in_trailer(&part), digest);
    // By now the digest is known.
    let whole = get(&link, "/large", &[wish]).await;
    assert_eq!(whole.field("repr-digest"), digest);
    let head = ask(&link, request("HEAD", "/large", &[wish]), b"").await;
    assert_eq!(head.field("repr-digest"), digest);

    served.write("other", &large).await;
    let whole = get(&link, "/other", &[wish]).await;
    assert_eq!(in_trailer(&whole), digest);
    let unasked = get(&link, "/other", &[]).await;
    assert!(unasked.trailers.is_none() && unasked.field("repr-digest").is_empty());
}

#[tokio::test]
pub(crate) async fn directories_are_listed_in_both_forms() {
    let served = Served::new(PutRights::None);
    let root = served.directory.path();
    std::fs::create_dir(root.join("sub")).unwrap();
    for n in 0..1000 {
        std::fs::write(root.join(format!("sub/{n:04}")), "x").unwrap();
    }
    std::os::unix::fs::symlink("sub/0000", root.join("link")).unwrap();
    std::fs::write(root.join(".pathmark-3.part"), "unfinished").unwrap();
    let link = served.link().await;
    let json = get(&link, "/", &[]).await;
    assert_eq!(json.field("content-type"), "application/json");
    let json: serde_json::Value = serde_json::from_slice(&json.content).unwrap();
    let entries = json["entries"].as_array().unwrap();
    let names: Vec<_> = entries.iter().map(|entry| &entry["name"]).collect();
    assert_eq!(names, ["link", "sub"]);
    assert_eq!(entries[0]["target"], "sub/0000");

    let moved = get(&link, "/sub", &[]).await;
    assert_eq!(moved.status(), StatusCode::PERMANENT_REDIRECT);
    assert_eq!(moved.field("location"), "/sub/");
    let sub = get(&link, "/sub/", &[]).await;
    let json: serde_json::Value = serde_json::from_slice(&sub.content).unwrap();
    assert_eq!(json["entries"].as_array().unwrap().len(), 1000);
    let accept = [("accept", "text/html,*/*;q=0.8")];
    let html = get(&link, "/sub/", &accept).await;
    let html = String::from_utf8(html.content).unwrap();
    assert_eq!(html.matches("<tr><td>").count(), 1001);
    let followed = get(&link, "/link", &[]).await;
    assert_eq!(followed.content, b"x");
}

#[tokio::test]
pub(crate) async fn refusals_have_problem_details_and_the_connection_goes_on() {
    let served = Served::new(PutRights::None);
    served.write("file", b"0123456789").await;
    let outside = served.directory.path().parent().unwrap().join("outside");
    std::os::unix::fs::symlink(&outside, served.directory.path().join("out")).unwrap();
    let link = served.link().await;
    for (method, target, fields, status) in [
        ("GET", "/nothing", &[][..], 404),
        ("GET", "/out", &[], 404),
        ("GET", "/file/", &[], 404),
        ("GET", "/%00", &[], 400),
        ("GET", "/file", &[("range", "bytes=10-")], 416),
        ("GET", "/file", &[("if-match", "\"other\"")], 412),
        ("PUT", "/file", &[], 405),
        ("DELETE", "/file", &[], 405),
        ("FETCH", "/file", &[], 501),
    ] {
        let answer = ask(&link, request(method, target, fields), b"").await;
        assert_eq!(answer.status().as_u16(), status, "{method} {target}");
        assert_eq!(answer.field("content-type"), "application/problem+json");
        let problem: serde_json::Value = serde_json::from_slice(&answer.content).unwrap();
        let detail = problem["detail"].as_str();
        assert!(detail.is_some_and(|detail| detail.len() > 10));
    }
    let head = ask(&link, request("HEAD", "/nothing", &[]), b"").await;
    assert!(head.status() == StatusCode::NOT_FOUND && head.content.is_empty());
    serves(&link, "/file", b"0123456789").await;
    assert_eq!(served.origin.counts().refused, 10);
}

#[tokio::test]
pub(crate) async fn puts_are_stored_whole_or_not_at_all() {
    let served = Served::ruled(|rules| rules.max_file = 2_000_000);
    std::fs::create_dir(served.directory.path().join("sub")).unwrap();
    let link = served.link().await;
    let large = content(1_500_000);
    let digest = sha256_field(&Sha256::digest(&large).into());
    let new = [("if-none-match", "*"), ("repr-digest", digest.as_str())];
    let created = ask(&link, request("PUT", "/sub/a%20b", &new), &large).await;
    assert_eq!(created.status(), StatusCode::CREATED, "{created:?}");
    assert_eq!(created.field("repr-digest"), digest);
    assert!(served.read("sub/a b") == large);
    let put = ("PUT", "/sub/a%20b");
    assert_eq!(status(&link, put, &new, &large).await, 412);
    assert_eq!(status(&link, put, &[], b"new").await, 204);
    assert_eq!(served.read("sub/a b"), b"new");
    let continued = [("expect", "100-continue")];
    assert_eq!(status(&link, ("PUT", "/sub/c"), &continued, b"").await, 201);

    let too_large = content(2_000_001);
    let false_digest = [("repr-digest", digest.as_str())];
    for (target, fields, body, expected) in [
        ("/x", &false_digest[..], &b"other"[..], 400),
        ("/x", &[], &too_large, 413),
        ("/x", &[("content-encoding", "gzip")], b"other", 415),
        ("/sub/c/y", &[], b"other", 409),
        ("/sub", &[], b"other", 409),
        ("/x/", &[], b"other", 409),
        ("/.pathmark-1.part", &[], b"other", 403),
    ] {
        let got = status(&link, ("PUT", target), fields, body).await;
        assert_eq!(got, expected, "{target} {fields:?}");
    }
    // Cancelled halfway.
    let mut exchange = link.request(request("PUT", "/x", &[])).await.unwrap();
    exchange.send(large.into()).await.unwrap();
    drop(exchange);
    until(|| served.names() == ["sub"]).await;
}

/// HTTP/2 resets such requests by itself.
#[tokio::test]
async fn a_false_length_is_refused() {
    let served = Served::ruled(|rules| rules.max_file = 2_000_000);
    let link = served.link().await;
    for (length, body, expected) in [
        ("4", &b"other"[..], 400),
        ("6", b"other", 400),
        ("2000001", b"", 413),
    ] {
        let fields = [("content-length", length)];
        let got = status(&link, ("PUT", "/x"), &fields, body).await;
        assert_eq!(got, expected, "{length}");
    }
}

#[tokio::test]
pub(crate) async fn two_writers_of_one_name_do_not_mix() {
    let served = Served::new(PutRights::Replace);
    let new = [("if-none-match", "*")];
    let mut writers = Vec::new();
    for n in 0..8_u8 {
        let link = served.link().await;
        writers.push(tokio::spawn(async move {
            status(&link, ("PUT", "/x"), &new, &vec![n; 200_000]).await
        }));
    }
    let mut created = 0;
    for writer in writers {
        match writer.await.unwrap() {
            201 => created += 1,
            status => assert_eq!(status, 412),
        }
    }
    assert_eq!(created, 1);
    let stored = served.read("x");
    assert!(stored.len() == 200_000 && stored.iter().all(|byte| *byte == stored[0]));
    assert_eq!(served.names(), ["x"]);
}

/// A server can answer and stop a request before it has read its end (RFC 9114 section 4.1). When
/// the request ends, the transport has already forgotten the stream's sending part.
#[tokio::test]
pub(crate) async fn a_response_counts_after_its_request_was_stopped() {
    let served = Served::new(PutRights::None);
    let link = served.link().await;
    let mut exchange = link.request(request("GET", "/none", &[])).await.unwrap();
    let response = exchange.response().await.unwrap();
    assert_eq!(response.status(), StatusCode::NOT_FOUND);
    // Round trips during which the reset is acknowledged.
    for _ in 0..3 {
        let other = get(&link, "/none", &[]).await;
        assert_eq!(other.status(), StatusCode::NOT_FOUND);
    }
    exchange.finish(None).await.unwrap();
    let mut content = Vec::new();
    while let Some(data) = exchange.data().await.unwrap() {
        content.extend_from_slice(&data);
    }
    assert!(String::from_utf8(content).unwrap().contains("no file"));
}
