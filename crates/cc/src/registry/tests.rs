//! Names, options and their errors.

use super::*;
use crate::{Duration, Instant};

#[test]
fn every_name_parses_prints_and_builds() {
    for name in Algorithm::NAMES {
        let algorithm = Algorithm::parse(name).unwrap();
        assert_eq!(algorithm.to_string(), *name);
        assert_eq!(algorithm.name(), *name);
        let controller = algorithm.controller(Instant::ZERO, 1472);
        assert!(controller.window() >= 1472);
    }
    for name in LinkAlgorithm::NAMES {
        let algorithm = LinkAlgorithm::parse(name).unwrap();
        assert_eq!(algorithm.to_string(), *name);
        assert_eq!(algorithm.name(), *name);
        let _ = algorithm.controller(Instant::ZERO, 1_250_000, 1);
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
    let text = |given: &str| Algorithm::parse(given).unwrap_err().to_string();
    assert!(text("cubik").contains("did you mean `cubic`"));
    assert!(text("reno").contains("`newreno`"));
    assert!(text("cubic[iv=2]").contains("did you mean `iw`"));
    assert!(text("cubic[iw=0]").contains("from 1 to 10000"));
    assert!(text("cubic[iw=2,iw=3]").contains("twice"));
    assert!(text("cubic[iw=2").contains("NAME[option=value"));
    assert!(text("cubic]").contains("NAME[option=value"));
    assert!(text("cubic[[iw=2]]").contains("NAME[option=value"));
    assert_eq!(
        LinkAlgorithm::parse("none[x=1]"),
        Err(ParseError::NoOptions { name: "none" })
    );
}

#[test]
fn decimals_are_exact() {
    assert_eq!(value::decimal("0.0625", 9), Some(62_500_000));
    assert_eq!(value::decimal("1", 3), Some(1000));
    assert_eq!(value::decimal(".5", 1), Some(5));
    assert_eq!(value::decimal("1.50", 1), Some(15));
    assert_eq!(value::decimal("1.55", 1), None);
    for bad in ["", ".", "-1", "1e3", "+1", "1.2.3", "99999999999999999999"] {
        assert_eq!(value::decimal(bad, 3), None, "{bad}");
    }
    assert_eq!(value::show_decimal(62_500_000, 9), "0.0625");
    assert_eq!(value::show_decimal(2_000, 3), "2");
}

#[test]
fn durations_have_units() {
    assert_eq!(value::duration("1.25s"), Some(Duration::from_millis(1250)));
    assert_eq!(value::duration("200ms"), Some(Duration::from_millis(200)));
    assert_eq!(value::duration("2min"), Some(Duration::from_secs(120)));
    assert_eq!(value::duration("200"), None);
    assert_eq!(value::duration("200 lightyears"), None);
    for text in ["1.25s", "200ms", "15us", "7ns"] {
        assert_eq!(value::show_duration(value::duration(text).unwrap()), text);
    }
}
