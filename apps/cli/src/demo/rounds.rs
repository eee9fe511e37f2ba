//! Summarizes rounds of the same runs by medians and ranges.

use std::fmt::Write as _;

use super::run::Measured;

/// The minimum, median and maximum of some figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The minimum.
    pub least: f64,
    /// The median, or the lower of the two middle figures.
    pub median: f64,
    /// The maximum.
    pub most: f64,
}

impl Spread {
    fn of(mut figures: Vec<f64>) -> Option<Self> {
        figures.sort_by(f64::total_cmp);
        Some(Self {
            least: *figures.first()?,
            median: *figures.get((figures.len() - 1) / 2)?,
            most: *figures.last()?,
        })
    }
}

/// The rounds of one stack over one path.
#[derive(Debug)]
pub struct Group<'a> {
    /// At least one run, in the order of rounds.
    pub runs: Vec<&'a Measured>,
}

impl Group<'_> {
    /// Returns the path's name.
    pub fn path(&self) -> &str {
        self.runs.first().map_or("", |run| &run.result.scenario)
    }

    /// Returns the stack's name.
    pub fn stack(&self) -> &str {
        self.runs.first().map_or("", |run| &run.stack)
    }

    /// Returns the seconds until the last file was complete, or `None` if a run did not complete
    /// all files.
    pub fn last_s(&self) -> Option<Spread> {
        let last: Option<Vec<f64>> = self.runs.iter().map(|run| run.last_s()).collect();
        Spread::of(last?)
    }

    /// Returns the mean time of the files in seconds, or `None` if a run did not complete all of
    /// them.
    pub fn mean_s(&self) -> Option<Spread> {
        let means: Option<Vec<f64>> = self.runs.iter().map(|run| run.mean_s()).collect();
        Spread::of(means?)
    }

    /// Returns the bottleneck's mean queue in milliseconds.
    pub fn queue_ms(&self) -> Option<Spread> {
        let links = self.runs.iter().map(|run| run.result.links.first());
        let queues = links.map(|link| Some(link?.queue_ms?.mean));
        Spread::of(queues.collect::<Option<Vec<f64>>>()?)
    }

    /// Returns the run whose last file took the median time, or else the first run.
    pub fn middle(&self) -> Option<&Measured> {
        let median = self.last_s().map(|last| last.median);
        let mut runs = self.runs.iter();
        let middle = runs.find(|run| median.is_some() && run.last_s() == median);
        middle.or(self.runs.first()).copied()
    }
}

/// Groups runs by path and stack, in the order of their first runs.
pub fn groups(runs: &[Measured]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for run in runs {
        let of = |group: &&mut Group<'_>| {
            group.stack() == run.stack && group.path() == run.result.scenario
        };
        match groups.iter_mut().find(of) {
            Some(group) => group.runs.push(run),
            None => groups.push(Group { runs: vec![run] }),
        }
    }
    groups
}

/// Formats medians and ranges as human-readable text.
pub fn table(runs: &[Measured]) -> String {
    let mut out = String::new();
    // Writing to a string never fails.
    let _ = writeln!(
        out,
        "{:9} {:24} {:>29} {:>21} {:>12}",
        "path", "stack", "last file: median (range) [s]", "mean of the files [s]", "queue [ms]"
    );
    for group in groups(runs) {
        let last = group.last_s().map_or_else(
            || "not all complete".to_owned(),
            |s| format!("{:.1} ({:.1} to {:.1})", s.median, s.least, s.most),
        );
        let mean = group.mean_s();
        let mean = mean.map_or_else(|| "-".to_owned(), |s| format!("{:.1}", s.median));
        let queue = group.queue_ms().map_or(0.0, |queue| queue.median);
        let _ = writeln!(
            out,
            "{:9} {:24} {last:>29} {mean:>21} {queue:12.0}",
            group.path(),
            group.stack()
        );
    }
    out
}

