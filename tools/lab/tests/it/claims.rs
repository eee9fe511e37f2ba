//! Claims of built-in scenarios that no other test checks. The runs are those of
//! `docs/evidence/figures`, but some are shorter. Each bound is between the page's figure and a
//! figure that would refute the claim.

use std::path::Path;

use pathmark_emulator::Scenario;
use pathmark_emulator::scenario::Metric;
use pathmark_lab::metric::value;
use pathmark_testbed::sampled;

use crate::runs::{of, runs, swept, the};

#[test]
fn five_files_by_auto() {
    let runs = runs("auto-files", &[], |_, _| true);
    for run in &runs {
        let (ended, mean) = run.files();
        assert_eq!(ended, 5, "{}", run.variant);
        // The wire alone takes 21.1 s.
        assert!((21.0..24.0).contains(&mean), "{}: {mean} s", run.variant);
        let drops = run.bottleneck().drops;
        let fills = ["cubic", "bbr"].contains(&run.variant.as_str());
        assert_eq!(drops > 0, fills, "{}: {drops}", run.variant);
    }
    assert!(the(&runs, "auto-at-xcp", &[]).files().1 <= 22.3);
}

#[test]
fn short_files_next_to_downloads_are_faster_by_auto_than_by_cubic() {
    let runs = runs("auto-mice", &[], |_, _| true);
    for rtt in ["40ms", "600ms"] {
        let (ended, cubic) = the(&runs, "cubic", &[rtt]).files();
        assert_eq!(ended, 30);
        for law in ["auto-at-xcp", "auto-at-vcp"] {
            let run = the(&runs, law, &[rtt]);
            let (ended, mean) = run.files();
            assert_eq!((ended, run.bottleneck().drops), (30, 0), "{law} {rtt}");
            assert!(mean < 0.85 * cubic, "{law} {rtt}: {mean} and {cubic} s");
        }
    }
}

#[test]
fn random_loss_costs_auto_little_and_cubic_nearly_all() {
    let paths = [("155M-100ms-1", 0.99), ("155M-200ms-2", 0.98)];
    let short = ["duration=20s"];
    let runs = runs("auto-loss", &short, |variant, set| {
        let known = paths.iter().any(|(path, _)| set == [*path]);
        known && ["auto-at-xcp", "auto-at-vcp", "cubic"].contains(&variant)
    });
    for (path, arrives) in paths {
        for law in ["auto-at-xcp", "auto-at-vcp"] {
            let goodput = the(&runs, law, &[path]).goodput();
            assert!(goodput > 0.8 * 155e6 * arrives, "{law} {path}: {goodput}");
        }
        let cubic = the(&runs, "cubic", &[path]).goodput();
        assert!(cubic < 0.1 * 155e6, "{path}: {cubic}");
    }
}

/// Figure 4 of the VCP extensions paper.
#[test]
fn bise_starts_where_vcp_takes_minutes() {
    let runs = runs("vcp-ext-fig4", &["duration=20s"], |_, _| true);
    assert!(the(&runs, "vcp", &[]).utilization() < 0.05);
    for law in ["vcp+bise", "defaults"] {
        let link = the(&runs, law, &[]).bottleneck();
        assert!(link.time_to_80_s.is_some_and(|time| time < 7.0), "{law}");
        assert_eq!(link.drops, 0, "{law}");
    }
    let newreno = the(&runs, "newreno", &[]).bottleneck();
    assert!(newreno.drops > newreno.queue_packets.max as u64);
}

#[test]
fn ten_gigabits_take_one_more_interval() {
    let defaults = |variant: &str, _: &[String]| variant == "defaults";
    for run in runs("vcp-ext-fig5-10g", &["duration=10s"], defaults) {
        let link = run.bottleneck();
        let taken = link.time_to_80_s;
        assert!(taken.is_some_and(|time| time < 9.0), "{taken:?}");
        assert_eq!(link.drops, 0);
    }
}

