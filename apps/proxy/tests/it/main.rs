//! Proxies, tunnels and ingresses over real sockets.

mod access;
mod descriptors;
mod ecn;
mod fuzz_ingress;
mod fuzz_proxy;
mod ingress;
mod leaks;
mod stuck;
mod support;
mod tcp;
mod udp;
