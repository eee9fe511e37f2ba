//! The test kit: your own controllers in flows and ports, and bounds that report their findings.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use pathmark_cc::{
    Acked, Answer, Arrival, Controller, Duration, Feedback, Instant, LinkController, LinkMetrics,
    Lost, Metrics, Phase, Request, VcpAnswer, VcpCode, XcpRequest,
};
use pathmark_emulator::Scenario;
use pathmark_emulator::kit::{Figures, Flow, Path, Trial, TrialError};

use crate::support::{flow, link};

/// A window that never changes.
#[derive(Debug)]
struct Fixed(u64);

impl Controller for Fixed {
    fn on_ack(&mut self, _now: Instant, _acked: &Acked) {}
    fn on_loss(&mut self, _now: Instant, _lost: &Lost) {}
    fn on_persistent_congestion(&mut self, _now: Instant) {}
    fn on_mtu(&mut self, _mtu: u16) {}
    fn window(&self) -> u64 {
        self.0
    }
    fn metrics(&self) -> Metrics {
        Metrics::new("fixed", Phase::Avoidance, self.0)
    }
}

fn fixed(window: u64) -> impl Fn(Instant, u16) -> Box<dyn Controller> + Send + Sync {
    move |_, _| Box::new(Fixed(window))
}

const RTT: Duration = Duration::from_millis(40);
const TIME: Duration = Duration::from_secs(20);

fn path() -> Path {
    Path::new("10Mbit", RTT)
}

/// A flow that keeps 25 kB in flight.
fn own(flow: Flow, time: Duration) -> Figures {
    let trial = Trial::over(&path(), &[flow], time).unwrap();
    let trial = trial.controller("own", "fixed", fixed(25_000));
    trial.run().unwrap()
}

/// 25 kB in flight over 40 ms are 5 Mbit/s, regardless of anything else.
#[test]
fn a_controller_of_ones_own_runs() {
    let figures = own(Flow::new("own"), TIME);
    assert_eq!(figures.flow("own").unwrap().algorithm, "fixed");
    let goodput = figures.flow("own").unwrap().goodput_bps;
    // 5 Mbit/s minus headers and delayed acknowledgements.
    assert!((4.0e6..5.0e6).contains(&goodput), "{goodput}");
    assert!((figures.bdp_packets("bottleneck").unwrap() - 50_000.0 / 1500.0).abs() < 0.1);
    let met = figures
        .expect()
        .goodput_at_least("own", 4e6)
        .utilization_at_least("bottleneck", 0.4)
        .queue_at_most("bottleneck", 2.0)
        .queue_at_most_bdp("bottleneck", 0.1)
        .drops_at_most("bottleneck", 0)
        .losses_at_most("own", 0.0)
        .that("something else", 1, "1", true)
        .met();
    met.unwrap();
}

#[test]
fn a_missed_bound_is_reported_with_all_figures() {
    let figures = own(Flow::new("own").bytes(10_000_000), Duration::from_secs(10));
    let missed = figures
        .expect()
        .drops_at_most("bottleneck", 0)
        .completion_within("own", Duration::from_secs(9))
        .utilization_at_least("bottlneck", 0.9)
        .used_within("bottleneck", Duration::from_secs(1))
        .met()
        .unwrap_err();
    let text = missed.to_string();
    assert_eq!(text, format!("{missed:?}"), "`unwrap` prints the same");
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[0].starts_with("3 of 4 expectations not met in \"trial\" (seed 1, 10.0 s"),
        "{text}"
    );
    let says = |line: usize, words: &[&str]| {
        for word in words {
            assert!(lines[line].contains(word), "{text}\nlacks {word}");
        }
    };
    says(1, &["met", "bottleneck: drops", " 0 ", "at most 0"]);
    says(
        2,
        &[
            "MISSED",
            "own: completion",
            "1 of 1 not done",
            "at most 9.000 s",
        ],
    );
    says(3, &["MISSED", "no such link"]);
    says(4, &["MISSED", "never"]);
}

/// Equal windows share equally from the second flow's first second on; windows of 1 to 3 never do.
#[test]
fn convergence_is_measured_from_the_last_start() {
    let starts = [Duration::ZERO, Duration::from_secs(5)];
    let flows = [Flow::new("f").starts(&starts)];
    let alike = Trial::over(&path(), &flows, TIME).unwrap();
    let figures = alike.controller("f", "fixed", fixed(20_000)).run().unwrap();
    assert_eq!(figures.flows("f").len(), 2);
    let took = figures.convergence("f", 0.99).unwrap();
    assert!(took <= Duration::from_millis(500), "{took:?}");
    figures
        .expect()
        .converges_within("f", 0.99, Duration::from_secs(1))
        .met()
        .unwrap();

    let unlike = Trial::over(&path(), &flows, TIME).unwrap();
    let unlike = unlike.controller("f0", "three", fixed(45_000));
    let figures = unlike.controller("f1", "one", fixed(15_000)).run().unwrap();
    assert_eq!(figures.convergence("f", 0.99), None);
    assert!(figures.convergence("f", 0.7).is_some());
    let text = figures
        .expect()
        .jain_at_least(0.99)
        .converges_within("f", 0.99, TIME)
        .met();
    let text = text.unwrap_err().to_string();
    assert!(text.contains("2 of 2") && text.contains("never"), "{text}");
}

/// Answers OVER to every packet.
#[derive(Debug)]
struct Grim;

