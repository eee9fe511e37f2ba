//! Support for the cases of the interop runner: a common interface to this library and aioquic, and
//! the proxy and the data of the transport's own tests.

#[path = "../../../../../crates/driver/tests/it/interop/support/data.rs"]
pub(crate) mod data;
#[path = "../../shared/fault.rs"]
mod fault;
#[path = "../../shared/peers.rs"]
pub(crate) mod peers;
mod process;
#[path = "../../../../../crates/driver/tests/it/interop/support/proxy.rs"]
#[expect(dead_code, reason = "other tests use more of it")]
pub(crate) mod proxy;
#[path = "../../shared/streams.rs"]
pub(crate) mod streams;
pub(crate) mod theirs;
#[path = "../../../../../crates/driver/tests/it/interop/support/until.rs"]
mod until;

pub(crate) use until::until;
