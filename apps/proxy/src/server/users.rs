//! A proxy's users: their tokens and certificates, limits, and revocation.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pathmark_transport::crypto::tls::Pin;
use tokio::sync::watch;

use super::usage::{Account, UsageLimits, UserView};
use crate::classes::{Classes, Treatment};
use crate::flows::Kind;
use crate::flows::idle::{OnceAMinute, UdpFlow, UdpFlows};
use crate::policy::Policy;
use crate::target::Target;
use crate::uri::TokenHash;

/// A user of a proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The name in logs.
    pub name: String,
    /// The credential of requests or of the connection.
    pub key: UserKey,
}

/// A user's hashed credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserKey {
    /// The hash of the token in requests.
    Token(TokenHash),
    /// The SHA-256 of the certificate that the client presents in the handshake.
    Certificate(Pin),
}

/// A proxy's users, with limits, allowed addresses and classes of flows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// The users.
    pub users: Vec<User>,
    /// Allowed and denied addresses.
    pub policy: Policy,
    /// Maximum number of TCP flows per user, and of UDP flows.
    pub flows_per_user: usize,
    /// Maximum number of TCP flows of all users, and of UDP flows.
    pub flows: usize,
    /// Limits on the traffic of each user.
    pub usage: UsageLimits,
    /// Limits of single users instead of these.
    pub usage_of: BTreeMap<String, UsageLimits>,
    /// How to treat flows by the ports of their targets.
    pub classes: Classes,
}

/// The current rules.
#[derive(Debug)]
pub(super) struct Gate {
    rules: watch::Sender<Arc<Rules>>,
    tcp: Arc<AtomicUsize>,
    udp: Arc<AtomicUsize>,
}

#[derive(Debug)]
pub(super) struct Rules {
    pub(super) access: Access,
    members: Vec<Arc<Member>>,
}

/// A user with its active flows.
#[derive(Debug)]
pub(super) struct Member {
    user: User,
    tcp: AtomicUsize,
    udp: Arc<UdpFlows>,
    revoked: watch::Sender<bool>,
    pub(super) account: Arc<Account>,
    /// Limits how often reaching a limit is logged.
    told: OnceAMinute,
}

/// A flow's place among those of its user and of all users.
pub(super) struct Place {
    member: Arc<Member>,
    /// Number of this kind's flows of all users.
    all: Arc<AtomicUsize>,
    /// Its entry among the user's UDP flows, if it is one.
    pub(super) udp: Option<UdpFlow>,
    /// Whether another UDP flow was ended in favor of this one.
    pub(super) has_evicted: bool,
}

impl Gate {
    pub(super) fn new(access: Access) -> Self {
        Self {
            rules: watch::Sender::new(Arc::new(Rules::new(access, &[]))),
            tcp: Arc::default(),
            udp: Arc::default(),
        }
    }

