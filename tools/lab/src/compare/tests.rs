//! The grid, its cells, and the report on their figures.

use std::ops::ControlFlow;
use std::path::Path;

use super::*;
use pathmark_emulator::scenario::Scenario;

fn file(text: &str) -> Result<Grid, BadGrid> {
    GridFile::parse(Path::new("grid.toml"), text)?.grid()
}

fn refusal(text: &str) -> String {
    file(text).unwrap_err().to_string()
}

fn small() -> Grid {
    let text = "algorithms = [\"cubic\", \"vcp+bise+wlte\"]\nseeds = 3\nrate = \"20Mbit\"\n\
                rtt = \"100ms\"\nbuffer = \"1bdp\"\nloss = [0, 0.01]\nflows = 2\nrouters = [1]\n";
    file(text).unwrap()
}

#[test]
fn values_have_one_spelling() {
    let grid = file(
        "rate = [\"2.5Mbit\", 64000]\nloss = [0, 1e-3, \"2.5%\"]\nflows = [1, 100]\n\
         buffer = [\"0.25bdp\", \"8p\", \"64KiB\", \"100001B\"]\nrtt = [\"1.5s\", \"250us\"]\n\
         routers = [\"none\", \"hidden\", 3]\n",
    )
    .unwrap();
    let shown = |axis| grid.values(axis).join(" ");
    assert_eq!(shown(Axis::Rate), "2.5Mbit 64kbit");
    assert_eq!(shown(Axis::Loss), "0% 0.1% 2.5%");
    assert_eq!(shown(Axis::Buffer), "0.25bdp 8p 64.0KiB 100001B");
    assert_eq!(shown(Axis::Rtt), "1500ms 250us");
    assert_eq!(shown(Axis::Routers), "none hidden 3");
    // Each value parses back from its text.
    for axis in Axis::ALL {
        let values = grid.values(axis);
        let again = format!("{axis} = {values:?}");
        assert_eq!(file(&again).unwrap().values(axis), values);
    }
}

#[test]
fn what_cannot_be_says_what_to_do() {
    for (text, words) in [
        ("rate = []", "rate has no values"),
        ("rate = \"fast\"", "rate cannot be `fast`: write a rate"),
        ("rate = \"0bit\"", "32kbit to 100Gbit"),
        ("rtt = [\"20ms\", \"0.02s\"]", "rtt has `20ms` twice"),
        ("loss = 0.7", "up to 50%"),
        ("loss = \"nan\"", "loss cannot be `nan`"),
        ("flows = 0", "1 to 10000"),
        ("flows = -1", "1 to 10000"),
        ("buffer = \"0p\"", "for a packet at least"),
        ("routers = 9", "1 to 8"),
        ("seeds = 0", "0 seeds cannot be"),
        ("algorithms = []", "name a law"),
        ("algorithms = \"cubicc\"", "did you mean `cubic`"),
        ("algorithms = [\"xcp\", \"xcp\"]", "`xcp` stands twice"),
        ("algorithms = \"cubic@fq\"", "`fq` behind @"),
        ("rates = 1", "grid.toml:1"),
        ("rate = {}", "grid.toml:1"),
        ("rate = [", "grid.toml:1"),
    ] {
        let refusal = refusal(text);
        assert!(refusal.contains(words), "{text}: {refusal}");
    }
}

#[test]
fn a_grid_of_a_million_cells_is_refused_before_it_is_made() {
    let many = |unit: &str, from: u32| {
        let values = (from..from + 100).map(|n| format!("\"{n}{unit}\""));
        values.collect::<Vec<_>>().join(", ")
    };
    let text = format!(
        "rate = [{}]\nrtt = [{}]\nbuffer = [{}]\n",
        many("Mbit", 1),
        many("ms", 1),
        many("p", 1)
    );
    let Err(BadGrid::TooMany {
        cells, runs, hours, ..
    }) = file(&text)
    else {
        panic!("a grid of millions of cells");
    };
    assert_eq!((cells, runs), (12_000_000, 216_000_000));
    assert!(hours > 1000, "{hours}");
}

#[test]
fn files_and_options_add_up() {
    let base = GridFile::parse(Path::new("g"), "rate = \"1Mbit\"\nseeds = 5").unwrap();
    let more = GridFile::parse(Path::new("g"), "rate = \"2Mbit\"").unwrap();
    let both = base.changed_by(more).grid().unwrap();
    assert_eq!(both.values(Axis::Rate), ["2Mbit"]);
    assert_eq!(both.seeds, 5);
}

