//! Tests of loss that routers declare.

use super::*;

/// Creates a path with 30 % of loss, which its routers declare.
fn losing(window: u64, seed: u64) -> Path {
    let mut path = Path::new(window, seed);
    path.loss = 300_000;
    path.watch.declare(300_000, RTT);
    path
}

/// At 30 % of loss, a record of 96 packets often loses a third by chance.
#[test]
fn loss_that_routers_declare_is_attested_before_it_can_look_like_a_flood() {
    let mut misjudged = 0;
    for seed in 1..=20 {
        let mut path = losing(2000, seed);
        path.run(40);
        assert_eq!(path.watch.losing.cap(), u64::MAX);
        misjudged += u32::from(path.appeared.is_some());
    }
    assert!(misjudged <= 1, "{misjudged}");
    // Declaring 30 % doesn't conceal a hop that drops one or two thirds.
    for capacity in [1300, 600] {
        let mut path = Path::new(2000, 5);
        path.watch.declare(300_000, RTT);
        path.capacity = capacity;
        path.run(40);
        assert!(path.watch.rules(), "{capacity}: {:?}", path.appeared);
    }
}

/// At 30 % of loss, a record of 1024 packets often exceeds this by 2 % by chance.
#[test]
fn what_is_declared_and_attested_begins_no_further_trials_by_chance() {
    let mut tried = 0;
    for seed in 1..=10 {
        let mut path = losing(2000, seed);
        path.run(60);
        for _ in 0..200 {
            path.run_round();
            tried += u32::from(path.watch.pace().is_some());
        }
    }
    assert!(tried <= 40, "of 2000 round trips {tried} were under trial");
}

/// Neither losses nor arrivals count around an announced overload.
#[test]
fn what_arrives_beside_announced_losses_lowers_no_attestation() {
    let mut path = losing(2000, 1);
    path.run(60);
    let before = path.watch.tolerance.attested_ppm();
    assert!(before > 270_000);
    for _ in 0..20 {
        path.watch.on_over(path.now());
        path.run_round();
    }
    path.run(10);
    let tolerance = &path.watch.tolerance;
    assert!(tolerance.attested_ppm() >= before, "{tolerance:?}");
}

/// A hop that forwards less than is sent is found regardless of declarations, even among random
/// losses.
#[test]
fn a_declaration_hides_no_hop_from_a_window_that_grows() {
    for (capacity, loss) in [(100, 0), (450, 0), (2000, 0), (3000, 0), (1000, 200_000)] {
        let mut path = Path::new(10, 3);
        (path.capacity, path.loss) = (capacity, loss);
        path.watch.declare(300_000, RTT);
        for window in [10, 40, 160, 640, 2560, 4000, 4000, 4000] {
            path.window = if path.watch.rules() { 100 } else { window };
            path.run_round();
        }
        path.run(40);
        assert!(path.appeared.is_some(), "{capacity} {loss}");
    }
}

#[test]
fn declared_loss_is_no_reason_for_a_trial_and_a_forged_class_hides_no_hop() {
    let mut path = Path::new(300, 5);
    path.loss = 50_000;
    path.watch.declare(50_000, RTT);
    for _ in 0..300 {
        path.run_round();
        assert_eq!(path.watch.pace(), None);
    }
    // All loss is declared to be random. However, beyond a tenth it only counts once attested.
    let mut path = Path::new(300, 5);
    path.watch.declare(1_000_000, RTT);
    path.capacity = 150;
    path.run(100);
    assert!(path.watch.rules(), "{:?} {}", path.appeared, path.gone);
}

/// Losses after long delays can occur by chance if a single acknowledgement reports a burst. They
/// don't indicate a queue while the loss is at most the declared loss.
#[test]
fn losses_as_declared_that_lean_to_long_delays_are_no_queue() {
    for declared in [0, 300_000] {
        let mut watch = HiddenHop::new(Instant::ZERO, MTU, STEP);
        watch.declare(declared, RTT);
        let mut appeared = false;
        for n in 0..2000 {
            let now = Instant::ZERO + ms(1) * n;
            let number = u64::from(n);
            let long = n / 20 % 2 == 0;
            let mut ack = acked(number, MTU, RTT + ms(if long { 3 } else { 0 }));
            ack.min_rtt = RTT;
            // Of ten packets, four are lost after a long delay, and two after a short one.
            let lost_here = n % 10 < if long { 4 } else { 2 };
            let finding = if lost_here {
                watch.on_loss(now, &lost(number, number + 100, RTT), ms(200), 100 * MTU)
            } else {
                watch.on_ack(now, &ack, ms(200), 100 * MTU)
            };
            appeared |= matches!(finding, Finding::Appeared(_));
        }
        assert_eq!(appeared, declared == 0, "{declared}");
    }
}

/// Because a trial with few packets takes dozens of round trips, it waits for growth, but not
/// forever.
#[test]
fn declared_losses_of_few_packets_wait_for_growth_before_a_trial() {
    let mut path = losing(20, 3);
    for round in 0..decide::WAIT_ROUNDS {
        path.run_round();
        assert!(path.watch.pace().is_none(), "{round}");
    }
    let tried = (0..200).any(|_| {
        path.run_round();
        path.watch.pace().is_some()
    });
    assert!(tried);
    // Loss above the declared loss leads to a trial immediately.
    let mut path = Path::new(20, 3);
    path.loss = 600_000;
    path.watch.declare(300_000, RTT);
    let at_once = (0..decide::WAIT_ROUNDS).any(|_| {
        path.run_round();
        path.watch.pace().is_some() || path.watch.rules()
    });
    assert!(at_once);
}
