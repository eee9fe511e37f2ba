use std::time::{Duration, SystemTime};

use http::{Request, Response, StatusCode};

use super::*;
use crate::fields::{Form, Span};
use crate::resource::tests::{later, regular};
use crate::resource::{Entry, Kind, Stat};

fn request(method: &str, uri: &str, fields: &[(&str, &str)]) -> Request<()> {
    let mut request = Request::builder().method(method).uri(uri);
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap()
}

fn rules(put: PutRights) -> Rules {
    Rules {
        put,
        max_file: 1000,
        ..Rules::default()
    }
}

fn ask_with(method: &str, fields: &[(&str, &str)]) -> Ask {
    let request = request(method, "https://host/dir/name.txt", fields);
    Ask::read(&request, &rules(PutRights::Replace)).unwrap()
}

fn get(fields: &[(&str, &str)]) -> FilePlan {
    file(&ask_with("GET", fields), &regular(10_000), later(), None)
}

fn field<'a>(head: &'a Response<()>, name: &str) -> &'a str {
    head.headers()
        .get(name)
        .map_or("", |value| value.to_str().unwrap())
}

fn tag() -> String {
    regular(10_000).tag(later()).to_string()
}

#[test]
fn methods_hosts_and_paths_are_refused_with_their_status() {
    let rules = Rules {
        authorities: vec!["host".to_owned(), "other:444".to_owned()],
        ..Rules::default()
    };
    for (method, uri, status) in [
        ("POST", "https://host/", 405),
        ("PUT", "https://host/", 405),
        ("DELETE", "https://host/", 405),
        ("BREW", "https://host/", 501),
        ("GET", "https://elsewhere/", 421),
        ("GET", "https://other/", 421),
        ("GET", "http://host/", 421),
        ("GET", "https://host/a/%2e%2e/b", 400),
        ("GET", "https://host/%00", 400),
        ("GET", "https://host//", 400),
    ] {
        let reply = Ask::read(&request(method, uri, &[]), &rules).unwrap_err();
        assert_eq!(reply.status.as_u16(), status, "{method} {uri}");
        assert_eq!(reply.headers["content-type"], "application/problem+json");
        let problem: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
        assert_eq!(problem["status"], status);
        if status == 405 {
            assert_eq!(reply.headers["allow"], "GET, HEAD, OPTIONS");
        }
    }
    for uri in [
        "https://HOST/",
        "https://host:4433/",
        "https://other:444/",
        "https://host/?q=//",
    ] {
        let is_taken = Ask::read(&request("GET", uri, &[]), &rules).is_ok();
        assert!(is_taken, "{uri}");
    }
}

#[test]
fn a_whole_file_has_its_metadata() {
    let plan = get(&[]);
    assert_eq!(plan.head.status(), StatusCode::OK);
    for (name, value) in [
        ("content-length", "10000"),
        ("content-type", "text/plain; charset=utf-8"),
        ("accept-ranges", "bytes"),
        ("last-modified", "Thu, 01 Jan 1970 00:16:40 GMT"),
        ("date", "Thu, 01 Jan 1970 00:33:20 GMT"),
        ("etag", &tag()),
        ("repr-digest", ""),
    ] {
        assert_eq!(field(&plan.head, name), value, "{name}");
    }
    assert!(plan.is_whole(10_000) && !plan.trailer);
    let empty = file(&ask_with("GET", &[]), &regular(0), later(), None);
    assert!(empty.is_whole(0) && field(&empty.head, "content-length") == "0");
}

#[test]
fn head_has_the_fields_of_get_and_no_content() {
    let ask = ask_with("HEAD", &[("range", "bytes=0-0")]);
    let head = file(&ask, &regular(10_000), later(), None);
    assert_eq!(head.head.status(), StatusCode::OK);
    assert_eq!(head.head.headers(), get(&[]).head.headers());
    assert!(head.pieces.is_empty());
}

