//! Routes by input port, and packets that leave by their input port.

use super::tests::{BACK, OUT, SRC, drain, pass, router, udp};
use super::*;
use crate::ip::Routes;

/// A neighbour of the sender.
const NEAR: &str = "10.0.0.9";

#[test]
fn what_leaves_where_it_came_in_is_counted_unless_its_entry_has_a_route() {
    let mut router = router(1500, None, false);
    let packet = udp(SRC, NEAR, 64, 0, &[7; 100]);
    let away = udp(SRC, "10.1.0.2", 64, 0, &[7; 100]);
    pass(&mut router, &packet);
    assert_eq!(drain(&mut router, BACK).len(), 1);
    pass(&mut router, &away);
    assert_eq!(drain(&mut router, OUT).len(), 1);
    let hairpins = |router: &Router| (router.counters().hairpin, router.counters().forwarded);
    assert_eq!(hairpins(&router), (1, 2));

    let mut routes = Routes::new();
    routes.insert("0.0.0.0/0".parse().unwrap(), Target::Port(OUT));
    router.set_entries(vec![Some(routes.compile()), None]);
    pass(&mut router, &packet);
    assert_eq!(drain(&mut router, OUT).len(), 1);
    assert_eq!(hairpins(&router), (1, 3));
    // All other packets follow the common table.
    let near = NEAR.parse().unwrap();
    assert_eq!(router.route(near), Some(Target::Port(BACK)));
}
