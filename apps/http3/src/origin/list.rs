//! Listings of directories.

use std::os::fd::OwnedFd;

use bytes::Bytes;

use super::clock::now;
use super::send::{Broken, Exchange};
use crate::blocking::blocking;
use crate::plan::{self, Ask, listing};
use crate::root::Entries;

/// Responds with the entries of an open directory.
pub(super) async fn list(
    exchange: &mut Exchange,
    ask: &Ask,
    directory: OwnedFd,
) -> Result<(), Broken> {
    let reply = plan::directory(ask);
    if !reply.status.is_success() || exchange.is_head_only() {
        return Ok(exchange.reply(&reply, now()).await?);
    }
    let mut entries = blocking(move || Entries::of(directory)).await??;
    let form = ask.form;
    exchange.respond(reply.head(now())).await?;
    exchange
        .send(listing::begin(form, &ask.path).into())
        .await?;
    let mut first = true;
    loop {
        let (rest, piece) = blocking(move || {
            let piece = entries.next_piece();
            (entries, piece)
        })
        .await?;
        entries = rest;
        let piece = piece?;
        if piece.is_empty() {
            break;
        }
        let mut text = String::new();
        for entry in &piece {
            text.push_str(&listing::entry(form, first, entry));
            first = false;
        }
        exchange.send(text.into()).await?;
    }
    exchange
        .send(Bytes::from_static(listing::end(form).as_bytes()))
        .await?;
    Ok(exchange.finish(None).await?)
}
