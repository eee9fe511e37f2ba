//! Sending parts as a connection keeps them for the application: wakers, and how each part ended.

use std::task::{Context, Waker};

use super::State;
use crate::stream_error::WriteError;
use crate::waiters::{Place, WaitList, replace};
use pathmark_transport::streams::StreamId;

/// A sending part that the application holds.
#[derive(Debug, Default)]
pub(crate) struct Sender {
    /// The part itself and futures of its end that the application holds.
    handles: u32,
    pub(crate) waker: Option<Waker>,
    /// Those futures that wait. Most parts have none.
    stopping: Option<Box<WaitList>>,
    /// How it ended: delivered or its reset acknowledged, or stopped with a code.
    end: Option<Option<u64>>,
}

impl State {
    /// The application holds a sending part, or a future of its end.
    pub(crate) fn hold_sender(&mut self, id: StreamId) {
        self.senders.entry(id).or_default().handles += 1;
    }

    /// The application has dropped one of them.
    pub(crate) fn release_sender(&mut self, id: StreamId) {
        if let Some(sender) = self.senders.get_mut(&id) {
            sender.handles = sender.handles.saturating_sub(1);
            if sender.handles == 0 {
                self.senders.remove(&id);
            }
        }
    }

    /// How a sending part ended: see [`SendStream::stopped`](crate::SendStream::stopped).
    pub(crate) fn sender_end(&self, id: StreamId) -> Option<Result<Option<u64>, WriteError>> {
        match self.senders.get(&id).and_then(|sender| sender.end) {
            Some(end) => Some(Ok(end)),
            None => self.lost().map(|error| Err(error.into())),
        }
    }

    /// Has `cx` woken at the end of a sending part.
    pub(crate) fn wait_for_end(&mut self, id: StreamId, place: &mut Place, cx: &Context<'_>) {
        let sender = self.senders.entry(id).or_default();
        let replaced = sender.stopping.get_or_insert_default().wait(place, cx);
        self.later.forget(replaced);
    }

    /// The future with `place` waits no longer.
    pub(crate) fn leave_end(&mut self, id: StreamId, place: &mut Place) {
        let sender = self.senders.get_mut(&id);
        let stopping = sender.and_then(|sender| sender.stopping.as_mut());
        let forgotten = stopping.and_then(|stopping| stopping.leave(place));
        self.later.forget(forgotten);
    }

    /// No task waits to write any more.
    pub(crate) fn forget_writer(&mut self, id: StreamId) {
        let sender = self.senders.get_mut(&id);
        let forgotten = sender.and_then(|sender| sender.waker.take());
        self.later.forget(forgotten);
    }

    /// Has `cx` woken once a part may be written, or has ended.
    pub(crate) fn wait_to_write(&mut self, id: StreamId, cx: &Context<'_>) {
        let waker = &mut self.senders.entry(id).or_default().waker;
        let replaced = match waker {
            Some(waker) => replace(waker, cx),
            none => none.replace(cx.waker().clone()),
        };
        self.later.forget(replaced);
    }

    /// A part may be written, or has ended so.
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

    /// The connection is over: wakes all that wait for a sending part.
    pub(crate) fn wake_senders(&mut self) {
        for sender in self.senders.values_mut() {
            self.later.wake(sender.waker.take());
            if let Some(stopping) = &mut sender.stopping {
                self.later.wake(stopping.wakers());
            }
        }
    }
}
