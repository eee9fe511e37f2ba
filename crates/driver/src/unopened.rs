//! Datagrams that wait until the task of their connection opens them, so that datagrams of a single
//! socket can be decrypted on all cores of the runtime.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use pathmark_transport::connection::Received;

/// Bytes of datagrams after which a [`Group`] is full; the last datagram may exceed this.
const GROUP: usize = 64 * 1024;
/// Largest number of bytes waiting for one connection's task, which one more group may exceed.
const CONNECTION: usize = 1 << 20;
/// Largest number of bytes waiting for all tasks of an endpoint, which one more group may exceed.
const ENDPOINT: usize = 16 << 20;
/// Empty groups that an endpoint keeps for reuse.
const SPARE: usize = 16;

/// Datagrams of one connection in order of arrival.
#[derive(Debug, Default)]
pub(super) struct Group {
    bytes: Vec<u8>,
    /// For each datagram, the fields of its IP header and its length.
    datagrams: Vec<(Received, usize)>,
}

impl Group {
    /// Adds a datagram, and returns true if the group is now full.
    pub(super) fn add(&mut self, received: Received, datagram: &[u8]) -> bool {
        self.bytes.extend_from_slice(datagram);
        self.datagrams.push((received, datagram.len()));
        self.bytes.len() >= GROUP
    }

    pub(super) fn is_empty(&self) -> bool {
        self.datagrams.is_empty()
    }

    /// Returns the number of datagrams.
    pub(super) fn len(&self) -> usize {
        self.datagrams.len()
    }

    /// Iterates over the datagrams, which can be opened in place.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (Received, &mut [u8])> {
        let mut rest = &mut *self.bytes;
        self.datagrams.iter().map(move |(received, len)| {
            let (datagram, left) = std::mem::take(&mut rest).split_at_mut(*len);
            rest = left;
            (*received, datagram)
        })
    }

    /// Returns the memory in bytes that the group takes.
    fn size(&self) -> usize {
        self.bytes.capacity() + self.datagrams.capacity() * size_of::<(Received, usize)>()
    }
}

/// Counts the memory of all waiting groups of an endpoint, and keeps groups for reuse.
#[derive(Debug, Default)]
pub(super) struct Groups {
    held: AtomicUsize,
    spare: Mutex<Vec<Group>>,
}

impl Groups {
    fn spare(&self) -> MutexGuard<'_, Vec<Group>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn take(&self) -> Group {
        self.spare().pop().unwrap_or_default()
    }

    /// Takes back a group after its datagrams were opened.
    pub(super) fn give(&self, mut group: Group) {
        group.bytes.clear();
        group.datagrams.clear();
        let mut spare = self.spare();
        // A group that has grown by a last datagram of 64 KiB is not kept.
        if spare.len() < SPARE && group.bytes.capacity() <= 2 * GROUP {
            spare.push(group);
        }
    }

    /// Returns the bytes that wait in all inboxes.
    pub(super) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }
}

/// The datagrams that wait for the task of one connection.
#[derive(Debug)]
pub(super) struct Inbox {
    groups: Arc<Groups>,
    /// Number of groups in the queue, so that tasks can see without its lock that it is empty.
    count: AtomicUsize,
    /// A group was taken out but is not completely opened yet.
    opening: AtomicBool,
    /// At least one group was opened.
    has_opened: AtomicBool,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    groups: VecDeque<Group>,
    /// Memory of the waiting groups.
    bytes: usize,
    waker: Option<Waker>,
    /// The task has ended.
    closed: bool,
}

