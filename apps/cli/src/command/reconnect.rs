//! `--reconnect`: connects again after the connection is lost.

use std::time::Duration;

use pathmark_http3::wire::{LinkError, codes};

use super::output;
use super::session::{self, Stop};
use super::values;

/// The pause before the first attempt …
const FIRST: Duration = Duration::from_secs(1);
/// … which doubles after each attempt without progress, up to this.
const LONGEST: Duration = Duration::from_secs(60);

/// Whether and how long a client connects again.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct ReconnectArgs {
    /// Connect again when the connection is lost or the server does not answer, until nothing has
    /// moved for TIME (24h)
    #[arg(
        long,
        value_name = "TIME",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "24h",
        value_parser = values::time
    )]
    pub(super) reconnect: Option<Duration>,
}

/// No server answered, so a later attempt may succeed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct NoAnswer(pub(super) String);

/// How another connection might help after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lost {
    /// It might succeed later.
    Later,
    /// The server takes no more requests on this connection, but does on another one (RFC 9114
    /// sections 4.1.1 and 5.2).
    Now,
}

impl Lost {
    /// Returns how another connection might help, if it might.
    pub(super) fn of(error: &anyhow::Error) -> Option<Self> {
        if error.downcast_ref::<NoAnswer>().is_some() {
            return Some(Self::Later);
        }
        error.chain().find_map(|cause| match cause.downcast_ref()? {
            LinkError::Closed(_)
            | LinkError::Reset {
                code: codes::REQUEST_REJECTED,
            } => Some(Self::Now),
            LinkError::Connection(_) | LinkError::Ended(_) | LinkError::TimedOut => {
                Some(Self::Later)
            }
            _ => None,
        })
    }
}

/// Computes the pauses between attempts, as a state machine without a clock.
#[derive(Debug)]
pub(super) struct BackOff {
    /// Time without progress after which the client gives up.
    most: Duration,
    /// When progress was last made, since the first attempt.
    progress: Duration,
    wait: Duration,
}

impl BackOff {
    pub(super) const fn new(most: Duration) -> Self {
        Self {
            most,
            progress: Duration::ZERO,
            wait: FIRST,
        }
    }

    /// Returns the pause after an attempt that ended at the time `now` since the first attempt
    /// began, or `None` to give up. `moved` is true if the attempt made progress.
    pub(super) fn next(&mut self, now: Duration, moved: bool) -> Option<Duration> {
        if moved {
            (self.progress, self.wait) = (now, FIRST);
        }
        let left = (self.progress + self.most).checked_sub(now)?;
        let wait = self.wait.min(left);
        self.wait = (self.wait * 2).min(LONGEST);
        (!left.is_zero()).then_some(wait)
    }
}

/// A command's attempts.
#[derive(Debug)]
pub(super) struct Attempts {
    began: std::time::Instant,
    back_off: Option<BackOff>,
}

impl ReconnectArgs {
    pub(super) fn attempts(self) -> Attempts {
        Attempts {
            began: session::now(),
            back_off: self.reconnect.map(BackOff::new),
        }
    }
}

impl Attempts {
    /// Waits before the next attempt. Returns false if there is none. A server that asks for
    /// another connection `now` needs no wait and no permission.
    pub(super) async fn again(&mut self, stop: &Stop, moved: bool, now: bool, why: &str) -> bool {
        if now && !stop.is_stopped() {
            return true;
        }
        let Some(back_off) = self.back_off.as_mut().filter(|_| !stop.is_stopped()) else {
            return false;
        };
        let Some(wait) = back_off.next(self.began.elapsed(), moved) else {
            return false;
        };
        output::note!(
            "pathmark: {why}; the next attempt is in {} s",
            wait.as_secs()
        );
        tokio::select! {
            () = tokio::time::sleep(wait) => true,
            () = stop.stopped() => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pathmark_http3::client::{GetError, PutError};

    #[test]
    fn waits_grow_until_something_moves_or_the_time_is_over() {
        let second = Duration::from_secs;
        let mut back_off = BackOff::new(second(100));
        let mut now = Duration::ZERO;
        let mut waits = Vec::new();
        while let Some(wait) = back_off.next(now, waits.len() == 3) {
            waits.push(wait.as_secs());
            now += wait;
        }
        // Progress was made 7 s after the first attempt.
        assert_eq!(waits, [1, 2, 4, 1, 2, 4, 8, 16, 32, 37]);
        let mut none = BackOff::new(Duration::ZERO);
        assert_eq!(none.next(Duration::ZERO, false), None);
        assert_eq!(values::time("24h"), Ok(second(86_400)));
        assert_eq!(values::time("90s"), Ok(second(90)));
        assert!(values::time("soon").is_err());
    }

    #[test]
    fn a_lost_connection_is_known_behind_its_context() {
        let lost = anyhow::Error::new(LinkError::TimedOut).context("cannot fetch a");
        assert_eq!(Lost::of(&lost), Some(Lost::Later));
        for error in [
            anyhow::Error::new(GetError::Link(LinkError::TimedOut)),
            anyhow::Error::new(GetError::Kept(LinkError::TimedOut)),
            anyhow::Error::new(PutError::Link(LinkError::TimedOut)),
        ] {
            assert_eq!(Lost::of(&error.context("file a")), Some(Lost::Later));
        }
        let lost = anyhow::Error::new(NoAnswer("none".into())).context("cannot fetch a");
        assert_eq!(Lost::of(&lost), Some(Lost::Later));
        for (code, expected) in [(codes::REQUEST_REJECTED, Some(Lost::Now)), (0x102, None)] {
            let reset = GetError::Link(LinkError::Reset { code });
            assert_eq!(Lost::of(&reset.into()), expected);
        }
        let broken = LinkError::Message("bad".into());
        assert_eq!(Lost::of(&broken.into()), None);
        assert_eq!(Lost::of(&anyhow::anyhow!("key")), None);
    }
}
