//! Uploads that continue where they were interrupted.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use http::StatusCode;
use pathmark_http3::client::{Client, Ledger, PutError, Refusal, Stored};
use pathmark_http3::fields::sha256_field;
use pathmark_http3::origin::UploadLimits;
use pathmark_http3::plan::PutRights;
use pathmark_http3::root::Existing;
use pathmark_http3::wire::ClientLink;
use sha2::{Digest, Sha256};

use crate::support::house::house;
use crate::support::{
    Answer, Served, VERSION, ask, content, path, request, status, unfinished, until,
};

/// The client's memory of unfinished uploads.
#[derive(Debug, Default)]
struct Memory(Mutex<BTreeMap<String, String>>);

impl Ledger for Memory {
    fn find(&self, key: &str) -> Option<String> {
        self.0.lock().unwrap().get(key).cloned()
    }

    fn keep(&self, key: &str, text: &str) {
        self.0
            .lock()
            .unwrap()
            .insert(key.to_owned(), text.to_owned());
    }

    fn forget(&self, key: &str) {
        self.0.lock().unwrap().remove(key);
    }
}

impl Memory {
    fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

const LENGTH: usize = 60_000_000;

/// A server, a source, and a client that remembers uploads.
struct Scene {
    served: Served,
    here: tempfile::TempDir,
    memory: Arc<Memory>,
}

impl Scene {
    fn new() -> Self {
        let here = tempfile::tempdir().unwrap();
        std::fs::write(here.path().join("source"), content(LENGTH)).unwrap();
        Self {
            served: Served::new(PutRights::Replace),
            here,
            memory: Arc::default(),
        }
    }

    async fn client(&self) -> Client {
        self.served.client().await.with_ledger(self.memory.clone())
    }

    async fn put(&self, client: &Client) -> Result<Stored, PutError> {
        let source = self.here.path().join("source");
        client.put(&source, &path("/stored"), Existing::Keep).await
    }

