//! The same connections under TLS 1.3.
