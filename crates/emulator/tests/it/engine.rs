//! Runs of the engine, compared with predictions.

use std::ops::ControlFlow;
use std::path::Path;

use pathmark_emulator::Scenario;
use pathmark_emulator::result::RunResult;

use crate::support::{changed, flow, link, run};

const ENDS: [&str; 2] = ["A", "B"];
const BACK: [&str; 2] = ["B", "A"];

/// One link of 10 Mbit/s with a round trip of 40 ms, and any flows.
fn single(keys: &str, flows: &str) -> String {
    let link = link("l", ENDS, "10Mbit", "20ms", keys);
    format!("duration = \"60s\"\n{link}{flows}")
}

/// A flow of 2 MB.
fn file(keys: &str) -> String {
    flow("f", ENDS, "cubic", &format!("bytes = 2_000_000\n{keys}"))
}

/// A flow without an end.
fn endless(algorithm: &str) -> String {
    flow("f", ENDS, algorithm, "")
}

/// With or without HTTP, every byte arrives once, whichever end connects.
#[test]
fn http_flows_deliver_what_bulk_flows_do() {
    let with = |more: &str| {
        let flow = flow("f", ENDS, "cubic", more);
        run(&single("", &flow)).flows.swap_remove(0)
    };
    let each = |bytes: u64| {
        let apps = [
            "",
            "app = \"http\"\nconnects = \"sender\"",
            "app = \"http\"",
        ];
        apps.map(|app| {
            let flow = with(&format!("bytes = {bytes}\n{app}"));
            assert!(flow.completed && flow.bytes_delivered == bytes, "{app}");
            flow.completion_s.unwrap()
        })
    };
    each(2_000_000);
    // These fit into the first window. HTTP adds a header and the time for opening the file, and a
    // download also half a round trip for its request.
    let [bulk, upload, download] = each(8_000);
    let (late, later) = (upload - bulk, download - bulk);
    assert!((0.0005..0.003).contains(&late), "{late}");
    assert!((0.02..0.025).contains(&later), "{later}");
    let slow = with("bytes = 100_000\nrate = \"1Mbit\"\napp = \"http\"\nmilestones = [50_000]");
    assert!(slow.completed && slow.bytes_delivered == 100_000);
    let half = slow.milestones[0].after_s.unwrap();
    assert!((0.4..0.5).contains(&half), "{half}");
    let endless = with("stop = \"5s\"\napp = \"http\"");
    let bytes = endless.bytes_delivered;
    assert!(bytes > 4_000_000, "{bytes}");
}

/// The accounting of laws covers the whole time, with the reason for each.
#[test]
fn results_say_which_law_had_the_window() {
    let flow = flow("f", ENDS, "vcp+bise+wlte", "bytes = 2_000_000");
    let result = run(&single("controller = \"vcp+bise\"", &flow));
    let known = result.flows[0].controllers.as_ref().unwrap();
    let [first, second] = &known.shares[..] else {
        panic!("two laws: {known:?}")
    };
    assert_eq!(first.law, "cubic");
    assert_eq!(first.fallback.as_deref(), Some("no-answer"));
    assert_eq!(second.law, "vcp+bise+wlte");
    assert_eq!(second.fallback, None);
    let time: f64 = known.shares.iter().map(|part| part.time).sum();
    let bytes: f64 = known.shares.iter().map(|part| part.bytes).sum();
    assert!((time - 1.0).abs() < 1e-9 && (bytes - 1.0).abs() < 1e-9);
    assert!(known.shares[1].time > 0.9, "{known:?}");
    assert_eq!(known.changes.len(), 2);
    assert!((0.03..0.1).contains(&known.changes[1].at_s), "{known:?}");
    let alone = run(&single("", &flow));
    let known = alone.flows[0].controllers.as_ref().unwrap();
    assert_eq!(known.largest(), "cubic 100 %: no-answer");
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let loss = r#"
queue = { kind = "red", limit = "64KiB" }
loss = { kind = "gilbert-elliott", p_good_bad = 0.01, p_bad_good = 0.3 }
jitter = { max = "2ms", reorder = true }
controller = "vcp+bise""#;
    let flows = flow("f", ENDS, "auto", "count = 3\nbytes = 500_000")
        + &flow("back", BACK, "cubic", "start = \"1s\"\nstop = \"3s\"");
    let text = single(loss, &flows);
    let json = |seed| serde_json::to_string(&changed(&text, &[("seed", seed)])).unwrap();
    assert_eq!(json("7"), json("7"));
    assert_ne!(json("7"), json("8"));
}

