use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use super::*;

fn find(root: &Root, path: &str) -> Result<String, RootError> {
    let path = PathName::parse(path.as_bytes()).unwrap();
    match root.find(&path, 0)? {
        Found::File(mut file, _) => {
            let mut text = String::new();
            file.read_to_string(&mut text).unwrap();
            Ok(text)
        }
        Found::Directory(_) => Ok("directory".to_owned()),
    }
}

#[test]
fn links_lead_about_the_root_and_never_out() {
    let outer = tempfile::tempdir().unwrap();
    fs::write(outer.path().join("secret"), "secret").unwrap();
    let inner = outer.path().join("root");
    fs::create_dir_all(inner.join("sub/deep")).unwrap();
    fs::write(inner.join("file"), "file").unwrap();
    fs::write(inner.join("sub/file"), "sub").unwrap();
    fs::write(inner.join(".pathmark-0.part"), "part").unwrap();
    for (target, link) in [
        ("file", "link"),
        ("sub/deep/../file", "around"),
        ("../file", "sub/up"),
        ("sub", "to-sub"),
        ("../secret", "out"),
        ("../root/file", "out-and-in"),
        ("../../secret", "sub/out"),
        ("/etc/passwd", "absolute"),
        ("loop", "loop"),
        ("..", "parent"),
        ("nothing", "dangling"),
        (".pathmark-0.part", "unfinished"),
        ("file/", "file-as-directory"),
    ] {
        symlink(target, inner.join(link)).unwrap();
    }
    let root = Root::open(&inner).unwrap();
    for (path, text) in [
        ("/", "directory"),
        ("/file", "file"),
        ("/sub", "directory"),
        ("/sub/deep/", "directory"),
        ("/link", "file"),
        ("/around", "sub"),
        ("/sub/up", "file"),
        ("/to-sub/file", "sub"),
        ("/to-sub/up", "file"),
    ] {
        assert_eq!(find(&root, path).unwrap(), text, "{path}");
    }
    let outside = "/out /out-and-in /sub/out /absolute /loop /parent /parent/secret /dangling";
    let absent = "/nothing /file/ /file/more /.pathmark-0.part /unfinished /file-as-directory";
    for path in outside.split(' ').chain(absent.split(' ')) {
        let found = find(&root, path);
        let is_hidden = matches!(found, Err(RootError::NotFound));
        assert!(is_hidden, "{path}: {found:?}");
    }
}

#[test]
fn special_files_and_closed_doors_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let _socket = UnixListener::bind(directory.path().join("socket")).unwrap();
    let root = Root::open(directory.path()).unwrap();
    assert!(matches!(find(&root, "/socket"), Err(RootError::Special)));
    let pipe = rustix::fs::mknodat(
        rustix::fs::CWD,
        directory.path().join("pipe"),
        rustix::fs::FileType::Fifo,
        Mode::RWXU,
        0,
    );
    pipe.unwrap();
    assert!(matches!(find(&root, "/pipe"), Err(RootError::Special)));
}

#[test]
fn a_parent_is_that_of_the_last_name() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("sub")).unwrap();
    fs::write(directory.path().join("sub/file"), "x").unwrap();
    let root = Root::open(directory.path()).unwrap();
    let parent = |path: &str| {
        let path = PathName::parse(path.as_bytes()).unwrap();
        root.parent(&path, 0, false)
    };
    let sub = parent("/sub/new").unwrap();
    assert_eq!(names_stat(sub.as_fd(), b"file").unwrap().unwrap().size, 1);
    assert!(names_stat(sub.as_fd(), b"new").unwrap().is_none());
    assert!(matches!(parent("/none/new"), Err(RootError::NotFound)));
    assert!(matches!(parent("/sub/file/new"), Err(RootError::NotFound)));
    assert!(matches!(parent("/"), Err(RootError::NotFound)));
    let nearest = PathName::parse(b"/sub/none/none/new").unwrap();
    let nearest = root.nearest(&nearest, 0).unwrap();
    assert!(names_stat(nearest.as_fd(), b"file").unwrap().is_some());
    let deep = PathName::parse(b"/one/two/new").unwrap();
    root.parent(&deep, 0, true).unwrap();
    assert!(directory.path().join("one/two").is_dir());
    assert!(!directory.path().join("one/two/new").exists());
    for path in [&b"/sub/file/new/x"[..], b"/.pathmark-x/new"] {
        let path = PathName::parse(path).unwrap();
        let parent = root.parent(&path, 0, true);
        assert!(matches!(parent, Err(RootError::NotFound)));
    }
    let deeper = PathName {
        names: vec![b"d".to_vec(); MAX_DEPTH + 2],
        slash: false,
    };
    assert!(matches!(
        root.parent(&deeper, 0, true),
        Err(RootError::Deep)
    ));
    assert!(!directory.path().join("d").exists());
}

/// A client that is confined to `own` stores links there.
#[test]
fn links_behind_a_prefix_stay_beneath_it() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::create_dir_all(at("disk/sub")).unwrap();
    fs::create_dir(at("other")).unwrap();
    fs::write(at("disk/file"), "own").unwrap();
    fs::write(at("other/file"), "other").unwrap();
    for (target, link) in [
        ("disk", "own"),
        ("../file", "disk/sub/up"),
        ("../other", "disk/out"),
        ("sub/../../other/file", "disk/far"),
        ("../disk/file", "disk/out-and-in"),
    ] {
        symlink(target, at(link)).unwrap();
    }
    let root = Root::open(directory.path()).unwrap();
    let name = |path: &str| PathName::parse(path.as_bytes()).unwrap();
    let found = |path: &str| match root.find(&name(path), 1) {
        Ok(Found::File(_, stat)) => Ok(stat.size),
        Ok(Found::Directory(_)) => Ok(0),
        Err(error) => Err(error.to_string()),
    };
    assert_eq!(found("/own/file"), Ok(3), "the operator's own link");
    assert_eq!(found("/own/sub/up"), Ok(3));
    assert_eq!((found("/own"), found("/other/file")), (Ok(0), Ok(5)));
    for path in ["/own/out/file", "/own/far", "/own/out-and-in"] {
        assert!(found(path).is_err(), "{path}");
        assert!(root.find(&name(path), 0).is_ok(), "{path}");
    }
    assert!(root.parent(&name("/own/out/new"), 1, true).is_err());
    assert!(root.parent(&name("/own/new/new"), 1, true).is_ok());
    let depth = |path: &str| root.parent_at(&name(path), 1, false).unwrap().1;
    assert_eq!((depth("/own/new"), depth("/own/sub/new")), (0, 1));
    assert!(at("disk/new").is_dir());
}

/// A server of a link serves the directory to which the link leads now.
#[test]
fn a_switched_link_leads_to_the_new_directory() {
    let here = tempfile::tempdir().unwrap();
    let link = here.path().join("current");
    for version in ["one", "two"] {
        fs::create_dir(here.path().join(version)).unwrap();
        fs::write(here.path().join(version).join("file"), version).unwrap();
    }
    symlink("one", &link).unwrap();
    let root = Root::open(&link).unwrap();
    assert_eq!(find(&root, "/file").unwrap(), "one");
    symlink("two", here.path().join("next")).unwrap();
    fs::rename(here.path().join("next"), &link).unwrap();
    assert_eq!(find(&root, "/file").unwrap(), "two");
    // Without a name, it still serves the last one.
    fs::remove_file(&link).unwrap();
    assert_eq!(find(&root, "/file").unwrap(), "two");
}