    /// Interrupts an upload once this number of bytes has arrived.
    async fn break_off(&self, bytes: u64) {
        let client = self.client().await;
        let directory = self.served.directory.path();
        let enough = || unfinished(directory) >= bytes && self.memory.len() == 1;
        tokio::select! {
            put = self.put(&client) => panic!("it should take longer: {put:?}"),
            () = until(enough) => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
pub(crate) async fn a_put_goes_on_where_it_broke_off() {
    let scene = Scene::new();
    scene.break_off(2_000_000).await;
    scene.break_off(4_000_000).await;
    let listed = scene.served.client().await.list(&path("/")).await.unwrap();
    assert!(listed.is_empty(), "an unfinished file is not listed");
    let stored = scene.put(&scene.client().await).await.unwrap();
    assert!(stored.resumed >= 4_000_000 && stored.verified, "{stored:?}");
    assert!(scene.served.read("stored") == content(LENGTH));
    assert_eq!(scene.served.names(), ["stored"]);
    assert_eq!(scene.memory.len(), 0);
}

/// The same directory is served by a restarted server that has no memory of the previous one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_put_goes_on_with_another_server_process() {
    let scene = Scene::new();
    scene.break_off(2_000_000).await;
    // Once its file isn't locked any more, the first server has ended the request.
    let directory = scene.served.directory.path();
    let origin = house(directory, UploadLimits::default(), (u64::MAX, 0));
    let client = origin.client().await.with_ledger(scene.memory.clone());
    let stored = loop {
        match scene.put(&client).await {
            Ok(stored) => break stored,
            Err(PutError::Refused(Refusal { status, .. })) if status.as_u16() == 404 => {}
            Err(error) => panic!("{error}"),
        }
    };
    assert!(stored.verified, "{stored:?}");
    assert!(scene.served.read("stored") == content(LENGTH));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
pub(crate) async fn a_source_that_changed_is_sent_again_and_a_lost_answer_is_found() {
    let scene = Scene::new();
    scene.break_off(2_000_000).await;
    let other: Vec<u8> = content(LENGTH).into_iter().rev().collect();
    std::fs::write(scene.here.path().join("source"), &other).unwrap();
    let stored = scene.put(&scene.client().await).await.unwrap();
    assert_eq!((stored.resumed, stored.verified), (0, true));
    assert!(scene.served.read("stored") == other);
    // The upload of the old source is gone.
    assert_eq!(scene.served.names(), ["stored"]);

    // The server has the complete file, but the client still considers the upload unfinished.
    std::fs::remove_file(scene.served.directory.path().join("stored")).unwrap();
    scene.break_off(2_000_000).await;
    let remembered = scene.memory.0.lock().unwrap().clone();
    scene.put(&scene.client().await).await.unwrap();
    *scene.memory.0.lock().unwrap() = remembered;
    let stored = scene.put(&scene.client().await).await.unwrap();
    assert_eq!((stored.resumed, stored.verified), (LENGTH as u64, true));
}

/// Bytes that have changed on the server's disk are detected before the file gets its name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
pub(crate) async fn a_damaged_upload_gets_no_name() {
    let scene = Scene::new();
    scene.break_off(2_000_000).await;
    let mut parts = scene.served.names().into_iter();
    let part = parts.find(|name| !name.contains("-put")).unwrap();
    let part = scene.served.directory.path().join(part);
    let file = std::fs::File::options().write(true).open(part).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"damage", 1000).unwrap();
    let put = scene.put(&scene.client().await).await;
    let Err(PutError::Refused(Refusal { status, .. })) = put else {
        panic!("it is refused: {put:?}");
    };
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(scene.served.names().is_empty());
    assert_eq!(scene.put(&scene.client().await).await.unwrap().resumed, 0);
}

const MEDIA: (&str, &str) = ("content-type", "application/partial-upload");

/// Sends a part of an upload to its resource, and returns the status and the answer.
async fn append(
    link: &ClientLink,
    at: &str,
    offset: &str,
    last: &str,
    content: &[u8],
) -> (u16, Answer) {
    let length = content.len().to_string();
    let fields = [
        MEDIA,
        ("upload-offset", offset),
        ("upload-complete", last),
        ("content-length", &length),
    ];
    let answer = ask(link, request("PATCH", at, &fields), content).await;
    (answer.status().as_u16(), answer)
}

#[tokio::test]
pub(crate) async fn an_upload_comes_in_parts_from_a_foreign_client() {
    let served = Served::new(PutRights::New);
    let link = served.link().await;
    let options = ask(&link, request("OPTIONS", "/name", &[]), b"").await;
    assert_eq!(options.field("accept-patch"), MEDIA.1);
    let digest = sha256_field(&Sha256::digest(b"one two three").into());
    let begin = [
        VERSION,
        ("upload-complete", "?0"),
        ("upload-length", "13"),
        ("if-none-match", "*"),
        ("repr-digest", digest.as_str()),
    ];
    let begun = ask(&link, request("PUT", "/name", &begin), b"one").await;
    assert_eq!(begun.status(), StatusCode::CREATED);
    let at = begun.field("location").to_owned();
    let limit = begun.field("upload-limit");
    assert!(limit.contains("max-age="), "{begun:?}");
    let look = ask(&link, request("HEAD", &at, &[]), b"").await;
    assert_eq!(look.status(), StatusCode::NO_CONTENT);
    for (name, value) in [
        ("upload-offset", "3"),
        ("upload-length", "13"),
        ("upload-complete", "?0"),
        ("cache-control", "no-store"),
    ] {
        assert_eq!(look.field(name), value);
    }
    // The unfinished file is neither served nor listed, and no other file can be stored there.
    assert_eq!(status(&link, ("GET", &at), &[], b"").await, 404);
    assert_eq!(status(&link, ("PUT", &at), &[], b"x").await, 403);

    let (code, wrong) = append(&link, &at, "4", "?0", b" two").await;
    assert_eq!((code, wrong.field("upload-offset")), (409, "3"));
    let no_media = [("upload-offset", "3"), ("upload-complete", "?0")];
    assert_eq!(status(&link, ("PATCH", &at), &no_media, b" two").await, 415);
    // A shorter file than announced.
    assert_eq!(append(&link, &at, "3", "?1", b" two").await.0, 400);
    let (code, second) = append(&link, &at, "3", "?0", b" two").await;
    assert_eq!((code, second.field("upload-offset")), (204, "7"));
    let (code, last) = append(&link, &at, "7", "?1", b" three").await;
    assert_eq!((code, last.field("upload-complete")), (201, "?1"));
    assert_eq!(last.field("repr-digest"), digest);
    assert_eq!(served.read("name"), b"one two three");
    assert_eq!(served.names(), ["name"]);
    assert_eq!(status(&link, ("HEAD", &at), &[], b"").await, 404);

    // The conditions are those of the first request.
    assert_eq!(status(&link, ("PUT", "/name"), &begin, b"one").await, 412);
    let begun = ask(&link, request("PUT", "/other", &begin), b"one").await;
    let at = begun.field("location").to_owned();
    let (code, false_digest) = append(&link, &at, "3", "?1", b" six and 7").await;
    assert_eq!((code, false_digest.field("upload-complete")), (400, "?1"));
    let begun = ask(&link, request("PUT", "/other", &begin), b"one").await;
    let at = begun.field("location").to_owned();
    assert_eq!(status(&link, ("DELETE", &at), &[], b"").await, 204);
    assert_eq!(append(&link, &at, "3", "?0", b" two").await.0, 404);
    assert_eq!(served.names(), ["name"]);
    assert_eq!(status(&link, ("PATCH", "/name"), &[MEDIA], b"x").await, 405);
}
