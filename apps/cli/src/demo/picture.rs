//! Draws the runs in two panels: the time to the last file on the path with loss, and the queue
//! on the path without.

use std::path::Path;

use anyhow::{Context, bail};
use pathmark_lab::plot::{Figure, Line, Panel};

use super::rounds::{Group, groups};
use super::run::{Measured, today};
use super::scenario::Scenario;

/// Width and height of a panel. Two fill the width of a page.
const PANEL: (u32, u32) = (415, 320);

/// Writes the picture as SVG or PNG, depending on the file's extension.
///
/// # Errors
/// Fails if the extension is different or the file can't be written.
pub fn write(
    runs: &[Measured],
    scenario: &Scenario,
    rounds: u32,
    path: &Path,
) -> anyhow::Result<()> {
    let figure = figure(runs, scenario, &origin(rounds));
    match ending(path) {
        Some("svg") => figure.write_svg(path)?,
        Some("png") => figure.write_png(path)?,
        _ => bail!("{}: a picture ends in .svg or .png", path.display()),
    }
    Ok(())
}

/// Checks that [`write()`] supports the extension of a file.
///
/// # Errors
/// Fails if the extension is neither `svg` nor `png`.
pub fn check(path: &Path) -> anyhow::Result<()> {
    ending(path)
        .filter(|ending| ["svg", "png"].contains(ending))
        .map(drop)
        .with_context(|| format!("{}: a picture ends in .svg or .png", path.display()))
}

fn ending(path: &Path) -> Option<&str> {
    path.extension()?.to_str()
}

/// Describes kernel, machine, date and rounds.
fn origin(rounds: u32) -> String {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let machine = std::env::consts::ARCH;
    format!(
        "Linux {}, {machine}, {}, rounds: {rounds}.",
        kernel.trim(),
        today()
    )
}

fn figure(runs: &[Measured], scenario: &Scenario, origin: &str) -> Figure {
    let groups = groups(runs);
    // The library's other stacks are only in the table.
    let first = groups.first().map_or("", Group::stack);
    let shown = |path: &str| {
        let of = |group: &&Group<'_>| {
            group.path() == path && (group.stack() == first || group.stack().starts_with("kernel"))
        };
        groups.iter().filter(of).collect::<Vec<_>>()
    };
    let (lossy, clean) = (shown("wireless"), shown("clean"));
    let of_last = if lossy.is_empty() { &clean } else { &lossy };
    let of_queue = if clean.is_empty() { &lossy } else { &clean };
    let loss = |groups: &[&Group<'_>]| match groups.first().map(|group| group.path()) {
        Some("wireless") => "0.3 % random loss",
        _ => "no random loss",
    };
    let floor = scenario.floor_s();
    Figure {
        title: format!(
            "{} files of {} MB at once over {} Mbit/s and {} ms",
            scenario.files,
            scenario.bytes / 1_000_000,
            scenario.rate_bps / 1_000_000,
            2 * scenario.delay_ms
        ),
        columns: 2,
        panels: vec![
            last(of_last, loss(of_last), floor),
            queue(of_queue, loss(of_queue)),
        ],
        panel_size: Some(PANEL),
        footer: Some(format!(
            "{origin} Dashed: {floor:.1} s, the floor of file bytes and 1.5 round trips."
        )),
    }
}

fn name(stack: &str) -> String {
    stack.replace("cubic", "CUBIC").replace("bbr", "BBR")
}

fn last(groups: &[&Group<'_>], loss: &str, floor: f64) -> Panel {
    let bar = |(place, group): (usize, &&Group<'_>)| {
        let (x, last) = (place as f64, group.last_s());
        Line {
            label: Some(name(group.stack())),
            points: last.iter().map(|last| (x, last.median)).collect(),
            bars: last.iter().map(|last| (x, last.least, last.most)).collect(),
            marked: true,
            ..Line::default()
        }
    };
    let mut lines: Vec<Line> = groups.iter().enumerate().map(bar).collect();
    lines.push(Line {
        points: vec![(-0.5, floor), (groups.len() as f64 - 0.5, floor)],
        reference: true,
        ..Line::default()
    });
    Panel {
        title: format!("Last file complete, {loss}"),
        y_label: "s (median and range)".to_owned(),
        categories: groups.iter().map(|group| name(group.stack())).collect(),
        without_legend: true,
        lines,
        ..Panel::default()
    }
}

fn queue(groups: &[&Group<'_>], loss: &str) -> Panel {
    let line = |group: &&Group<'_>| {
        Some(Line {
            label: Some(name(group.stack())),
            points: group.middle()?.queue_ms.clone(),
            ..Line::default()
        })
    };
    Panel {
        title: format!("Queue at the bottleneck, {loss}"),
        x_label: "time [s]".to_owned(),
        y_label: "ms".to_owned(),
        lines: groups.iter().filter_map(line).collect(),
        ..Panel::default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::rounds::tests::run;
    use super::*;

    #[test]
    fn both_panels_and_the_origin_are_in_the_picture() {
        let stacks = [
            "pathmark auto",
            "pathmark cubic",
            "kernel cubic",
            "kernel bbr",
        ];
        let paths = ["clean", "wireless"].iter();
        let runs = paths.flat_map(|path| stacks.map(|stack| run(path, stack, &[Some(30.0)])));
        let runs: Vec<Measured> = runs.collect();
        let [clean, _] = Scenario::all(5_000_000);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.svg");
        write(&runs, &clean, 3, &path).unwrap();
        let svg = std::fs::read_to_string(&path).unwrap();
        for word in [
            "5 files of 5 MB at once over 10 Mbit/s and 400 ms",
            "Last file complete, 0.3 % random loss",
            "Queue at the bottleneck, no random loss",
            "kernel BBR",
            std::env::consts::ARCH,
            "rounds: 3",
            "20.6 s",
        ] {
            assert!(svg.contains(word), "{word} is missing");
        }
        assert!(!svg.contains("pathmark CUBIC"));
        assert!(check(Path::new("a.gif")).is_err() && check(Path::new("a.png")).is_ok());
        write(&runs[..4], &clean, 1, &directory.path().join("b.png")).unwrap();
    }
}
