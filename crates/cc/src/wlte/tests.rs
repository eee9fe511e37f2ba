//! Which losses count.

use proptest::prelude::*;

use super::*;

fn calm() -> LossView {
    LossView {
        loss_ppm: 1000,
        loss_before_ppm: 1000,
        ..LossView::default()
    }
}

#[test]
fn each_sign_of_the_belt() {
    let belt = Wlte { pure: false };
    assert_eq!(belt.judge(&calm()), Verdict::Corruption);
    let over = LossView {
        recent_over: true,
        ..calm()
    };
    assert_eq!(belt.judge(&over), Verdict::Corruption, "an OVER alone");
    let surge = LossView {
        delayed: true,
        loss_ppm: 30_001,
        loss_before_ppm: 10_000,
        ..over
    };
    assert_eq!(belt.judge(&surge), Verdict::Congestion);
    let first_loss = LossView {
        loss_ppm: 500,
        loss_before_ppm: 0,
        ..surge
    };
    assert_eq!(belt.judge(&first_loss), Verdict::Corruption);
    let as_ever = LossView {
        loss_ppm: 30_000,
        ..surge
    };
    assert_eq!(belt.judge(&as_ever), Verdict::Corruption);
    let heavy = LossView {
        delayed: true,
        loss_ppm: 100_001,
        loss_before_ppm: 100_000,
        ..calm()
    };
    assert_eq!(belt.judge(&heavy), Verdict::Congestion);
    let heavy_without_queue = LossView {
        delayed: false,
        ..heavy
    };
    assert_eq!(belt.judge(&heavy_without_queue), Verdict::Corruption);
    let unmarked = LossView {
        unmarked: true,
        ..calm()
    };
    assert_eq!(belt.judge(&unmarked), Verdict::Congestion);
}

proptest! {
    #[test]
    fn pure_never_blames_congestion(
        recent_over: bool,
        unmarked: bool,
        delayed: bool,
        loss_ppm in 0u64..=1_000_000,
        loss_before_ppm in 0u64..=1_000_000,
    ) {
        let view = LossView { recent_over, unmarked, delayed, loss_ppm, loss_before_ppm };
        prop_assert_eq!(Wlte { pure: true }.judge(&view), Verdict::Corruption);
    }
}
