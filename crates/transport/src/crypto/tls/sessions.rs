//! Stores a server's sessions so that each is resumed at most once. This protects early data
//! against replay (RFC 8446 §8.1).
//!
//! rustls takes a session from the store before it verifies the binder (RFC 8446 §4.2.11.2),
//! which proves that the client has the session's secret. Since tickets are sent in the clear,
//! any observer could otherwise invalidate them. Therefore, a session that was taken but not
//! resumed is put back.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::server::StoresServerSessions;

use crate::wire::transport_parameters::PeerLimits;
use crate::wire::{Side, TransportParameters};

/// Maximum size of a stored session, bytes. Only clients with long certificate chains exceed
/// it.
const LONGEST: usize = 4096;

/// Lifetime of a session in seconds, the same as rustls announces to clients for stored
/// sessions.
const LIFETIME: u64 = 24 * 3600;

#[derive(Debug)]
struct StoredSession {
    /// Its position in the order of arrival.
    serial: u64,
    /// When it was stored, in seconds since 1970.
    since: u64,
    /// The server's transport parameters that its client remembers.
    limits: PeerLimits,
    /// The data that rustls stores.
    secrets: Vec<u8>,
}

/// The most recent sessions of a server.
#[derive(Debug)]
pub(super) struct Sessions {
    most: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    by_id: BTreeMap<Vec<u8>, StoredSession>,
    /// Ids by serial number, oldest first.
    order: BTreeMap<u64, Vec<u8>>,
    next: u64,
}

impl State {
    fn insert(&mut self, id: Vec<u8>, session: StoredSession) {
        self.order.insert(session.serial, id.clone());
        self.by_id.insert(id, session);
    }

    fn remove(&mut self, id: &[u8]) -> Option<StoredSession> {
        let session = self.by_id.remove(id)?;
        self.order.remove(&session.serial);
        Some(session)
    }

    /// Removes expired sessions, and the oldest sessions beyond `most`.
    fn trim(&mut self, now: u64, most: usize) {
        while let Some((_, id)) = self.order.first_key_value() {
            let session = self.by_id.get(id);
            let is_old = session.is_none_or(|session| now.saturating_sub(session.since) > LIFETIME);
            if !is_old && self.by_id.len() <= most {
                return;
            }
            if let Some((_, id)) = self.order.pop_first() {
                self.by_id.remove(&id);
            }
        }
    }
}

impl Sessions {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            state: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere doesn't invalidate the sessions.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores a session. Returns false if it is too long.
    fn put(&self, now: u64, id: Vec<u8>, limits: PeerLimits, secrets: Vec<u8>) -> bool {
        if self.most == 0 || id.len() + secrets.len() > LONGEST {
            return false;
        }
        let mut state = self.lock();
        state.remove(&id);
        let serial = state.next;
        state.next += 1;
        let session = StoredSession {
            serial,
            since: now,
            limits,
            secrets,
        };
        state.insert(id, session);
        state.trim(now, self.most);
        true
    }

    /// Removes and returns a session, if it exists, hasn't expired, and `limits` aren't lower
    /// than those that its client remembers.
    fn take(&self, now: u64, id: &[u8], limits: &PeerLimits) -> Option<StoredSession> {
        // [9001 9.2 replay]
        let session = self.lock().remove(id)?;
        let is_old = now.saturating_sub(session.since) > LIFETIME;
        // [9000 7.4.1 not-lowered] [9000 7.4.1 reject]
        (!is_old && limits.include(&session.limits)).then_some(session)
    }

    /// Puts a session back in its position, if there is still room for one of its age.
    fn restore(&self, now: u64, id: Vec<u8>, session: StoredSession) {
        let mut state = self.lock();
        state.insert(id, session);
        state.trim(now, self.most);
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        let state = self.lock();
        assert_eq!(state.order.len(), state.by_id.len());
        state.order.len()
    }
}

/// The view of one connection on the sessions.
#[derive(Debug)]
pub(super) struct ForConnection {
    sessions: Arc<Sessions>,
    /// From this connection's transport parameters.
    limits: Option<PeerLimits>,
    /// When the connection began, in seconds since 1970.
    now: u64,
    /// The sessions taken since [`settle`](Self::settle), with their ids, in this order.
    taken: Mutex<Vec<(Vec<u8>, StoredSession)>>,
}

impl ForConnection {
    /// Creates the view. `parameters` are the server's transport parameters on this connection.
    pub(super) fn new(sessions: Arc<Sessions>, parameters: &[u8], now: u64) -> Self {
        let parameters = TransportParameters::decode(parameters, Side::Server);
        Self {
            sessions,
            limits: parameters.ok().as_ref().map(PeerLimits::from),
            now,
            taken: Mutex::default(),
        }
    }

    fn taken(&self) -> MutexGuard<'_, Vec<(Vec<u8>, StoredSession)>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Called after the client's messages were processed. If `resumed`, the session taken last
    /// is resumed and therefore removed permanently. All others are put back.
    pub(super) fn settle(&self, resumed: bool) {
        let mut taken = core::mem::take(&mut *self.taken());
        if resumed {
            taken.pop();
        }
        for (id, session) in taken {
            self.sessions.restore(self.now, id, session);
        }
    }
}

