//! Tests of names, options, and errors.

use super::*;
use crate::base::{Duration, Instant};
use crate::metrics::{FallbackReason, QuickStartOutcome};
use crate::signals::{Carried, VcpCarried, VcpCode, XcpCarried};
use crate::testing::{arrival, at, ms};

#[test]
fn every_name_parses_prints_and_builds() {
    for &name in Algorithm::NAMES {
        let law = Algorithm::parse(name).unwrap();
        assert_eq!((law.name(), law.to_string().as_str()), (name, name));
        assert!(law.controller(Instant::ZERO, 1472).window() >= 1472);
    }
    for &name in LinkAlgorithm::NAMES {
        let law = LinkAlgorithm::parse(name).unwrap();
        assert_eq!((law.name(), law.to_string().as_str()), (name, name));
        let _ = law.controller(Instant::ZERO, 1_250_000, 1);
    }
}

#[test]
fn initial_window_is_an_option() {
    let algorithm = Algorithm::parse(" cubic[ iw = 2 ]").unwrap();
    assert_eq!(algorithm.to_string(), "cubic[iw=2]");
    assert_eq!(algorithm.controller(Instant::ZERO, 1000).window(), 2000);
    let default = Algorithm::parse("cubic").unwrap();
    assert_eq!(default.controller(Instant::ZERO, 1472).window(), 14_720);
    assert_eq!(default.controller(Instant::ZERO, 9000).window(), 18_000);
}

#[test]
fn errors_name_the_nearest() {
    for (given, parts) in [
        ("cubik", "did you mean `cubic`"),
        ("reno", "did you mean `newreno`"),
        ("CUBIC", "did you mean `cubic`"),
        ("cubic[iv=2]", "did you mean `iw`"),
        ("cubic[iw=0]", "from 1 to 10000"),
        ("cubic[iw=2,iw=3]", "twice"),
        ("cubic[iw=2", "NAME[option=value"),
        ("cubic]", "NAME[option=value"),
        ("cubic[[iw=2]]", "NAME[option=value"),
        ("vcp+bise+wlte[carrier=ecn]", "vcp[carrier=ecn]"),
        ("vcp[pure]", "no option `pure`"),
    ] {
        let error = Algorithm::parse(given).unwrap_err().to_string();
        assert!(error.contains(parts), "{given}: {error}");
    }
    for (given, part) in [
        ("bbr", "`bbr`: known are none"),
        ("vcp+bise[t_rho=5]", "such as 200ms"),
    ] {
        let error = LinkAlgorithm::parse(given).unwrap_err().to_string();
        assert!(error.contains(part), "{given}: {error}");
    }
    let unknown = Algorithm::parse("foo").unwrap_err().to_string();
    assert!(unknown.starts_with("unknown algorithm `foo`: known are vcp"));
    let options = LinkAlgorithm::parse("none[x=1]");
    assert_eq!(options, Err(ParseError::NoOptions { name: "none" }));
}

