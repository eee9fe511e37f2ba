//! A QUIC connection, composed of the parts in the sibling modules.
