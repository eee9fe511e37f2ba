//! Fetches individual files.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use pathmark_http3::client::{Fetched, Get, GetError, Listed};
use pathmark_http3::fields::PathName;
use pathmark_http3::http::HeaderMap;
use pathmark_http3::resource::{Kind, is_reserved};
use pathmark_http3::root::Existing;

use super::super::figures::{Figures, FileFigures};
use super::super::glob;
use super::super::moving::{self, Moving};
use super::super::session::Stop;
use super::super::target::shown;
use super::{Args, Job, Latest, Session, To, existing, explained, fields, to_name};

/// Fetches the files of one server.
pub(super) async fn fetch(
    args: &Args,
    stop: &Stop,
    session: &Session,
    jobs: &[Job],
    figures: &mut Figures,
) -> Latest {
    let expanded = tokio::select! {
        expanded = expand(session, jobs, figures) => expanded,
        () = stop.stopped() => jobs.to_vec(),
    };
    let asked = args.cc.as_ref().map(ToString::to_string);
    let headers = fields(asked.as_deref());
    let latest = RefCell::new(Latest::default());
    let name = |job: &Job| job.target.name();
    let fetch = async |job: &Job, moving: &Moving<'_>| {
        let name = name(job);
        let fetched = one(session, job, existing(args), &headers, moving).await;
        let fetched = fetched.with_context(|| format!("cannot fetch {name}"))?;
        let (seconds, sha256) = (moving.arrived(), &fetched.sha256);
        latest.borrow_mut().note(seconds, &fetched, &name);
        let (bytes, resumed) = (fetched.bytes, fetched.resumed);
        Ok(FileFigures::moved(name, bytes, resumed, sha256, seconds))
    };
    let (files, bytes) = moving::all(&expanded, args.moving, stop, name, fetch).await;
    let done = files.iter().filter(|file| file.error.is_none());
    figures.transfer.streams += done.count() as u64;
    figures.files.extend(files);
    Latest {
        bytes,
        ..latest.into_inner()
    }
}

/// Fetches one file.
async fn one(
    session: &Session,
    job: &Job,
    existing: Existing,
    headers: &HeaderMap,
    moving: &Moving<'_>,
) -> anyhow::Result<Fetched> {
    let source = job.target.path.clone().unwrap_or_default();
    let client = &session.client;
    let fetched = match &job.to {
        To::File(path) => {
            let how = Get {
                existing,
                headers: headers.clone(),
            };
            let tell = |progress| moving.tell(progress);
            client.get_with(&source, path, how, tell).await
        }
        To::Special(_) | To::Tree(_) | To::Matching(_) | To::Out => {
            let tell = |progress| moving.tell(progress);
            let out = tokio::task::spawn_blocking({
                let to = job.to.clone();
                // Opening a pipe blocks until it has a reader.
                move || open(&to)
            });
            let out = Arc::new(
                out.await
                    .map_err(io::Error::other)?
                    .with_context(|| format!("cannot write {}", job.to.path().display()))?,
            );
            let write = async |data: bytes::Bytes| {
                let out = Arc::clone(&out);
                let written = tokio::task::spawn_blocking(move || (&*out).write_all(&data));
                written.await.map_err(io::Error::other)?
            };
            client.get_stream(&source, headers, write, tell).await
        }
    };
    fetched.map_err(|error| match (&job.to, error) {
        (To::Out, GetError::Storage(error)) => {
            anyhow::Error::new(error).context("cannot write to the standard output")
        }
        (To::Out | To::Special(_), GetError::Digest) => anyhow!(
            "the content's SHA-256 is not the one that the server announced: what was written is \
             not the file"
        ),
        (To::Special(path), GetError::Storage(error)) => {
            anyhow!("cannot write {}: {error}", path.display())
        }
        (To::File(path), GetError::Storage(error)) => {
            let hint = match error.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    "; free space there, then run the same command: it resumes"
                }
                _ => "",
            };
            anyhow!("cannot write {}: {error}{hint}", path.display())
        }
        (_, error) => explained(error, &source),
    })
}

/// Opens a destination that is written to and not replaced.
fn open(to: &To) -> io::Result<File> {
    match to {
        To::Special(path) => File::options().write(true).open(path),
        _ => Ok(io::stdout().as_fd().try_clone_to_owned()?.into()),
    }
}

/// Replaces each pattern by the files that match it. A file whose name equals the pattern takes
/// precedence.
async fn expand(session: &Session, jobs: &[Job], figures: &mut Figures) -> Vec<Job> {
    let mut expanded: Vec<Job> = Vec::new();
    for job in jobs {
        let To::Matching(directory) = &job.to else {
            let same = |other: &&Job| other.to == job.to && other.target.path == job.target.path;
            if expanded.iter().find(same).is_none() {
                expanded.push(job.clone());
            }
            continue;
        };
        let path = job.target.path.clone().unwrap_or_default();
        let (pattern, above) = match path.names.split_last() {
            Some((pattern, above)) => (pattern.as_slice(), above.to_vec()),
            None => continue,
        };
        let within = |name: Option<Vec<u8>>| PathName {
            slash: name.is_none(),
            names: above.iter().cloned().chain(name).collect(),
        };
        let mut failed = |error: anyhow::Error| {
            let name = shown(&path);
            let error = error.context(format!("cannot fetch {name}"));
            figures.files.push(FileFigures::broken(name, &error));
        };
        let listed = match session.client.list(&within(None)).await {
            Ok(listed) => listed,
            Err(error) => {
                failed(error.into());
                continue;
            }
        };
        let is_file = |entry: &Listed| {
            matches!(entry.kind, Kind::File | Kind::Symlink) && !is_reserved(&entry.name)
        };
        let is_named = listed
            .iter()
            .any(|entry| is_file(entry) && entry.name == pattern);
        let files = listed.into_iter().filter(|entry| {
            is_file(entry)
                && if is_named {
                    entry.name == pattern
                } else {
                    glob::matches(pattern, &entry.name)
                }
        });
        let is_directory = directory.is_dir();
        if !is_named && !is_directory {
            failed(anyhow!(
                "{} is no directory; make it first",
                directory.display()
            ));
            continue;
        }
        let mut found = false;
        for entry in files {
            found = true;
            let to = to_name(if is_directory {
                directory.join(OsStr::from_bytes(&entry.name))
            } else {
                directory.clone()
            });
            let target = super::Target {
                path: Some(within(Some(entry.name))),
                ..job.target.clone()
            };
            match expanded.iter().find(|other| other.to == to) {
                Some(other) if other.target.path == target.path => {}
                Some(other) => failed(anyhow!(
                    "{} and {target} would both become {:?}",
                    other.target,
                    to.path()
                )),
                None => expanded.push(Job { target, to }),
            }
        }
        if !found {
            let hint = if pattern.contains(&b'[') {
                "; write `[[]` for a `[`"
            } else {
                ""
            };
            failed(anyhow!("no file of the server matches{hint}"));
        }
    }
    expanded
}
