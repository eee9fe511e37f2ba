//! Checks that each end reads the data that the other has written.

use std::collections::BTreeMap;

use pathmark_transport::streams::{Dir, ReadError, StreamId, Streams, WriteError};

use super::plan::Plan;

pub(crate) const CLIENT: usize = 0;
pub(crate) const SERVER: usize = 1;

/// Error code of resets and stops.
const CODE: u64 = 7;

/// One direction at one end.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    /// Total bytes, and bytes written or read so far.
    total: u64,
    at: u64,
    /// Number of bytes written or read after which to give up.
    gives_up_at: Option<u64>,
    /// The peer will give up.
    may_end_early: bool,
    done: bool,
}

#[derive(Clone, Copy, Debug)]
struct Exchange {
    id: Option<StreamId>,
    write: Part,
    read: Part,
}

/// All streams are opened by the client, which sends its bytes on them, as does the server.
#[derive(Debug)]
pub(crate) struct Application {
    side: usize,
    exchanges: Vec<Exchange>,
    /// The opened streams by ID.
    known: BTreeMap<StreamId, usize>,
}

/// Returns the byte at `offset` of the data that `side` sends on stream `index`.
pub(crate) fn byte(side: usize, index: usize, offset: u64) -> u8 {
    let mixed = (offset + 1)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add((2 * index + side) as u64 * 0x1234_5678_9abc);
    (mixed >> 29) as u8
}

impl Application {
    pub(crate) fn new(plan: &Plan, side: usize) -> Self {
        let other = 1 - side;
        let exchanges = plan.streams.iter().enumerate().map(|(index, bytes)| {
            let half = |of: usize, gives_up: bool| gives_up.then_some(bytes[of] / 2);
            let has = |list: &[(usize, usize)], side| list.contains(&(index, side));
            Exchange {
                id: None,
                write: Part {
                    total: bytes[side],
                    gives_up_at: half(side, has(&plan.resets, side)),
                    may_end_early: has(&plan.stops, other),
                    ..Part::default()
                },
                read: Part {
                    total: bytes[other],
                    gives_up_at: half(other, has(&plan.stops, side)),
                    may_end_early: has(&plan.resets, other),
                    ..Part::default()
                },
            }
        });
        Self {
            side,
            exchanges: exchanges.collect(),
            known: BTreeMap::new(),
        }
    }

    /// Returns true if everything was written and read.
    pub(crate) fn is_done(&self) -> bool {
        self.exchanges.iter().all(|e| e.write.done && e.read.done)
    }

    /// Returns the bytes written and read so far, for printing.
    pub(crate) fn state(&self) -> Vec<[u64; 4]> {
        let of = |e: &Exchange| [e.write.at, e.write.total, e.read.at, e.read.total];
        self.exchanges.iter().map(of).collect()
    }

    /// Does everything that is possible now, but only reads if `reads` is true.
    ///
    /// # Errors
    /// Data that differs from the data sent, or an impossible error.
    pub(crate) fn run(&mut self, streams: &mut Streams, reads: bool) -> Result<(), String> {
        if self.side == CLIENT {
            for index in 0..self.exchanges.len() {
                if self.exchanges[index].id.is_none()
                    && let Ok(id) = streams.open(Dir::Bi)
                {
                    self.exchanges[index].id = Some(id);
                    self.known.insert(id, index);
                }
            }
        }
        while let Some(id) = streams.accept(Dir::Bi) {
            let index = id.index() as usize;
            let exchange = self.exchanges.get_mut(index).ok_or("a stream too many")?;
            exchange.id = Some(id);
            self.known.insert(id, index);
        }
        for (id, index) in &self.known {
            let exchange = &mut self.exchanges[*index];
            write(streams, *id, self.side, *index, &mut exchange.write)?;
            if reads {
                read(streams, *id, 1 - self.side, *index, &mut exchange.read)?;
            }
        }
        Ok(())
    }
}

fn write(
    streams: &mut Streams,
    id: StreamId,
    side: usize,
    index: usize,
    part: &mut Part,
) -> Result<(), String> {
    while !part.done {
        if part.gives_up_at.is_some_and(|at| part.at >= at) {
            let _ = streams.reset(id, CODE);
            part.done = true;
            return Ok(());
        }
        let end = part.gives_up_at.unwrap_or(part.total);
        if part.at == end {
            part.done = true;
            return match streams.finish(id) {
                Ok(()) => Ok(()),
                Err(_) if part.may_end_early => Ok(()),
                Err(error) => Err(format!("finish of {index}: {error}")),
            };
        }
        let len = (end - part.at).min(4096);
        let bytes = (part.at..part.at + len).map(|offset| byte(side, index, offset));
        let piece: Vec<u8> = bytes.collect();
        match streams.write(id, &piece) {
            Ok(n) => part.at += n as u64,
            Err(WriteError::Blocked) => return Ok(()),
            Err(_) if part.may_end_early => part.done = true,
            Err(error) => return Err(format!("write to {index}: {error}")),
        }
    }
    Ok(())
}

fn read(
    streams: &mut Streams,
    id: StreamId,
    side: usize,
    index: usize,
    part: &mut Part,
) -> Result<(), String> {
    let mut buffer = [0; 3000];
    while !part.done {
        if part.gives_up_at.is_some_and(|at| part.at >= at) {
            let _ = streams.stop(id, CODE);
            part.done = true;
            return Ok(());
        }
        match streams.read(id, &mut buffer) {
            Ok(Some(n)) => {
                let expected = (part.at..).map(|offset| byte(side, index, offset));
                let mut bytes = buffer[..n].iter().copied().zip(expected);
                if !bytes.all(|(got, expected)| got == expected) {
                    return Err(format!("corrupt: {index} after {} bytes", part.at));
                }
                part.at += n as u64;
            }
            Ok(None) if part.at == part.total => part.done = true,
            Ok(None) => return Err(format!("{index} ends after {} bytes", part.at)),
            Err(ReadError::Blocked) => return Ok(()),
            Err(ReadError::Reset(CODE)) if part.may_end_early => part.done = true,
            Err(error) => return Err(format!("read of {index}: {error}")),
        }
    }
    Ok(())
}
