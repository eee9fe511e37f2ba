//! Acknowledging what arrived: ranges, and when to say so.
