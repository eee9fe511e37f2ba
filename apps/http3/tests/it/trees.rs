//! Directories from honest and hostile servers.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use pathmark_http3::client::{Client, ClientLimits, GetError};
use pathmark_http3::plan::PutRights;
use pathmark_http3::wire::ServerLink;
use tempfile::TempDir;

use crate::support::{Served, against, fetch_tree};

#[tokio::test]
pub(crate) async fn a_tree_comes_with_names_modes_times_links_and_empty_directories() {
    let served = Served::new(PutRights::None);
    let top = served.directory.path().join("top");
    fs::create_dir_all(top.join("sub/empty")).unwrap();
    let name = std::ffi::OsStr::new("a name\n%");
    let big: Vec<u8> = (0..3_000_000_u32).map(|n| (n >> 5) as u8).collect();
    fs::write(top.join(name), "small").unwrap();
    fs::write(top.join("sub/big"), &big).unwrap();
    fs::write(top.join("sub/none"), "").unwrap();
    symlink("sub/big", top.join("link")).unwrap();
    fs::set_permissions(top.join(name), fs::Permissions::from_mode(0o640)).unwrap();
    fs::set_permissions(top.join("sub/empty"), fs::Permissions::from_mode(0o500)).unwrap();
    let old = std::time::UNIX_EPOCH + std::time::Duration::new(1_000_000_000, 7);
    let file = fs::File::open(top.join(name)).unwrap();
    file.set_modified(old).unwrap();
    let sub = fs::File::open(top.join("sub")).unwrap();
    sub.set_modified(old).unwrap();
    let _pipe = std::os::unix::net::UnixListener::bind(top.join("socket")).unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;

    let client = served.client().await;
    let here = TempDir::new().unwrap();
    let target = here.path().join("new/top");
    let (ended, all) = fetch_tree(&client, "/top", &target, false).await;
    ended.unwrap();
    let kinds: Vec<_> = all.iter().map(|(_, kind)| kind.clone().unwrap()).collect();
    assert_eq!(kinds, ["fetched", "skipped", "fetched", "fetched"]);
    assert_eq!(fs::read(target.join("sub/big")).unwrap(), big);
    assert_eq!(fs::read(target.join("sub/none")).unwrap(), b"");
    let metadata = fs::metadata(target.join(name)).unwrap();
    assert_eq!(metadata.mode() & 0o777, 0o640);
    assert_eq!(metadata.modified().unwrap(), old);
    let sub = fs::metadata(target.join("sub")).unwrap();
    assert_eq!(sub.modified().unwrap(), old);
    let empty = fs::metadata(target.join("sub/empty")).unwrap();
    assert_eq!(empty.mode() & 0o777, 0o500);
    let link = fs::read_link(target.join("link")).unwrap();
    assert_eq!(link, Path::new("sub/big"));
    assert_eq!(fs::read_dir(&target).unwrap().count(), 3);

    // The second time, only changed files are fetched.
    fs::write(target.join("sub/none"), "more").unwrap();
    let (ended, all) = fetch_tree(&client, "/top", &target, false).await;
    ended.unwrap();
    assert_eq!(all.len(), 2, "{all:?}");
    assert_eq!(fs::read(target.join("sub/none")).unwrap(), b"");
    // Other content with the same size and time is detected by its digest.
    fs::write(target.join(name), "other").unwrap();
    let file = fs::File::open(target.join(name)).unwrap();
    file.set_modified(old).unwrap();
    let (_, all) = fetch_tree(&client, "/top", &target, false).await;
    assert_eq!(all.len(), 1, "{all:?}");
    let (ended, all) = fetch_tree(&client, "/top", &target, true).await;
    ended.unwrap();
    let fetched = all.iter().filter(|(_, kind)| *kind == Ok("fetched"));
    assert_eq!(fetched.count(), 1, "{all:?}");
    assert_eq!(fs::read(target.join(name)).unwrap(), b"small");
}

#[tokio::test]
pub(crate) async fn what_is_in_the_way_is_named_and_the_rest_comes() {
    let served = Served::new(PutRights::None);
    let top = served.directory.path();
    for directory in ["a", "b", "c"] {
        fs::create_dir(top.join(directory)).unwrap();
        fs::write(top.join(directory).join("f"), directory).unwrap();
    }
    let here = TempDir::new().unwrap();
    let (target, outside) = (here.path().join("t"), here.path().join("outside"));
    fs::create_dir_all(target.join("c/f")).unwrap();
    fs::create_dir(&outside).unwrap();
    symlink(&outside, target.join("a")).unwrap();
    let client = served.client().await;
    let (ended, all) = fetch_tree(&client, "/", &target, false).await;
    ended.unwrap();
    let failed: Vec<_> = all.iter().filter(|(_, end)| end.is_err()).collect();
    assert!(failed.iter().any(|(name, end)| name == "/a/"
        && end.as_ref().unwrap_err().contains("symbolic link")));
    assert!(failed.iter().any(|(name, _)| name == "/c/f"), "{failed:?}");
    assert_eq!(fs::read(target.join("b/f")).unwrap(), b"b");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    let (ended, all) = fetch_tree(&client, "/none", &target, false).await;
    ended.unwrap();
    assert!(all.len() == 1 && all[0].1.is_err(), "{all:?}");
}

