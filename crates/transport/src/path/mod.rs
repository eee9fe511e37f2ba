//! One network path: validation, MTU, ECN, amplification limit, feedback.
