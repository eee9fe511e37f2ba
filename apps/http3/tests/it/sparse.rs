//! Runs of zeros become holes on the other side, even if a file arrives in two parts.

use std::time::Duration;

use pathmark_http3::plan::PutRights;
use pathmark_http3::root::Existing;

use crate::support::{Served, bounded, content, path, unfinished, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
pub(crate) async fn sparse_files_stay_sparse() {
    use std::os::unix::fs::MetadataExt;
    bounded(async {
        const LENGTH: u64 = 60_000_000;
        let served = Served::new(PutRights::New);
        let here = tempfile::tempdir().unwrap();
        let source = here.path().join("source");
        let file = std::fs::File::create(&source).unwrap();
        file.set_len(LENGTH).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &content(10_000), 30_000_001).unwrap();
        let has_holes = |path: &std::path::Path| path.metadata().unwrap().blocks() < 10_000;
        if !has_holes(&source) {
            // The file system doesn't support holes.
            return;
        }
        let client = served.client().await;
        client
            .put(&source, &path("/file"), Existing::Keep)
            .await
            .unwrap();
        let stored = served.directory.path().join("file");
        assert!(has_holes(&stored), "{:?}", stored.metadata());
        // By then, its tag is strong.
        tokio::time::sleep(Duration::from_millis(50)).await;
        let target = here.path().join("target");
        let wanted = path("/file");
        tokio::select! {
            got = client.get(&wanted, &target, Existing::Keep) => {
                panic!("it should take longer: {got:?}")
            }
            () = until(|| unfinished(here.path()) > 1_000_000) => {}
        }
        // If a piece is being written at this time, the write is completed.
        tokio::time::sleep(Duration::from_millis(100)).await;
        let fetched = client
            .get(&path("/file"), &target, Existing::Keep)
            .await
            .unwrap();
        assert!(fetched.verified && fetched.resumed > 0, "{fetched:?}");
        assert!(has_holes(&target), "{:?}", target.metadata());
        assert!(std::fs::read(&target).unwrap() == std::fs::read(&source).unwrap());
    })
    .await;
}