    pub(super) fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.rules.borrow())
    }

    /// Returns a receiver that is notified when the rules change.
    pub(super) fn changes(&self) -> watch::Receiver<Arc<Rules>> {
        self.rules.subscribe()
    }

    /// Changes the rules. Flows continue unless their user has been removed.
    pub(super) fn change(&self, access: Access) {
        self.rules.send_modify(|rules| {
            let new = Rules::new(access, &rules.members);
            for member in &rules.members {
                if !new.members.iter().any(|kept| Arc::ptr_eq(kept, member)) {
                    tracing::info!(user = member.user.name, "revoked");
                    member.revoked.send_replace(true);
                }
            }
            *rules = Arc::new(new);
        });
    }

    pub(super) fn flows(&self) -> usize {
        self.tcp.load(Ordering::Relaxed) + self.udp.load(Ordering::Relaxed)
    }

    /// Returns a place for a member's flow, or `None` if the user's volume is used up or a limit on
    /// TCP flows is reached. UDP flows have separate limits, at which the flow that has been idle
    /// longest ends in favor of a new flow.
    pub(super) fn place(&self, rules: &Rules, member: &Arc<Member>, kind: Kind) -> Option<Place> {
        if member.account.left() == Some(0) {
            if member.told.is_due() {
                let user = &member.user.name;
                tracing::warn!(user, "the volume of a day is used up: flows are refused");
            }
            return None;
        }
        let placed = match kind {
            Kind::Tcp => self.tcp(&rules.access, member),
            Kind::Udp => self.udp(rules, member),
        };
        let has_acted = placed.as_ref().is_none_or(|place| place.has_evicted);
        if has_acted && member.told.is_due() {
            let (user, most) = (&member.user.name, rules.access.flows_per_user);
            let what = match kind {
                Kind::Tcp => "a limit of TCP flows is reached: flows are refused",
                Kind::Udp => "a limit of UDP flows is reached: those that are idle longest end",
            };
            tracing::warn!(user, most, "{what}");
        }
        placed
    }

    fn tcp(&self, access: &Access, member: &Arc<Member>) -> Option<Place> {
        if !take(&member.tcp, access.flows_per_user) {
            return None;
        }
        if !take(&self.tcp, access.flows) {
            member.tcp.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Some(Place {
            member: Arc::clone(member),
            all: Arc::clone(&self.tcp),
            udp: None,
            has_evicted: false,
        })
    }

    fn udp(&self, rules: &Rules, member: &Arc<Member>) -> Option<Place> {
        let access = &rules.access;
        let has_evicted = if member.udp.count() >= access.flows_per_user {
            member.udp.evict()
        } else if self.udp.load(Ordering::Relaxed) >= access.flows {
            let most = rules.members.iter().max_by_key(|member| member.udp.count());
            most.is_some_and(|most| most.udp.evict())
        } else {
            false
        };
        let fits = access.flows_per_user > 0 && access.flows > 0;
        fits.then(|| {
            self.udp.fetch_add(1, Ordering::Relaxed);
            Place {
                member: Arc::clone(member),
                all: Arc::clone(&self.udp),
                udp: Some(member.udp.add()),
                has_evicted,
            }
        })
    }
}

/// Increments the count unless it has reached `most`.
fn take(flows: &AtomicUsize, most: usize) -> bool {
    let more = |now: usize| (now < most).then_some(now + 1);
    let taken = flows.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    taken.is_ok()
}

impl Rules {
    fn new(access: Access, before: &[Arc<Member>]) -> Self {
        let members = access.users.iter().map(|user| {
            let same = before.iter().find(|member| member.user == *user);
            let account = before.iter().find(|member| member.user.name == user.name);
            let account = account.map(|member| Arc::clone(&member.account));
            let account = account.unwrap_or_else(|| Arc::new(Account::new()));
            let limits = access.usage_of.get(&user.name);
            account.limit(limits.copied().unwrap_or(access.usage));
            same.cloned().unwrap_or_else(|| {
                Arc::new(Member {
                    account,
                    user: user.clone(),
                    tcp: AtomicUsize::new(0),
                    udp: UdpFlows::new(),
                    revoked: watch::Sender::new(false),
                    told: OnceAMinute::default(),
                })
            })
        });
        Self {
            members: members.collect(),
            access,
        }
    }

    /// Returns what each user has used.
    pub(super) fn usage(&self) -> Vec<UserView> {
        let view = |member: &Arc<Member>| UserView {
            user: member.user.name.clone(),
            tcp: member.tcp.load(Ordering::Relaxed),
            udp: member.udp.count(),
            volume_left: member.account.left(),
            counts: member.account.counts(),
        };
        self.members.iter().map(view).collect()
    }

    pub(super) fn treatment(&self, target: &Target) -> Treatment {
        self.access.classes.of(target.port)
    }

    /// Finds the user by token, or by certificate if there is no token. All tokens are compared,
    /// even after a match, so that the time reveals nothing.
    pub(super) fn member(
        &self,
        token: Option<&TokenHash>,
        shown: Option<Pin>,
    ) -> Option<&Arc<Member>> {
        self.members.iter().fold(None, |found, member| {
            let matches = match (token, member.user.key) {
                (Some(token), UserKey::Token(known)) => token.matches(&known),
                (None, UserKey::Certificate(known)) => shown == Some(known),
                _ => false,
            };
            if matches { Some(member) } else { found }
        })
    }
}

impl Member {
    pub(super) fn name(&self) -> &str {
        &self.user.name
    }
}

impl Place {
    pub(super) fn user(&self) -> &str {
        self.member.name()
    }

    pub(super) fn account(&self) -> &Account {
        &self.member.account
    }

    /// Waits until the flow must end in favor of another flow.
    pub(super) async fn evicted(&self) {
        match &self.udp {
            Some(flow) => flow.evicted().await,
            None => std::future::pending().await,
        }
    }

