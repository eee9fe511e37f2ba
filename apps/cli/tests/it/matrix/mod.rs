//! Events that can disturb a transfer. In each case, either the bytes at the destination are
//! correct, or the command fails with exit code 1 and the reason. Only the part of the file is
//! left, and the next transfer succeeds. These tests kill real processes, and use real file systems
//! and links.
//!
//! `cargo test --test it matrix -- --ignored` takes a link down for a minute, and a server away for
//! longer than the idle timeout, whereas the other tests take them away for 2 s at most.

mod bed;
mod link;

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::process::Output;

use bed::{Bed, Plan, Way};

use crate::common::offered::settle;
use crate::common::{Process, at_once, content, ended, stderr};

/// How the command ends.
#[derive(Clone, Copy, Debug)]
enum End {
    /// The file is complete.
    Done,
    /// Exit code 1, with this text on stderr, and no file.
    Failed(&'static str),
    /// The same, but another file has the name.
    Kept(&'static str),
    /// By SIGKILL, and no file.
    Killed,
}

/// One row of the matrix.
#[derive(Clone, Copy)]
struct Row {
    bytes: usize,
    small_disk: bool,
    unprivileged: bool,
    more: &'static [&'static str],
    /// The event while the transfer is held up midway.
    befalls: fn(&mut Bed, &mut Process),
    get: End,
    put: End,
    /// Undoes the event, so that the same command succeeds.
    mended: fn(&mut Bed),
    /// The next `get` doesn't need the bytes that have arrived.
    resumes: bool,
}

fn nothing(_: &mut Bed) {}

const ROW: Row = Row {
    bytes: 2_000_000,
    small_disk: false,
    unprivileged: false,
    more: &[],
    befalls: |_, _| (),
    get: End::Done,
    put: End::Done,
    mended: nothing,
    resumes: true,
};

/// More than both sides buffer of a file in transfer.
const LARGE: usize = 16_000_000;

impl Row {
    /// Runs both directions at once.
    fn run(self) {
        at_once([Way::Get, Way::Put], |way| self.cell(way));
    }