#[test]
fn one_range_is_a_part_and_several_are_multipart() {
    let plan = get(&[("range", "bytes=500-999")]);
    assert_eq!(plan.head.status(), StatusCode::PARTIAL_CONTENT);
    assert_eq!(field(&plan.head, "content-range"), "bytes 500-999/10000");
    assert_eq!(field(&plan.head, "content-length"), "500");
    let span = Span {
        first: 500,
        length: 500,
    };
    assert_eq!(plan.pieces, [Piece::Span(span)]);

    let plan = get(&[("range", "bytes=0-0, -2")]);
    let kind = field(&plan.head, "content-type");
    let boundary = kind
        .strip_prefix("multipart/byteranges; boundary=")
        .unwrap();
    assert!(boundary.len() <= 70 && field(&plan.head, "content-range").is_empty());
    let content = plan.pieces.iter().map(|piece| match piece {
        Piece::Text(text) => String::from_utf8(text.to_vec()).unwrap(),
        Piece::Span(span) => "x".repeat(span.length.try_into().unwrap()),
    });
    let content: String = content.collect();
    let part = |range: &str, bytes: &str| {
        format!(
            "--{boundary}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Range: bytes \
             {range}/10000\r\n\r\n{bytes}\r\n"
        )
    };
    let expected = part("0-0", "x") + &part("9998-9999", "xx") + &format!("--{boundary}--\r\n");
    assert_eq!(content, expected);
    let length = field(&plan.head, "content-length");
    assert_eq!(length, content.len().to_string());
}

#[test]
fn ranges_outside_the_file_are_refused() {
    for range in ["bytes=10000-", "bytes=-0"] {
        let plan = get(&[("range", range)]);
        assert_eq!(plan.head.status(), StatusCode::RANGE_NOT_SATISFIABLE);
        assert_eq!(field(&plan.head, "content-range"), "bytes */10000");
    }
    for range in ["bytes=9-3", "lines=0-1", "bytes"] {
        assert_eq!(get(&[("range", range)]).head.status(), StatusCode::OK);
    }
    let twice = get(&[("range", "bytes=0-1"), ("range", "bytes=2-3")]);
    assert_eq!(twice.head.status(), StatusCode::OK);
}

#[test]
fn if_range_takes_a_strong_tag_alone() {
    let weak = format!("W/{}", tag());
    for (value, status) in [
        (tag().as_str(), StatusCode::PARTIAL_CONTENT),
        (&weak, StatusCode::OK),
        ("\"other\"", StatusCode::OK),
        ("Thu, 01 Jan 1970 00:16:40 GMT", StatusCode::OK),
        ("nonsense", StatusCode::OK),
    ] {
        let plan = get(&[("range", "bytes=0-0"), ("if-range", value)]);
        assert_eq!(plan.head.status(), status, "{value}");
    }
    // A range outside of a different version is not a reason to refuse.
    let plan = get(&[("range", "bytes=20000-"), ("if-range", "\"other\"")]);
    assert_eq!(plan.head.status(), StatusCode::OK);
    // Until the clock has advanced, no tag matches strongly.
    let fresh = regular(10_000).changed.to_system() + Duration::from_millis(1);
    let weak = regular(10_000).tag(fresh).to_string();
    let ask = ask_with("GET", &[("range", "bytes=0-0"), ("if-range", &weak)]);
    let plan = file(&ask, &regular(10_000), fresh, None);
    assert_eq!(plan.head.status(), StatusCode::OK);
}

