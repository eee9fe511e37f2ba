//! Users of a proxy: tokens and certificates, limits, revocation.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pathmark_transport::crypto::tls::Pin;
use tokio::sync::watch;

use crate::classes::{Classes, Treatment};
use crate::policy::Policy;
use crate::target::Target;
use crate::token::TokenHash;

/// A user of a proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The name in logs.
    pub name: String,
    /// The proof that requests or the connection carry.
    pub key: UserKey,
}

/// The proof of a user, hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserKey {
    /// The hash of the token that requests have.
    Token(TokenHash),
    /// The SHA-256 of the certificate that the client shows in the handshake.
    Certificate(Pin),
}

/// The users of a proxy, with their limits, addresses and classes of flows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// The users.
    pub users: Vec<User>,
    /// The addresses.
    pub policy: Policy,
    /// Flows of a user at a time.
    pub flows_per_user: usize,
    /// Flows of all users at a time.
    pub flows: usize,
    /// Treatment of flows by the ports of their targets.
    pub classes: Classes,
}

/// The rules in force.
#[derive(Debug)]
pub(super) struct Gate {
    rules: watch::Sender<Arc<Rules>>,
    flows: Arc<AtomicUsize>,
}

#[derive(Debug)]
pub(super) struct Rules {
    access: Access,
    members: Vec<Arc<Member>>,
}

/// A user with the flows under way.
#[derive(Debug)]
pub(super) struct Member {
    user: User,
    flows: AtomicUsize,
    revoked: watch::Sender<bool>,
}

/// The place of a flow among those of its user and of all.
#[derive(Debug)]
pub(super) struct Place {
    member: Arc<Member>,
    flows: Arc<AtomicUsize>,
}

impl Gate {
    pub(super) fn new(access: Access) -> Self {
        Self {
            rules: watch::Sender::new(Arc::new(Rules::new(access, &[]))),
            flows: Arc::default(),
        }
    }

    /// The rules now.
    pub(super) fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.rules.borrow())
    }

    /// Tells when the rules change.
    pub(super) fn changes(&self) -> watch::Receiver<Arc<Rules>> {
        self.rules.subscribe()
    }

    /// Changes the rules. Flows go on but those of users who are no longer there.
    pub(super) fn change(&self, access: Access) {
        self.rules.send_modify(|rules| {
            let new = Rules::new(access, &rules.members);
            for member in &rules.members {
                if !new.members.iter().any(|kept| Arc::ptr_eq(kept, member)) {
                    member.revoked.send_replace(true);
                }
            }
            *rules = Arc::new(new);
        });
    }

    /// Flows at this time.
    pub(super) fn flows(&self) -> usize {
        self.flows.load(Ordering::Relaxed)
    }

    /// A place for a flow of a member; none where a limit is reached.
    pub(super) fn place(&self, rules: &Rules, member: &Arc<Member>) -> Option<Place> {
        let access = &rules.access;
        if !take(&member.flows, access.flows_per_user) {
            return None;
        }
        if !take(&self.flows, access.flows) {
            member.flows.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Some(Place {
            member: Arc::clone(member),
            flows: Arc::clone(&self.flows),
        })
    }
}

/// Counts one more unless there are `most`.
fn take(flows: &AtomicUsize, most: usize) -> bool {
    let more = |now: usize| (now < most).then_some(now + 1);
    let taken = flows.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    taken.is_ok()
}

impl Rules {
    fn new(access: Access, before: &[Arc<Member>]) -> Self {
        let members = access.users.iter().map(|user| {
            let same = before.iter().find(|member| member.user == *user);
            same.cloned().unwrap_or_else(|| {
                Arc::new(Member {
                    user: user.clone(),
                    flows: AtomicUsize::new(0),
                    revoked: watch::Sender::new(false),
                })
            })
        });
        Self {
            members: members.collect(),
            access,
        }
    }

    pub(super) const fn policy(&self) -> &Policy {
        &self.access.policy
    }

    pub(super) fn treatment(&self, target: &Target) -> Treatment {
        self.access.classes.of(target.port)
    }

    pub(super) const fn flows_per_user(&self) -> usize {
        self.access.flows_per_user
    }

    /// The user with a token, or else with a certificate: a token counts before it. Every token is
    /// compared, whichever matches.
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

impl Place {
    /// The user's name.
    pub(super) fn user(&self) -> &str {
        &self.member.user.name
    }

    /// Waits until the user is no longer there.
    pub(super) async fn revoked(&self) {
        let mut revoked = self.member.revoked.subscribe();
        // The sender is the member's, which this place holds.
        let _ = revoked.wait_for(|revoked| *revoked).await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.member.flows.fetch_sub(1, Ordering::Relaxed);
        self.flows.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::Token;

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
        let rules = gate.rules();
        let UserKey::Token(token) = user(name).key else {
            unreachable!("users of these tests have tokens");
        };
        gate.place(&rules, rules.member(Some(&token), None)?)
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
