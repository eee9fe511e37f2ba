//! Limits on uploads and files: quotas, disks, budgets and time.

use std::time::Duration;

use http::StatusCode;
use pathmark_http3::origin::UploadLimits;
use pathmark_http3::plan::PutRights;

use crate::support::house::house;
use crate::support::{Served, VERSION, ask, content, names, request, status, until};

#[tokio::test]
async fn an_upload_is_of_one_client_and_has_its_time() {
    let directory = tempfile::tempdir().unwrap();
    let limits = UploadLimits {
        age: Duration::from_secs(2),
        ..UploadLimits::default()
    };
    let house = house(directory.path(), limits, (10, 0));
    let link = house.link().await;
    let begin = [VERSION, ("upload-complete", "?0")];
    let begun = ask(&link, request("PUT", "/name", &begin), b"123456").await;
    assert_eq!(begun.status(), StatusCode::CREATED);
    let at = begun.field("location").to_owned();
    let other = [("client", "other")];
    assert_eq!(status(&link, ("HEAD", &at), &other, b"").await, 404);
    assert_eq!(status(&link, ("DELETE", &at), &other, b"").await, 404);
    assert_eq!(status(&link, ("HEAD", &at), &[], b"").await, 204);
    // Existing files count toward the quota.
    let put = ("PUT", "/more");
    assert_eq!(status(&link, put, &[], b"12345").await, 507);
    until(|| names(directory.path()).is_empty()).await;
    assert_eq!(status(&link, ("HEAD", &at), &[], b"").await, 404);
    assert_eq!(status(&link, put, &[], b"1234567890").await, 201);
}

/// Several files with the same name are uploaded at once, before they are verified. The quota
/// counts exactly the bytes of the file that remains.
#[tokio::test(flavor = "multi_thread")]
async fn puts_that_race_for_a_name_count_as_what_stays() {
    const QUOTA: u64 = 3_000_000;
    let directory = tempfile::tempdir().unwrap();
    let house = house(directory.path(), UploadLimits::default(), (QUOTA, 0));
    let link = house.link().await;
    let put = async |name: &str, bytes: u64| {
        let content = vec![7; usize::try_from(bytes).unwrap()];
        status(&link, ("PUT", name), &[], &content).await
    };
    for _ in 0..12 {
        let large = put("/name", 300_000);
        let small = async |bytes: u64| put("/name", bytes).await;
        let small = async { tokio::join!(small(1), small(2), small(3), small(4), small(5)) };
        tokio::join!(large, small);
    }
    let stays = directory.path().join("name").metadata().unwrap().len();
    assert_eq!(put("/rest", QUOTA - stays + 1).await, 507);
    assert_eq!(put("/rest", QUOTA - stays).await, 201);
}

#[tokio::test]
async fn what_an_earlier_process_left_is_removed_in_time() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("sub")).unwrap();
    let limits = UploadLimits {
        age: Duration::from_secs(3600),
        ..UploadLimits::default()
    };
    let first = house(directory.path(), limits, (100, 0));
    let begin = [VERSION, ("upload-complete", "?0")];
    let link = first.link().await;
    let begun = ask(&link, request("PUT", "/sub/name", &begin), b"123456").await;
    assert_eq!(begun.status(), StatusCode::CREATED);
    let limits = UploadLimits {
        age: Duration::from_millis(10),
        ..limits
    };
    // The upload's six bytes count toward the quota.
    let second = house(directory.path(), limits, (10, 6));
    until(|| names(&directory.path().join("sub")).is_empty()).await;
    let link = second.link().await;
    let stored = status(&link, ("PUT", "/more"), &[], b"1234567890").await;
    assert_eq!(stored, 201);
}

