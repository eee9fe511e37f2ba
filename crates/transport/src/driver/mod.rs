//! The tokio driver: sockets, clocks and wakers around the sans-I/O core.