#[test]
fn a_larger_mi_parameter_starts_sooner_up_to_a_point() {
    let runs = swept("vcp-ext-epsilon", &[], &["seed=1..4"], |variant, _| {
        variant.starts_with("paper")
    });
    let mean = |variant: &str, rate: f64| {
        let all = runs
            .iter()
            .filter(|run| run.variant == variant && run.bottleneck().rate_bps == Some(rate));
        let times: Vec<_> = all.map(|run| run.bottleneck().time_to_80_s).collect();
        assert_eq!(times.len(), 4, "{variant}");
        let times: Option<Vec<f64>> = times.into_iter().collect();
        times.map(|times| times.iter().sum::<f64>() / 4.0)
    };
    for rate in [1e7, 1e8] {
        let (ten, thirty) = (mean("paper, 10", rate), mean("paper, 30", rate));
        assert!(thirty.unwrap() < 0.95 * ten.unwrap(), "{thirty:?} {ten:?}");
    }
    let losses = runs.iter().filter(|run| run.variant == "paper, 100");
    assert!(losses.map(|run| run.bottleneck().drops).sum::<u64>() > 0);
}

/// Figure 10 of the VCP Linux paper.
#[test]
fn antennas_make_a_fading_channel_usable() {
    let runs = runs("vcp-linux-fig10", &[], |_, _| true);
    for law in ["vcp", "newreno+red", "defaults"] {
        let ended = |antennas, snr| the(&runs, law, &[antennas, snr]).files();
        assert_eq!(ended("1x1", "15").0, 0, "{law}");
        assert_eq!(ended("2x2", "25").0, 5, "{law}");
        let (best, worse) = (ended("2x2", "45").1, ended("2x1", "35").1);
        assert!(best < 1.02 * worse, "{law}: {best} and {worse} s");
    }
}

/// Figure 11 of the VCP Linux paper.
#[test]
fn a_little_redundancy_makes_an_unusable_channel_usable() {
    let runs = runs("vcp-linux-fig11", &[], |_, _| true);
    for law in ["vcp", "newreno+red", "defaults"] {
        for acks in ["as data", "protected"] {
            let ended = |code| the(&runs, law, &[acks, code]).files();
            assert_eq!(ended("1.0").0, 0, "{law} {acks}");
            assert_eq!(ended("0.95").0, 5, "{law} {acks}");
            assert!(ended("0.8").1 > ended("0.95").1, "{law} {acks}");
        }
    }
}

#[test]
fn antennas_and_codes_together() {
    let runs = runs("vcp-linux-fig11-antennas", &[], |variant, _| {
        variant == "vcp"
    });
    let ended = |antennas, code| the(&runs, "vcp", &[antennas, code, "22"]).files().0;
    assert_eq!((ended("1x1", "1.0"), ended("1x1", "0.95")), (0, 5));
    assert_eq!((ended("2x2", "1.0"), ended("2x2", "0.95")), (5, 5));
}

#[test]
fn vcp_and_tcp_share_a_port_with_two_queues() {
    let runs = runs("vcp-beside-tcp", &[], |_, _| true);
    let jain = |variant| the(&runs, variant, &[]).jain();
    let (two, one) = (jain("two queues"), jain("one queue"));
    assert!(two > 0.95 && one < 0.75, "{two} and {one}");
}

/// Figure 3 of the XCP Linux paper.
#[test]
fn feedback_in_whole_packets_leaves_the_link_partly_idle() {
    let runs = runs("xcp-linux-fig3", &[], |_, _| true);
    for count in ["1", "2", "4", "8"] {
        let used = |variant| the(&runs, variant, &[count]).utilization();
        let (fractions, whole) = (used("fractions"), used("whole-packets"));
        assert!(fractions > 0.95, "{count}: {fractions}");
        assert!(whole < 0.9, "{count}: {whole}");
        assert_eq!(the(&runs, "fractions", &[count]).bottleneck().drops, 0);
    }
}

/// Figure 6 of the XCP Linux paper.
#[test]
fn xcp_is_fair_to_late_flows_and_long_round_trips() {
    let runs = runs("xcp-linux-fig6", &[], |variant, _| {
        ["xcp", "newreno"].contains(&variant)
    });
    for case in ["starts", "round-trips"] {
        let (xcp, newreno) = (the(&runs, "xcp", &[case]), the(&runs, "newreno", &[case]));
        assert!(xcp.jain() > 0.95 && newreno.jain() < 0.85, "{case}");
        assert!(xcp.queue() < 0.1 * newreno.queue(), "{case}");
        assert_eq!(xcp.bottleneck().drops, 0, "{case}");
        assert!(newreno.bottleneck().drops > 0, "{case}");
    }
}

