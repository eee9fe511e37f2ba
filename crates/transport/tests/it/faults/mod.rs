//! A thousand simulated transfers over faults. `cargo run --release --example faults` runs any
//! number.

mod simulation;

use simulation::{Crypto, KINDS, Outcome, Plan, Struck, run};

/// The results of several seeds.
#[derive(Default)]
struct Tally {
    noticed: u64,
    timed_out: u64,
    /// For each kind, how many plans have it, in how many plans it occurred, and how often.
    planned: Struck,
    struck_in: Struck,
    struck: Struck,
    tls: u64,
    feedback: u64,
    /// Transfers with shims into which routers wrote.
    marked: u64,
}

impl Tally {
    fn add(&mut self, seed: u64, crypto: &Crypto) {
        let plan = Plan::new(seed);
        let report = run(crypto, seed, false).unwrap_or_else(|error| panic!("{error}"));
        let struck = report.struck;
        match report.outcome {
            Outcome::Complete => {}
            Outcome::Noticed => self.noticed += 1,
            Outcome::TimedOut => self.timed_out += 1,
        }
        self.tls += u64::from(plan.tls);
        self.feedback += u64::from(plan.feedback);
        self.marked += u64::from(report.marked > 0);
        assert!(plan.feedback || report.marked == 0, "seed {seed}");
        for (kind, planned) in plan.kinds().into_iter().enumerate() {
            self.planned[kind] += u64::from(planned);
            self.struck_in[kind] += u64::from(struck[kind] > 0);
            self.struck[kind] += struck[kind];
            // Faults that a plan omits don't occur.
            assert!(planned || struck[kind] == 0, "seed {seed}: {}", KINDS[kind]);
        }
    }

    fn merge(&mut self, other: &Self) {
        self.noticed += other.noticed;
        self.timed_out += other.timed_out;
        self.tls += other.tls;
        self.feedback += other.feedback;
        self.marked += other.marked;
        let pairs = [
            (&mut self.planned, &other.planned),
            (&mut self.struck_in, &other.struck_in),
            (&mut self.struck, &other.struck),
        ];
        for (to, from) in pairs {
            to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
        }
    }
}

#[test]
fn a_thousand_transfers_over_faults() {
    let threads = 2;
    let mut all = Tally::default();
    std::thread::scope(|scope| {
        let part = |thread: u64| {
            let crypto = Crypto::new();
            let mut tally = Tally::default();
            for seed in (thread..1000).step_by(threads) {
                tally.add(seed, &crypto);
            }
            tally
        };
        let running: Vec<_> = (0..threads as u64)
            .map(|thread| scope.spawn(move || part(thread)))
            .collect();
        for thread in running {
            all.merge(&thread.join().expect("all went well"));
        }
    });
    // In one of eight plans an end disappears, but some transfers are complete before that.
    assert!((20..200).contains(&all.noticed), "{}", all.noticed);
    assert!(all.timed_out <= 5, "{}", all.timed_out);
    assert_eq!(all.tls, 100);
    assert!((400..600).contains(&all.feedback), "{}", all.feedback);
    assert!(10 * all.marked >= 9 * all.feedback, "{}", all.marked);
    // Each kind is planned often, omitted often, and usually occurs if planned, because most
    // transfers are still in progress at that time.
    for (kind, name) in KINDS.iter().enumerate() {
        let (planned, struck_in) = (all.planned[kind], all.struck_in[kind]);
        println!("{name}: {planned} {struck_in} {}", all.struck[kind]);
        assert!((80..600).contains(&planned), "{name}: {planned}");
        assert!(3 * struck_in >= planned, "{name}: {struck_in} of {planned}");
    }
}