#[test]
fn options_of_the_vcp_family_survive_a_round_trip() {
    for text in [
        "vcp[epsilon=0.1,alpha=2.5,beta=0.9,t_rho=1.25s,ai=constant,ai_clamp=no,\
         mi_cap=no]",
        "vcp[carrier=ecn]",
        "vcp+bise[iw=2,bise_epsilon=9]",
        "vcp+bise+wlte[fallback=bbr]",
        "xcp[fallback=bbr]",
        "xcp-i[fallback=bbr,every=3]",
        "auto[fallback=bbr]",
        "auto[iw=2,fallback=bbr,start=law]",
        "bbr[iw=4]",
        "vcp+wlte[pure=yes]",
        "vcp[start=quick-start]",
        "xcp[start=quick-start]",
        "vcp+bise+wlte[alpha=3,ai=8,bise_epsilon=20,pure=yes]",
        "cubic[iw=2,hystart=no,pace=no]",
        "cubiq[iw=2,rate=1Gbit,hystart=no,limited=50,threshold=yes,pace=no]",
        "xcp[loss=ignore,pace=no]",
        "ada[iw=4,rate=2.5Gbit]",
    ] {
        assert_eq!(Algorithm::parse(text).unwrap().to_string(), text);
    }
    for text in [
        "vcp[t_rho=auto,t_rho_max=5s,t_q=1ms,kappa=0.25,gamma=0.95,queue=min,restart=no]",
        "vcp+bise[t_rho=1.25s,epsilon=9,k=0.5,target=0.95,x_ref=0.4,ceiling=0.8,\
         marking=lottery-diffusion]",
    ] {
        assert_eq!(LinkAlgorithm::parse(text).unwrap().to_string(), text);
    }
    // Defaults aren't printed.
    let spelled = "vcp+bise[t_rho=auto,k=0.33,marking=carried]";
    assert_eq!(
        LinkAlgorithm::parse(spelled),
        LinkAlgorithm::parse("vcp+bise")
    );
    let spelled = Algorithm::parse("vcp[alpha=1.0,beta=0.875]").unwrap();
    assert_eq!(spelled.to_string(), "vcp");
}

#[test]
fn paper_spells_out_what_it_means() {
    let sender = Algorithm::parse("vcp+bise+wlte[paper,pure]").unwrap();
    let options = "[paper=yes,iw=2,beta=0.875,ai=constant,ai_clamp=no,mi_cap=no,pure=yes]";
    assert_eq!(sender.to_string(), format!("vcp+bise+wlte{options}"));
    let link = LinkAlgorithm::parse("vcp+bise[paper,t_rho=1.25s]").unwrap();
    let options = "[t_rho=1.25s,gamma=0.98,restart=no,foresee=0,equalize=no,ceiling=0.8,\
                   marking=lottery-random]";
    assert_eq!(link.to_string(), format!("vcp+bise{options}"));
}

#[test]
fn ports_of_the_papers_survive_a_round_trip() {
    for name in ["vcp", "vcp+bise", "xcp", "xcp-i"] {
        let printed = |text: &str| LinkAlgorithm::parse(text).unwrap().to_string();
        let port = printed(&format!("{name}[paper]"));
        assert_ne!(port, name);
        assert_eq!(printed(&port), port);
    }
}

#[test]
fn senders_say_where_codes_travel() {
    use crate::signals::Carrier;
    let carrier = |text: &str| Algorithm::parse(text).unwrap().carrier();
    assert_eq!(carrier("vcp"), Some(Carrier::Shim));
    assert_eq!(carrier("vcp[carrier=ecn]"), Some(Carrier::Ecn));
    assert_eq!(carrier("cubic"), None);
}

#[test]
fn every_law_that_follows_routers_takes_a_fallback() {
    for name in Algorithm::NAMES {
        let law = Algorithm::parse(name).unwrap();
        let follows = law.chooses() || law.carrier().is_some() || name.starts_with("xcp");
        let cubic = Algorithm::parse(&format!("{name}[fallback=cubic]"));
        let bbr = Algorithm::parse(&format!("{name}[fallback=bbr]"));
        if follows {
            assert_eq!(cubic.unwrap(), law);
            let bbr = bbr.unwrap();
            assert_eq!(bbr.to_string(), format!("{name}[fallback=bbr]"));
            let sender = bbr.controller(Instant::ZERO, 1472);
            assert_eq!(sender.metrics().ruling, "bbr");
        } else {
            assert!(cubic.is_err() && bbr.is_err(), "{name}");
        }
        let Err(other) = Algorithm::parse(&format!("{name}[fallback=reno]")) else {
            panic!("{name} takes no Reno");
        };
        assert_eq!(follows, other.to_string().contains("`cubic` or `bbr`"));
    }
    for text in ["xcp[paper,fallback=bbr]", "xcp[fallback=bbr,pace=no]"] {
        let conflict = Algorithm::parse(text).unwrap_err().to_string();
        assert!(conflict.contains("leave"), "{text}: {conflict}");
    }
}