impl StoresServerSessions for ForConnection {
    fn put(&self, id: Vec<u8>, secrets: Vec<u8>) -> bool {
        self.limits
            .is_some_and(|limits| self.sessions.put(self.now, id, limits, secrets))
    }

    /// Sessions can't be read without removing them.
    fn get(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn take(&self, id: &[u8]) -> Option<Vec<u8>> {
        let session = self.sessions.take(self.now, id, self.limits.as_ref()?)?;
        let secrets = session.secrets.clone();
        self.taken().push((id.to_vec(), session));
        Some(secrets)
    }

    fn can_cache(&self) -> bool {
        self.limits.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(max_data: u64) -> PeerLimits {
        PeerLimits::from(&TransportParameters {
            initial_max_data: max_data,
            ..TransportParameters::DEFAULT
        })
    }

    fn put(sessions: &Sessions, now: u64, id: u8) -> bool {
        sessions.put(now, vec![id; 32], limits(1000), vec![id])
    }

    fn take(sessions: &Sessions, now: u64, id: u8) -> Option<Vec<u8>> {
        let taken = sessions.take(now, &[id; 32], &limits(1000));
        taken.map(|session| session.secrets)
    }

    #[test]
    fn each_is_taken_once() {
        let sessions = Sessions::new(10);
        assert!(put(&sessions, 5, 1) && put(&sessions, 5, 2));
        assert_eq!(take(&sessions, 6, 1), Some(vec![1]));
        assert_eq!(take(&sessions, 6, 1), None);
        assert_eq!(take(&sessions, 6, 3), None);
        assert_eq!(sessions.len(), 1);
    }

    #[test]
    fn the_oldest_go_where_there_are_too_many_and_all_after_a_day() {
        let sessions = Sessions::new(3);
        for id in 0..200 {
            assert!(put(&sessions, id.into(), id));
            assert!(sessions.len() <= 3);
        }
        assert_eq!(take(&sessions, 200, 196), None);
        assert_eq!(take(&sessions, 200, 197), Some(vec![197]));
        assert_eq!(take(&sessions, 198 + LIFETIME, 198), Some(vec![198]));
        assert_eq!(take(&sessions, 200 + LIFETIME, 199), None);
        assert!(put(&sessions, 0, 7) && put(&sessions, LIFETIME + 1, 8));
        assert_eq!(sessions.len(), 1);
        assert!(!put(&Sessions::new(0), 0, 1));
    }

    #[test]
    fn what_is_long_is_not_kept() {
        let sessions = Sessions::new(3);
        let long = vec![0; LONGEST - 31];
        assert!(!sessions.put(0, vec![1; 32], limits(1), long.clone()));
        assert!(sessions.put(0, vec![1; 32], limits(1), long[1..].to_vec()));
    }

    #[test]
    fn limits_that_were_lowered_since_end_a_session() {
        // [9000 7.4.1 not-lowered] [9000 7.4.1 reject]
        let sessions = Sessions::new(3);
        for (now, is_taken) in [(999, false), (1000, true), (1001, true)] {
            assert!(put(&sessions, 0, 1));
            let taken = sessions.take(0, &[1; 32], &limits(now));
            assert_eq!(taken.is_some(), is_taken);
            assert_eq!(sessions.len(), 0);
        }
        // Invalid parameters promise nothing.
        let mut broken = ForConnection::new(Arc::new(sessions), &[0xff], 0);
        assert!(!broken.put(vec![1], vec![1]) && !broken.can_cache());
        broken.limits = Some(limits(0));
        assert!(broken.put(vec![1], vec![1]) && broken.get(&[1]).is_none());
        assert_eq!(broken.take(&[1]), Some(vec![1]));
    }

    #[test]
    fn only_what_was_resumed_does_not_go_back() {
        let sessions = Arc::new(Sessions::new(3));
        for id in 1..=3 {
            assert!(put(&sessions, 0, id));
        }
        let mut one = ForConnection::new(Arc::clone(&sessions), &[], 0);
        one.limits = Some(limits(1000));
        for (offered, resumed, left) in
            [(&[1, 2][..], false, 3), (&[3, 1], true, 2), (&[], true, 2)]
        {
            for id in offered {
                assert_eq!(one.take(&[*id; 32]), Some(vec![*id]));
                assert_eq!(one.take(&[*id; 32]), None, "it is out");
            }
            one.settle(resumed);
            one.settle(resumed);
            assert_eq!(sessions.len(), left);
        }
        // It was put back in its position: 2 is the oldest, and is removed first. Expired
        // sessions, and those for which there is no room anymore, aren't put back.
        assert_eq!(one.take(&[2; 32]), Some(vec![2]));
        for id in 4..=6 {
            assert!(put(&sessions, 1, id));
        }
        one.settle(false);
        assert_eq!((sessions.len(), take(&sessions, 1, 2)), (3, None));
        one.now = 1 + LIFETIME;
        assert_eq!(one.take(&[6; 32]), Some(vec![6]));
        one.now += 1;
        one.settle(false);
        assert_eq!(sessions.len(), 0);
    }
}
