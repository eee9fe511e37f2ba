//! Who waits for what of a connection, and who is woken when.

use std::collections::hash_map::Entry;
use std::task::Context;

use super::{Awaited, State};
use crate::waiters::{Place, WaitList, Wakers, replace};
use pathmark_transport::connection::{ConnectionError, Event};
use pathmark_transport::streams::{Dir, StreamEvent, StreamId};

impl State {
    /// Places of all who wait.
    #[cfg(test)]
    pub(crate) fn waiting_places(&self) -> usize {
        let both = self.accepting.iter().chain(&self.opening);
        let others = [&self.progress, &self.reading, &self.sending].map(WaitList::len);
        others.iter().sum::<usize>() + both.map(WaitList::len).sum::<usize>()
    }

    pub(crate) fn waiting(&mut self, awaited: Awaited) -> &mut WaitList {
        match awaited {
            Awaited::Progress => &mut self.progress,
            Awaited::Accept(dir) => by_dir(&mut self.accepting, dir),
            Awaited::Open(dir) => by_dir(&mut self.opening, dir),
            Awaited::Datagram => &mut self.reading,
            Awaited::DatagramRoom => &mut self.sending,
        }
    }

    /// Why the connection is over, if it is.
    pub(crate) fn lost(&self) -> Option<ConnectionError> {
        self.lost.clone()
    }

    /// Has `cx` woken once what it awaits has happened.
    pub(crate) fn wait(&mut self, awaited: Awaited, place: &mut Place, cx: &Context<'_>) {
        let replaced = self.waiting(awaited).wait(place, cx);
        self.later.forget(replaced);
    }

    /// The task with `place` waits no longer.
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

    /// No task waits to read any more.
    pub(crate) fn forget_reader(&mut self, id: StreamId) {
        let forgotten = self.readers.remove(&id);
        self.later.forget(forgotten);
    }

    /// Wakes who waits for it.
    fn wake_waiting(&mut self, awaited: Awaited) {
        let wakers = self.waiting(awaited).wakers();
        self.later.wake(wakers);
    }

    /// Wakes others once the state is free.
    pub(crate) fn wake_later(&mut self, wakers: Wakers) {
        self.later.wake(wakers);
    }

    /// Has the task look at the connection.
    pub(crate) fn wake_driver(&mut self) {
        self.later.wake(self.driver.take());
    }

    /// The same, if reading has made credit that the peer should get.
    pub(crate) fn wake_driver_for_credit(&mut self) {
        if self.driver.is_some() && self.core.streams().wants_to_send() {
            self.wake_driver();
        } else {
            self.wake_driver_for_request();
        }
    }

    /// The same, if the peer is to be asked for data that the application waits for.
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
            // The task passes tokens on to the endpoint; who asks for the address gets the new one.
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
                self.wake_sender(id, Some(None));
            }
            StreamEvent::Stopped(id, code) => {
                if id.dir() == Dir::Bi
                    && id.initiator() != self.core.side()
                    && id.index() >= self.accepted
                {
                    // The task that accepts it must learn of that.
                    self.senders.entry(id).or_default();
                }
                self.wake_sender(id, Some(Some(code)));
            }
        }
    }

    /// The application is given a stream of the peer's.
    pub(crate) fn on_accepted(&mut self, id: StreamId) {
        if id.dir() == Dir::Bi {
            self.accepted = id.index() + 1;
            self.senders.entry(id).or_default();
        }
    }

    /// The connection is over: all tasks that wait are woken.
    pub(crate) fn settle(&mut self, error: &ConnectionError) {
        let error = match (error, self.send_error) {
            // Nothing arrives where nothing can be sent.
            (ConnectionError::TimedOut | ConnectionError::HandshakeTimedOut, Some(kind)) => {
                ConnectionError::Socket(kind)
            }
            (error, _) => error.clone(),
        };
        self.lost.get_or_insert(error);
        let lists = self.accepting.iter_mut().chain(&mut self.opening);
        let lists = lists.chain([&mut self.progress, &mut self.reading, &mut self.sending]);
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
