//! What the router counts besides its links' own counters.

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Packets by what became of them, since the router started.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            /// Names and values, for reports.
            #[must_use]
            pub fn entries(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }
        }
    };
}

counters! {
    /// Read from interfaces; a super-packet counts as one.
    received,
    /// Routed to a port, segments counted.
    forwarded,
    /// Forwarded by the port that they came in on, so by the shaper of the other direction: most
    /// often no route names their destination.
    hairpin,
    /// Written to interfaces; a super-packet counts as one.
    written,
    /// Not an IP packet, or one that contradicts itself.
    malformed,
    /// IPv4 header checksum wrong.
    bad_checksum,
    /// A virtio-net header that contradicts its packet.
    bad_offload,
    /// Multicast, broadcast, link-local, loopback or unspecified addresses: not for routers to
    /// forward.
    not_forwardable,
    /// IPv6 jumbograms, whose length no header here can say.
    jumbogram,
    /// From one of the router's own addresses, which no other host may use.
    spoofed_own,
    /// From a source that does not route back to the port that they came in on, where that is
    /// checked.
    source_check,
    /// ICMP messages for the router with a wrong checksum.
    bad_icmp_checksum,
    /// No route to their destination.
    no_route,
    /// TTL or hop limit ran out.
    ttl_exceeded,
    /// Larger than the next link's MTU, and not to be fragmented.
    too_big,
    /// Fragmented on the way.
    fragmented,
    /// For the router itself.
    local,
    /// ICMP messages sent.
    icmp_sent,
    /// ICMP messages that the rate limit held back, or that had no source address.
    icmp_suppressed,
    /// Dropped because the buffer pool was exhausted.
    no_buffer,
    /// Waited in an interface while the router did not run for seconds, because it was stopped.
    stale,
    /// Refused by the interface that they were written to.
    write_errors,
}
