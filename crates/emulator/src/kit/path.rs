//! Scenarios with one bottleneck, without TOML.

use std::fmt::Write as _;

use pathmark_cc::Duration;

/// One bottleneck from node `S` to node `D`, and an equal link back without controller or loss.
/// The bottleneck link is called `bottleneck`.
///
/// Values have the same form as in scenario files. They are checked when a
/// [`Trial`](super::Trial) is created from them.
#[derive(Clone, Debug)]
pub struct Path {
    rate: String,
    rtt: Duration,
    port: String,
    queue: String,
    loss: f64,
    seed: u64,
    packet: u16,
}

impl Path {
    /// Creates a path of this rate (`"10Mbit"`) and propagation round trip, with one
    /// bandwidth-delay product of DropTail, no controller and no loss.
    pub fn new(rate: &str, rtt: Duration) -> Self {
        Self {
            rate: rate.to_owned(),
            rtt,
            port: "none".to_owned(),
            queue: "1bdp".to_owned(),
            loss: 0.0,
            seed: 1,
            packet: 1500,
        }
    }

    /// Sets the port's law: `"vcp+bise"`, `"xcp"`, …
    #[must_use]
    pub fn port(mut self, law: &str) -> Self {
        law.clone_into(&mut self.port);
        self
    }

    /// Sets the queue's limit: `"0.5bdp"`, `"100p"`, `"64KiB"`.
    #[must_use]
    pub fn queue(mut self, limit: &str) -> Self {
        limit.clone_into(&mut self.queue);
        self
    }

    /// Loses each data packet with this probability.
    #[must_use]
    pub fn loss(mut self, per: f64) -> Self {
        self.loss = per;
        self
    }

    /// Sets the seed of all random numbers; the default is 1.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets the largest IP packet in bytes; the default is 1500.
    #[must_use]
    pub fn packet(mut self, bytes: u16) -> Self {
        self.packet = bytes;
        self
    }

    /// Writes the scenario file for these flows over this path.
    pub fn scenario(&self, flows: &[Flow], duration: Duration) -> String {
        let Self {
            rate,
            port,
            queue,
            loss,
            seed,
            packet,
            ..
        } = self;
        let one_way = self.rtt.as_nanos() / 2;
        let mut text = format!(
            "duration = \"{}ns\"\nseed = {seed}\npacket = {packet}\n[[link]]\nname \
             = \"bottleneck\"\nfrom = \"S\"\nto = \"D\"\n\
             duplex = true\nrate = {rate:?}\ndelay = \"{one_way}ns\"\nqueue = {{ limit = {queue:?} \
             }}\ncontroller = {port:?}\n\
             loss = {{ kind = \"bernoulli\", per = {loss:?} }}\n",
            duration.as_nanos()
        );
        for flow in flows {
            flow.write(&mut text);
        }
        text
    }
}

/// Flows over a [`Path`].
#[derive(Clone, Debug)]
pub struct Flow {
    name: String,
    algorithm: String,
    count: u32,
    starts: Vec<Duration>,
    bytes: Option<u64>,
    backwards: bool,
}

impl Flow {
    /// Creates a flow from `S` to `D` on `cubic` that sends as much as possible, from the start
    /// to the end.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            algorithm: "cubic".to_owned(),
            count: 1,
            starts: Vec::new(),
            bytes: None,
            backwards: false,
        }
    }

    /// Selects the library's law. With a custom controller, this is the law whose router signal
    /// it uses: `"vcp"` or `"xcp"`.
    #[must_use]
    pub fn algorithm(mut self, name: &str) -> Self {
        name.clone_into(&mut self.algorithm);
        self
    }

    /// Creates `flows` flows, called `NAME0`, `NAME1`, …
    #[must_use]
    pub fn count(mut self, flows: u32) -> Self {
        self.count = flows;
        self
    }

    /// Sets the start of each flow, and thereby also their number.
    #[must_use]
    pub fn starts(mut self, at: &[Duration]) -> Self {
        at.clone_into(&mut self.starts);
        self.count = u32::try_from(at.len()).unwrap_or(u32::MAX);
        self
    }

    /// Sets the bytes to transfer. A run ends early once all such flows are complete.
    #[must_use]
    pub fn bytes(mut self, bytes: u64) -> Self {
        self.bytes = Some(bytes);
        self
    }

    /// Sends from `D` to `S`.
    #[must_use]
    pub fn backwards(mut self) -> Self {
        self.backwards = true;
        self
    }

    fn write(&self, text: &mut String) {
        let (from, to) = if self.backwards {
            ("D", "S")
        } else {
            ("S", "D")
        };
        let Self {
            name,
            algorithm,
            count,
            ..
        } = self;
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "[[flow]]\nname = {name:?}\nfrom = \"{from}\"\nto = \"{to}\"\nalgorithm = \
             {algorithm:?}\n"
        );
        if *count != 1 {
            let _ = writeln!(text, "count = {count}");
        }
        match &self.starts[..] {
            [] => {}
            [only] => {
                let _ = writeln!(text, "start = \"{}ns\"", only.as_nanos());
            }
            all => {
                let all: Vec<String> = all
                    .iter()
                    .map(|at| format!("\"{}ns\"", at.as_nanos()))
                    .collect();
                let _ = writeln!(text, "start = [{}]", all.join(", "));
            }
        }
        if let Some(bytes) = self.bytes {
            let _ = writeln!(text, "bytes = {bytes}");
        }
    }
}
