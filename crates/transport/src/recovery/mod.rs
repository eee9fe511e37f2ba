//! Loss recovery (RFC 9002): round-trip times, sent packets, loss detection, probe timeouts, pacing.