#[test]
fn a_file_takes_what_the_link_takes() {
    let result = run(&single("", &file("")));
    let [flow] = &result.flows[..] else {
        panic!("one flow")
    };
    assert!(flow.completed && flow.bytes_delivered == 2_000_000);
    // 2 MB in packets of 1500 bytes, of which about 50 are headers and tags, take 1.66 s at 10
    // Mbit/s; the handshake takes a round trip, and slow start a few more.
    let seconds = flow.completion_s.unwrap();
    assert!((1.70..2.1).contains(&seconds), "{seconds}");
    // The run ends with its last flow.
    assert!((result.simulated_s - seconds).abs() < 1e-9);
    let rtt = flow.rtt_ms.unwrap();
    assert!((40.0..41.5).contains(&rtt.min), "{}", rtt.min);
    let link = &result.links[0];
    let sent = link.utilization.unwrap() * 1_250_000.0 * result.simulated_s;
    assert!((2.0e6..2.2e6).contains(&sent), "{sent}");
    assert!(flow.packets_sent.unwrap() > 2_000_000 / 1472);
}

/// The last byte's milestone is the end of the file, and a later milestone is never reached. The
/// losses in windows that cover the run are all losses that the sender declared.
#[test]
fn results_tell_when_so_many_bytes_had_arrived_and_what_windows_lost() {
    let loss = r#"loss = { kind = "bernoulli", per = 0.01 }"#;
    let flow = file("milestones = [10_000, 1_000_000, 2_000_000, 3_000_000]");
    let windows = r#"[["0s", "500ms"], ["500ms", "60s"]]"#;
    let result = changed(&single(loss, &flow), &[("measure", windows)]);
    let flow = &result.flows[0];
    let [few, half, all, more] = flow.milestones[..] else {
        panic!("four milestones")
    };
    assert_eq!((few.bytes, more.bytes), (10_000, 3_000_000));
    // The handshake's round trip, and half of another.
    let first = few.after_s.unwrap();
    assert!((0.06..0.09).contains(&first), "{first}");
    let completion = flow.completion_s.unwrap();
    let (half, all) = (half.after_s.unwrap(), all.after_s.unwrap());
    assert!(first < half && half < all, "{half} {all}");
    assert!((completion - all).abs() < 0.1, "{all} {completion}");
    assert_eq!(more.after_s, None);
    let lost = |window: usize| result.windows[window].flows[0].lost.unwrap();
    assert!(lost(1) > 0);
    assert_eq!(Some(lost(0) + lost(1)), flow.packets_lost);
}

#[test]
fn packets_are_as_large_as_the_scenario_says() {
    let result = changed(&single("", &file("")), &[("packet", "1040")]);
    let flow = &result.flows[0];
    let sent = (flow.packets_sent.unwrap() - flow.packets_lost.unwrap()) as f64;
    // 1040 bytes minus 28 for IP and UDP, 16 for the tag and about 20 for QUIC.
    let ideal = 2e6 / 976.0;
    assert!((0.99..1.03).contains(&(sent / ideal)), "{sent} for {ideal}");
}

#[test]
fn five_flows_share_and_a_reverse_flow_passes_them() {
    let flows = flow("f", ENDS, "newreno", "count = 2") + &flow("back", BACK, "newreno", "");
    let text = single("queue = { limit = \"100p\" }", &flows);
    let changes = [
        ("measure", "[[\"20s\", \"60s\"]]"),
        ("link.l.reverse", "{ queue = { limit = \"100p\" } }"),
    ];
    let result = changed(&text, &changes);
    assert!((result.simulated_s - 60.0).abs() < 1e-9);
    let [window] = &result.windows[..] else {
        panic!("one window")
    };
    let [one, two, back] = &window.flows[..] else {
        panic!("three flows")
    };
    let forward = one.goodput_bps + two.goodput_bps;
    assert!((8.5e6..9.7e6).contains(&forward), "{forward}");
    // Its acknowledgements wait behind data, so a single flow leaves some of its link unused.
    assert!(back.goodput_bps > 7.0e6, "{}", back.goodput_bps);
    for link in &window.links {
        assert!(link.utilization.unwrap() > 0.8);
        assert!(link.queue_packets.max <= 100.0);
    }
    assert!(result.links[0].drops > 0);
}

