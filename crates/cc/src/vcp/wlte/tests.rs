//! Tests which losses count as congestion.

use super::*;

#[test]
fn a_loss_is_corruption_unless_nobody_marks_any_more() {
    for (pure, unmarked, verdict) in [
        (false, false, Verdict::Corruption),
        (false, true, Verdict::Congestion),
        (true, false, Verdict::Corruption),
        (true, true, Verdict::Corruption),
    ] {
        let rule = Wlte { pure };
        assert_eq!(rule.judge(&LossView { unmarked }), verdict);
        assert_eq!(rule.doubts(), !pure);
    }
}
