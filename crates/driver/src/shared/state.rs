//! Which tasks wait for which event of a connection, and when they are woken: also those that write
//! to its streams, with the end of each stream's sending part.

use std::collections::hash_map::Entry;
use std::task::{Context, Waker};

use super::{Awaited, State};
use crate::stream_error::WriteError;
use crate::waiters::{Place, WaitList, Wakers, replace};
use pathmark_transport::connection::{ConnectionError, Event};
use pathmark_transport::path::BASE_MTU;
use pathmark_transport::streams::{Dir, StreamEvent, StreamId};

impl State {
    /// Returns the number of waiting tasks.
    #[cfg(test)]
    pub(crate) fn waiting_places(&self) -> usize {
        let both = self.accepting.iter().chain(&self.opening);
        let others = [
            &self.progress,
            &self.reading,
            &self.sending,
            &self.delivering,
        ];
        let others = others.map(WaitList::len);
        others.iter().sum::<usize>() + both.map(WaitList::len).sum::<usize>()
    }

    pub(crate) fn waiting(&mut self, awaited: Awaited) -> &mut WaitList {
        match awaited {
            Awaited::Progress => &mut self.progress,
            Awaited::Accept(dir) => by_dir(&mut self.accepting, dir),
            Awaited::Open(dir) => by_dir(&mut self.opening, dir),
            Awaited::Datagram => &mut self.reading,
            Awaited::DatagramRoom => &mut self.sending,
            Awaited::Delivery => &mut self.delivering,
        }
    }

    /// Returns the reason why the connection is over, if it is.
    pub(crate) fn lost(&self) -> Option<ConnectionError> {
        self.lost.clone()
    }

    /// Registers `cx` to be woken once the awaited event has happened.
    pub(crate) fn wait(&mut self, awaited: Awaited, place: &mut Place, cx: &Context<'_>) {
        let replaced = self.waiting(awaited).wait(place, cx);
        self.later.forget(replaced);
    }

    /// Ends the wait of the task with `place`.
    pub(crate) fn leave(&mut self, awaited: Awaited, place: &mut Place) {
        let waiting = self.waiting(awaited);
        let forgotten = waiting.leave(place);
        if let Awaited::Open(dir) = awaited
            && forgotten.is_some()
            && waiting.is_empty()
        {
            self.core.streams().give_up_opening(dir);
        }
        self.later.forget(forgotten);
    }

    /// Removes the waker of the task that waits to read.
    pub(crate) fn forget_reader(&mut self, id: StreamId) {
        let forgotten = self.readers.remove(&id);
        self.later.forget(forgotten);
    }

    /// Wakes the tasks that wait for this event.
    pub(crate) fn wake_waiting(&mut self, awaited: Awaited) {
        let wakers = self.waiting(awaited).wakers();
        self.later.wake(wakers);
    }

    /// Wakes tasks once the state is unlocked.
    pub(crate) fn wake_later(&mut self, wakers: Wakers) {
        self.later.wake(wakers);
    }

    /// Wakes the connection's task.
    pub(crate) fn wake_driver(&mut self) {
        self.later.wake(self.driver.take());
    }

    /// Wakes the connection's task for this many bytes to send. If they don't fill a packet, and
    /// there are other streams, it first lets other tasks add theirs.
    pub(crate) fn wake_driver_for_data(&mut self, bytes: usize) {
        self.may_gather |= bytes < usize::from(BASE_MTU) && self.senders.len() > 1;
        self.wake_driver();
    }

    /// Wakes the connection's task if reading has created credit that the peer should get.
    pub(crate) fn wake_driver_for_credit(&mut self) {
        if self.driver.is_some() && self.core.streams().wants_to_send() {
            self.wake_driver();
        } else {
            self.wake_driver_for_request();
        }
    }

    /// Wakes the connection's task if the peer should be asked for data that the application
    /// awaits.
    pub(crate) fn wake_driver_for_request(&mut self) {
        if self.driver.is_some() && self.core.streams().wants_preparation() {
            self.wake_driver();
        }
    }

    pub(crate) fn wait_to_read(&mut self, id: StreamId, cx: &Context<'_>) {
        let replaced = match self.readers.entry(id) {
            Entry::Occupied(mut known) => replace(known.get_mut(), cx),
            Entry::Vacant(new) => {
                new.insert(cx.waker().clone());
                None
            }
        };
        self.later.forget(replaced);
    }

    pub(crate) fn on_event(&mut self, event: Event) {
        match event {
            Event::Stream(event) => self.on_stream_event(event),
            Event::Connected | Event::Confirmed | Event::HandshakeDataReady => {
                self.later.wake(self.progress.wakers());
            }
            Event::DatagramReceived => self.later.wake(self.reading.wakers()),
            Event::DatagramRoom => self.later.wake(self.sending.wakers()),
            Event::Lost(error) => self.settle(&error),
            // The task passes tokens to the endpoint, and applications query the new address.
            Event::NewToken(_) | Event::PathChanged => {}
        }
    }

    fn on_stream_event(&mut self, event: StreamEvent) {
        match event {
            StreamEvent::Opened(dir) => self.wake_waiting(Awaited::Accept(dir)),
            StreamEvent::Available(dir) => self.wake_waiting(Awaited::Open(dir)),
            StreamEvent::Readable(id) => self.later.wake(self.readers.remove(&id)),
            StreamEvent::Writable(id) => self.wake_sender(id, None),
            StreamEvent::Finished(id) | StreamEvent::ResetAcked(id) => {
                self.wake_waiting(Awaited::Delivery);
                self.wake_sender(id, Some(None));
            }
            StreamEvent::Stopped(id, code) => {
                if id.dir() == Dir::Bi
                    && id.initiator() != self.core.side()
                    && id.index() >= self.accepted
                {
                    // The task that accepts the stream must learn about this.
                    self.senders.entry(id).or_default();
                }
                self.wake_waiting(Awaited::Delivery);
                self.wake_sender(id, Some(Some(code)));
            }
        }
    }

    /// Records that the application has accepted a stream from the peer.
    pub(crate) fn on_accepted(&mut self, id: StreamId) {
        if id.dir() == Dir::Bi {
            self.accepted = id.index() + 1;
            self.senders.entry(id).or_default();
        }
    }

    /// Ends the connection by waking all waiting tasks.
    pub(crate) fn settle(&mut self, error: &ConnectionError) {
        let error = match (error, self.send_error) {
            // If nothing can be sent, nothing will arrive, so the error of sending is the cause.
            (ConnectionError::TimedOut | ConnectionError::HandshakeTimedOut, Some(kind)) => {
                ConnectionError::Socket(kind)
            }
            (error, _) => error.clone(),
        };
        self.lost.get_or_insert(error);
        let lists = self.accepting.iter_mut().chain(&mut self.opening);
        let others = [
            &mut self.progress,
            &mut self.reading,
            &mut self.sending,
            &mut self.delivering,
        ];
        let lists = lists.chain(others);
        self.later.wake(lists.flat_map(WaitList::wakers));
        self.later
            .wake(self.readers.drain().map(|(_, waker)| waker));
        self.wake_senders();
    }
}

fn by_dir<T>(pair: &mut [T; 2], dir: Dir) -> &mut T {
    let [bi, uni] = pair;
    match dir {
        Dir::Bi => bi,
        Dir::Uni => uni,
    }
}

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