impl Inbox {
    pub(super) fn new(groups: &Arc<Groups>) -> Self {
        Self {
            groups: Arc::clone(groups),
            count: AtomicUsize::new(0),
            opening: AtomicBool::new(false),
            has_opened: AtomicBool::new(false),
            queue: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if nothing is waiting.
    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Returns true if anything after the first group is waiting or being opened. The first group
    /// of a server's connection can't complete the handshake, because the client sent it before
    /// receiving an answer.
    pub(super) fn has_unread(&self) -> bool {
        // The order matters: `opening` is set before the queue becomes empty.
        let waits = !self.is_empty() || self.opening.load(Ordering::Acquire);
        waits && self.has_opened.load(Ordering::Relaxed)
    }

    /// Queues a group for the task. If the task has ended, the group is dropped.
    ///
    /// # Errors
    /// Returns the group if too much is waiting already. The caller must then open all waiting
    /// groups, followed by this one.
    pub(super) fn push(&self, group: Group) -> Result<(), Group> {
        let size = group.size();
        let mut queue = self.lock();
        if queue.closed {
            drop(queue);
            self.groups.give(group);
            return Ok(());
        }
        if queue.bytes >= CONNECTION || self.groups.held() >= ENDPOINT {
            return Err(group);
        }
        self.groups.held.fetch_add(size, Ordering::Relaxed);
        queue.bytes += size;
        queue.groups.push_back(group);
        self.count.store(queue.groups.len(), Ordering::Release);
        Ok(())
    }

    /// Takes out the group that has waited longest. The caller must hold the connection's lock, so
    /// that groups are opened in order. It must call [`opened`](Self::opened) afterwards, and [give
    /// the group back](Groups::give).
    pub(super) fn pop(&self) -> Option<Group> {
        if self.is_empty() {
            return None;
        }
        let mut queue = self.lock();
        let group = queue.groups.pop_front()?;
        let size = group.size();
        queue.bytes -= size;
        self.groups.held.fetch_sub(size, Ordering::Relaxed);
        self.opening.store(true, Ordering::Relaxed);
        self.count.store(queue.groups.len(), Ordering::Release);
        Some(group)
    }

    /// Reports that the group taken out is opened and that the endpoint has been updated.
    pub(super) fn opened(&self) {
        self.has_opened.store(true, Ordering::Relaxed);
        self.opening.store(false, Ordering::Release);
    }

    /// Registers a waker for the next [`wake`](Self::wake).
    pub(super) fn wait(&self, waker: &Waker) {
        let mut queue = self.lock();
        match &mut queue.waker {
            Some(known) => known.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
    }

    /// Wakes the task because something is waiting.
    pub(super) fn wake(&self) {
        let waker = self.lock().waker.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Reports that the task has ended, and drops all groups.
    pub(super) fn close(&self) {
        let mut queue = self.lock();
        queue.closed = true;
        queue.waker = None;
        self.groups.held.fetch_sub(queue.bytes, Ordering::Relaxed);
        queue.bytes = 0;
        let groups = std::mem::take(&mut queue.groups);
        self.count.store(0, Ordering::Release);
        drop(queue);
        groups.into_iter().for_each(|group| self.groups.give(group));
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::test_waker::Woken;
    use pathmark_transport::Ecn;

    fn received(port: u16) -> Received {
        Received {
            remote: ([192, 0, 2, 1], port).into(),
            local: None,
            ecn: Ecn::Ect0,
            ttl: Some(64),
        }
    }

    fn group(groups: &Groups, port: u16, lengths: &[usize]) -> Group {
        let mut group = groups.take();
        for (n, len) in lengths.iter().enumerate() {
            group.add(received(port), &vec![n as u8; *len]);
        }
        group
    }

    fn ports(inbox: &Inbox) -> Vec<u16> {
        let mut all = Vec::new();
        while let Some(mut group) = inbox.pop() {
            all.extend(group.iter_mut().map(|(received, _)| received.remote.port()));
            inbox.groups.give(group);
        }
        all
    }

    #[test]
    fn datagrams_come_out_as_they_went_in() {
        let groups = Arc::new(Groups::default());
        let inbox = Inbox::new(&groups);
        assert!(inbox.is_empty());
        inbox.push(group(&groups, 1, &[0, 1200, 40])).unwrap();
        inbox.push(group(&groups, 2, &[7])).unwrap();
        assert!(!inbox.is_empty());
        let mut first = inbox.pop().unwrap();
        let datagrams = first.iter_mut();
        let seen = datagrams.map(|(received, bytes)| (received.remote.port(), bytes.to_vec()));
        let seen: Vec<_> = seen.collect();
        let expected = [vec![], vec![1; 1200], vec![2; 40]].map(|datagram| (1, datagram));
        assert_eq!(seen, expected);
        groups.give(first);
        assert_eq!(ports(&inbox), [2]);
        assert!(inbox.is_empty() && inbox.pop().is_none());
        assert_eq!(groups.held(), 0);
        // A group that is used again is empty.
        assert!(groups.take().is_empty());
    }

    #[test]
    fn a_group_says_when_it_is_full() {
        let mut group = Group::default();
        let adds = (1..).find(|_| group.add(received(1), &[0; 1200]));
        assert_eq!(adds, Some(GROUP.div_ceil(1200)));
    }

    /// Waiting data is limited for each connection and for all together, and a full inbox takes no
    /// room from another.
    #[test]
    fn no_more_waits_than_may() {
        let groups = Arc::new(Groups::default());
        let fill = |inbox: &Inbox| {
            let mut taken = 0;
            while inbox.push(group(&groups, taken, &[1200; 55])).is_ok() {
                taken += 1;
            }
            taken
        };
        let first = Inbox::new(&groups);
        let taken = fill(&first);
        let size = group(&groups, 0, &[1200; 55]).size();
        let held = groups.held();
        assert!((CONNECTION..CONNECTION + size).contains(&held), "{held}");
        let other = Inbox::new(&groups);
        other.push(group(&groups, 0, &[1200])).unwrap();
        assert_eq!(ports(&other), [0]);
        let in_order = (0..taken).flat_map(|port| [port; 55]);
        assert_eq!(ports(&first), in_order.collect::<Vec<_>>());
        let inboxes: Vec<_> = (0..40).map(|_| Inbox::new(&groups)).collect();
        for inbox in &inboxes {
            fill(inbox);
        }
        assert!(groups.held() >= ENDPOINT && groups.held() < ENDPOINT + size);
        // For tiny datagrams, the bookkeeping counts as well.
        let before = groups.held();
        inboxes.first().unwrap().close();
        first.push(group(&groups, 0, &[1; 1000])).unwrap();
        assert!(before - groups.held() < CONNECTION && first.lock().bytes >= 50_000);
        drop((inboxes, first));
        assert_eq!(groups.held(), 0, "what is dropped gives its memory back");
        assert!(groups.spare().len() <= SPARE);
    }

    #[test]
    fn a_task_that_has_ended_is_kept_nothing_for() {
        let groups = Arc::new(Groups::default());
        let inbox = Inbox::new(&groups);
        inbox.push(group(&groups, 1, &[1200])).unwrap();
        inbox.close();
        assert_eq!((groups.held(), inbox.is_empty()), (0, true));
        inbox.push(group(&groups, 1, &[1200])).unwrap();
        assert_eq!((groups.held(), inbox.is_empty()), (0, true));
    }

    #[test]
    fn the_task_that_waited_last_is_woken_once() {
        let inbox = Inbox::new(&Arc::default());
        let [early, late] = [(); 2].map(|()| Arc::new(Woken::default()));
        inbox.wait(&Waker::from(Arc::clone(&early)));
        inbox.wait(&Waker::from(Arc::clone(&late)));
        inbox.wake();
        let woken = |task: &Woken| task.take();
        assert_eq!((woken(&early), woken(&late)), (false, true));
        inbox.wake();
        assert!(!woken(&late));
    }
}
