//! A connection's record of the sending parts that the application holds: wakers, and how each part
//! ended.

use std::task::{Context, Waker};

use super::State;
use crate::stream_error::WriteError;
use crate::waiters::{Place, WaitList, replace};
use pathmark_transport::streams::StreamId;

/// A sending part that the application holds.
#[derive(Debug, Default)]
pub(crate) struct Sender {
    /// How many handles the application holds: the part itself and futures of its end.
    handles: u32,
    pub(crate) waker: Option<Waker>,
    /// Futures that wait for the end. Most parts have none.
    stopping: Option<Box<WaitList>>,
    /// How the part ended: `None` if its data was delivered or its reset acknowledged, or the code
    /// with which it was stopped.
    end: Option<Option<u64>>,
}

impl State {
    /// Counts another handle of a sending part, or a future of its end.
    pub(crate) fn hold_sender(&mut self, id: StreamId) {
        self.senders.entry(id).or_default().handles += 1;
    }

    /// Reports that the application has dropped a handle of a sending part.
    pub(crate) fn release_sender(&mut self, id: StreamId) {
        if let Some(sender) = self.senders.get_mut(&id) {
            sender.handles = sender.handles.saturating_sub(1);
            if sender.handles == 0 {
                self.senders.remove(&id);
            }
        }
    }

    /// Returns how a sending part ended: see [`SendStream::stopped`](crate::SendStream::stopped).
    pub(crate) fn sender_end(&self, id: StreamId) -> Option<Result<Option<u64>, WriteError>> {
        match self.senders.get(&id).and_then(|sender| sender.end) {
            Some(end) => Some(Ok(end)),
            None => self.lost().map(|error| Err(error.into())),
        }
    }

    /// Registers `cx` to be woken at the end of a sending part.
    pub(crate) fn wait_for_end(&mut self, id: StreamId, place: &mut Place, cx: &Context<'_>) {
        let sender = self.senders.entry(id).or_default();
        let replaced = sender.stopping.get_or_insert_default().wait(place, cx);
        self.later.forget(replaced);
    }

    pub(crate) fn leave_end(&mut self, id: StreamId, place: &mut Place) {
        let sender = self.senders.get_mut(&id);
        let stopping = sender.and_then(|sender| sender.stopping.as_mut());
        let forgotten = stopping.and_then(|stopping| stopping.leave(place));
        self.later.forget(forgotten);
    }

    /// Removes the waker of the task that waits to write.
    pub(crate) fn forget_writer(&mut self, id: StreamId) {
        let sender = self.senders.get_mut(&id);
        let forgotten = sender.and_then(|sender| sender.waker.take());
        self.later.forget(forgotten);
    }

    /// Registers `cx` to be woken once the part can be written or has ended.
    pub(crate) fn wait_to_write(&mut self, id: StreamId, cx: &Context<'_>) {
        let waker = &mut self.senders.entry(id).or_default().waker;
        let replaced = match waker {
            Some(waker) => replace(waker, cx),
            none => none.replace(cx.waker().clone()),
        };
        self.later.forget(replaced);
    }

    /// Wakes tasks because a part can be written or has ended in this way.
    pub(crate) fn wake_sender(&mut self, id: StreamId, end: Option<Option<u64>>) {
        if let Some(sender) = self.senders.get_mut(&id) {
            sender.end = sender.end.or(end);
            self.later.wake(sender.waker.take());
            if end.is_some() {
                let stopping = sender.stopping.iter_mut();
                self.later.wake(stopping.flat_map(|list| list.wakers()));
            }
        }
    }

    /// Wakes all tasks that wait for a sending part, because the connection is over.
    pub(crate) fn wake_senders(&mut self) {
        for sender in self.senders.values_mut() {
            self.later.wake(sender.waker.take());
            if let Some(stopping) = &mut sender.stopping {
                self.later.wake(stopping.wakers());
            }
        }
    }
}
