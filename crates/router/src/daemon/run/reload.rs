//! A new configuration: read beside the packets, put in force between them.

use std::sync::Arc;

use super::super::assemble::{Plan, plan, put_in_force};
use super::super::run_error::{RunError, system};
use super::super::snapshot::seconds;
use super::{Daemon, PATIENCE};
use crate::config::Config;
use crate::tun::{Deaf, Device, sys};

impl Daemon<'_> {
    /// Has a thread of its own read the file as it is now, so that packets need not wait for it. It
    /// has a lower priority than this one: where others want the cores too, an equal one would use
    /// up what the scheduler gives this process (or its control group), and packets would wait for
    /// a core. It allocates from a heap (arena) of its own, so packets do not wait for its locks.
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

    /// Puts in force what was read, or keeps everything as it was.
    pub(super) fn reloaded(&mut self, result: Result<Plan, RunError>) {
        let result = result.map(|plan| self.change(plan));
        let result = result.map_err(|error| error.to_string());
        let told = self.reloads.note(seconds(self.driver.now()), result);
        self.supervisor.ready(&told);
        eprintln!("vcp-router: {told} ({})", self.options.config.display());
        if self.reading.take() == Some(true) {
            self.reload();
        }
    }

    /// Puts a plan in force; returns what is wrong with it nevertheless.
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
                eprintln!("vcp-router: a new `{key}` takes effect at the next start");
            }
        }
        let (config, replaced, deaf) = put_in_force(&mut self.driver, Some(&self.config), plan);
        let before = std::mem::replace(&mut self.config, Arc::new(config));
        // A hundred thousand routes take a while to drop, too. Without a thread for it, it is done
        // here.
        let drop_it = move || drop((before, replaced));
        let _ = std::thread::Builder::new().spawn(drop_it);
        let now = self.driver.now();
        self.history.clear(self.driver.router(), now);
        // As with interfaces that are gone: they are opened again, or the router ends.
        let config = Arc::clone(&self.config);
        let named = deaf.into_iter().filter_map(|Deaf { port, source }| {
            let name = config.ports.get(port)?.name.clone();
            let trouble = format!("port {name}: cannot wait for its interface: {source}");
            self.lost.push((name, now + PATIENCE));
            Some(trouble)
        });
        named.collect()
    }
}
