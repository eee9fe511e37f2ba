//! Devices, sockets and pipes in the served directory, and a directory that changes while it is
//! being read.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::StatusCode;
use pathmark_http3::client::Client;
use pathmark_http3::origin::{Limits, Origin};
use pathmark_http3::plan::PutRights;
use pathmark_http3::resource::Kind;
use pathmark_http3::root::Root;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;

use crate::support::{
    Fetched, Served, fetch_tree, get, names, path, replacing, serve, status, until,
};

/// Fetches everything from the server, and returns the result for each entry.
async fn fetch_all(client: &Client, target: &Path) -> Fetched {
    let (ended, mut all) = fetch_tree(client, "/", target, false).await;
    all.extend(
        ended
            .err()
            .map(|error| ("/".to_owned(), Err(error.to_string()))),
    );
    all
}

#[tokio::test]
async fn sockets_and_pipes_are_named_and_neither_sent_nor_replaced() {
    let served = Served::new(PutRights::Replace);
    let top = served.directory.path();
    let _socket = UnixListener::bind(top.join("socket")).unwrap();
    mknodat(CWD, top.join("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    symlink("pipe", top.join("link")).unwrap();
    served.write("file", b"content").await;
    let link = served.link().await;
    for name in ["/socket", "/pipe", "/link"] {
        for method in ["GET", "HEAD", "PUT"] {
            let got = status(&link, (method, name), &[], b"").await;
            assert!((400..500).contains(&got), "{method} {name}: {got}");
        }
    }
    let client = served.client().await;
    let listed = client.list(&path("/")).await.unwrap();
    let kinds: Vec<_> = listed.iter().map(|entry| entry.kind).collect();
    let special = [Kind::Special; 2];
    assert_eq!(kinds, [&[Kind::File, Kind::Symlink][..], &special].concat());
    let here = TempDir::new().unwrap();
    let ended = fetch_all(&client, here.path()).await;
    let fetched = [
        ("/file", "fetched"),
        ("/pipe", "skipped"),
        ("/socket", "skipped"),
    ];
    let fetched = fetched.map(|(name, end)| (name.to_owned(), Ok(end)));
    assert_eq!(&ended[..], fetched);
    assert_eq!(names(here.path()), ["file", "link"]);
}

/// Devices are never opened, because a tape would rewind and a terminal would wait.
#[tokio::test]
async fn devices_are_not_served() {
    let root = Root::open(Path::new("/dev")).unwrap();
    let site = serve(Origin::new(root, replacing(), Limits::default()));
    let link = site.link().await;
    for device in ["/null", "/zero", "/full", "/random"] {
        let got = status(&link, ("GET", device), &[], b"").await;
        assert_eq!(got, 403, "{device}");
        let put = status(&link, ("PUT", device), &[], b"x").await;
        assert!((400..500).contains(&put), "{device}: {put}");
    }
    let listed = site.client().await.list(&path("/")).await.unwrap();
    let null = listed.iter().find(|entry| entry.name == b"null").unwrap();
    assert_eq!((null.kind, null.size), (Kind::Special, 0));
}

const INSIDE: &[u8] = b"inside";
const SECRET: &[u8] = b"secret";

/// Repeats `make` until it succeeds, removing whatever has this name in between, because the server
/// creates directories.
fn place(name: &Path, make: impl Fn() -> std::io::Result<()>) {
    while make().is_err() {
        // One call fails; the other may fail while the server stores a file there.
        let _ = fs::remove_file(name);
        let _ = fs::remove_dir_all(name);
    }
}

/// Moves files and directories around until `over`: each name in turn belongs to a file, a
/// directory, a link out of the root, and nothing.
fn churn(top: &Path, outside: &Path, over: &AtomicBool) {
    let (directory, file) = (top.join("d"), top.join("d/f"));
    let (away, spare) = (top.join("away"), top.join("d/spare"));
    while !over.load(Ordering::Relaxed) {
        fs::rename(&directory, &away).unwrap();
        place(&directory, || symlink(outside, &directory));
        fs::remove_file(&directory).unwrap();
        place(&directory, || fs::write(&directory, INSIDE));
        fs::remove_file(&directory).unwrap();
        place(&directory, || fs::rename(&away, &directory));
        fs::remove_file(&file).unwrap();
        symlink(outside.join("f"), &spare).unwrap();
        fs::rename(&spare, &file).unwrap();
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        fs::remove_dir(&file).unwrap();
        fs::write(&spare, INSIDE).unwrap();
        fs::rename(&spare, &file).unwrap();
    }
}

/// Checks that no file beneath a directory, without following links, contains bytes of the secret.
fn assert_clean(directory: &Path) {
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            assert_clean(&entry.path());
        } else if kind.is_file() {
            let bytes = fs::read(entry.path()).unwrap();
            assert!(bytes == INSIDE || bytes.is_empty(), "{entry:?}: {bytes:?}");
        }
    }
}

/// Whatever replaces a name in the meantime, only files beneath the root are fetched or stored.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_that_changes_during_the_walk_leads_nowhere() {
    let served = Served::new(PutRights::Replace);
    let outside = TempDir::new().unwrap();
    fs::write(outside.path().join("f"), SECRET).unwrap();
    let top = served.directory.path().to_owned();
    fs::create_dir(top.join("d")).unwrap();
    fs::write(top.join("d/f"), INSIDE).unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let (stop, other) = (Arc::clone(&over), outside.path().to_owned());
    let churning = std::thread::spawn(move || churn(&top, &other, &stop));
    let (client, link) = (served.client().await, served.link().await);
    let mut fetched = 0;
    for _ in 0..20 {
        let here = TempDir::new().unwrap();
        let ends = fetch_all(&client, here.path()).await;
        fetched += ends.iter().filter(|(_, end)| end.is_ok()).count();
        assert_clean(here.path());
        for _ in 0..20 {
            let answer = get(&link, "/d/f", &[]).await;
            match answer.status() {
                StatusCode::OK => assert!(SECRET != answer.content),
                status => assert!(status.is_client_error() || status == 308, "{status}"),
            }
            assert_ne!(status(&link, ("PUT", "/d/new"), &[], INSIDE).await, 500);
        }
    }
    over.store(true, Ordering::Relaxed);
    until(|| churning.is_finished()).await;
    churning.join().unwrap();
    assert!(fetched > 0);
    assert_eq!(names(outside.path()), ["f"]);
    assert_eq!(fs::read(outside.path().join("f")).unwrap(), SECRET);
}