/// The order of RFC 9110 section 13.2.2.
#[test]
fn preconditions_are_evaluated_in_their_order() {
    let (ok, failed) = (StatusCode::OK, StatusCode::PRECONDITION_FAILED);
    let (unmodified, tag) = (StatusCode::NOT_MODIFIED, tag());
    let weak = format!("W/{tag}");
    let [then, after] = [40, 39].map(|second| format!("Thu, 01 Jan 1970 00:16:{second} GMT"));
    let (then, after) = (then.as_str(), after.as_str());
    let outside = ("range", "bytes=99999-");
    let other = "\"other\"";
    for (fields, status) in [
        (&[("if-match", "*")][..], ok),
        (&[("if-match", &tag)], ok),
        (&[("if-match", &weak)], failed),
        (&[("if-match", other)], failed),
        (&[("if-match", other), ("if-none-match", &tag)], failed),
        (&[("if-match", &tag), ("if-unmodified-since", after)], ok),
        (&[("if-unmodified-since", after)], failed),
        (&[("if-unmodified-since", then)], ok),
        (&[("if-none-match", "*")], unmodified),
        (&[("if-none-match", &weak)], unmodified),
        (&[("if-none-match", other)], ok),
        (&[("if-none-match", other), ("if-modified-since", then)], ok),
        (&[("if-modified-since", then)], unmodified),
        (&[("if-modified-since", after)], ok),
        (&[("if-modified-since", "yesterday")], ok),
        (&[("if-none-match", &tag), outside], unmodified),
    ] {
        let plan = get(fields);
        assert_eq!(plan.head.status(), status, "{fields:?}");
        if status == unmodified {
            assert!(plan.pieces.is_empty());
            assert_eq!(field(&plan.head, "etag"), tag);
            assert_eq!(field(&plan.head, "content-length"), "");
        }
    }
    let bad = request("GET", "https://host/", &[("if-match", "nonsense")]);
    let reply = Ask::read(&bad, &Rules::default()).unwrap_err();
    assert_eq!(reply.status, StatusCode::BAD_REQUEST);
}

#[test]
fn a_digest_comes_when_it_is_wanted() {
    let wish = ("want-repr-digest", "sha-256=5");
    let (small, large) = (regular(1000), regular(1 << 30));
    assert_eq!(hash_at(&ask_with("GET", &[]), &small), HashAt::Never);
    assert_eq!(hash_at(&ask_with("GET", &[wish]), &small), HashAt::Begin);
    assert_eq!(hash_at(&ask_with("GET", &[wish]), &large), HashAt::End);
    assert_eq!(hash_at(&ask_with("HEAD", &[wish]), &large), HashAt::Begin);
    let known = file(&ask_with("GET", &[wish]), &small, later(), Some(&[0; 32]));
    assert!(field(&known.head, "repr-digest").starts_with("sha-256=:AAAA") && !known.trailer);
    let unknown = file(&ask_with("GET", &[wish]), &large, later(), None);
    assert!(field(&unknown.head, "trailer") == "Repr-Digest" && unknown.trailer);
    let unasked = file(&ask_with("GET", &[]), &small, later(), Some(&[0; 32]));
    assert_eq!(field(&unasked.head, "repr-digest"), "");
}

fn put(rules: &Rules, fields: &[(&str, &str)], there: Option<&Stat>) -> u16 {
    let refused = before_write(&ask_with("PUT", fields), rules, there, later());
    refused.map_or_else(|reply| reply.status.as_u16(), |()| 0)
}

#[test]
fn a_put_needs_rights_and_its_preconditions() {
    let (new, replace) = (rules(PutRights::New), rules(PutRights::Replace));
    let there = regular(10_000);
    let [directory, link] = [Kind::Directory, Kind::Symlink].map(|kind| Stat { kind, ..there });
    let tag = tag();
    for (rules, fields, there, status) in [
        (&new, &[][..], None, 0),
        (&new, &[], Some(&there), 403),
        (&replace, &[], Some(&there), 0),
        (&replace, &[("if-none-match", "*")], Some(&there), 412),
        (&new, &[("if-none-match", "*")], Some(&there), 412),
        (&new, &[("if-none-match", "*")], None, 0),
        (&replace, &[("if-match", &tag)], Some(&there), 0),
        (&replace, &[("if-match", &tag)], None, 412),
        (&replace, &[("if-match", "\"other\"")], Some(&there), 412),
        (&replace, &[], Some(&directory), 409),
        (&replace, &[], Some(&link), 409),
        (&replace, &[("content-length", "1001")], None, 413),
        (&replace, &[("content-length", "1000")], None, 0),
    ] {
        assert_eq!(put(rules, fields, there), status, "{fields:?}");
    }
}