#[test]
fn limited_slow_start_takes_packets() {
    for (text, shown) in [
        ("cubiq[limited]", "cubiq[limited=100]"),
        ("cubiq[limited=yes]", "cubiq[limited=100]"),
        ("cubiq[limited=2]", "cubiq[limited=2]"),
        ("cubiq[limited=no]", "cubiq"),
    ] {
        assert_eq!(Algorithm::parse(text).unwrap().to_string(), shown);
    }
    for text in ["cubiq[limited=1]", "cubiq[limited=-5]", "ada[limited]"] {
        assert!(Algorithm::parse(text).is_err(), "{text}");
    }
}

#[test]
fn who_asks_for_a_start_says_so() {
    for (text, asks) in [
        ("vcp+bise+wlte", false),
        ("xcp[start=law]", false),
        ("xcp[start=quick-start]", true),
        ("vcp[start=quick-start]", true),
        ("cubiq", true),
        ("cubic", false),
    ] {
        assert_eq!(Algorithm::parse(text).unwrap().asks_start(), asks, "{text}");
    }
    for (text, grants) in [("none", false), ("vcp", true), ("xcp", true)] {
        let law = LinkAlgorithm::parse(text).unwrap();
        assert_eq!(law.grants(), grants, "{text}");
        assert!(!law.with_grants(false).grants(), "{text}");
    }
}

/// Every law, whether it grants rates or detects clouds, must handle flows being set aside: the
/// long RTTs that they claimed no longer determine its interval.
#[test]
fn every_law_forgets_what_flows_claimed_that_are_set_aside() {
    let laws = ["vcp+bise", "xcp", "xcp-i"].map(|name| [(name, true), (name, false)]);
    for (name, grants) in laws.concat() {
        let law = LinkAlgorithm::parse(name).unwrap().with_grants(grants);
        let mut port = law.controller(Instant::ZERO, 1_250_000, 1);
        let claim = Duration::from_secs(2);
        let carried = if name.starts_with("vcp") {
            Carried::Vcp(VcpCarried {
                code: VcpCode::Low,
                min_rtt: Some(claim),
                bise: true,
                carries_r: true,
            })
        } else {
            Carried::Xcp(XcpCarried {
                rtt_us: u32::try_from(claim.as_micros()).unwrap(),
                x: 1 << 30,
                ..XcpCarried::default()
            })
        };
        let packet = arrival(1000, 1, carried);
        let mut now = Instant::ZERO;
        for number in 0..60_000 {
            now = at(number);
            while port.deadline().is_some_and(|at| at <= now) {
                port.on_timer(now, 0);
            }
            port.on_arrival(now, &packet, 0);
            let _ = port.on_departure(now, &packet, 0);
        }
        let claimed = port.metrics().interval;
        assert!(claimed > ms(1_500), "{name}: {claimed:?}");
        port.on_set_aside(now);
        let known = port.metrics().interval;
        assert!(known <= Duration::from_secs(1), "{name}: {known:?}");
    }
}

/// A table of options, as key and accepted values.
fn rows<C>(table: &[knob::Knob<C>]) -> Vec<(&'static str, &'static str)> {
    table.iter().map(|knob| (knob.key, knob.expects)).collect()
}

/// Each option must be in a table on its law's page.
#[test]
fn pages_have_every_option() {
    use knob::Options;
    use standard::{AdaConfig, AutoConfig, CubicConfig, InitialConfig};
    let of_vcp = [vcp::COMMON, vcp::BISE, vcp::WLTE].map(rows).concat();
    let pages = [
        ("vcp", of_vcp),
        ("vcp", [vcp::PORT, vcp::BISE_PORT].map(rows).concat()),
        ("xcp", [rows(xcp::SENDER), rows(xcp::LINK)].concat()),
        ("xcp-i", rows(xcp::CLOUDS)),
        ("standard", rows(CubicConfig::TABLE)),
        ("standard", rows(InitialConfig::TABLE)),
        ("auto", rows(AutoConfig::TABLE)),
        ("granted-starts", rows(crate::cubiq::CubiqParams::TABLE)),
        ("granted-starts", rows(AdaConfig::TABLE)),
    ];
    for (page, rows) in pages {
        let path = format!("{}/../../docs/laws/{page}.md", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).unwrap();
        let (_, options) = text.split_once("| default | meaning |").unwrap();
        for (key, _) in rows {
            assert!(options.contains(&format!("`{key}`")), "{page}.md: {key}");
        }
    }
}