#[test]
fn changes_over_time_change_the_rate() {
    let text = single(
        "at = [ { t = \"30s\", rate = \"2Mbit\" } ]",
        &endless("cubic"),
    );
    let windows = "[[\"10s\", \"30s\"], [\"40s\", \"60s\"]]";
    let result = changed(&text, &[("measure", windows)]);
    let goodput = |window: usize| result.windows[window].flows[0].goodput_bps;
    assert!((9.0e6..9.8e6).contains(&goodput(0)), "{}", goodput(0));
    assert!((1.7e6..1.97e6).contains(&goodput(1)), "{}", goodput(1));
    assert_eq!(result.links[0].rate_bps, Some(2e6));
}

#[test]
fn losses_are_as_many_as_asked_for() {
    let text = single("loss = { kind = \"bernoulli\", per = 0.02 }", &file(""));
    let changes = [("duration", "1h"), ("flow.f.bytes", "10_000_000")];
    let result = changed(&text, &changes);
    let (flow, link) = (&result.flows[0], &result.links[0]);
    assert!(flow.completed);
    let share = link.random_losses as f64 / flow.packets_sent.unwrap() as f64;
    assert!((share - 0.02).abs() < 0.006, "{share}");
    assert!(flow.bytes_retransmitted.unwrap() > 0);
}

#[test]
fn a_receiver_window_bounds_the_rate() {
    let narrow = single("", &file("receive_window = \"16KiB\""));
    let goodput = run(&narrow).flows[0].goodput_bps;
    // One window per round trip of slightly more than 40 ms: at most 3.3 Mbit/s.
    assert!((1.5e6..3.3e6).contains(&goodput), "{goodput}");
}

/// Data that a single range omits is sent again, but everything still arrives.
#[test]
fn acknowledgements_of_one_range_make_senders_repeat_what_arrived() {
    let lossy = "controller = \"xcp\"\nloss = { kind = \"bernoulli\", per = 0.01 }";
    let far = |more: &str| {
        let keys = format!("bytes = 10_000_000\n{more}");
        let text = single(lossy, &flow("f", ENDS, "xcp[loss=ignore]", &keys));
        changed(&text, &[("link.l.delay", "250ms")])
    };
    let (all, one) = (far(""), far("max_ack_ranges = 1"));
    assert!(all.flows[0].completed && one.flows[0].completed);
    let [all, one] = [all, one].map(|result| result.flows[0].bytes_retransmitted.unwrap());
    assert!(one > 4 * all, "{one} {all}");
}

/// A full reverse path holds one product of rate and round trip, here 40 ms.
#[test]
fn the_queue_of_the_way_back_has_room_for_one_product() {
    let back = flow("f", BACK, "cubic", "bytes = 20_000_000");
    let result = run(&single("", &back));
    let [there, back] = &result.links[..] else {
        panic!("two directions")
    };
    assert_eq!(there.drops, 0);
    assert!(back.drops > 0);
    let longest = back.queue_packets.max;
    assert!((30.0..=34.0).contains(&longest), "{longest}");
}

#[test]
fn vcp_flows_hear_the_router_and_lose_nothing() {
    let text = single(
        "controller = \"vcp\"\nqueue = { limit = \"100p\" }",
        &flow("f", ENDS, "vcp", "count = 4"),
    );
    let result = changed(&text, &[("measure", "[[\"40s\", \"60s\"]]")]);
    assert_eq!(result.links[0].drops, 0);
    assert!(result.windows[0].links[0].utilization.unwrap() > 0.8);
    let marked = &result.links[0].controller["marked"];
    assert!(marked["high"].as_u64().unwrap() > 0, "{marked}");
}

