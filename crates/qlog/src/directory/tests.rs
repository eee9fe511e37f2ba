//! Logs up to their limits, slow and broken disks, and ends of connections.

use std::fs;
use std::io::BufReader;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::Duration;

use pathmark_transport::Instant;
use pathmark_transport::crypto::Side;
use pathmark_transport::observe::{TraceEvent, TraceFactory, TracedPacket};
use pathmark_transport::wire::{ConnectionId, PacketType};

use super::{CHUNK, Directory, File, Limits, Shared, Work, write_all};
use crate::read;

const NOW: Instant = Instant::from_nanos(0);

fn sent() -> TraceEvent<'static> {
    TraceEvent::Sent(TracedPacket {
        ty: PacketType::OneRtt,
        number: 1,
        bytes: 1200,
        shim: false,
        mtu_probe: false,
        ack_only: false,
    })
}

fn id(byte: u8) -> ConnectionId {
    ConnectionId::new(&[byte; 8]).unwrap()
}

/// Returns the names of the events of all logs in a directory, sorted by the logs' names.
fn events(directory: &Directory) -> Vec<Vec<String>> {
    let entries = fs::read_dir(&directory.shared.path).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort_by_key(|file| file.file_name().unwrap().to_owned());
    let names = files.iter().map(|file| {
        let mut names = Vec::new();
        let file = BufReader::new(File::open(file).unwrap());
        read(file, |record| names.push(record.name)).unwrap();
        names
    });
    names.collect()
}

#[test]
fn each_connection_has_a_log_up_to_the_limit() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("a/b");
    let limits = Limits {
        connections: 2,
        ..Limits::default()
    };
    let directory = Directory::with_limits(&path, limits).unwrap();
    let start = |n| directory.start(NOW, Side::Client, id(n));
    let mut first = start(1).unwrap();
    let second = start(2).unwrap();
    assert!(start(3).is_none());
    assert_eq!(directory.refused(), 1);
    first.on_event(NOW, &sent());
    drop(first);
    let mut fourth = start(4).unwrap();
    for _ in 0..2 * CHUNK / 80 {
        fourth.on_event(NOW, &sent());
    }
    drop((second, fourth));
    directory.flush();
    let lens: Vec<usize> = events(&directory).iter().map(Vec::len).collect();
    assert_eq!(lens, [1, 0, 2 * CHUNK / 80]);
    assert_eq!((directory.missing(), directory.error()), (0, None));
}

#[test]
fn a_log_ends_at_its_bound_and_says_so() {
    let place = tempfile::tempdir().unwrap();
    let limits = Limits {
        bytes: 500,
        ..Limits::default()
    };
    let directory = Directory::with_limits(place.path(), limits).unwrap();
    let mut log = directory.start(NOW, Side::Server, id(1)).unwrap();
    for _ in 0..100 {
        log.on_event(NOW, &sent());
    }
    drop(log);
    directory.flush();
    let events = events(&directory).remove(0);
    assert_eq!(events.last().unwrap(), "loglevel:warning");
    let sent = events.len() as u64 - 1;
    assert!((1..10).contains(&sent));
    assert_eq!(directory.missing(), 100 - sent);
}

/// A connection can end in another thread while the program waits.
#[test]
fn closing_waits_for_connections_and_counts_those_that_stay() {
    let place = tempfile::tempdir().unwrap();
    let directory = Directory::create(place.path()).unwrap();
    let mut log = directory.start(NOW, Side::Client, id(1)).unwrap();
    let stays = directory.start(NOW, Side::Client, id(2));
    assert_eq!(directory.close(Duration::ZERO), 2);
    let ends = std::thread::spawn(move || {
        log.on_event(NOW, &sent());
        drop((log, stays));
    });
    assert_eq!(directory.close(Duration::from_secs(60)), 0);
    ends.join().unwrap();
    assert_eq!(events(&directory)[0], ["quic:packet_sent"]);
}

#[test]
fn names_of_simulated_connections_remain_different() {
    let place = tempfile::tempdir().unwrap();
    let directory = Directory::create(place.path()).unwrap();
    for name in ["a", "a ", "a/b", "../a", "a%20"] {
        drop(directory.factory_of(name).start(NOW, Side::Client, id(1)));
    }
    directory.flush();
    assert_eq!(events(&directory).len(), 5);
}

/// The thread's part is played by the test, so that the disk is as slow as it wants.
#[test]
fn a_slow_disk_stops_no_connection() {
    let place = tempfile::tempdir().unwrap();
    let (to_thread, work) = sync_channel(1);
    let directory = Directory {
        shared: Arc::new(Shared {
            path: place.path().to_owned(),
            limits: Limits::default(),
            to_thread,
            connections: Mutex::new(0),
            ended: Condvar::new(),
            missing: 0.into(),
            refused: 0.into(),
            failed: OnceLock::new(),
        }),
    };
    // It takes the queue's only place.
    drop(directory.start(NOW, Side::Client, id(1)));
    let mut log = directory.start(NOW, Side::Client, id(2)).unwrap();
    while directory.missing() == 0 {
        log.on_event(NOW, &sent());
    }
    let missing = directory.missing();
    let Ok(Work::Write { .. }) = work.recv() else {
        panic!("no chunk of the first log");
    };
    log.on_event(NOW, &sent());
    drop(log);
    let shared = Arc::downgrade(&directory.shared);
    let path = directory.shared.path.clone();
    drop(directory);
    assert!(shared.upgrade().is_none());
    write_all(&work, |error| panic!("{error}"));
    let file = fs::read_dir(path).unwrap().next().unwrap().unwrap().path();
    let mut records = Vec::new();
    let file = BufReader::new(File::open(file).unwrap());
    read(file, |record| records.push(record)).unwrap();
    let text = format!("{missing} earlier events are missing");
    assert_eq!(records[1].data["message"], text);
    assert_eq!(records.len(), 2);
}

#[test]
fn a_file_that_cannot_be_written_is_reported_once() {
    let place = tempfile::tempdir().unwrap();
    let directory = Directory::create(place.path()).unwrap();
    let log = directory.start(NOW, Side::Client, id(1)).unwrap();
    let other = directory.start(NOW, Side::Client, id(2)).unwrap();
    fs::remove_dir(place.path()).unwrap();
    drop((log, other));
    directory.flush();
    let error = directory.error().unwrap();
    assert!(error.starts_with("cannot write ") && error.contains("No such file"));
    assert_eq!(*directory.shared.open(), 0);
    let file = place.path().join("file");
    fs::create_dir(place.path()).unwrap();
    fs::write(&file, "").unwrap();
    assert!(Directory::create(&file).is_err());
}