/// The answer of a hostile server to a path: status and content.
type Script = fn(&str, usize) -> (StatusCode, String);

/// Returns a client of a server that follows a script.
async fn hostile(script: Script) -> Client {
    let serve = async move |mut link: ServerLink| {
        let mut asked = 0;
        while let Ok(Some(incoming)) = link.next().await {
            let number = asked;
            asked += 1;
            tokio::spawn(async move {
                let limit = std::time::Duration::from_secs(10);
                let (request, mut exchange): (Request<()>, _) = incoming.head(limit).await.unwrap();
                let (status, content) = script(request.uri().path(), number);
                let response = Response::builder().status(status);
                let response = response.header("content-type", "application/json");
                // A client that has enough ends the stream.
                if exchange.respond(response.body(()).unwrap()).await.is_ok()
                    && exchange.send(Bytes::from(content)).await.is_ok()
                {
                    let _ = exchange.finish(None).await;
                }
            });
        }
    };
    against(ClientLimits::default(), serve).await
}

fn listing(entries: &str) -> (StatusCode, String) {
    (StatusCode::OK, format!("{{\"entries\":[{entries}]}}"))
}

#[tokio::test]
async fn a_link_of_the_server_is_no_way_out() {
    let client = hostile(|path, _| match path {
        "/" => listing(
            r#"{"name":"out","kind":"symlink","target":"/tmp"},
               {"name":"out2","kind":"symlink","target":".."},
               {"name":"ok","kind":"directory","mode":"0755"}"#,
        ),
        "/ok/" => listing(r#"{"name":"f","kind":"file","size":1}"#),
        "/ok/f" => (StatusCode::OK, "x".to_owned()),
        _ => (StatusCode::NOT_FOUND, String::new()),
    })
    .await;
    let here = TempDir::new().unwrap();
    let target = here.path().join("t");
    let (ended, _) = fetch_tree(&client, "/", &target, false).await;
    ended.unwrap();
    assert_eq!(fs::read_link(target.join("out2")).unwrap(), Path::new(".."));
    // The second time, the server claims that the link is a directory.
    let client = hostile(|path, _| match path {
        "/" => listing(r#"{"name":"out2","kind":"directory"},{"name":"f","kind":"file","size":1}"#),
        "/out2/" => listing(r#"{"name":"victim","kind":"file","size":1}"#),
        _ => (StatusCode::OK, "x".to_owned()),
    })
    .await;
    let (ended, all) = fetch_tree(&client, "/", &target, false).await;
    ended.unwrap();
    let is_refused = |(name, end): &(String, Result<_, _>)| name == "/out2/" && end.is_err();
    assert!(all.iter().any(is_refused), "{all:?}");
    assert!(!here.path().join("victim").exists());
    assert_eq!(fs::read(target.join("f")).unwrap(), b"x");
}

#[tokio::test]
async fn a_server_without_end_or_measure_is_left() {
    let endless = hostile(|_, _| listing(r#"{"name":"a","kind":"directory"}"#)).await;
    let here = TempDir::new().unwrap();
    let (ended, all) = fetch_tree(&endless, "/", here.path(), false).await;
    ended.unwrap();
    assert!(all.len() == 1 && all[0].1 == Ok("skipped"), "{all:?}");

    let wide = hostile(|_, number| {
        let entry = |n| format!(r#"{{"name":"{number}-{n}","kind":"directory"}}"#);
        listing(&(0..100).map(entry).collect::<Vec<_>>().join(","))
    })
    .await;
    let here = TempDir::new().unwrap();
    let (ended, _) = fetch_tree(&wide, "/", here.path(), false).await;
    assert!(matches!(ended, Err(GetError::TooMany(_))), "{ended:?}");

    let long = hostile(|path, _| match path {
        "/" => listing(
            r#"{"name":"long","kind":"file","size":5},{"name":"short","kind":"file","size":5},
               {"name":"large","kind":"file","size":100000},
               {"name":".pathmark-0.part","kind":"file","size":5}"#,
        ),
        "/long" => (StatusCode::OK, "123456".to_owned()),
        "/large" => (StatusCode::OK, "x".repeat(1_000_000)),
        _ => (StatusCode::OK, "1234".to_owned()),
    })
    .await;
    let here = TempDir::new().unwrap();
    let (ended, all) = fetch_tree(&long, "/", here.path(), false).await;
    ended.unwrap();
    let failed = all.iter().filter(|(_, end)| end.is_err());
    assert_eq!(failed.count(), 4, "{all:?}");
    assert_eq!(fs::read_dir(here.path()).unwrap().count(), 0);
    let twice = hostile(|path, _| match path {
        "/" => listing(r#"{"name":"a","kind":"file"},{"name":"%61","kind":"directory"}"#),
        _ => listing(""),
    })
    .await;
    let (_, all) = fetch_tree(&twice, "/", here.path(), false).await;
    assert!(all.len() == 1 && all[0].1.is_err(), "{all:?}");
}