#[test]
fn the_progress_callback_can_end_the_run() {
    let text = single("", &endless("auto"));
    let scenario = Scenario::parse(Path::new("test.toml"), &text).unwrap();
    let mut calls = 0;
    let result = scenario
        .run(|progress| {
            calls += 1;
            assert!(progress.simulated <= progress.duration);
            if progress.simulated.as_secs() >= 20 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })
        .unwrap();
    assert!(calls > 1);
    assert!((20.0..30.0).contains(&result.simulated_s));
    assert!(result.flows[0].bytes_delivered > 10_000_000);
}

#[test]
fn applications_that_have_little_to_say_get_what_they_ask_for() {
    let rate = |mbit: u32, more: &str| format!("rate = \"{mbit}Mbit\"\n{more}");
    let on_off = "on_off = { on = \"1s\", off = \"3s\" }";
    let noise = "poisson = true\nstart = \"10s\"\nstop = \"50s\"";
    let flows = flow("steady", ENDS, "auto", &rate(1, ""))
        + &flow("burst", ENDS, "cubic", &rate(2, on_off))
        + &flow("back", BACK, "auto", &rate(1, ""))
        + &flow("noise", ENDS, "udp", &rate(1, noise));
    let result = run(&single("queue = { kind = \"codel\" }", &flows));
    let [steady, burst, back, noise] = &result.flows[..] else {
        panic!("four flows")
    };
    // Megabits during the minute.
    let megabits = |bytes: u64| bytes as f64 * 8e-6;
    assert!((megabits(steady.bytes_delivered) - 60.0).abs() < 0.2);
    assert!((megabits(burst.bytes_delivered) - 30.0).abs() < 0.2);
    assert!((megabits(back.bytes_delivered) - 60.0).abs() < 0.2);
    // 40 s of 1500-byte packets: 3333, with a standard deviation of 58, minus headers.
    let sent = noise.packets_sent.unwrap() as f64;
    assert!((sent - 3333.0).abs() < 200.0, "{sent}");
    assert_eq!(noise.algorithm, "udp");
    assert_eq!(noise.bytes_delivered, noise.packets_sent.unwrap() * 1472);
    assert_eq!(noise.packets_lost, None);
}

/// One CUBIC flow fills 10 Mbit/s at 40 ms. With a large DropTail queue, packets wait for hundreds
/// of milliseconds; with CoDel they wait for tens at most, at the cost of less than a tenth of the
/// goodput.
#[test]
fn codel_keeps_what_waits_short() {
    let with = |kind: &str| {
        let queue = format!("queue = {{ kind = \"{kind}\", limit = \"10bdp\" }}");
        run(&single(&queue, &endless("cubic")))
    };
    let (tail, codel) = (with("droptail"), with("codel"));
    let wait = |result: &RunResult| result.links[0].queue_ms.unwrap().mean;
    assert!(wait(&tail) > 100.0, "{}", wait(&tail));
    assert!(wait(&codel) < 20.0, "{}", wait(&codel));
    let ratio = codel.flows[0].goodput_bps / tail.flows[0].goodput_bps;
    assert!(ratio > 0.9, "{ratio}");
    assert!(codel.links[0].drops > 0);
}

/// A single code for all packets protects acknowledgements worse than data. Protecting short
/// packets better brings them back, and the added redundancy takes its share of the link.
#[test]
fn a_code_for_short_packets_brings_acknowledgements_back() {
    let loss = |fec: &str| {
        format!(
            "{{ kind = \"bit-errors\", ber_good = 0, ber_bad = 0.2, p_good_bad = 2e-4, p_bad_good \
             = 1e-2, fec = {{ {fec} }} }}"
        )
    };
    let lost_back = |fec: &str| {
        let link = format!("reverse = {{ loss = {} }}", loss(fec));
        let result = run(&single(&link, &file("")));
        assert!(result.flows[0].completed);
        result.links[1].random_losses
    };
    let as_data = lost_back("rate = 0.95");
    let better = lost_back("rate = 0.95, short = { below = 200, rate = 0.4 }");
    assert!(as_data > 10 && better * 4 < as_data, "{as_data}, {better}");

    let goodput = |fec: &str| {
        let link = "loss = { kind = \"bit-errors\", ber_good = 0, fec = { FEC } }";
        run(&single(&link.replace("FEC", fec), &file(""))).flows[0].goodput_bps
    };
    let ratio = goodput("rate = 0.5") / goodput("rate = 1");
    assert!((0.48..0.58).contains(&ratio), "{ratio}");
}