/// Two clients each announce more than half of the quota. One client is refused before its content
/// is read, and a client that aborts frees its reservation.
#[tokio::test]
async fn concurrent_puts_share_a_quota() {
    let directory = tempfile::tempdir().unwrap();
    let house = house(directory.path(), UploadLimits::default(), (1000, 0));
    let link = house.link().await;
    let announced = [("content-length", "600")];
    let first = link.request(request("PUT", "/first", &announced)).await;
    let mut first = first.unwrap();
    first.send(content(1).into()).await.unwrap();
    until(|| !names(directory.path()).is_empty()).await;
    let put = ("PUT", "/second");
    assert_eq!(status(&link, put, &announced, b"").await, 507);
    // The first upload is aborted midway.
    drop(first);
    until(|| names(directory.path()).is_empty()).await;
    assert_eq!(status(&link, put, &announced, &content(600)).await, 201);

    // Of 20 uploads at once, with and without a length, as many are stored as there is room
    // for.
    let put = async |n: usize| {
        let fields = [("content-length", "100")];
        let fields: &[_] = if n.is_multiple_of(2) { &fields } else { &[] };
        status(&link, ("PUT", &format!("/many-{n}")), fields, &content(100)).await
    };
    let many = (0..20).map(put);
    let mut statuses = futures_util::future::join_all(many).await;
    statuses.sort_unstable();
    let stored = statuses.iter().filter(|status| **status == 201).count();
    assert!((1..=4).contains(&stored), "{statuses:?}");
    assert!(statuses.iter().all(|status| [201, 507].contains(status)));
    let sizes = names(directory.path()).into_iter();
    let sizes = sizes.map(|name| directory.path().join(name).metadata().unwrap().len());
    assert_eq!(sizes.sum::<u64>(), 600 + 100 * stored as u64);
    // The room that the refused uploads had reserved is free again.
    for n in 100..104 - stored {
        assert_eq!(put(n).await, 201);
    }
    assert_eq!(put(200).await, 507);
}

#[tokio::test]
async fn a_length_that_the_disk_cannot_hold_is_refused_before_the_content() {
    let served = Served::new(PutRights::New);
    let link = served.link().await;
    let most = u64::MAX.to_string();
    let huge = [
        ("content-length", most.as_str()),
        ("expect", "100-continue"),
    ];
    for path in ["/huge", "/new/below/huge"] {
        let mut exchange = link.request(request("PUT", path, &huge)).await.unwrap();
        // No content is sent.
        let answer = exchange.response().await.unwrap();
        assert_eq!(answer.status(), StatusCode::INSUFFICIENT_STORAGE);
    }
    let put = ("PUT", "/new/name");
    let condition = [("if-match", "\"version\"")];
    assert_eq!(status(&link, put, &condition, b"content").await, 412);
    // No directory is created, either.
    assert!(served.names().is_empty());
    assert_eq!(status(&link, put, &[], b"content").await, 201);
}

/// A file with holes only needs room for its data, even if it arrives in parts.
#[tokio::test]
pub(crate) async fn holes_need_no_room() {
    let served = Served::new(PutRights::New);
    let link = served.link().await;
    let most = "999999999999999";
    let begin = [VERSION, ("upload-complete", "?0"), ("upload-length", most)];
    assert_eq!(status(&link, ("PUT", "/full"), &begin, b"12").await, 507);
    let sparse = ("pathmark-attributes", "data=4096");
    let begin = [begin[0], begin[1], begin[2], sparse];
    let begun = ask(&link, request("PUT", "/sparse", &begin), b"12").await;
    assert_eq!(begun.status(), StatusCode::CREATED);
    let at = begun.field("location").to_owned();
    let more = [
        VERSION,
        ("upload-complete", "?0"),
        ("upload-offset", "2"),
        ("content-type", "application/partial-upload"),
    ];
    let more = ask(&link, request("PATCH", &at, &more), b"34").await;
    assert_eq!(more.status(), StatusCode::NO_CONTENT);
    assert_eq!(more.field("upload-offset"), "4");
    // A client that announces less data than it sends can still use the free room.
    let wrong = [("pathmark-attributes", "data=0")];
    assert_eq!(status(&link, ("PUT", "/wrong"), &wrong, b"data").await, 201);
}
