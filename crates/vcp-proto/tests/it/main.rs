//! The VCP signal against its document, and on bytes of any kind.

mod fuzz_vcp;
mod wire_doc;