/// The least and the most that an option's text names are accepted, and so is its example, but not
/// numbers beyond them.
#[test]
fn options_accept_what_they_say() {
    fn check(name: &str, rows: &[(&str, &'static str)]) {
        let accepts = |key: &str, value: &str| {
            let before = match key {
                "sack" => "paper,",
                "t_rho_max" => "t_rho=auto,",
                "error" => "estimate=exact,",
                _ => "",
            };
            let text = format!("{name}[{before}{key}={value}]");
            Algorithm::parse(&text).is_ok() || LinkAlgorithm::parse(&text).is_ok()
        };
        let mut ranges = 0;
        for (key, expects) in rows {
            if let Some((_, example)) = expects.split_once("such as ") {
                let example = example.split([' ', ',']).next().unwrap();
                assert!(accepts(key, example), "{name}[{key}={example}]");
            }
            let Some((_, range)) = expects.split_once("from ") else {
                continue;
            };
            let mut words = range.split([' ', ',', ':']);
            let (least, most) = (words.next().unwrap(), words.nth(1).unwrap());
            let unit =
                |text: &'static str| text.trim_start_matches(|c: char| "0123456789.".contains(c));
            let with = |end: &'static str, more: f64| {
                let number: f64 = end.strip_suffix(unit(end)).unwrap().parse().unwrap();
                format!("{:.6}{}", number + more, unit(end))
            };
            for (end, more, accepted) in [
                (least, -1.0, false),
                (least, -1e-6, false),
                (least, 0.0, true),
                (most, 0.0, true),
                (most, 1e-6, false),
                (most, 1.0, false),
            ] {
                let value = with(end, more);
                assert_eq!(accepts(key, &value), accepted, "{name}[{key}={value}]");
            }
            ranges += 1;
        }
        assert!(ranges > 0, "{name}");
    }
    use knob::Options;
    let vcp = [vcp::COMMON, vcp::BISE].map(rows).concat();
    check("vcp+bise", &vcp);
    check("vcp+bise", &[vcp::PORT, vcp::BISE_PORT].map(rows).concat());
    check("xcp", &rows(xcp::SENDER));
    check("xcp-i", &[xcp::LINK, xcp::CLOUDS].map(rows).concat());
    check("cubiq", &rows(crate::cubiq::CubiqParams::TABLE));
}

/// All names of fallback reasons and of starting rates' results in reports must be explained on the
/// users' pages.
#[test]
fn pages_have_every_value_of_reports() {
    use QuickStartOutcome::*;
    let outcomes = [
        Unasked, Waiting, Denied, Unanswered, Partial, Refused, Unused, Used, Lowered, Revoked,
    ];
    // If this doesn't compile because there's a new outcome, add it above, too.
    let name = |outcome: QuickStartOutcome| match outcome {
        Unasked | Waiting | Denied | Unanswered | Partial | Refused | Unused | Used | Lowered
        | Revoked => outcome.name(),
    };
    let reasons = FallbackReason::ALL.iter().map(|reason| reason.name());
    let pages = [
        ("json", outcomes.map(name).to_vec()),
        ("path-report", reasons.collect()),
    ];
    for (page, names) in pages {
        let path = format!("{}/../../docs/{page}.md", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).unwrap();
        for name in names {
            assert!(text.contains(&format!("| `{name}` |")), "{page}.md: {name}");
        }
    }
}
