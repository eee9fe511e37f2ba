//! A new configuration, read in a separate thread and applied between packets.

use std::sync::Arc;

use pathmark_cc::LinkAlgorithm;
use pathmark_link::keys::RateValue;

use super::super::assemble::{Plan, plan, put_in_force};
use super::super::query::Hint;
use super::super::run_error::{RunError, system};
use super::super::snapshot::seconds;
use super::{Daemon, PATIENCE, unix_now};
use crate::config::{Config, PortSpec};
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
        self.steering.follow(Arc::clone(&self.config));
        self.restore_capacities(&before);
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
        named.collect()
    }
}

impl Daemon<'_> {
    /// Sets clients' capacities again, because a rebuilt port has lost its own. If `capacity`
    /// changed in the file, it replaces the client's.
    fn restore_capacities(&mut self, before: &Config) {
        let hints = std::mem::take(&mut self.capacity_hints);
        for hint in still_valid(hints, before, &self.config) {
            // An error means that the port no longer has a law.
            let _ = self.set_capacity(&hint);
        }
    }
}

/// Hints for ports with the same `capacity` in both configurations.
fn still_valid(mut hints: Vec<Hint>, before: &Config, now: &Config) -> Vec<Hint> {
    fn port<'a>(config: &'a Config, name: &str) -> Option<&'a PortSpec> {
        config.ports.iter().find(|port| port.name == name)
    }
    hints.retain(|hint| {
        let (old, new) = (port(before, &hint.port), port(now, &hint.port));
        let capacity = |port: &PortSpec| port.link.capacity;
        new.is_some() && old.map(capacity) == new.map(capacity)
    });
    hints
}

/// Returns the port with this name, and its configured `capacity`, or an error if none of its
/// control laws uses one.
pub(super) fn reached(config: &Config, name: &str) -> Result<(usize, Option<RateValue>), String> {
    let mut ports = config.ports.iter().enumerate();
    let Some((index, port)) = ports.find(|(_, port)| port.name == name) else {
        return Err(format!("no port is called `{name}`"));
    };
    let mut laws = port.link.laws().peekable();
    if laws.peek().is_none() {
        return Err(format!(
            "port `{name}` has no control law to reckon with a capacity: give it a `controller`"
        ));
    }
    if laws.all(LinkAlgorithm::fixed_capacity) {
        return Err(format!(
            "the control law of port `{name}` has a capacity of its own in brackets"
        ));
    }
    Ok((index, port.link.capacity))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn config(keys: &str) -> Config {
        let text = format!("id = 1\n[[port]]\nname = \"a\"\ntun = \"a\"\n{keys}");
        Config::parse(Path::new("a.toml"), &text).unwrap()
    }

    #[test]
    fn a_capacity_that_reaches_no_law_is_an_error() {
        let rate = "rate = \"10Mbit\"\n";
        let with = |law: &str| config(&format!("{rate}controller = \"{law}\"\n"));
        assert_eq!(reached(&with("xcp"), "a"), Ok((0, None)));
        assert_eq!(reached(&with("xcp[capacity=auto]"), "a"), Ok((0, None)));
        let error = |config: &Config, name: &str| reached(config, name).unwrap_err();
        assert!(error(&with("vcp"), "b").contains("no port is called `b`"));
        assert!(error(&config(rate), "a").contains("no control law"));
        assert!(error(&with("none"), "a").contains("no control law"));
        let fixed = with("xcp[capacity=5Mbit]");
        assert!(error(&fixed, "a").contains("capacity of its own"));
    }

    #[test]
    fn a_reload_keeps_a_set_capacity_unless_the_file_has_another() {
        let law = "controller = \"xcp\"\n";
        let before = config(&format!("{law}capacity = \"10Mbit\"\n"));
        let queue = format!("{law}capacity = \"10Mbit\"\nqueue = {{ kind = \"codel\" }}\n");
        let other = config(&format!("{law}capacity = \"20Mbit\"\n"));
        let hint = Hint {
            port: "a".to_owned(),
            rate: "8Mbit".parse().ok(),
        };
        let hints = vec![hint];
        assert_eq!(still_valid(hints.clone(), &before, &config(&queue)), hints);
        assert!(still_valid(hints, &before, &other).is_empty());
    }
}
