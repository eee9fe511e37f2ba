//! Counters of the router, besides the counters of its links.

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Packets by outcome, since the router started.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            /// Names and values, for reports.
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
    /// Forwarded by the port on which they arrived, and therefore through the shaper of the
    /// other direction. Usually no route covers their destination.
    hairpin,
    /// Written to interfaces; a super-packet counts as one.
    written,
    /// Not an IP packet, or one that contradicts itself.
    malformed,
    /// IPv4 header checksum wrong.
    bad_checksum,
    /// A virtio-net header that contradicts its packet.
    bad_offload,
    /// Multicast, broadcast, link-local, loopback or unspecified addresses, which routers must
    /// not forward.
    not_forwardable,
    /// IPv6 jumbograms, whose length does not fit the usual length fields.
    jumbogram,
    /// From one of the router's own addresses, which no other host should use.
    spoofed_own,
    /// From a source that does not route back to the port of arrival, if that is checked.
    source_check,
    /// ICMP messages for the router with a wrong checksum.
    bad_icmp_checksum,
    /// No route to their destination.
    no_route,
    /// TTL or hop limit expired.
    ttl_exceeded,
    /// Larger than the next link's MTU, and fragmenting is not allowed.
    too_big,
    /// Fragmented on the way.
    fragmented,
    /// For the router itself.
    local,
    /// ICMP messages sent.
    icmp_sent,
    /// ICMP messages that were suppressed by the rate limit, or because they had no source
    /// address.
    icmp_suppressed,
    /// Dropped because the buffer pool was exhausted.
    no_buffer,
    /// Waited in an interface for seconds while the router was stopped.
    stale,
    /// Refused by the interface that they were written to.
    write_errors,
}
