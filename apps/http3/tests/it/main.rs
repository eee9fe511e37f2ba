//! Clients and servers of HTTP/3 over real sockets.

mod attacks;
mod fuzz_http3;
mod garbage;
mod kinds;
mod limits;
mod origin;
mod quinn;
mod room;
mod sparse;
mod support;
mod tcp;
mod transfers;
mod trees;
mod uploads;
