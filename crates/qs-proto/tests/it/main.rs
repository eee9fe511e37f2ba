//! The Quick-Start signal against its document, and on bytes of any kind.

mod fuzz_qs;
mod wire_doc;
