//! Many connections behind one socket: demultiplexing, Retry, version negotiation, stateless reset.