/// Compares the first stack with the best of the others in one sentence, for the path with loss
/// if it is included.
pub fn verdict(runs: &[Measured]) -> Option<String> {
    let groups = groups(runs);
    let path = groups.iter().rev().map(Group::path).next()?;
    let here: Vec<&Group<'_>> = groups.iter().filter(|group| group.path() == path).collect();
    let (own, others) = here.split_first()?;
    let median = |group: &Group<'_>| Some((group.last_s()?.median, group.stack().to_owned()));
    let best = others.iter().filter_map(|group| median(group));
    let best = best.min_by(|a, b| a.0.total_cmp(&b.0));
    let condition = match path {
        "wireless" => "With 0.3 % random loss",
        _ => "Without random loss",
    };
    let own_stack = own.stack();
    let own = match own.last_s() {
        Some(last) => format!(
            "{own_stack} completes the last file after {:.1} s",
            last.median
        ),
        None => format!("{own_stack} does not complete all files in time"),
    };
    let other = match best {
        Some((last, stack)) => format!("the best other stack, {stack}, after {last:.1} s"),
        None if others.is_empty() => return Some(format!("{condition}, {own}.")),
        None => "no other stack completes all files in time".to_owned(),
    };
    Some(format!("{condition}, {own}; {other}."))
}

#[cfg(test)]
pub(super) mod tests {
    use pathmark_emulator::result::{FlowResult, RunResult};

    use super::*;

    /// Returns a run whose files take these times.
    pub(in crate::demo) fn run(path: &str, stack: &str, files: &[Option<f64>]) -> Measured {
        let flow = |completion_s: &Option<f64>| {
            let flow = serde_json::json!({
                "name": "file", "algorithm": "", "from": "", "to": "", "start_s": 0.0,
                "bytes_delivered": 0, "completed": completion_s.is_some(),
                "completion_s": completion_s, "goodput_bps": 0.0,
            });
            serde_json::from_value::<FlowResult>(flow).unwrap()
        };
        Measured {
            result: RunResult {
                scenario: path.to_owned(),
                seed: 1,
                simulated_s: 50.0,
                wall_s: 1.0,
                packets: 0,
                events: 0,
                jain: 1.0,
                jain_windows: None,
                flows: files.iter().map(flow).collect(),
                links: Vec::new(),
                windows: Vec::new(),
            },
            stack: stack.to_owned(),
            mode: "tun",
            throughput: Vec::new(),
            queue_ms: vec![(0.0, 0.0), (1.0, 20.0)],
        }
    }

    #[test]
    fn rounds_have_a_median_and_a_range() {
        let rounds = [30.0, 10.0, 20.0].map(|last| run("clean", "a", &[Some(5.0), Some(last)]));
        let groups = groups(&rounds);
        assert_eq!(groups.len(), 1);
        let spread = Spread {
            least: 10.0,
            median: 20.0,
            most: 30.0,
        };
        assert_eq!(groups[0].last_s(), Some(spread));
        assert_eq!(groups[0].middle().unwrap().last_s(), Some(20.0));
        assert_eq!(groups[0].mean_s().map(|mean| mean.median), Some(12.5));
        let table = table(&rounds);
        assert!(table.contains("20.0 (10.0 to 30.0)"), "{table}");
        assert!(table.contains(" 12.5 "), "{table}");
        assert_eq!(Spread::of(vec![4.0, 1.0, 3.0, 2.0]).unwrap().median, 2.0);
        assert_eq!(Spread::of(Vec::new()), None);
    }

    #[test]
    fn one_file_that_does_not_arrive_leaves_no_time() {
        let rounds = [run("clean", "a", &[Some(5.0)]), run("clean", "a", &[None])];
        assert_eq!(groups(&rounds)[0].last_s(), None);
        assert_eq!(groups(&rounds)[0].mean_s(), None);
        assert!(table(&rounds).contains("not all complete"));
    }

    #[test]
    fn the_verdict_names_both_stacks_whichever_is_first() {
        let both = |own: Option<f64>, other: Option<f64>| {
            verdict(&[
                run("clean", "pathmark auto", &[Some(1.0)]),
                run("wireless", "pathmark auto", &[own]),
                run("wireless", "kernel bbr", &[other]),
                run("wireless", "kernel cubic", &[Some(40.0)]),
            ])
            .unwrap()
        };
        assert_eq!(
            both(Some(23.14), Some(38.3)),
            "With 0.3 % random loss, pathmark auto completes the last file after 23.1 s; \
             the best other stack, kernel bbr, after 38.3 s."
        );
        assert!(both(Some(50.0), None).ends_with("kernel cubic, after 40.0 s."));
        assert!(both(None, None).contains("pathmark auto does not complete all files"));
        let alone = verdict(&[run("clean", "a", &[Some(2.0)])]).unwrap();
        assert_eq!(
            alone,
            "Without random loss, a completes the last file after 2.0 s."
        );
        assert_eq!(verdict(&[]), None);
    }
}
