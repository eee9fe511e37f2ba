//! A new configuration: read beside the packets, put in force between them.

use std::sync::Arc;

use pathmark_cc::LinkAlgorithm;
use pathmark_link::keys::RateValue;

use super::super::assemble::{Plan, plan, put_in_force};
use super::super::query::Hint;
use super::super::run_error::{RunError, system};
use super::super::snapshot::seconds;
use super::{Daemon, PATIENCE, unix_now};
use crate::config::{Config, PortSpec};
use crate::tell::tell;
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
        self.reloads.at_unix_s = unix_now();
        self.supervisor.ready(&told);
        tell!("{told} ({})", self.options.config.display());
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
                tell!("a new `{key}` takes effect at the next start");
            }
        }
        let (config, replaced, deaf) = put_in_force(&mut self.driver, Some(&self.config), plan);
        let before = std::mem::replace(&mut self.config, Arc::new(config));
        self.steering.follow(Arc::clone(&self.config));
        self.tell_again(&before);
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

impl Daemon<'_> {
    /// Tells ports once more what they were told of the links behind them: a port that was built
    /// anew does not know it. What the file says of it now has the last word, if it is something
    /// new.
    fn tell_again(&mut self, before: &Config) {
        for hint in still_told(std::mem::take(&mut self.told), before, &self.config) {
            // Its law may have gone.
            let _ = self.tell_capacity(&hint);
        }
    }
}

/// Hints for ports of which the new configuration says what the one before said.
fn still_told(mut told: Vec<Hint>, before: &Config, now: &Config) -> Vec<Hint> {
    fn said<'a>(config: &'a Config, name: &str) -> Option<&'a PortSpec> {
        config.ports.iter().find(|port| port.name == name)
    }
    told.retain(|hint| {
        let (old, new) = (said(before, &hint.port), said(now, &hint.port));
        let capacity = |port: &PortSpec| port.link.capacity;
        new.is_some() && old.map(capacity) == new.map(capacity)
    });
    told
}

/// The port of this name, and the capacity that its configuration says. An error if no control law
/// of it listens to one.
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
        let told = |config: &Config, name: &str| reached(config, name).unwrap_err();
        assert!(told(&with("vcp"), "b").contains("no port is called `b`"));
        assert!(told(&config(rate), "a").contains("no control law"));
        assert!(told(&with("none"), "a").contains("no control law"));
        let fixed = with("xcp[capacity=5Mbit]");
        assert!(told(&fixed, "a").contains("capacity of its own"));
    }

    #[test]
    fn a_reload_keeps_what_a_port_was_told_unless_the_file_says_another_capacity() {
        let law = "controller = \"xcp\"\n";
        let before = config(&format!("{law}capacity = \"10Mbit\"\n"));
        let queue = format!("{law}capacity = \"10Mbit\"\nqueue = {{ kind = \"codel\" }}\n");
        let other = config(&format!("{law}capacity = \"20Mbit\"\n"));
        let hint = Hint {
            port: "a".to_owned(),
            rate: "8Mbit".parse().ok(),
        };
        let told = vec![hint];
        assert_eq!(still_told(told.clone(), &before, &config(&queue)), told);
        assert!(still_told(told, &before, &other).is_empty());
    }
}
