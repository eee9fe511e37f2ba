use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::*;
use crate::root::open_directory;

fn names(path: &Path) -> Vec<String> {
    let names = fs::read_dir(path).unwrap();
    let mut names: Vec<_> = names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn written(directory: &Arc<OwnedFd>, text: &[u8]) -> (Draft, Sha256Digest) {
    let draft = Draft::fresh(directory).unwrap();
    draft.file().write_all_at(text, 0).unwrap();
    (draft, Sha256::digest(text).into())
}

#[test]
fn a_draft_gets_its_name_whole_or_leaves_nothing() {
    let path = tempfile::tempdir().unwrap();
    let directory = Arc::new(open_directory(path.path()).unwrap());
    let (first, hash) = written(&directory, b"first");
    let (second, _) = written(&directory, b"second");
    assert_eq!(names(path.path()), [".pathmark-0.part", ".pathmark-1.part"]);
    let stat = first.keep(b"name", &hash, Existing::Keep).unwrap();
    assert_eq!(stat.size, 5);
    drop(second);
    assert_eq!(names(path.path()), ["name"]);

    let (third, hash) = written(&directory, b"third");
    let kept = third.keep(b"name", &hash, Existing::Keep);
    assert!(matches!(kept, Err(KeepError::Exists)));
    assert_eq!(fs::read(path.path().join("name")).unwrap(), b"first");
    let (third, hash) = written(&directory, b"third");
    third.keep(b"name", &hash, Existing::Replace).unwrap();
    assert_eq!(fs::read(path.path().join("name")).unwrap(), b"third");
    let (fourth, _) = written(&directory, b"fourth");
    let kept = fourth.keep(b"other", &[0; 32], Existing::Keep);
    assert!(matches!(kept, Err(KeepError::Changed)));
}

#[test]
fn a_leftover_is_taken_over_and_a_held_one_is_not() {
    let path = tempfile::tempdir().unwrap();
    let directory = Arc::new(open_directory(path.path()).unwrap());
    fs::write(path.path().join(".pathmark-0.part"), "left over").unwrap();
    let (draft, _) = written(&directory, b"new");
    assert_eq!(draft.file().metadata().unwrap().len(), 3);
    let name = b".pathmark-x.part".to_vec();
    let one = Draft::resume(&directory, name.clone()).unwrap().unwrap();
    one.file().write_all_at(b"part", 0).unwrap();
    assert!(Draft::resume(&directory, name.clone()).unwrap().is_none());
    drop(one);
    let one = Draft::resume(&directory, name).unwrap().unwrap();
    assert_eq!(one.file().metadata().unwrap().len(), 4);
    one.discard().unwrap();
    drop(draft);
    assert!(names(path.path()).is_empty());
}

#[test]
fn a_link_under_a_temporary_name_is_passed_over() {
    let path = tempfile::tempdir().unwrap();
    fs::write(path.path().join("victim"), "safe").unwrap();
    std::os::unix::fs::symlink("victim", path.path().join(".pathmark-0.part")).unwrap();
    let directory = Arc::new(open_directory(path.path()).unwrap());
    fs::create_dir(path.path().join(".pathmark-1.part")).unwrap();
    let socket = path.path().join(".pathmark-2.part");
    let _socket = std::os::unix::net::UnixListener::bind(socket).unwrap();
    let draft = Draft::fresh(&directory).unwrap();
    assert_eq!(draft.temporary, b".pathmark-3.part");
    assert_eq!(fs::read(path.path().join("victim")).unwrap(), b"safe");
}

#[test]
fn a_file_is_for_the_users_of_the_one_that_it_replaces() {
    use std::os::unix::fs::PermissionsExt;
    let path = tempfile::tempdir().unwrap();
    let directory = Arc::new(open_directory(path.path()).unwrap());
    let name = path.path().join("name");
    fs::write(&name, "secret").unwrap();
    fs::set_permissions(&name, fs::Permissions::from_mode(0o600)).unwrap();
    let (draft, hash) = written(&directory, b"new");
    let _ = draft.keep(b"name", &hash, Existing::Replace).unwrap();
    let mode = fs::metadata(&name).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// Files that others create under a temporary name in a shared directory would still belong to
/// them under the final name.
#[test]
fn a_file_of_others_under_a_temporary_name_is_passed_over() {
    let path = tempfile::tempdir().unwrap();
    let directory = Arc::new(open_directory(path.path()).unwrap());
    let victim = path.path().join("victim");
    fs::write(&victim, "safe").unwrap();
    fs::hard_link(&victim, path.path().join(".pathmark-0.part")).unwrap();
    let planted = path.path().join(".pathmark-1.part");
    fs::write(&planted, "planted").unwrap();
    // Only root can give away files.
    let is_planted = std::os::unix::fs::chown(&planted, Some(1234), None).is_ok();
    let draft = Draft::fresh(&directory).unwrap();
    let expected: &[u8] = if is_planted {
        b".pathmark-2.part"
    } else {
        b".pathmark-1.part"
    };
    assert_eq!(draft.temporary, expected);
    for number in 0..=u8::from(is_planted) {
        let name = format!(".pathmark-{number}.part").into_bytes();
        let error = Draft::resume(&directory, name).unwrap_err();
        assert!(is_taken(&error), "{error}");
    }
    assert_eq!(fs::read(victim).unwrap(), b"safe");
}

#[test]
fn what_is_no_file_is_not_replaced() {
    let path = tempfile::tempdir().unwrap();
    let directory = Arc::new(open_directory(path.path()).unwrap());
    let socket = path.path().join("name");
    let _socket = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let (draft, hash) = written(&directory, b"new");
    let kept = draft.keep(b"name", &hash, Existing::Replace);
    assert!(matches!(kept, Err(KeepError::Special)));
    assert_eq!(names(path.path()), ["name"]);
}
