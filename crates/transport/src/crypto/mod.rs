//! Packet protection behind a trait: TLS 1.3 by rustls, and a null cipher for the emulator.
