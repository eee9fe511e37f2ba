//! Many runs of one scenario: lists of values for keys, all combinations of these values, and parts
//! of such a list for arrays of jobs.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use pathmark_emulator::result::RunResult;
use pathmark_emulator::scenario::{
    Axis, BadChange, Change, Point, Scenario, ScenarioError, Settings, Variant,
};

/// More runs than this are probably a mistake.
const MOST_CASES: usize = 100_000;

/// `KEY=V1,V2,…`: a key and its values, one per run. Whole numbers may be written `FIRST..LAST`.
/// Commas within brackets, braces and quotes belong to the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sweep {
    /// A key as in [`Scenario::set`].
    pub key: String,
    /// At least one value.
    pub values: Vec<String>,
}

impl From<&Sweep> for Axis {
    fn from(sweep: &Sweep) -> Self {
        let points = sweep.values.iter().map(|v| Point::value(&sweep.key, v));
        Self {
            key: sweep.key.clone(),
            points: points.collect(),
        }
    }
}

/// `I/N`: from a list of runs, those whose number modulo N is I, counting from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    index: usize,
    of: usize,
}

/// Error in the text of a sweep or a shard.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadSweep {
    /// No key, no value, or nothing between them.
    #[error(transparent)]
    Pair(#[from] BadChange),
    /// The list or one of its elements is empty.
    #[error("`{0}` lists no values: write KEY=V1,V2,…")]
    NoValues(String),
    /// The range ends before it begins, is too long, or is written with a hyphen.
    #[error("the range `{0}` must go up, over {MOST_CASES} numbers at most: write FIRST..LAST")]
    Range(String),
    /// All ranges are within bounds, but the whole list is too long.
    #[error("the list has more than {MOST_CASES} values: write fewer, or shorter ranges")]
    Long,
    /// Not a valid part of a list.
    #[error("`{0}` is no part of a list: write I/N with I from 0 to N - 1")]
    Shard(String),
}

impl FromStr for Sweep {
    type Err = BadSweep;

    fn from_str(text: &str) -> Result<Self, BadSweep> {
        let Change { key, value } = text.parse()?;
        let mut values = Vec::new();
        for item in split(&value) {
            match range(item)? {
                Some(numbers) => values.extend(numbers.map(|number| number.to_string())),
                None if item.is_empty() => return Err(BadSweep::NoValues(text.to_owned())),
                None => values.push(item.to_owned()),
            }
            if values.len() > MOST_CASES {
                return Err(BadSweep::Long);
            }
        }
        Ok(Self { key, values })
    }
}

/// Splits at commas outside brackets and quotes.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let (mut depth, mut quoted) = (0i32, false);
    text.split(move |c: char| {
        match c {
            '"' => quoted = !quoted,
            '[' | '{' if !quoted => depth += 1,
            ']' | '}' if !quoted => depth -= 1,
            _ => {}
        }
        c == ',' && depth <= 0 && !quoted
    })
    .map(str::trim)
}

/// `FIRST..LAST`, both ends included.
fn range(text: &str) -> Result<Option<std::ops::RangeInclusive<u64>>, BadSweep> {
    let is_number = |part: &str| part.parse::<u64>().is_ok();
    if (text.split_once('-')).is_some_and(|(first, last)| is_number(first) && is_number(last)) {
        return Err(BadSweep::Range(text.to_owned()));
    }
    let ends = text
        .split_once("..")
        .and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
    match ends {
        None => Ok(None),
        Some((first, last)) if first <= last && last - first < MOST_CASES as u64 => {
            Ok(Some(first..=last))
        }
        Some(_) => Err(BadSweep::Range(text.to_owned())),
    }
}

impl FromStr for Shard {
    type Err = BadSweep;

    fn from_str(text: &str) -> Result<Self, BadSweep> {
        text.split_once('/')
            .and_then(|(index, of)| Some((index.parse().ok()?, of.parse().ok()?)))
            .filter(|(index, of)| index < of)
            .map(|(index, of)| Self { index, of })
            .ok_or_else(|| BadSweep::Shard(text.to_owned()))
    }
}

impl Shard {
    /// True if the case belongs to this part.
    pub fn holds(self, case: &Case) -> bool {
        case.index % self.of == self.index
    }
}