/// The link repeats 100 ms of 12 Mbit/s and 100 ms of nothing: a backlogged flow gets the trace's
/// capacity.
#[test]
fn a_trace_is_used_to_the_full() {
    let directory = tempfile::tempdir().unwrap();
    let mut lines: Vec<String> = (0..100).map(|ms| ms.to_string()).collect();
    lines.push("200".to_owned());
    std::fs::write(directory.path().join("cell.trace"), lines.join("\n")).unwrap();
    let mut trace = link("l", ENDS, "TRACE", "20ms", "queue = { limit = \"200p\" }");
    trace = trace.replace("\"TRACE\"", "{ trace = \"cell.trace\" }");
    trace = trace.replace("duplex = true\n", "");
    let back = link("back", BACK, "10Mbit", "20ms", "").replace("duplex = true\n", "");
    let text = "duration = \"20s\"\nmeasure = [[\"10s\", \"20s\"]]\n".to_owned()
        + &trace
        + &back
        + &endless("cubic");
    let scenario = Scenario::parse(&directory.path().join("test.toml"), &text).unwrap();
    let run = |scenario: &Scenario| scenario.run(|_| ControlFlow::Continue(())).unwrap();
    let result = run(&scenario);
    let window = &result.windows[0];
    // 101 opportunities of 1500 bytes every 200 ms: 6.06 Mbit/s.
    let ideal = 101.0 * 1500.0 * 8.0 / 0.2;
    let share = window.flows[0].goodput_bps / ideal;
    assert!((0.92..0.97).contains(&share), "{share}");
    let utilization = window.links[0].utilization.unwrap();
    assert!((0.97..1.001).contains(&utilization), "{utilization}");
    let rtt = result.flows[0].rtt_ms.unwrap();
    assert!(rtt.max > 140.0, "{rtt:?}: the gaps are felt");

    let mut marked = scenario;
    marked.set("link.l.controller", "vcp+bise").unwrap();
    marked.set("flow.f.algorithm", "vcp+bise+wlte").unwrap();
    let result = run(&marked);
    assert_eq!(result.links[0].drops, 0);
    assert!(result.windows[0].flows[0].goodput_bps > 0.5 * ideal);
}

/// Data, acknowledgements and other traffic take turns on a hub; together they fill it.
#[test]
fn links_of_one_medium_share_its_rate() {
    let udp = link(
        "other",
        ["C", "B"],
        "10Mbit",
        "0s",
        "medium = \"hub\"\nqueue = { limit = \"50p\" }",
    ) + &flow("u", ["C", "B"], "udp", "rate = \"4Mbit\"");
    let shares = |medium: &str, more: &str| {
        let keys = format!("{medium}queue = {{ limit = \"50p\" }}");
        let changes = [("duration", "20s"), ("measure", "[[\"10s\", \"20s\"]]")];
        let text = single(&keys, &format!("{}{more}", endless("cubic")));
        let result = changed(&text, &changes);
        let links = result.windows[0].links.iter();
        links.map(|l| l.utilization.unwrap()).collect::<Vec<_>>()
    };
    let own = shares("", "");
    assert!(own[0] > 0.99 && own[1] > 0.01, "{own:?}");
    let half = shares("medium = \"hub\"\n", "");
    let sum: f64 = half.iter().sum();
    assert!((0.93..=1.0).contains(&sum), "{half:?}");
    assert!(half[0] < 0.99);
    let three = shares("medium = \"hub\"\n", &udp);
    assert!((three[2] - 0.4).abs() < 0.02, "{three:?}");
    assert!((0.9..=1.0).contains(&three.iter().sum()), "{three:?}");
    assert!(three[0] < 0.6);
}
