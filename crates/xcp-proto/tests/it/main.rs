//! The XCP signal against its document, and on bytes of any kind.

mod fuzz_xcp;
mod wire_doc;
