//! Common mistakes at the command line: nothing is transferred, and the message says how to
//! continue.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};

use tempfile::TempDir;

use crate::common::offered::Offered;
use crate::common::{Server, ended, json, pathmark, stderr, words};

fn serve(offered: &Offered) -> Server {
    Server::offering(offered, "127.0.0.1:0", &["--allow-put"])
}

#[test]
fn mistakes_are_named() {
    let (offered, here) = (Offered::new(), TempDir::new().unwrap());
    fs::create_dir_all(offered.path().join("sub")).unwrap();
    fs::write(offered.path().join("file"), "content").unwrap();
    fs::create_dir(here.path().join("directory")).unwrap();
    symlink("nothing", here.path().join("dangling")).unwrap();
    for name in ["open.pem", "open.key"] {
        fs::write(here.path().join(name), "secret").unwrap();
        let mode = fs::Permissions::from_mode(0o644);
        fs::set_permissions(here.path().join(name), mode).unwrap();
    }
    let server = serve(&offered);
    for (line, code, says) in [
        ("get @/file -o none/sub/name", 2, "none/sub is no directory"),
        ("get @/file -o none/", 2, "none/ is no directory"),
        ("get @/sub", 1, "-r fetches"),
        ("get -r @/file", 1, "without -r"),
        ("get -r @/ --max-entries 1", 1, "or raise --max-entries"),
        ("get -r @/*", 2, "leave -r out"),
        ("get @/* -o -", 2, "may match several files"),
        ("get -r @/sub -o /dev/null", 1, "into /dev/null/sub"),
        ("get @/file -o /proc/none", 1, "cannot write /proc/none"),
        ("get @/file --limit=-1", 2, "is no number of bytes"),
        ("ls @/none*", 1, "no file or directory of this name"),
        ("get http://host/file", 2, "over TCP"),
        ("get https://host/file?a=b", 2, "%3F"),
        ("get --reconnect 1h @/file", 2, "--reconnect=1h"),
        ("get @/no[1]", 1, "write `[[]` for a `[`"),
        ("get @/file --cc foo", 2, "`foo`: known are"),
        ("put none b.txt", 2, "not a server: write HOST:PORT"),
        ("perf client @ --time 1s", 1, "needs `pathmark perf server`"),
        // Its proxy is on this host.
        (
            "tunnel pathmark://127.0.0.1:1 -L *:8080:[::1]:8080",
            2,
            "is its own listener",
        ),
        ("put none @/", 2, "cannot read none: No such file"),
        ("put dangling @/", 2, "cannot read dangling: No such file"),
        ("put -r none @/", 2, "cannot read none: No such file"),
        ("put directory @/", 2, "-r stores directories"),
        ("put /dev/zero @/", 2, "- stores the standard input"),
        (
            "serve --listen :0 --dir directory --cert open.pem --key open.key",
            2,
            "all users can read open.key",
        ),
        (
            "serve --listen 127.0.0.1:0 --dir directory --answer-routers open.key",
            2,
            "all users can read open.key",
        ),
        (
            "serve --listen :0 --dir directory --access-log none/log",
            2,
            "none/log",
        ),
        (
            "serve --listen :0 --dir directory --access-log directory",
            2,
            "directory",
        ),
    ] {
        let mut command = pathmark(&words(&line.replace('@', &server.address)));
        if !line.starts_with("serve") && !line.starts_with("tunnel") {
            command.args(["--pin", &server.pin]);
        }
        let output = command.current_dir(here.path()).output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{line}: {said}");
        assert!(said.contains(says), "{line}: {said}");
    }
    assert_eq!(fs::read_dir(offered.path()).unwrap().count(), 2);
}

/// `ls` takes directories, files, and patterns; a name as it is takes precedence over a pattern.
#[test]
fn ls_takes_names_and_patterns() {
    let offered = Offered::new();
    fs::create_dir(offered.path().join("sub")).unwrap();
    for name in ["a1", "a2", "b", "a[1]", "sub/c"] {
        fs::write(offered.path().join(name), "content").unwrap();
    }
    let server = serve(&offered);
    for (path, names) in [
        ("b", &["b"][..]),
        ("a?", &["a1", "a2"]),
        ("a[1]", &["a[1]"]),
        ("sub", &["c"]),
        ("sub/*", &["c"]),
        ("s*", &["sub"]),
    ] {
        let target = format!("{}/{path}", server.address);
        let mut ls = pathmark(&["ls", "--json", "--pin", &server.pin, &target]);
        let listed = json(&ls.output().unwrap());
        let entries = listed["entries"].as_array().unwrap().iter();
        let found: Vec<_> = entries.map(|entry| &entry["name"]).collect();
        assert_eq!(found, names, "{path}");
    }
}

/// Names that are not valid text differ on the screen as they do on the disk, and can be typed.
#[test]
fn names_that_are_not_utf_8_differ() {
    let (offered, here) = (Offered::new(), TempDir::new().unwrap());
    let server = serve(&offered);
    let names = [&b"a\xff"[..], b"a\xfe"];
    let mut put = pathmark(&["put", "--pin", &server.pin, "--json"]);
    for name in names {
        let path = here.path().join(OsStr::from_bytes(name));
        fs::write(&path, name).unwrap();
        put.arg(path);
    }
    let odd = [server.address.as_bytes(), b"/\xe9/"].concat();
    let stored = json(&put.arg(OsStr::from_bytes(&odd)).output().unwrap());
    assert_eq!(stored["files"][0]["name"], "\\xe9/a\\xff");
    assert_eq!(stored["files"][1]["name"], "\\xe9/a\\xfe");
    let mut ls = pathmark(&["ls", "--pin", &server.pin]);
    let listed = ls.arg(OsStr::from_bytes(&odd)).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let both = listed.contains(" a\\xff\n") && listed.contains(" a\\xfe\n");
    assert!(both, "{listed}");
    let source = [&odd[..], names[1]].concat();
    let mut get = pathmark(&["get", "--pin", &server.pin, "-o", "-"]);
    let fetched = get.arg(OsStr::from_bytes(&source)).output().unwrap();
    assert_eq!(fetched.stdout, names[1], "{}", stderr(&fetched));
}

/// Directories that are too deep for one run are failures, in both directions.
#[test]
fn directories_that_are_too_deep_are_failures() {
    let (offered, here) = (Offered::new(), TempDir::new().unwrap());
    let deep = "d/".repeat(130);
    fs::create_dir_all(offered.path().join("top").join(&deep)).unwrap();
    fs::create_dir_all(here.path().join("own").join(&deep)).unwrap();
    let server = serve(&offered);
    for arguments in [
        ["get", "-r", &server.at("top"), "-o", "."],
        ["put", "-r", "own", &server.address, "--force"],
    ] {
        let mut command = pathmark(&arguments);
        command.args(["--quiet", "--pin", &server.pin]);
        let output = command.current_dir(here.path()).output().unwrap();
        ended(&output, 1, "beneath 128 others");
    }
}
