//! Requests at the limits of their fields: each gets a status, and the next request gets its file.

use pathmark_http3::fields::AttributesField;
use pathmark_http3::plan::PutRights;
use pathmark_http3::wire::{LinkError, codes};

use crate::support::{Served, ask, request, serves, status};

/// Sends a GET for each name and, unless the name is refused, a PUT.
#[tokio::test]
pub(crate) async fn names_of_no_file_get_a_status() {
    let served = Served::new(PutRights::Replace);
    served.write("file", b"honest").await;
    let outer = served.directory.path().parent().unwrap().to_owned();
    let escaped = outer.join("pathmark-escaped");
    let link = served.link().await;
    let deep = "/d".repeat(1000);
    let long = format!("/{}", "x".repeat(30_000));
    for (target, expected) in [
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
        let got = status(&link, ("GET", target), &[], b"").await;
        assert_eq!(got, expected, "GET {shown}");
        let put = status(&link, ("PUT", target), &[], b"content").await;
        assert!((400..500).contains(&put), "PUT {shown}: {put}");
    }
    serves(&link, "/file", b"honest").await;
    assert!(!escaped.exists());
}

/// The field section exceeds the limit.
#[tokio::test]
pub(crate) async fn a_name_of_64_kilobytes_gets_a_status() {
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
    serves(&link, "/file", b"honest").await;
}

/// A client confined to a directory stores links there, and requests the directory itself.
#[tokio::test]
pub(crate) async fn no_link_leads_a_client_out_of_its_directory() {
    let served = Served::ruled(|rules| rules.prefix = vec![b"own".to_vec()]);
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
        status(&link, ("PUT", path), &fields, b"").await
    };
    assert_eq!(put("/own", "other").await, 403);
    assert_eq!(put("/own/way", "../other").await, 403);
    std::fs::create_dir_all(at("own/a/b")).unwrap();
    for (path, target, expected) in [
        ("/own/fine", "./a/b/file", 201),
        ("/own/a/b/top", "../..", 201),
        ("/own/a/b/out", "../../../other", 403),
        // Both go through the link to the top.
        ("/own/a/b/top/out", "../other", 403),
        ("/own/out", "a/b/top/../other", 403),
    ] {
        assert_eq!(put(path, target).await, expected, "{path} -> {target}");
    }
    assert_eq!(status(&link, ("PUT", "/own"), &[], b"x").await, 403);
    // A link that already existed, or that another client stored.
    std::os::unix::fs::symlink("../other", at("own/way")).unwrap();
    for (method, path) in [
        ("GET", "/own/way/file"),
        ("HEAD", "/own/way/file"),
        ("GET", "/own/way/"),
        ("PUT", "/own/way/new"),
    ] {
        let got = status(&link, (method, path), &[], b"").await;
        assert!((400..500).contains(&got), "{method} {path}: {got}");
    }
    assert_eq!(std::fs::read_dir(at("other")).unwrap().count(), 1);
}

#[tokio::test]
async fn fields_of_a_connection_are_malformed() {
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
        let is_malformed = matches!(error, LinkError::Reset { code: other } if other == code);
        assert!(is_malformed, "{field:?}: {error}");
    }
    let fine = request("GET", "/file", &[("te", "trailers")]);
    assert_eq!(ask(&link, fine, b"").await.content, b"honest");
}
