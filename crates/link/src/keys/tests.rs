//! Links by their keys, and the errors of keys that do not fit together.

use super::link::LinkSpec;
use crate::queue::Limit;

#[test]
fn queues_without_limit_hold_a_bdp() {
    let mut spec = LinkSpec {
        rate: Some("10Mbit".parse().unwrap()),
        ..LinkSpec::default()
    };
    assert_eq!(spec.limit(None), Limit::Bytes(250_000));
    assert_eq!(
        spec.limit(Some(pathmark_cc::Duration::from_millis(400))),
        Limit::Bytes(500_000)
    );
    spec.queue.limit = Some("100p".parse().unwrap());
    assert_eq!(spec.limit(None), Limit::Packets(100));
    spec.queue.limit = Some("0.25bdp".parse().unwrap());
    assert_eq!(spec.limit(None), Limit::Bytes(62_500));
}