#[test]
fn every_cell_is_a_scenario_whatever_the_law() {
    let grid = file(
        "algorithms = [\"vcp\", \"vcp+bise+wlte[fallback=bbr]\", \"xcp\", \"xcp-i\", \"cubiq\", \
         \"cubic@codel\", \"bbr@droptail\", \"xcp@xcp[capacity=auto]\"]\n\
         rate = [\"32kbit\", \"10Gbit\"]\nrtt = [\"100us\", \"20s\"]\n\
         buffer = [\"1p\", \"0.001bdp\", \"10bdp\"]\nloss = [0, 0.5]\nflows = [1, 64]\n\
         routers = [\"none\", \"hidden\", 1, 8]\nseeds = 1\n",
    )
    .unwrap();
    for cell in grid.cells() {
        for law in &grid.laws {
            let text = cell.scenario(law, 3);
            let read = Scenario::parse(Path::new("cell"), &text);
            assert!(read.is_ok(), "{cell} {law}: {}\n{text}", read.unwrap_err());
        }
        assert!(cell.floor_s() > cell.busy_s() && cell.packets() > 0.0);
    }
}

#[test]
fn plain_laws_run_once_where_routers_answer_and_where_not() {
    let cells = small().cells();
    let law = |name: &str| name.parse::<Contestant>().unwrap();
    let as_run = |name: &str| cells[0].as_run_by(&law(name)).routers;
    assert_eq!(as_run("cubic"), Routers::None);
    assert_eq!(as_run("cubic@codel"), Routers::Answer(1));
    assert_eq!(as_run("vcp+bise+wlte"), Routers::Answer(1));
}

/// The interval for 1, 2, 3: t of two degrees of freedom is 4.303, the standard error 1/sqrt 3.
#[test]
fn intervals_are_students() {
    let tally = Tally::new(&[1.0, 2.0, 3.0]).unwrap();
    assert!((tally.mean - 2.0).abs() < 1e-12);
    assert!((tally.ci95 - 4.303 / 3f64.sqrt()).abs() < 1e-9);
    assert_eq!((tally.min, tally.max, tally.n), (1.0, 3.0, 3));
    assert_eq!(Tally::new(&[7.0]).unwrap().ci95, 0.0);
    assert_eq!(Tally::new(&[]), None);
    let many: Vec<f64> = (0..1000).map(|n| f64::from(n % 2)).collect();
    let wide = Tally::new(&many).unwrap().ci95;
    assert!((wide - 1.96 * 0.5 / 1000f64.sqrt()).abs() < 1e-4, "{wide}");
}

fn measured(grid: &Grid) -> Report {
    Report::new(grid, |cell, law| {
        let law = &grid.laws[law];
        let runs = (1..=u64::from(grid.seeds)).map(|seed| {
            let text = cell.as_run_by(law).scenario(law, seed);
            let scenario = Scenario::parse(Path::new("cell"), &text).unwrap();
            let run = scenario.run(|_| ControlFlow::Continue(())).unwrap();
            measure(cell, &run)
        });
        Some(runs.collect())
    })
}

#[test]
fn real_runs_come_to_plausible_figures() {
    let report = measured(&small());
    assert_eq!((report.cells.len(), report.wanted), (2, 2));
    for cell in &report.cells {
        for law in &cell.laws {
            let mean = |figure| law.figures[&figure].mean;
            let completion = mean(Figure::Completion);
            assert!((1.0..8.0).contains(&completion), "{completion}");
            assert!((0.05..=1.0).contains(&mean(Figure::Utilization)));
            assert!((0.5..=1.0).contains(&mean(Figure::Jain)));
            assert!(mean(Figure::ShortMedian) >= 1.0, "nothing beats its floor");
            assert!(mean(Figure::ShortTail) >= mean(Figure::ShortMedian));
            assert!(mean(Figure::Queue) >= 0.0);
            assert_eq!(law.unfinished, 0);
            assert_eq!(law.figures[&Figure::Completion].n, 3);
        }
    }
    // The purpose of `wlte` is random loss.
    let lossy = &report.cells[1];
    assert_eq!(lossy.best[&Figure::Completion], ["vcp+bise+wlte"]);
    let first = &report.sentences[0];
    assert!(first.contains("of 2 cells, best or as good are"), "{first}");
    let names: Vec<String> = pictures(&report)
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(names.len(), 6);
    assert!(names.iter().any(|name| name == "compare-fct-p95"));
}

#[test]
fn files_that_do_not_arrive_are_counted() {
    let grid = file(
        "algorithms = \"newreno\"\nseeds = 1\nrate = \"20Mbit\"\nrtt = \"200ms\"\n\
         buffer = \"1bdp\"\nloss = 0.2\nflows = 1\nrouters = \"none\"\n",
    )
    .unwrap();
    let report = measured(&grid);
    let law = &report.cells[0].laws[0];
    assert!(law.unfinished > 0);
    let completion = law.figures[&Figure::Completion].mean;
    assert!(completion > 7.9, "a lower bound: {completion}");
}