/// Figure 7 of the XCP Linux paper.
#[test]
fn a_wrong_overhead_costs_queue_or_rate() {
    let runs = runs("xcp-linux-fig7", &[], |_, set| {
        set.iter().all(|value| value != "600")
    });
    let run = |overhead| the(&runs, "", &[overhead, "1500"]);
    let right = run("90");
    assert!(run("30").queue() > 3.0 * right.queue());
    assert!(run("60").queue() > 1.5 * right.queue());
    assert!(run("150").utilization() < right.utilization() - 0.02);
    assert!(run("auto").queue() < right.queue());
}

/// Figure 11 of the XCP Linux paper.
#[test]
fn random_loss_costs_xcp_what_it_takes() {
    let runs = runs("xcp-linux-fig11", &[], |variant, set| {
        variant == "xcp" && ["0", "0.01", "0.1"].contains(&set[0].as_str())
    });
    for place in ["before", "after", "acks"] {
        let goodput = |per| the(&runs, "xcp", &[per, place]).goodput();
        let clean = goodput("0");
        assert!(goodput("0.01") > 0.98 * 0.99 * clean, "{place}");
        assert!(goodput("0.1") > 0.97 * 0.9 * clean, "{place}");
    }
}

/// Equations 5 and 6 of the XCP Linux paper: a queue of α/β · d · ε, α = 0.4, β = 0.226.
#[test]
fn a_wrong_capacity_has_a_steady_state() {
    let runs = runs("xcp-linux-eq5", &[], |_, _| true);
    let run = |setting| the(&runs, "", &[setting]);
    assert!(run("right").queue() < 20.0);
    // With the queue in d: 90 packets if the capacity is overstated by a tenth, 228 if by a fifth.
    let (tenth, fifth) = (run("+10 %").queue(), run("+20 %").queue());
    assert!((80.0..110.0).contains(&tenth), "{tenth}");
    assert!((205.0..250.0).contains(&fifth), "{fifth}");
    let low = run("-10 %").utilization();
    assert!((0.87..0.91).contains(&low), "{low}");
    assert_eq!(run("+20 %").bottleneck().drops, 0);
}

/// Figure 2 of the XCP/CUBIC paper.
#[test]
fn a_granted_start_is_sooner_than_a_slow_start() {
    let known = ["cubic", "cubiq", "ada", "xcp"];
    let paths = sampled(2, ["720 ms", "60 ms"]);
    let runs = runs("xcp-cubic-fig2", &[], |variant, set| {
        known.contains(&variant) && paths.contains(&set[0].as_str())
    });
    for path in paths {
        let time = |law| {
            let (ended, time) = the(&runs, law, &[path]).files();
            assert_eq!(ended, 1, "{law} {path}");
            time
        };
        for law in ["cubiq", "ada", "xcp"] {
            let share = time(law) / time("cubic");
            assert!(share < 0.65, "{law} {path}: {share}");
        }
        assert_eq!(the(&runs, "ada", &[path]).bottleneck().drops, 0, "{path}");
    }
}

/// Figure 5 of the XCP/CUBIC paper, and 6 in the whole sweep, the first 24 s of 600. XCP shares
/// evenly and loses nothing, whichever round trip is longer, whereas CUBIC loses packets and shares
/// less evenly.
#[test]
fn a_second_flow_gets_its_share_by_xcp() {
    let figures = [
        include_str!("../../../../crates/emulator/scenarios/xcp-cubic-fig5.toml"),
        include_str!("../../../../crates/emulator/scenarios/xcp-cubic-fig6.toml"),
    ];
    for text in sampled(2, figures) {
        let short = text.replace("\"600s\"", "\"24s\"");
        let scenario = Scenario::parse(Path::new("short.toml"), &short).unwrap();
        let name = &scenario.name;
        let runs = of(&scenario, &[], &[], |variant, _| {
            ["xcp", "cubic"].contains(&variant)
        });
        let (xcp, cubic) = (the(&runs, "xcp", &[]), the(&runs, "cubic", &[]));
        assert!(xcp.jain() > 0.99, "{name}: {}", xcp.jain());
        assert!(cubic.jain() < xcp.jain(), "{name}: {}", cubic.jain());
        assert_eq!(xcp.bottleneck().drops, 0, "{name}");
        assert!(cubic.bottleneck().drops > 1_000, "{name}");
    }
}

