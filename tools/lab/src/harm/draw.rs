//! Cells drawn by a seed.

use std::collections::{BTreeMap, HashSet};

use pathmark_link::impair::Random;

use super::axis::{BadAxis, read, share};
use super::cell::{Cell, Group, Kinds, TABLE};

/// Default number of cells.
pub const CELLS: usize = 150;
/// Draws in a row without a new cell after which all are known.
const TRIES: usize = 1000;

/// Splits `cells` into groups, in the order of [`Group::ALL`], with the proportions of 150 cells.
/// The groups with the largest fractions get the remainder.
pub fn split(cells: usize) -> Vec<(Group, usize)> {
    let shares = || TABLE.groups.iter().map(|group| cells * group.cells);
    let names = TABLE.groups.iter().map(|group| group.name);
    let mut parts: Vec<_> = names.zip(shares().map(|share| share / CELLS)).collect();
    let given: usize = parts.iter().map(|(_, count)| count).sum();
    let mut order: Vec<_> = parts.iter_mut().zip(shares()).collect();
    order.sort_by_key(|(_, share)| std::cmp::Reverse(share % CELLS));
    for ((_, count), _) in order.into_iter().take(cells - given) {
        *count += 1;
    }
    parts
}

/// Returns the first `count` different cells of a group that this seed draws, or fewer if there are
/// no more.
pub fn draw(group: Group, seed: u64, count: usize) -> Vec<Cell> {
    let Some(kinds) = TABLE.groups.iter().find(|kinds| kinds.name == group) else {
        return Vec::new();
    };
    let mut dice = Dice::new(Random::new(seed, group.name()));
    let (mut cells, mut known) = (Vec::new(), HashSet::new());
    let mut tries = 0;
    while cells.len() < count && tries < TRIES {
        match dice.cell(kinds) {
            Some(cell) if known.insert(cell.clone()) => {
                tries = 0;
                cells.push(cell);
            }
            _ => tries += 1,
        }
    }
    cells
}

/// Draws values.
struct Dice {
    random: Random,
    /// The values of the next cell, by name.
    values: BTreeMap<&'static str, String>,
}

impl Dice {
    const fn new(random: Random) -> Self {
        Self {
            random,
            values: BTreeMap::new(),
        }
    }

    /// Draws the group's values, then a kind by its weight, and then the kind's values.
    fn cell(&mut self, kinds: &'static Kinds) -> Option<Cell> {
        self.values.clear();
        self.list(&kinds.draw).ok()?;
        let weights = kinds.kind.iter().map(|kind| kind.weight);
        let mut left = self.random.below(weights.sum());
        let kind = kinds.kind.iter().find(|kind| {
            let is_drawn = left < kind.weight;
            left = left.saturating_sub(kind.weight);
            is_drawn
        })?;
        self.list(&kind.draw).ok()?;
        let values = kind.values().map(|value| self.text(value));
        Cell::new(kinds.name, kind, values).ok()
    }

    fn text(&self, value: &str) -> &str {
        self.values.get(value).map_or("", String::as_str)
    }

    /// Draws the values of a list.
    fn list(&mut self, list: &'static str) -> Result<(), BadAxis> {
        for mut draw in list.split("; ").filter(|draw| !draw.is_empty()) {
            if let Some(list) = TABLE.lists.get(draw) {
                self.list(list)?;
                continue;
            }
            if let Some((condition, then)) = draw.split_once(": ") {
                let mut words = condition.split(' ').skip(1);
                let value = words.next().map(|name| self.text(name));
                if !words.any(|text| value == Some(text)) {
                    continue;
                }
                draw = then;
            }
            let (names, texts) = draw.split_once(' ').unwrap_or((draw, ""));
            let texts: Vec<&str> = texts.split(" + ").map(|texts| self.one(texts)).collect();
            let text = texts.join("+");
            for (name, text) in names.split(',').zip(text.split(',')) {
                let text = match name {
                    "hidden" => share(self.text("marked"), text)?,
                    _ => text.to_owned(),
                };
                read(name, &text)?;
                self.values.insert(name, text);
            }
        }
        Ok(())
    }

    /// Draws one of several texts. A single text needs no random number.
    fn one<'a>(&mut self, texts: &'a str) -> &'a str {
        let all: Vec<&str> = texts.split(' ').collect();
        let index = if all.len() > 1 {
            self.random.below(all.len() as u64)
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
        let lists = TABLE.groups.iter().flat_map(|group| {
            let kinds = group.kind.iter().map(|kind| &kind.draw);
            kinds.chain([&group.draw])
        });
        let lists: Vec<&'static String> = lists.collect();
        assert_eq!(lists.len(), 31);
        for list in lists {
            for seed in 0..50 {
                let mut dice = Dice::new(Random::new(seed, list));
                dice.list(list).unwrap();
            }
        }
    }
}