#[test]
fn the_content_of_a_put_is_whole_and_plain() {
    let rules = rules(PutRights::New);
    for (field, status) in [
        (("content-range", "bytes 0-1/2"), 400),
        (("content-encoding", "gzip"), 415),
        (("content-length", "x"), 400),
        (("content-length", "18446744073709551616"), 400),
        (("content-length", "-1"), 400),
        (("content-length", "+7"), 400),
        (("content-length", "1, 1"), 400),
        (("repr-digest", "sha-256=:AA==:"), 400),
        (("repr-digest", "sha-256=:AAAA:"), 400),
        (("repr-digest", "sha-256=1"), 400),
        (("repr-digest", "sha-256=:"), 400),
    ] {
        let request = request("PUT", "https://host/name", &[field]);
        let reply = Ask::read(&request, &rules).unwrap_err();
        assert_eq!(reply.status.as_u16(), status, "{field:?}");
    }
    for uri in [
        "https://host/",
        "https://host/dir/",
        "https://host/.pathmark-0.part",
    ] {
        let ask = Ask::read(&request("PUT", uri, &[]), &rules).unwrap();
        assert!(before_write(&ask, &rules, None, later()).is_err(), "{uri}");
    }
}

fn rendered(form: Form, entries: &[Entry]) -> String {
    let path = crate::fields::PathName::parse(b"/a%3Cb").unwrap();
    let rows = entries.iter().enumerate();
    let rows: String = rows
        .map(|(n, entry)| listing::entry(form, n == 0, entry))
        .collect();
    listing::begin(form, &path) + &rows + listing::end(form)
}

#[test]
fn listings_carry_names_of_any_bytes() {
    let stat = regular(7);
    let entry = |name: &[u8], kind, target: Option<&[u8]>| Entry {
        name: name.to_vec(),
        stat: Stat { kind, ..stat },
        target: target.map(<[u8]>::to_vec),
    };
    let entries = [
        entry(b"a b\xff", Kind::File, None),
        entry(b"<d>", Kind::Directory, None),
        entry(b"l:\x1b", Kind::Symlink, Some(b"../x y")),
    ];
    let json: serde_json::Value = serde_json::from_str(&rendered(Form::Json, &entries)).unwrap();
    assert_eq!(
        json["entries"][0],
        serde_json::json!({
            "name": "a%20b%FF", "kind": "file", "size": 7, "mode": "0644",
            "time": 1000, "nanoseconds": 500_000_000,
        })
    );
    assert_eq!(json["entries"][1]["kind"], "directory");
    assert_eq!(json["entries"][2]["target"], "../x%20y");
    let none: serde_json::Value = serde_json::from_str(&rendered(Form::Json, &[])).unwrap();
    assert_eq!(none["entries"], serde_json::json!([]));

    let html = rendered(Form::Html, &entries);
    for part in [
        r#"<a href="./%3Cd%3E/">&lt;d&gt;/</a>"#,
        "<h1>/a&lt;b/</h1>",
        "</a><td>7 B<td>Thu, 01 Jan 1970 00:16:40 GMT",
        ">l:\\u{1b}</a> → ../x y<td>",
        ">a b\\xff</a>",
    ] {
        assert!(html.contains(part), "{part}: {html}");
    }
    let device = rendered(Form::Html, &[entry(b"tty", Kind::Special, None)]);
    assert!(device.contains("<tr><td>tty<td>"), "{device}");
}

#[test]
fn a_directory_fails_only_if_match() {
    let status = |fields: &[(&str, &str)]| directory(&ask_with("GET", fields)).status;
    assert_eq!(status(&[]), StatusCode::OK);
    assert_eq!(status(&[("if-match", "*")]), StatusCode::OK);
    let other = status(&[("if-match", "\"a\"")]);
    assert_eq!(other, StatusCode::PRECONDITION_FAILED);
    assert_eq!(status(&[("range", "bytes=5-")]), StatusCode::OK);
}

#[test]
fn a_time_before_the_epoch_is_left_out() {
    let before = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
    let reply = Reply::empty(StatusCode::OK).head(before);
    assert!(!reply.headers().contains_key("date"));
}
