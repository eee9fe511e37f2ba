//! Futures that are dropped leave no waker behind.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use pathmark_cc::{Controller, NewReno};

use super::*;
use crate::crypto::tls::{Trust, testing};
use crate::{Instant, TransportConfig};

/// Polls it a few times and drops it.
fn give_up<T>(future: impl Future<Output = T>) {
    let mut future = pin!(future);
    for _ in 0..3 {
        let mut cx = Context::from_waker(Waker::noop());
        assert!(matches!(future.as_mut().poll(&mut cx), Poll::Pending));
    }
}

#[tokio::test]
async fn a_future_that_is_dropped_leaves_no_waker_behind() {
    let factory =
        |_: Instant, mtu: u16| -> Box<dyn Controller> { Box::new(NewReno::newreno(mtu, None)) };
    let transport = Arc::new(TransportConfig::new(Arc::new(factory)));
    let server = testing::server("server", &[b"test"]);
    let config = ServerConfig::new(Arc::new(server), Arc::clone(&transport));
    let loopback = "127.0.0.1:0".parse().unwrap();
    let endpoint = Endpoint::server(config, loopback).unwrap();
    // Nobody answers there.
    let silent = std::net::UdpSocket::bind(loopback).unwrap();
    let crypto = Arc::new(testing::client(Trust::Anyone, &[b"test"]));
    let config = ClientConfig::new(crypto, transport);
    let connecting = endpoint
        .connect(config, silent.local_addr().unwrap(), "server.test")
        .unwrap();
    let shared = Arc::clone(connecting.shared());
    let connection = Connection::new(Arc::clone(&shared));
    give_up(connecting);
    for _ in 0..100 {
        give_up(endpoint.accept());
        give_up(endpoint.wait_idle());
        give_up(connection.closed());
        give_up(connection.confirmed());
        give_up(connection.accept_bi());
        give_up(connection.accept_uni());
        give_up(connection.open_bi());
        give_up(connection.open_uni());
    }
    let state = endpoint.shared.lock();
    assert_eq!((state.accepting.len(), state.idle.len()), (0, 0));
    drop(state);
    assert_eq!(shared.lock().waiting_places(), 0);
}
