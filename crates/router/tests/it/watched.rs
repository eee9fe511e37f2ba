//! A router whose log and state are followed.

use std::io::{BufRead, BufReader};
use std::process::Command;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use crate::bed::until;
use crate::cards::Cards;

/// What has not happened by then does not happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// A box with a router that runs, and the lines that it writes.
pub(crate) struct Watched {
    pub(crate) cards: Cards,
    lines: Receiver<(Instant, String)>,
}

impl Watched {
    pub(crate) fn new(cards: Cards) -> Self {
        let watched = Self::started(cards);
        watched.until("\"ok\":true");
        watched
    }

    /// Set up, and ready.
    pub(crate) fn started(mut cards: Cards) -> Self {
        let directory = cards.path("run");
        std::fs::create_dir_all(&directory).unwrap();
        cards.environment = vec![("RUNTIME_DIRECTORY", directory.display().to_string())];
        cards.setup();
        cards.start();
        let stderr = cards.router().child().stderr.take().unwrap();
        let (tell, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let _ = tell.send((Instant::now(), line));
            }
        });
        Self { cards, lines }
    }

    /// Waits for a line with this in it; when it came.
    pub(crate) fn line(&self, part: &str) -> (Instant, String) {
        let start = Instant::now();
        loop {
            let rest = PATIENCE.saturating_sub(start.elapsed());
            let next = self.lines.recv_timeout(rest);
            let (at, line) = next.unwrap_or_else(|_| panic!("no line with {part}"));
            if line.contains(part) {
                return (at, line);
            }
        }
    }

    /// Waits until `show --json` has this of every port that is steered into.
    pub(crate) fn until(&self, part: &str) {
        until(part, || {
            let state = self.cards.show();
            let mut links = state["links"].as_array().unwrap().iter();
            links.all(|link| link["steering"].to_string().contains(part))
        });
    }

    pub(crate) fn show(&self, arguments: &[&str]) -> String {
        self.cards.ask(&[&["show"], arguments].concat()).out
    }

    #[track_caller]
    pub(crate) fn does(&self, line: &str) {
        self.cards.does(line);
    }

    /// Waits until set-up is requested, for a reason with this text.
    pub(crate) fn requested(&self, reason: &str) {
        let request = self.cards.path("run/setup-wanted");
        let requested = || std::fs::read_to_string(&request);
        until(reason, || {
            requested().is_ok_and(|text| text.contains(reason))
        });
    }
}

/// True if nftables is installed, which CI must have.
pub(crate) fn has_nft() -> bool {
    let found = Command::new("nft").arg("--version").output().is_ok();
    let ci = std::env::var_os("CI").is_some();
    assert!(found || !ci, "nft is missing: install nftables");
    if !found {
        eprintln!("nft is not installed: what passes by a closed port is not counted");
    }
    found
}