/// A law whose runs differ widely does not share first place through its wide interval.
#[test]
fn who_is_best() {
    let grid = file(
        "algorithms = [\"xcp\", \"cubic\", \"bbr\", \"newreno\"]\nseeds = 3\nrate = \"1Mbit\"\n\
         rtt = \"1ms\"\nbuffer = \"1bdp\"\nloss = 0\nflows = 1\nrouters = 1\n",
    )
    .unwrap();
    let runs = [
        ([1.1, 1.1, 16.0], false),
        ([1.10, 1.12, 1.11], false),
        ([1.0, 1.3, 1.4], false),
        ([1.0, 1.0, 1.0], true),
    ];
    let report = Report::new(&grid, |_, law| {
        let (values, bound) = runs[law];
        let run = |value: f64| Measured {
            figures: [(Figure::Completion, value)].into(),
            bounds: bound.then_some(Figure::Completion).into_iter().collect(),
            unfinished: 1,
            drops: 0,
        };
        Some(values.map(run).into())
    });
    let best = &report.cells[0].best[&Figure::Completion];
    assert_eq!(
        best,
        &["cubic", "bbr"],
        "a collapse is none, nor is a bound"
    );
}

/// A law that hardly uses the link has no queue, but is not the best for this reason.
#[test]
fn an_idle_link_has_no_best_queue() {
    let grid = file(
        "algorithms = [\"xcp\", \"cubic\", \"bbr\"]\nseeds = 1\nrate = \"1Mbit\"\n\
         rtt = \"1ms\"\nbuffer = \"1bdp\"\nloss = 0\nflows = 1\nrouters = 1\n",
    )
    .unwrap();
    let runs = [(0.85, 12.0), (0.01, 0.0), (0.9, 90.0)];
    let report = Report::new(&grid, |_, law| {
        let (used, queue) = runs[law];
        Some(vec![Measured {
            figures: [(Figure::Utilization, used), (Figure::Queue, queue)].into(),
            ..Measured::default()
        }])
    });
    let best = &report.cells[0].best;
    assert_eq!(best[&Figure::Queue], ["xcp"]);
    assert_eq!(best[&Figure::Utilization], ["bbr"]);
}

/// A panel for each number of routers, a bar with its span for each law.
#[test]
fn the_overview_has_medians_and_spans() {
    let grid = file(
        "algorithms = [\"xcp\", \"cubic\"]\nseeds = 1\nrate = \"1Mbit\"\nrtt = \"1ms\"\n\
         buffer = \"1bdp\"\nloss = [0, 0.1, 0.2]\nflows = 1\nrouters = [\"none\", \"1\"]\n",
    )
    .unwrap();
    let mut times = (1..).map(f64::from);
    let report = Report::new(&grid, |_, _| {
        Some(vec![Measured {
            figures: [(Figure::Completion, times.next()?)].into(),
            ..Measured::default()
        }])
    });
    let panels = overview(&report).panels;
    let titles: Vec<&str> = panels.iter().map(|panel| panel.title.as_str()).collect();
    assert_eq!(titles, ["no router, 3 cells", "router answers, 3 cells"]);
    let of = |law: &str| {
        let cells = report
            .cells
            .iter()
            .filter(|cell| cell.value(Axis::Routers) == "none");
        let own = cells.filter_map(|cell| cell.law(law)?.mean(Figure::Completion));
        own.collect::<Vec<f64>>()
    };
    for (place, law) in ["xcp", "cubic"].iter().enumerate() {
        let (line, own) = (&panels[0].lines[place], of(law));
        assert_eq!(line.points, [(place as f64, own[1])]);
        assert_eq!(line.bars, [(place as f64, own[0], own[2])]);
    }
}

/// Known answer by hand: at 10 Mbit/s and 100 ms, the bottleneck is busy for the minimum of 10 s,
/// that is, 12.5 MB, and short files are 30 kB each.
#[test]
fn floors_by_hand() {
    let grid = file(
        "rate = \"10Mbit\"\nrtt = \"100ms\"\nbuffer = \"1bdp\"\nloss = 0\nflows = 4\n\
         routers = \"none\"\n",
    )
    .unwrap();
    let cell = grid.cells()[0];
    assert!((cell.floor_s() - (0.15 + (12.5e6 + 600e3) * 8.0 / 1e7)).abs() < 1e-9);
    assert!((cell.short_floor_s() - (0.15 + 30e3 * 8.0 / 1e7)).abs() < 1e-9);
}
