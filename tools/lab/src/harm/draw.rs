//! Cells drawn by a seed.

use std::collections::HashSet;

use pathmark_link::impair::Random;

use super::axis::{BadAxis, percent};
use super::cell::{Cell, Group, Kind};

/// Number of cells of each group among 150 cells.
const SHARES: [(Group, usize); 6] = [
    (Group::Hidden, 40),
    (Group::Loss, 30),
    (Group::Outage, 20),
    (Group::Hops, 15),
    (Group::Jitter, 20),
    (Group::Flows, 25),
];
/// Default number of cells.
pub const CELLS: usize = 150;
/// Draws in a row without a new cell after which all are known.
const TRIES: usize = 1000;

/// Splits `cells` into groups, in the order of [`Group::ALL`], with the proportions of 150 cells.
/// The groups with the largest fractions get the remainder.
pub fn split(cells: usize) -> Vec<(Group, usize)> {
    let whole = |share: usize| cells * share / CELLS;
    let mut parts: Vec<_> = SHARES.map(|(group, share)| (group, whole(share))).into();
    let given: usize = parts.iter().map(|(_, count)| count).sum();
    let mut order: Vec<usize> = (0..parts.len()).collect();
    let fraction = |index: &usize| SHARES.get(*index).map_or(0, |(_, s)| cells * s % CELLS);
    order.sort_by_key(|index| std::cmp::Reverse(fraction(index)));
    for index in order.into_iter().take(cells - given) {
        if let Some((_, count)) = parts.get_mut(index) {
            *count += 1;
        }
    }
    parts
}

/// Returns the first `count` different cells of a group that this seed draws, or fewer if there are
/// no more.
pub fn draw(group: Group, seed: u64, count: usize) -> Vec<Cell> {
    let mut dice = Dice(Random::new(seed, group.name()));
    let (mut cells, mut known) = (Vec::new(), HashSet::new());
    let mut tries = 0;
    while cells.len() < count && tries < TRIES {
        match dice.cell(group) {
            Ok(cell) if known.insert(cell) => {
                tries = 0;
                cells.push(cell);
            }
            _ => tries += 1,
        }
    }
    cells
}