/// A run in a list of runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Case {
    /// [`Scenario::id`].
    pub scenario: String,
    /// The run's number, from 0.
    pub index: usize,
    /// Runs in the list.
    pub of: usize,
    /// The variant of the scenario, if it has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// Values set by the sweeps, by key.
    pub set: Settings,
    /// A checksum of everything from which the list was made; empty if unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub origin: String,
    /// The run was interrupted, and the result contains the measurements until then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
}

/// A case and its result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CaseResult {
    /// The case.
    #[serde(flatten)]
    pub case: Case,
    /// The measurements.
    pub result: RunResult,
}

/// Error when making runs from a scenario.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CasesError {
    /// A change is invalid for the scenario.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The lists multiply to more than `MOST_CASES` runs.
    #[error("these sweeps make more than {MOST_CASES} runs: sweep fewer values")]
    TooMany,
}

/// Makes the runs of `base`: each of its variants, changed by `changes`, with all combinations of
/// the values of its own sweeps and of `sweeps`, where the last list varies fastest. Each run is
/// checked as a separate scenario. A change or a sweep of the same key replaces a sweep of the
/// scenario, and can refer to the sweep's points by name. Changes also override the other keys that
/// points of such a sweep set.
///
/// # Errors
/// [`CasesError`].
pub fn cases(
    base: &Scenario,
    changes: &[Change],
    sweeps: &[Sweep],
) -> Result<Vec<(Case, Scenario)>, CasesError> {
    let given = |key: &String| {
        let swept = sweeps.iter().any(|sweep| sweep.key == *key);
        swept || changes.iter().any(|change| change.key == *key)
    };
    let own = base.sweeps.iter().filter_map(|axis| {
        let all = (!given(&axis.key)).then(|| axis.clone());
        picked(axis, changes, sweeps).or(all)
    });
    let own: Vec<Axis> = own.collect();
    let is_own = |key: &String| own.iter().any(|axis| axis.key == *key);
    let changes: Vec<&Change> = changes.iter().filter(|c| !is_own(&c.key)).collect();
    let given: Vec<Axis> = sweeps
        .iter()
        .filter(|sweep| !is_own(&sweep.key))
        .map(Axis::from)
        .collect();
    let count = own
        .iter()
        .chain(&given)
        .try_fold(base.variants.len().max(1), |product, list| {
            product.checked_mul(list.points.len())
        })
        .filter(|count| *count <= MOST_CASES)
        .ok_or(CasesError::TooMany)?;
    let mut made = Vec::with_capacity(count);
    for variant in variants(base) {
        let mut scenario = base.clone();
        let first = variant.map_or(&[][..], |variant| variant.set.as_slice());
        for change in first.iter().chain(changes.iter().copied()) {
            scenario.set(&change.key, &change.value)?;
        }
        let name = variant.map(|variant| variant.name.clone());
        let mut runs = combinations(vec![(Settings::new(), scenario)], &own)?;
        if own.iter().any(Axis::has_sets) {
            for (_, scenario) in &mut runs {
                for change in &changes {
                    scenario.set(&change.key, &change.value)?;
                }
            }
        }
        for (set, scenario) in combinations(runs, &given)? {
            let case = Case {
                scenario: base.id().to_owned(),
                index: made.len(),
                of: count,
                variant: name.clone(),
                set,
                ..Case::default()
            };
            made.push((case, scenario));
        }
    }
    Ok(made)
}

/// Returns the points that a change or a sweep names, or `None` if it names other values.
fn picked(axis: &Axis, changes: &[Change], sweeps: &[Sweep]) -> Option<Axis> {
    let changed = changes.iter().rev().find(|c| c.key == axis.key);
    let swept = sweeps.iter().find(|sweep| sweep.key == axis.key);
    let names = match (changed, swept) {
        (_, Some(sweep)) => sweep.values.as_slice(),
        (Some(change), None) => std::slice::from_ref(&change.value),
        (None, None) => return None,
    };
    let point = |name: &String| {
        axis.points
            .iter()
            .find(|point| point.name == *name)
            .cloned()
    };
    let points: Option<Vec<Point>> = names.iter().map(point).collect();
    points.filter(|_| axis.has_sets()).map(|points| Axis {
        key: axis.key.clone(),
        points,
    })
}

/// Each variant, or the unchanged scenario if there are no variants.
fn variants(base: &Scenario) -> impl Iterator<Item = Option<&Variant>> {
    let plain = base.variants.is_empty().then_some(None);
    base.variants.iter().map(Some).chain(plain)
}

