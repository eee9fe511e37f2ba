//! Connection IDs that are replaced continually, over links that lose, reorder and duplicate.

use super::*;

/// Neither end violates the protocol. No packet that arrives at the client too late for its ID is
/// answered with a stateless reset that the server would accept.
#[test]
fn ids_replaced_over_a_bad_link_end_no_connection() {
    let mut late = 0;
    for seed in 0..60 {
        let mut setup = Setup::new(|setup| setup.seed = seed);
        setup.server.active_connection_id_limit = 64;
        let mut pair = Pair::connected(setup);
        let bad = Faults {
            loss: 50_000 * (seed as u32 % 8),
            reorder: 200_000,
            duplicate: 100_000,
            ..Faults::default()
        };
        pair.set_faults(bad);
        for _ in 0..300 {
            for _ in 0..4 {
                inject::replace_ids(pair.client.get());
                send_frames(&mut pair, From::Client, &[Frame::Ping]);
            }
            let end = pair.now + Duration::from_millis(2);
            while pair.now < end && pair.step() {
                for id in core::mem::take(&mut pair.client.unknown) {
                    late += 1;
                    let token = ResetToken::derive(&NullEndpointKey::new(7), id.as_slice());
                    let control = &pair.server.get().sources.control;
                    assert!(!control.remote_ids.is_reset(&token), "seed {seed}: {id:?}");
                }
            }
            let ends = (pair.client.error(), pair.server.error());
            assert_eq!(ends, (None, None), "seed {seed}");
        }
        let replaced = pair.server.get().stats().id_frames;
        assert!(replaced > 30, "seed {seed}: {replaced}");
    }
    assert!(late > 0, "no packet came too late for its id");
}