/// How a group's cells are drawn: first values, then a kind by its weight, and then further values.
struct Draws(&'static str, &'static [(u64, Kind, &'static str)]);

/// Values are drawn in the order in which they are listed, each from the texts after its name, and
/// both sides of a `+` separately. `hidden` is a share of `marked`, because the plain link is to be
/// the bottleneck. A run over a gigabit only takes a few seconds, so its round trip is short.
const HIDDEN: &str = "marked 20M 100M 100M 1G; hidden 5% 20% 50% 95%; \
    if marked 1G: rtt 20ms; if marked 20M 100M: rtt 20ms 80ms 400ms; \
    buffer 2p 8p 20p 100p 1bdp; flows 1 2 5 20 100 + 0 2";

/// Declares [`Draws`] by group.
macro_rules! draws {
    ($($group:ident: $first:expr => { $($weight:literal $kind:ident $values:expr;)+ })+) => {
        const fn draws(group: Group) -> Draws {
            match group {
                $(Group::$group => Draws($first, &[$(($weight, Kind::$kind, $values)),+]),)+
            }
        }
    };
}

draws! {
    Hidden: HIDDEN => {
        1 After "";
        1 Before "";
    }
    Loss: "per 0.1% 1% 2% 5% 10%" => {
        6 Random "rate 10M 100M; burst single burst5; lossy through begins ends; \
            declared undeclared declared; flows 1 2 5 20 100 + 0 2; rtt 20ms 80ms 400ms";
        2 Both HIDDEN;
        1 Late HIDDEN;
        1 Join "rate 10M 100M; flows 1 2 5 20 100 + 1 2; rtt 20ms 80ms 400ms";
        1 Forged HIDDEN;
    }
    Outage: "" => {
        3 Cut "rate 2M 20M 100M; outage 100ms 300ms 1s 5s; times x1 x3; flows 1 2 5 + 0 0 2; \
            rtt 20ms 80ms 400ms";
        2 Low "rate 64k 128k 256k 500k 1M; buffer 5p 20p 100p; flows 1 2 5 + 0 0 2; \
            rtt 20ms 80ms 400ms";
        2 Trace "rate 2M 10M 50M; buffer 100p 1bdp 5bdp; flows 1 2 5 + 0 0 2; rtt 30ms 60ms 120ms";
        2 Handover "rate 10M 50M; outage 100ms 300ms 1s; flows 1 2 5 + 0 0 2; rtt 30ms 60ms";
        1 Radio "rate 10M 50M; flows 1 2 5 + 0 0 2; rtt 10ms 40ms";
    }
    Hops: "rate 5M 20M; hops x2 x3 x5 x8; long x1 x1 x3; cross 1+0 2+0 4+0 1+1; \
        buffer 1bdp 0.5bdp 50p; rtt 40ms 120ms 240ms" => {
        2 Lot "";
        1 Taper "";
    }
    Jitter: "rate 5M 20M 50M; rtt 40ms 80ms; jitter 5ms 20ms 40ms" => {
        3 Order "flows 1 2 5 + 0 0 2";
        1 Reorder "jitter 2ms 10ms; flows 1 2 5 + 0 0 2";
        3 Short "flows 1 2 8 16 + 0 0 2; buffer 100p 500p; rate 1G 100M; \
            if rate 1G: rtt 100us 200us 500us; if rate 100M: rtt 200us 1ms 2ms 5ms";
        3 Step "rtt,then 20ms,300ms 20ms,80ms 300ms,20ms 100ms,200ms; flows 1 2 5 + 0 0 2";
    }
    Flows: "" => {
        3 Many "rate 10M 60M; flows 100+0 50+0 20+0 20+2 5+5 1+20; rtt 20ms 80ms 400ms";
        2 Mice "rate 10M 50M; flows 1+0 2+0 2+2; mice x20 x60; size 30kB 100kB 200kB; \
            rtt 20ms 80ms 400ms";
        2 Rtts "rate 10M 50M; flows 1+0 4+0 2+1; near 5ms 20ms; far 200ms 800ms 1s";
        1 Sizes "rate 10M 50M; flows 20+0 5+0 5+2; large x2 x10; near 20ms 80ms; far 80ms 500ms";
        2 Ports "rate 10M 50M; flows 1+0 1+1 3+0 2+4; guests x1 x3; rtt 20ms 80ms";
        1 Mixed "rate 10M 50M; flows 1+0 2+1 4+2; guests x1 x2; rtt 20ms 80ms 400ms";
        1 Tiny "rate 2M 10M; flows 1+0 2+2 5+0; share 10% 30% 50%; rtt 20ms 80ms 400ms";
    }
}

/// Draws values.
struct Dice(Random);

impl Dice {
    fn cell(&mut self, group: Group) -> Result<Cell, BadAxis> {
        let Draws(first, kinds) = draws(group);
        let mut cell = Cell::default();
        self.values(first, &mut cell)?;
        let mut left = self.0.below(kinds.iter().map(|(weight, ..)| weight).sum());
        for (weight, kind, values) in kinds {
            if left < *weight {
                self.values(values, &mut cell)?;
                return Ok(cell.of_kind(*kind));
            }
            left -= weight;
        }
        Ok(cell)
    }

    /// Draws the values of a list as in [`HIDDEN`].
    fn values(&mut self, list: &str, cell: &mut Cell) -> Result<(), BadAxis> {
        for mut draw in list.split("; ").filter(|draw| !draw.is_empty()) {
            if let Some((condition, then)) = draw.split_once(": ") {
                let mut words = condition.split(' ').skip(1);
                let value = words.next().map(|name| cell.text(name));
                if !words.any(|text| value.as_deref() == Some(text)) {
                    continue;
                }
                draw = then;
            }
            let (names, texts) = draw.split_once(' ').unwrap_or((draw, ""));
            let texts: Vec<&str> = texts.split(" + ").map(|texts| self.one(texts)).collect();
            let text = texts.join("+");
            for (name, text) in names.split(',').zip(text.split(',')) {
                if name == "hidden" {
                    cell.hidden = cell.marked.percent(percent(text)?);
                } else {
                    cell.set(name, text)?;
                }
            }
        }
        Ok(())
    }

    /// Draws one of several texts. A single text needs no random number.
    fn one<'a>(&mut self, texts: &'a str) -> &'a str {
        let all: Vec<&str> = texts.split(' ').collect();
        let index = if all.len() > 1 {
            self.0.below(all.len() as u64)
        } else {
            0
        };
        let index = usize::try_from(index).unwrap_or(0);
        all.get(index).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_text_is_a_value() {
        for group in Group::ALL {
            let Draws(first, kinds) = draws(group);
            for list in kinds.iter().map(|(.., list)| *list).chain([first]) {
                for seed in 0..50 {
                    let mut dice = Dice(Random::new(seed, list));
                    dice.values(list, &mut Cell::default()).unwrap();
                }
            }
        }
    }
}