/// Figure 7 of the XCP/CUBIC paper, with paced senders: small buffers lower the rate of CUBIC, but
/// not that of XCP.
#[test]
fn small_buffers_cost_paced_xcp_nothing() {
    let short = ["measure=[[\"4s\",\"8s\"]]", "duration=8s"];
    let runs = runs("xcp-cubic-fig7", &short, |variant, set| {
        let ends = set
            .iter()
            .any(|value| value == "0.2bdp" || value == "0.05bdp");
        let short = set.iter().any(|value| value == "60 ms");
        ["xcp", "cubic"].contains(&variant) && ends && short
    });
    let ratio = |law| {
        let goodput = |limit| the(&runs, law, &[limit, "60 ms"]).goodput();
        goodput("0.05bdp") / goodput("0.2bdp")
    };
    let (xcp, cubic) = (ratio("xcp"), ratio("cubic"));
    assert!(xcp > 0.99 && cubic < 0.95, "{xcp} and {cubic}");
}

/// The same buffers with the papers' senders, which wait for a timeout after losses that they can't
/// repair, and begin the same start again: a tenth of the link at most is used.
#[test]
fn small_buffers_take_the_link_from_senders_that_wait() {
    let short = ["measure=[[\"5s\",\"20s\"]]", "duration=20s"];
    let limits = ["0.1bdp", "0.05bdp"];
    let known = ["xcp, TCP", "xcp-paper"];
    let runs = runs("xcp-cubic-fig7", &short, |variant, set| {
        let small = set.iter().any(|value| limits.contains(&value.as_str()));
        known.contains(&variant) && small && set.iter().any(|value| value == "60 ms")
    });
    for limit in limits {
        for (law, most) in [("xcp, TCP", 60e6), ("xcp-paper", 150e6)] {
            let run = the(&runs, law, &[limit, "60 ms"]);
            let timeouts: u64 = run
                .result
                .flows
                .iter()
                .filter_map(|flow| flow.timeouts)
                .sum();
            assert!(run.goodput() < most, "{law} {limit}: {}", run.goodput());
            assert!(timeouts >= 10, "{law} {limit}: {timeouts}");
        }
    }
}

/// Figures 11, 13 and 14 of the XCP Linux paper with the paper's senders: without selective
/// acknowledgements, losses cost most of the goodput, and part of what is sent to a plain queue is
/// dropped. A sender that never waits loses as much as arrives.
#[test]
fn losses_cost_the_papers_senders_what_they_cost_a_tcp() {
    let fig11 = runs("xcp-linux-fig11", &[], |variant, set| {
        let after = set.iter().any(|value| value == "after");
        let known = set.iter().any(|value| value == "0.025");
        after && known && ["xcp", "xcp-paper", "xcp, TCP"].contains(&variant)
    });
    let goodput = |law| the(&fig11, law, &["0.025", "after"]).goodput();
    // Including 15 s without losses.
    for law in ["xcp-paper", "xcp, TCP"] {
        assert!(
            goodput(law) < 0.45 * goodput("xcp"),
            "{law}: {}",
            goodput(law)
        );
    }
    for name in ["xcp-linux-fig13", "xcp-linux-fig14"] {
        let runs = runs(name, &[], |variant, _| {
            ["as published", "xcp, TCP", "xcp, no fallback"].contains(&variant)
        });
        let dropped = |law| {
            let result = &the(&runs, law, &[]).result;
            value(result, Metric::OverTransmission, None).unwrap()
        };
        assert!((0.04..0.2).contains(&dropped("xcp, TCP")), "{name}");
        assert!((0.15..0.5).contains(&dropped("as published")), "{name}");
        assert!(dropped("xcp, no fallback") > 0.6, "{name}");
    }
}

#[test]
fn a_flow_over_three_bottlenecks_has_its_share() {
    let runs = runs("parking-lot", &[], |_, _| true);
    for run in &runs {
        assert!(run.result.jain > 0.97, "{}", run.result.jain);
        for link in run
            .result
            .links
            .iter()
            .filter(|link| link.rate_bps.is_some())
        {
            assert_eq!(link.drops, 0, "{}", link.name);
        }
    }
}