fn combinations(
    mut made: Vec<(Settings, Scenario)>,
    lists: &[Axis],
) -> Result<Vec<(Settings, Scenario)>, ScenarioError> {
    for list in lists {
        let mut next = Vec::with_capacity(made.len() * list.points.len());
        for (set, scenario) in &made {
            for point in &list.points {
                let (mut set, mut scenario) = (set.clone(), scenario.clone());
                for change in &point.set {
                    scenario.set(&change.key, &change.value)?;
                }
                set.insert(list.key.clone(), point.name.clone());
                next.push((set, scenario));
            }
        }
        made = next;
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sweep(text: &str) -> Vec<String> {
        text.parse::<Sweep>().unwrap().values
    }

    #[test]
    fn lists_of_values() {
        assert_eq!(
            sweep("link.a.rate=1Mbit, 10Mbit,1Gbit"),
            ["1Mbit", "10Mbit", "1Gbit"]
        );
        assert_eq!(sweep("seed=1..3,7"), ["1", "2", "3", "7"]);
        assert_eq!(
            sweep("flow.f.algorithm=vcp[kappa=0.5,iw=2],cubic"),
            ["vcp[kappa=0.5,iw=2]", "cubic"]
        );
        assert_eq!(
            sweep("link.a.queue={kind=\"red\",min=5},{kind=\"droptail\"}").len(),
            2
        );
        for wrong in [
            "",
            "seed",
            "=3",
            "seed=",
            "seed=1,,2",
            "seed=3..1",
            "seed=1-10",
        ] {
            assert!(wrong.parse::<Sweep>().is_err(), "{wrong}");
        }
        assert_eq!(sweep("seed=1..100000").len(), MOST_CASES);
        for (long, says) in [
            ("seed=1..100001", "over 100000 numbers at most"),
            ("seed=1..100000,7", "more than 100000 values"),
        ] {
            let said = long.parse::<Sweep>().unwrap_err().to_string();
            assert!(said.contains(says), "{long}: {said}");
        }
    }

    /// A value of `changes` applies to every run, even if the points of the scenario's own sweep
    /// set the same key together with others.
    #[test]
    fn changes_hold_against_sets_of_the_scenario() {
        let base = Scenario::load("auto-start").unwrap();
        let changes = ["duration=2s", "link.bottleneck.rate=50Mbit"].map(|c| c.parse().unwrap());
        let all = cases(&base, &changes, &[]).unwrap();
        assert_eq!(all.len(), 3 * base.variants.len());
        for (case, scenario) in &all {
            assert_eq!(scenario.duration.as_secs(), 2, "{case:?}");
            let links = scenario.links.iter();
            let rate = links
                .clone()
                .find(|link| link.name == "bottleneck")
                .unwrap()
                .spec
                .rate;
            assert_eq!(rate.map(|rate| rate.bits), Some(50_000_000), "{case:?}");
        }
        let delays: std::collections::BTreeSet<_> =
            all.iter().map(|(_, s)| s.links[0].rtt).collect();
        assert_eq!(delays.len(), 3, "what was not set by hand stays");
    }

    #[test]
    fn combinations_in_order_and_their_parts() {
        let base = Scenario::load("five-files").unwrap();
        let sweeps = ["seed=1,2", "flow.ftp.count=1,2,3"].map(|text| text.parse().unwrap());
        let all = cases(&base, &[], &sweeps).unwrap();
        let of = |index: usize| (all[index].1.seed, all[index].1.flows.len());
        assert_eq!(
            [of(0), of(1), of(3), of(5)],
            [(1, 1), (1, 2), (2, 1), (2, 3)]
        );
        assert_eq!(all[4].0.set["flow.ftp.count"], "2");
        let parts: Vec<Shard> = ["0/4", "1/4", "2/4", "3/4"]
            .map(|s| s.parse().unwrap())
            .into();
        for (case, _) in &all {
            assert_eq!(parts.iter().filter(|part| part.holds(case)).count(), 1);
        }
        for wrong in ["4/4", "1", "-1/2", "0/0", "a/b"] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
        let wrong = ["flow.ftp.count=1,0".parse().unwrap()];
        assert!(
            cases(&base, &[], &wrong)
                .unwrap_err()
                .to_string()
                .contains("flow.ftp.count=0")
        );
        let many = ["seed=1..1000", "sample=1..1000"].map(|text| text.parse().unwrap());
        assert!(matches!(cases(&base, &[], &many), Err(CasesError::TooMany)));
    }
}