    fn cell(self, way: Way) {
        let mut bed = Bed::new(Plan {
            way,
            bytes: self.bytes,
            small_disk: self.small_disk,
            unprivileged: self.unprivileged,
            more: self.more,
        });
        let mut client = bed.begin();
        (self.befalls)(&mut bed, &mut client);
        bed.gate.open();
        let output = client.finish();
        match if way == Way::Get { self.get } else { self.put } {
            End::Done => {
                assert!(output.status.success(), "{way:?}: {}", stderr(&output));
                return bed.is_whole();
            }
            End::Failed(why) => {
                failed(way, &output, why);
                bed.has_parts_alone(0);
            }
            End::Kept(why) => {
                failed(way, &output, why);
                return bed.has_parts_alone(1);
            }
            End::Killed => {
                assert_eq!(output.status.signal(), Some(9), "{way:?}");
                bed.has_parts_alone(0);
            }
        }
        (self.mended)(&mut bed);
        bed.again(self.resumes);
    }
}

#[track_caller]
fn failed(way: Way, output: &Output, why: &str) {
    let stderr = stderr(output);
    assert_eq!(output.status.code(), Some(1), "{way:?}: {stderr}");
    assert!(stderr.contains(why), "{way:?}: {stderr}");
}

#[test]
fn the_client_is_killed() {
    Row {
        befalls: |_, client| client.0.kill().unwrap(),
        get: End::Killed,
        put: End::Killed,
        ..ROW
    }
    .run();
}

const BROKEN: Row = Row {
    get: End::Failed("the bytes that arrived are kept"),
    put: End::Failed("the transfer broke off"),
    ..ROW
};

/// The client notices this by its idle timeout of 30 s.
#[test]
#[ignore = "cargo xtask soak link-down"]
fn the_server_is_killed() {
    Row {
        befalls: |bed, _| bed.kill_server(),
        mended: Bed::start_server,
        ..BROKEN
    }
    .run();
}

/// The client notices this as soon as the new server answers a packet of the old connection.
#[test]
fn the_server_is_killed_and_starts_again() {
    let restarted = |bed: &mut Bed, _: &mut Process| {
        bed.kill_server();
        bed.start_server();
    };
    let rows = [
        Row {
            befalls: restarted,
            ..BROKEN
        },
        Row {
            befalls: restarted,
            more: &["--reconnect"],
            ..ROW
        },
    ];
    at_once(rows, Row::run);
}

#[test]
fn the_disk_is_full() {
    Row {
        small_disk: true,
        befalls: |bed, _| bed.fill_disk(),
        get: End::Failed("No space left"),
        put: End::Failed("disk is full"),
        mended: |bed| bed.free_space(),
        ..ROW
    }
    .run();
}

/// Inverts the first bytes of the source.
fn change(bed: &mut Bed) {
    for byte in &mut bed.expected[..1000] {
        *byte = !*byte;
    }
    let source = File::options().write(true).open(bed.source()).unwrap();
    source.write_all_at(&bed.expected[..1000], 0).unwrap();
}

#[test]
fn the_source_is_changed() {
    Row {
        bytes: LARGE,
        befalls: |bed, _| change(bed),
        get: End::Failed("changed while it was sent"),
        put: End::Failed("changed while it was sent"),
        mended: |bed| settle(&bed.source()),
        resumes: false,
        ..ROW
    }
    .run();
}

#[test]
fn the_source_is_changed_and_its_size_and_times_are_restored() {
    Row {
        bytes: LARGE,
        befalls: |bed, _| {
            let before = fs::metadata(bed.source()).unwrap();
            change(bed);
            let source = File::options().write(true).open(bed.source()).unwrap();
            source.set_modified(before.modified().unwrap()).unwrap();
            let after = fs::metadata(bed.source()).unwrap();
            assert_eq!(after.len(), before.len());
            assert_eq!(after.modified().unwrap(), before.modified().unwrap());
        },
        get: End::Failed("changed while it was sent"),
        put: End::Failed("changed while it was sent"),
        resumes: false,
        ..ROW
    }
    .run();
}

/// Of two `get`s, the first one continues; of two `put`s, the one that ends first gets the name.
#[test]
fn another_transfer_writes_to_the_name() {
    Row {
        befalls: |bed, _| {
            let other = bed.aside("other");
            let theirs = content(1_000_000, 7);
            fs::write(&other, &theirs).unwrap();
            let output = bed.directly(&other);
            if bed.destination().join("f").exists() {
                assert!(output.status.success(), "{}", stderr(&output));
                bed.expected = theirs;
            } else {
                failed(Way::Get, &output, "another transfer is writing the file");
            }
        },
        put: End::Kept("--force"),
        ..ROW
    }
    .run();
}

/// Nothing is transferred, because the command line is wrong.
#[test]
fn two_sources_have_one_name() {
    for command in ["get", "put"] {
        let bed = Bed::new(Plan {
            way: if command == "get" { Way::Get } else { Way::Put },
            bytes: 10,
            small_disk: false,
            unprivileged: false,
            more: &[],
        });
        let (one, two) = (bed.aside("one/f"), bed.aside("two/f"));
        for path in [&one, &two] {
            fs::create_dir(path.parent().unwrap()).unwrap();
            fs::write(path, b"0123456789").unwrap();
        }
        ended(&bed.both(&one, &two), 2, "would both become");
        bed.has_parts_alone(0);
    }
}

fn set_mode(path: &std::path::Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn the_permission_to_write_is_lost() {
    Row {
        unprivileged: true,
        befalls: |bed, _| set_mode(bed.destination(), 0o500),
        get: End::Failed("ermission denied"),
        put: End::Failed("no permission to write"),
        mended: |bed| set_mode(bed.destination(), 0o700),
        ..ROW
    }
    .run();
}

/// With `--force`, `get` replaces a link as it replaces a file; `put` never replaces a link.
#[test]
fn a_symbolic_link_gets_the_name() {
    let row = Row {
        befalls: |bed, _| bed.plant_link(),
        get: End::Kept("--force"),
        put: End::Kept("a link"),
        ..ROW
    };
    let forced = Row {
        more: &["--force"],
        get: End::Done,
        ..row
    };
    at_once([row, forced], Row::run);
}
