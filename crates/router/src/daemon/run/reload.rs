//! A new configuration, read in a separate thread and applied between packets.

use std::sync::Arc;

use super::{Daemon, PATIENCE, unix_now};
use crate::config::Config;
use crate::daemon::assemble::{Plan, plan, put_in_force};
use crate::daemon::snapshot::seconds;
use crate::daemon::{RunError, system};
use crate::output::log_line;
use crate::tun::{Deaf, Device, sys};

impl Daemon<'_> {
    /// Starts a thread that reads the file in its present state, so that forwarding continues.
    /// This thread has a lower priority, because on busy cores a thread of equal priority would
    /// use up the share of this process (or of its control group), and packets would wait for a
    /// core. It allocates from a separate heap (arena), so that forwarding does not wait for its
    /// locks.
    pub(super) fn reload(&mut self) {
        if self.reading.is_some() {
            self.reading = Some(true);
            return;
        }
        self.supervisor.reloading();
        let path = self.options.config.clone();
        let (old, now) = (Arc::clone(&self.config), self.driver.now());
        let lost: Vec<_> = self.driver.devices().iter().map(Device::is_lost).collect();
        let read = move || {
            let new = Config::load(&path)?;
            Ok(plan(Some(&old), &lost, new, now)?)
        };
        let spawned = self.reader.try_clone().and_then(|reader| {
            let thread = std::thread::Builder::new().name("reload".to_owned());
            thread.spawn(move || {
                sys::give_way();
                reader.read(read);
            })
        });
        match spawned {
            Ok(_) => self.reading = Some(false),
            Err(source) => self.reloaded(Err(system("start a thread")(source))),
        }
    }

    /// Applies the configuration that was read, or keeps the old one after an error.
    pub(super) fn reloaded(&mut self, result: Result<Plan, RunError>) {
        let result = result.map(|plan| self.change(plan));
        let result = result.map_err(|error| error.to_string());
        let outcome = self.reloads.note(seconds(self.driver.now()), result);
        self.reloads.at_unix_s = unix_now();
        self.supervisor.ready(&outcome);
        log_line!("{outcome} ({})", self.options.config.display());
        if self.reading.take() == Some(true) {
            self.reload();
        }
    }

    /// Applies a plan; returns the faults that remain.
    fn change(&mut self, plan: Plan) -> Vec<String> {
        let fixed = [
            ("control", plan.config.control != self.config.control),
            ("metrics", plan.config.metrics != self.config.metrics),
            (
                "user",
                plan.config.user != self.config.user || plan.config.group != self.config.group,
            ),
            ("memory", plan.config.memory != self.config.memory),
        ];
        for (key, changed) in fixed {
            if changed {
                log_line!("a new `{key}` takes effect at the next start");
            }
        }
        let (config, replaced, deaf) = put_in_force(&mut self.driver, Some(&self.config), plan);
        let before = std::mem::replace(&mut self.config, Arc::new(config));
        let now = self.driver.now();
        self.driver.unwatch();
        let router = self.driver.router_mut();
        let errors = self.measurements.apply(&self.config, now, router);
        self.steering.follow(Arc::clone(&self.config));
        // A rebuilt port has lost its reported capacity, and a port that is kept still has one that
        // no longer counts.
        for port in self.reports.keep(&before, &self.config) {
            self.give_capacity(&port);
        }
        // Dropping 100,000 routes takes time, so a separate thread does it. If no thread starts,
        // the routes are dropped here.
        let drop_it = move || drop((before, replaced));
        let _ = std::thread::Builder::new().spawn(drop_it);
        let now = self.driver.now();
        self.history.clear(self.driver.router(), now);
        // These count like missing interfaces: they are reopened, or the router ends.
        let config = Arc::clone(&self.config);
        let named = deaf.into_iter().filter_map(|Deaf { port, source }| {
            let name = config.ports.get(port)?.name.clone();
            let trouble = format!("port {name}: cannot wait for its interface: {source}");
            self.lost.push((name, now + PATIENCE));
            Some(trouble)
        });
        errors
            .iter()
            .map(ToString::to_string)
            .chain(named)
            .collect()
    }
}