impl LinkController for Grim {
    fn on_arrival(&mut self, _now: Instant, _arrival: &Arrival, _queue: u64) {}
    fn on_departure(&mut self, _now: Instant, _packet: &Arrival, _queue: u64) -> Answer {
        Answer::Vcp(VcpAnswer {
            code: VcpCode::Over,
            ..VcpAnswer::default()
        })
    }
    fn on_drop(&mut self, _now: Instant, _packet: &Arrival) {}
    fn on_timer(&mut self, _now: Instant, _queue: u64) {}
    fn deadline(&self) -> Option<Instant> {
        None
    }
    fn on_capacity(&mut self, _now: Instant, _rate: u64) {}
    fn metrics(&self) -> LinkMetrics {
        LinkMetrics::default()
    }
}

#[test]
fn a_port_of_ones_own_is_obeyed() {
    let flows = [Flow::new("v").algorithm("vcp[ai=constant,ai_clamp=no,mi_cap=no,t_rho=200ms]")];
    let trial = || Trial::over(&path().port("vcp"), &flows, TIME).unwrap();
    let grim = |_: Instant, rate: u64| -> Box<dyn LinkController> {
        assert_eq!(rate, 1_250_000);
        Box::new(Grim)
    };
    let obeyed = trial().port("bottleneck", grim).run().unwrap();
    let usual = trial().run().unwrap();
    let used = |figures: Figures| figures.link("bottleneck").unwrap().utilization.unwrap();
    let (obeyed, usual) = (used(obeyed), used(usual));
    assert!(obeyed < 0.3 && usual > 0.6, "{obeyed} {usual}");
}

/// Stores the corruption loss of the latest feedback, in 10^-6.
#[derive(Debug)]
struct DeclaredLoss(Arc<AtomicU32>, Fixed);

impl Controller for DeclaredLoss {
    fn on_ack(&mut self, _now: Instant, _acked: &Acked) {}
    fn on_loss(&mut self, _now: Instant, _lost: &Lost) {}
    fn on_persistent_congestion(&mut self, _now: Instant) {}
    fn on_mtu(&mut self, _mtu: u16) {}
    fn on_feedback(&mut self, _now: Instant, feedback: &Feedback, _acked: &Acked) {
        let ppm = match feedback {
            Feedback::Vcp(vcp) => vcp.corruption_ppm,
            Feedback::Xcp(xcp) => xcp.corruption_ppm,
            _ => 0,
        };
        self.0.store(ppm, Ordering::Relaxed);
    }
    fn request(&self) -> Request {
        let mut request = Request::default();
        request.xcp = Some(XcpRequest::default());
        request
    }
    fn window(&self) -> u64 {
        self.1.window()
    }
    fn metrics(&self) -> Metrics {
        self.1.metrics()
    }
}

/// Two ports declare a loss of 5 and 1 % behind them, so the feedback contains the class nearest to
/// 6 %. If no port declares loss, it contains 0.
#[test]
fn feedback_carries_what_ports_declare() {
    let scenario = |law: &str, first: &str, second: &str| {
        let port = |loss: &str| format!("controller = \"{law}\"\ncorruption = \"{loss}\"");
        "duration = \"1s\"\n".to_owned()
            + &link("first", ["S", "R"], "10Mbit", "0s", &port(first))
            + &link("second", ["R", "D"], "10Mbit", "10ms", &port(second))
            + &flow("f", ["S", "D"], law, "")
    };
    for (law, first, second, expected) in [
        ("vcp", "5%", "1%", 50_000),
        ("xcp", "5%", "1%", 50_000),
        ("vcp", "0%", "10%", 100_000),
        ("xcp", "0.1%", "0%", 1_000),
        ("vcp", "0%", "0%", 0),
        ("xcp", "0%", "0%", 0),
    ] {
        let text = scenario(law, first, second);
        let declared = Arc::new(AtomicU32::new(u32::MAX));
        let shared = Arc::clone(&declared);
        let own = move |_: Instant, _: u16| -> Box<dyn Controller> {
            Box::new(DeclaredLoss(Arc::clone(&shared), Fixed(15_000)))
        };
        let _ = Trial::parse(&text)
            .unwrap()
            .controller("f", "declared-loss", own)
            .run()
            .unwrap();
        assert_eq!(
            declared.load(Ordering::Relaxed),
            expected,
            "{law} {first} {second}"
        );
    }
}

#[test]
fn trials_of_files_and_names_that_do_not_exist() {
    let trial = Trial::load("five-files").unwrap();
    let trial = trial.set("flow.ftp.bytes", "100_000").unwrap();
    let figures = trial
        .controller("ftp", "fixed", fixed(20_000))
        .run()
        .unwrap();
    assert!(
        figures
            .flows("ftp")
            .iter()
            .all(|f| f.completed && f.algorithm == "fixed")
    );

    let trial = Trial::of(Scenario::load("five-files").unwrap());
    let error = trial
        .controller("fpt", "fixed", fixed(1))
        .run()
        .unwrap_err();
    assert!(matches!(error, TrialError::Unknown { what: "flow", .. }));
    let text = error.to_string();
    let near = "no flow is called `fpt`: did you mean";
    assert!(text.contains(near), "{text}");
    let error = Trial::over(&Path::new("10Mb", RTT), &[Flow::new("f")], TIME);
    assert!(error.err().unwrap().to_string().contains("10Mbit"));
}