    /// Waits until the user is removed.
    pub(super) async fn revoked(&self) {
        let mut revoked = self.member.revoked.subscribe();
        // The sender belongs to the member, which this place keeps alive.
        let _ = revoked.wait_for(|revoked| *revoked).await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.udp.is_none() {
            self.member.tcp.fetch_sub(1, Ordering::Relaxed);
        }
        self.all.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use crate::uri::Token;

    use super::*;

    fn user(name: &str) -> User {
        let token: Token = format!("{name}-0123456789abcdef").parse().unwrap();
        User {
            name: name.to_owned(),
            key: UserKey::Token(token.hash()),
        }
    }

    fn access(users: &[&str]) -> Access {
        Access {
            users: users.iter().map(|name| user(name)).collect(),
            flows_per_user: 2,
            flows: 3,
            ..Access::default()
        }
    }

    fn place(gate: &Gate, name: &str) -> Option<Place> {
        place_of(gate, name, Kind::Tcp)
    }

    fn place_of(gate: &Gate, name: &str, kind: Kind) -> Option<Place> {
        let rules = gate.rules();
        let UserKey::Token(token) = user(name).key else {
            unreachable!("users of these tests have tokens");
        };
        gate.place(&rules, rules.member(Some(&token), None)?, kind)
    }

    /// A user's idle UDP flows don't prevent anybody's TCP or UDP flows.
    #[tokio::test]
    async fn the_longest_idle_udp_flow_ends_for_another() {
        async fn is_evicted(place: &Place) -> bool {
            let limit = std::time::Duration::ZERO;
            tokio::time::timeout(limit, place.evicted()).await.is_ok()
        }
        let gate = Gate::new(access(&["a", "b"]));
        let udp = |name| place_of(&gate, name, Kind::Udp).unwrap();
        let (first, second) = (udp("a"), udp("a"));
        assert!(!first.has_evicted && !second.has_evicted);
        let third = udp("a");
        assert!(third.has_evicted && is_evicted(&first).await && !is_evicted(&second).await);
        drop(first);
        let _tcp = [place(&gate, "a").unwrap(), place(&gate, "a").unwrap()];
        // At the limit of all users, a flow of the user with the most ends.
        let _other = [udp("b"), udp("b")];
        assert!(is_evicted(&second).await && !is_evicted(&third).await);
    }

    #[test]
    fn limits_hold_for_each_user_and_for_all() {
        let gate = Gate::new(access(&["a", "b"]));
        let first = [place(&gate, "a"), place(&gate, "a")];
        assert!(first.iter().all(Option::is_some));
        assert!(place(&gate, "a").is_none());
        let second = place(&gate, "b");
        assert_eq!(second.as_ref().unwrap().user(), "b");
        assert!(place(&gate, "b").is_none(), "the limit of all");
        drop(first);
        assert_eq!(gate.flows(), 1);
        assert!(place(&gate, "b").is_some());
        assert!(place(&gate, "c").is_none());
    }

    #[test]
    fn a_token_counts_before_a_certificate() {
        let pin = |byte| Pin::of(&[byte]);
        let mut access = access(&["a"]);
        access.users.push(User {
            name: "b".to_owned(),
            key: UserKey::Certificate(pin(1)),
        });
        let rules = Rules::new(access, &[]);
        let token = |name: &str| match user(name).key {
            UserKey::Token(token) => token,
            UserKey::Certificate(_) => unreachable!("users of these tests have tokens"),
        };
        for (token, shown, expected) in [
            (None, Some(pin(1)), Some("b")),
            (None, Some(pin(2)), None),
            (None, None, None),
            (Some(token("a")), None, Some("a")),
            (Some(token("a")), Some(pin(1)), Some("a")),
            (Some(token("c")), Some(pin(1)), None),
        ] {
            let found = rules.member(token.as_ref(), shown);
            let found = found.map(|member| member.user.name.as_str());
            assert_eq!(found, expected, "{token:?} {shown:?}");
        }
    }

    #[tokio::test]
    async fn a_change_keeps_flows_and_revokes_tokens() {
        let gate = Gate::new(access(&["a", "b"]));
        let (kept, gone) = (place(&gate, "a").unwrap(), place(&gate, "b").unwrap());
        gate.change(access(&["a"]));
        gone.revoked().await;
        assert!(!*kept.member.revoked.borrow());
        assert!(place(&gate, "b").is_none());
        let another = place(&gate, "a");
        assert!(another.is_some() && place(&gate, "a").is_none());
    }
}
