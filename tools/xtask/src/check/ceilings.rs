//! Figures that can fall but must never rise.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

const HEAD: &str = "\
# Ceilings of `cargo xtask check`. A figure may fall and never rises; `cargo xtask check --record`
# writes those that fell, and new ones. What each section measures: tools/xtask/src/check/mod.rs.
";

/// Figures by measure and place.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Figures(BTreeMap<String, BTreeMap<String, u64>>);

impl Figures {
    pub(super) fn read(path: &Path) -> Result<Self> {
        if !path.exists() {
            return Ok(Self::default());
        }
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let figures = toml::from_str(&text).with_context(|| path.display().to_string())?;
        Ok(Self(figures))
    }

    /// Writes the figures. The reason next to a ceiling that was raised stays until it falls.
    pub(super) fn write(&self, path: &Path) -> Result<()> {
        let former = fs::read_to_string(path).unwrap_or_default();
        let mut text = format!("{HEAD}\n{}", toml::to_string(&self.0)?);
        for line in former.lines() {
            if let Some((ceiling, _)) = line.split_once(" # ") {
                text = text.replace(&format!("\n{ceiling}\n"), &format!("\n{line}\n"));
            }
        }
        fs::write(path, text).with_context(|| path.display().to_string())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn set(&mut self, measure: &str, place: &str, value: usize) {
        let places = self.0.entry(measure.to_owned()).or_default();
        places.insert(place.to_owned(), value as u64);
    }

    /// Returns figures that have no ceiling or exceed it, a line each.
    pub(super) fn above(&self, ceilings: &Self) -> Vec<String> {
        let mut lines = Vec::new();
        for (measure, place, value) in self.iter() {
            match ceilings.get(measure, place) {
                Some(ceiling) if value <= ceiling => {}
                Some(ceiling) => {
                    lines.push(format!(
                        "{measure}: {place} has {value}, its ceiling is {ceiling}"
                    ));
                }
                None => lines.push(format!("{measure}: {place} has {value} and no ceiling")),
            }
        }
        lines
    }

    /// Returns ceilings without a figure, a line each.
    pub(super) fn gone(&self, ceilings: &Self) -> Vec<String> {
        let gone = |(measure, place, _): &(&str, &str, u64)| self.get(measure, place).is_none();
        let lines = ceilings.iter().filter(gone);
        lines
            .map(|(measure, place, _)| format!("{measure}: {place} has a ceiling and no figure"))
            .collect()
    }

    /// Returns these figures as ceilings, lowered to `former` ones that are below.
    pub(super) fn lowered(mut self, former: &Self) -> Self {
        for (measure, places) in &mut self.0 {
            for (place, value) in places {
                *value = former
                    .get(measure, place)
                    .map_or(*value, |ceiling| ceiling.min(*value));
            }
        }
        self
    }

    /// Returns how many of these figures are below their ceilings.
    pub(super) fn below(&self, ceilings: &Self) -> usize {
        let below = |(measure, place, value): &(&str, &str, u64)| {
            ceilings
                .get(measure, place)
                .is_some_and(|ceiling| *value < ceiling)
        };
        self.iter().filter(below).count()
    }

    fn iter(&self) -> impl Iterator<Item = (&str, &str, u64)> {
        self.0.iter().flat_map(|(measure, places)| {
            let places = places.iter();
            places.map(|(place, value)| (measure.as_str(), place.as_str(), *value))
        })
    }

    fn get(&self, measure: &str, place: &str) -> Option<u64> {
        self.0.get(measure)?.get(place).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(values: &[(&str, usize)]) -> Figures {
        let mut figures = Figures::default();
        for (place, value) in values {
            figures.set("lines", place, *value);
        }
        figures
    }

    #[test]
    fn figures_fall_and_never_rise() {
        let ceilings = figures(&[("a", 10), ("b", 10), ("gone", 1)]);
        let now = figures(&[("a", 9), ("b", 11), ("new", 5)]);
        let above = "lines: b has 11, its ceiling is 10\nlines: new has 5 and no ceiling";
        assert_eq!(now.above(&ceilings).join("\n"), above);
        let gone = ["lines: gone has a ceiling and no figure"];
        assert_eq!(now.gone(&ceilings), gone);
        assert_eq!(now.below(&ceilings), 1);
        let lowered = figures(&[("a", 9), ("b", 10), ("new", 5)]);
        assert_eq!(now.lowered(&ceilings), lowered);
    }

    #[test]
    fn a_file_reads_back() {
        let path = std::env::temp_dir().join(format!("ceilings-{}.toml", std::process::id()));
        let written = figures(&[("docs/a.md", 3)]);
        written.write(&path).unwrap();
        let text = fs::read_to_string(&path)
            .unwrap()
            .replace("= 3", "= 3 # why");
        fs::write(&path, &text).unwrap();
        written.write(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        let read = Figures::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read, written);
    }
}
