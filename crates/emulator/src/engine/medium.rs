//! A medium shared by several links, such as a hub, on which only one link transmits at a time.
//!
//! A station that finds the medium idle sends. Stations that wait when it becomes idle contend:
//! in each slot of 512 bit times, each of n stations sends with probability 1/n, until exactly
//! one does, which then gets its turn (Metcalfe and Boggs's model of Ethernet). The slots before
//! are lost.

use pathmark_cc::{Duration, Instant};
use pathmark_link::impair::Random;

/// Bytes of a slot: 512 bit times.
const SLOT: u64 = 64;
/// Number of slots after which the first station wins, which bounds the loop.
const MOST_SLOTS: u32 = 1000;

/// A medium and the links on it.
#[derive(Debug)]
pub(super) struct Medium {
    links: Vec<u32>,
    state: State,
    random: Random,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    /// Contention ends at this time, and this link gets its turn.
    Won(u32, Instant),
    /// This link transmits until this time.
    Busy(u32, Instant),
}

impl Medium {
    pub(super) fn new(links: Vec<u32>, random: Random) -> Self {
        Self {
            links,
            state: State::Idle,
            random,
        }
    }

    /// Time of the next event; `waiting` returns true for a link with something to send.
    pub(super) fn deadline(
        &self,
        now: Instant,
        waiting: impl FnMut(u32) -> bool,
    ) -> Option<Instant> {
        match self.state {
            State::Won(_, at) | State::Busy(_, at) => Some(at),
            State::Idle => self.links.iter().copied().any(waiting).then_some(now),
        }
    }

    /// The link whose turn it is now, if any. `rate` returns a link's rate in bytes per second
    /// if it has something to send.
    pub(super) fn poll(
        &mut self,
        now: Instant,
        mut rate: impl FnMut(u32) -> Option<u64>,
    ) -> Option<u32> {
        if let State::Busy(_, until) = self.state
            && until <= now
        {
            self.state = State::Idle;
        }
        if self.state == State::Idle {
            let contenders = self
                .links
                .iter()
                .filter_map(|link| Some((*link, rate(*link)?)));
            let contenders: Vec<(u32, u64)> = contenders.collect();
            let (winner, slots) = contend(contenders.len(), &mut self.random);
            if let Some(&(link, rate)) = contenders.get(winner) {
                let nanos =
                    u128::from(slots) * u128::from(SLOT) * 1_000_000_000 / u128::from(rate.max(1));
                let lost = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
                self.state = State::Won(link, now + lost);
            }
        }
        match self.state {
            State::Won(link, at) if at <= now => {
                self.state = State::Idle;
                Some(link)
            }
            _ => None,
        }
    }

    /// Lets `link` transmit until the given time.
    pub(super) fn occupy(&mut self, link: u32, until: Instant) {
        self.state = State::Busy(link, until);
    }

    /// If `link` is transmitting, moves the end to `until`, because its rate may have changed.
    pub(super) fn retime(&mut self, link: u32, until: Instant) {
        if let State::Busy(busy, at) = &mut self.state
            && *busy == link
        {
            *at = until;
        }
    }
}

/// Returns which of `stations` wins, and the number of slots lost before.
fn contend(stations: usize, random: &mut Random) -> (usize, u32) {
    if stations < 2 {
        return (0, 0);
    }
    for slot in 0..MOST_SLOTS {
        let mut sending = (0..stations).filter(|_| random.below(stations as u64) == 0);
        if let (Some(winner), None) = (sending.next(), sending.next()) {
            return (winner, slot);
        }
    }
    (0, MOST_SLOTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exactly one station sends in a slot with probability p = (1 − 1/n)^(n−1), so that 1/p − 1
    /// slots are lost on average.
    #[test]
    fn contention_costs_what_its_closed_form_says() {
        let mut random = Random::new(1, "medium");
        for (stations, lost) in [(2, 1.0), (3, 1.25), (10, 1.581)] {
            let n = 40_000;
            let mut wins = vec![0u32; stations];
            let mut slots = 0;
            for _ in 0..n {
                let (winner, wasted) = contend(stations, &mut random);
                wins[winner] += 1;
                slots += wasted;
            }
            let mean = f64::from(slots) / f64::from(n);
            assert!((mean - lost).abs() < 0.05, "{mean} for {lost}");
            let share = f64::from(n) / stations as f64;
            assert!(
                wins.iter()
                    .all(|w| (f64::from(*w) / share - 1.0).abs() < 0.06),
                "{wins:?}"
            );
        }
        assert_eq!(contend(1, &mut random), (0, 0));
    }

    #[test]
    fn one_at_a_time() {
        let mut medium = Medium::new(vec![3, 5], Random::new(1, "medium"));
        let ms = Instant::from_millis;
        assert_eq!(medium.deadline(ms(0), |_| false), None);
        assert_eq!(medium.deadline(ms(0), |link| link == 5), Some(ms(0)));
        assert_eq!(
            medium.poll(ms(0), |link| (link == 5).then_some(1000)),
            Some(5)
        );
        medium.occupy(5, ms(1000));
        medium.retime(3, ms(7));
        assert_eq!(medium.deadline(ms(5), |_| true), Some(ms(1000)));
        medium.retime(5, ms(10));
        assert_eq!(medium.poll(ms(5), |_| Some(1000)), None);
        assert_eq!(medium.deadline(ms(5), |_| true), Some(ms(10)));
        let mut at = ms(10);
        let winner = loop {
            if let Some(link) = medium.poll(at, |_| Some(1000)) {
                break link;
            }
            at = medium.deadline(at, |_| true).unwrap();
        };
        assert!([3, 5].contains(&winner));
    }
}
