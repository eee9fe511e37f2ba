//! Connection ids, both sides' (RFC 9000 §5.1).
