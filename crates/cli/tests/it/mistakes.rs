//! Common mistakes at the command line: nothing is transferred, and the message says how to
//! continue.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::process::Output;

use tempfile::TempDir;

use crate::common::offered::Offered;
use crate::common::{Server, json, pathmark};

fn serve(offered: &Offered) -> Server {
    Server::of_files(offered, "127.0.0.1:0", &["--allow-put"])
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Exit codes, command lines, and words of the message. `@` is the address of a server.
const MISTAKES: &str = "\
2 get @/file -o none/sub/name => none/sub is no directory
2 get @/file -o none/ => none/ is no directory
1 get @/missing => no file
2 get @/../file => no name of a file
2 get nowhere => HOST:PORT
1 get @/sub => -r fetches
1 get -r @/file => without -r
1 get -r @/ --max-entries 1 => or raise --max-entries
2 get -r @/* => leave -r out
2 get @/* -o - => may match several files
1 get -r @/sub -o /dev/null => into /dev/null/sub
1 get @/file -o /proc/none => cannot write /proc/none
2 get @/file --limit=-1 => is no number of bytes
2 get http://host/file => over TCP
2 get https://host/file?a=b => %3F
2 get --reconnect 1h @/file => --reconnect=1h
1 get @/no[1] => write `[[]` for a `[`
2 get @/file --cc foo => `foo`: known are
1 ls @/file => no directory of this name
2 ls @ --connect-timeout 1m => --connect-timeout
2 put none b.txt => not a server: write HOST:PORT
2 put none @/ => cannot read none: No such file
2 put dangling @/ => cannot read dangling: No such file
2 put -r none @/ => cannot read none: No such file
2 put directory @/ => -r stores directories
2 put /dev/zero @/ => - stores the standard input
2 perf client @ => --download
2 perf client @ --download 1MB --dscp 64 => 64
2 perf client @ --time 1s --streams 1001 => 1001
1 perf client @ --time 1s => needs `pathmark perf server`
2 serve --listen :0 --dir none => none
2 serve --listen :0 --dir directory --dscp x => dscp
2 serve --listen :0 --dir directory --access-log none/log => none/log
2 serve --listen :0 --dir directory --access-log directory => directory
2 fly => unrecognized
2 proxy => or --listen ADDR with --token-file FILE
2 proxy --listen 127.0.0.1:0 => PATHMARK_PROXY_TOKENS
2 demo --figure a.gif => .svg or .png
2 demo --in-process --scenario five-files => use `pathmark emulate five-files`
2 merge directory => no runs
2 emulate => `pathmark emulate --list` shows
2 emulate five-file => did you mean `five-files`
2 emulate five-files --set duratoin=5s => `duration`
2 emulate five-files --show --set duratoin=5s => `duration`
2 emulate five-files --set duration => KEY=VALUE
2 emulate five-files --set rate=1Mbit => link.NAME.rate
2 emulate five-files --set link.bottleneck.rate=10 => a bare rate is in bit/s
2 emulate five-files --sweep seed=2..1 => must go up
2 emulate five-files --shard 0/2 => --out
2 emulate five-files --variant x => leave --variant out
2 emulate five-files --cells 3 => --harm
2 emulate --harm --cell hidden/over => no kind of cell
2 emulate --harm --cells 0 => from 1 to 100000
2 emulate --harm --cells 1000000000 --list => from 1 to 100000
2 emulate --harm --at-most 2 => from 0 to 1
2 emulate --harm --at-most abc => a share such as 0.02
2 compare --estimate --algorithms cubik => did you mean `cubic`
2 compare --estimate --rate 1Mbit,,2Mbit => --rate `1Mbit,,2Mbit` lists no values
2 compare --estimate --flows 1..1000000 => must go up, over 100000 numbers at most
2 compare --estimate --flows 1..1000 --seeds 999 => at most 200000 runs
2 compare --estimate --seeds 0 => 0 seeds
2 compare --estimate --grid grid.toml => grid.toml:2
2 compare --estimate --grid /no/such/grid.toml => cannot read /no/such/grid.toml
2 compare --estimate --out /proc/no => cannot make /proc/no";

#[test]
fn mistakes_are_named() {
    let (offered, here) = (Offered::new(), TempDir::new().unwrap());
    fs::create_dir_all(offered.path().join("sub")).unwrap();
    fs::write(offered.path().join("file"), "content").unwrap();
    fs::create_dir(here.path().join("directory")).unwrap();
    fs::write(
        here.path().join("grid.toml"),
        "rate = \"1Mbit\"\nspeed = 3\n",
    )
    .unwrap();
    symlink("nothing", here.path().join("dangling")).unwrap();
    let server = serve(&offered);
    for line in MISTAKES.lines() {
        let (command, words) = line.split_once(" => ").unwrap();
        let (code, command) = command.split_once(' ').unwrap();
        let command = command.replace('@', &server.address);
        let arguments: Vec<_> = command.split(' ').collect();
        let mut command = pathmark(&arguments);
        if ["get", "put", "ls", "perf"].contains(&arguments[0]) {
            command.args(["--pin", &server.pin]);
        }
        let output = command.current_dir(here.path()).output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), code.parse().ok(), "{line}: {said}");
        assert!(said.contains(words), "{line}: {said}");
    }
    assert_eq!(fs::read_dir(offered.path()).unwrap().count(), 2);
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
    assert!(
        listed.contains(" a\\xff\n") && listed.contains(" a\\xfe\n"),
        "{listed}"
    );
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
        ["get", "-r", &format!("{}/top", server.address), "-o", "."],
        ["put", "-r", "own", &server.address, "--force"],
    ] {
        let mut command = pathmark(&arguments);
        command.args(["--quiet", "--pin", &server.pin]);
        let output = command.current_dir(here.path()).output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("beneath 128 others"), "{said}");
    }
}
