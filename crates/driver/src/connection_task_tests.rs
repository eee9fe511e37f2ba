//! The services of a connection's task for other tasks, and how it handles errors of the kernel.
//! The tests poll their own task for the connection, once.

use std::future::Future;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::connection_task::ConnectionTask;
use super::shared::Shared;
use super::socket::{Outgoing, Sent};
use super::test_waker::Woken;
use super::testing::*;
use super::timers::Timer;
use super::*;
use pathmark_transport::Duration;
use pathmark_transport::connection::Received;
use pathmark_transport::wire::Frame;

/// Gives a task of the connection one turn. Returns true if it wants another one immediately.
fn has_a_turn(endpoint: &Endpoint, shared: &Arc<Shared>) -> bool {
    let again = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&again));
    let task = ConnectionTask::new(Arc::clone(shared), endpoint.shared.socket());
    let mut task = pin!(task);
    let turn = task.as_mut().poll(&mut Context::from_waker(&waker));
    assert!(turn.is_pending());
    again.take()
}

/// If a runtime's threads are busy, it checks the kernel's timer late. A task that ends its turn
/// with more data to send therefore wakes the connections whose deadlines have passed.
#[tokio::test]
async fn a_task_that_is_busy_for_long_wakes_those_that_are_due() {
    let mut transport = boundless();
    transport.streams = transport.streams.with_room_for_grants();
    transport.max_mtu = Some(1200);
    let endpoint = endpoint();
    let (ours, _theirs) = connected_from(&endpoint, transport).await;
    ours.confirmed().await.unwrap();
    let mut stream = ours.open_uni().await.unwrap();
    let mut due = Timer::new(&endpoint.shared.timers);
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    // From here on, no other task gets a turn.
    let data = vec![7; 8 << 20];
    let written = pin!(stream.write_all(&data)).poll(&mut Context::from_waker(Waker::noop()));
    assert_eq!(written, Poll::Ready(Ok(())));
    let at = now() + Duration::from_micros(100);
    let polled = due.poll(&Context::from_waker(&waker), now(), Some(at));
    assert!(polled.is_pending());
    while now() < at {
        std::hint::spin_loop();
    }
    assert!(!woken.take());
    assert!(has_a_turn(&endpoint, ours.shared()), "it has more to send");
    assert!(woken.take());
}

/// An error of a datagram from another address, such as an answer to a probe, doesn't concern the
/// current path. Here the kernel refuses a source address that doesn't belong to this host, and the
/// connection stays on its path.
#[tokio::test]
async fn an_answer_that_cannot_leave_moves_no_connection() {
    let elsewhere: IpAddr = [192, 0, 2, 77].into();
    let endpoint = endpoint();
    let crypto = forging(server_tls());
    let (ours, theirs) = connected_with(&endpoint, transport(), crypto).await;
    ours.confirmed().await.unwrap();
    let to = ours.remote_address();
    let refused = endpoint.shared.socket().send(&Outgoing {
        from: Some(elsewhere),
        ..outgoing(to, &[0x41; 40])
    });
    assert!(matches!(refused, Sent::Failed(_)), "{refused:?}");
    let challenge = frames(&[Frame::PathChallenge([7; 8])]);
    let probes = packets(&mut theirs.shared().lock().core, now(), &challenge);
    let received = Received {
        local: Some(elsewhere),
        ..received_from(to)
    };
    let before = {
        let core = &mut ours.shared().lock().core;
        for mut probe in probes {
            core.handle_datagram(now(), received, &mut probe);
        }
        core.local_address()
    };
    assert_eq!(ours.stats().path_challenges, 1);
    has_a_turn(&endpoint, ours.shared());
    let core = &ours.shared().lock().core;
    assert_eq!(core.local_address(), before);
    assert!(before.is_some_and(|local| local.is_loopback()));
}

/// If a connection moves to a socket whose interface has a higher MTU, it probes for the largest
/// size that passes there.
#[tokio::test]
async fn a_connection_that_moves_tries_what_the_next_interface_carries() {
    let endpoint = endpoint();
    let ends = connected_from(&endpoint, transport()).await;
    ends.0.confirmed().await.unwrap();
    // Pretend that the interface had no higher MTU so far.
    ends.0.shared().lock().core.set_interface_mtu(1300);
    upload(&ends, 1_000_000).await;
    assert_eq!(ends.0.path_report().mtu, 1300);
    rebind(&endpoint);
    let moves = async {
        while ends.1.remote_address() != endpoint.local_address() {
            upload(&ends, 10_000).await;
        }
        upload(&ends, 4_000_000).await;
    };
    soon("the move", moves).await;
    assert_eq!(ends.0.path_report().mtu, 8972);
}

/// Tokens for later connections are kept up to a length limit, for a limited number of servers.
#[tokio::test]
async fn tokens_are_remembered_up_to_a_bound() {
    // [9000 8.1.3 own-server]
    let endpoint = endpoint();
    let kept = |server: &str, length: usize| {
        endpoint.shared.remember(server, vec![7; length].into());
        let token = endpoint.shared.lock().tokens.get(server).cloned();
        token.map_or(0, |token| token.len())
    };
    assert_eq!(kept("short", 512), 512);
    assert_eq!(kept("short", 513), 512);
    assert_eq!(kept("long", 513), 0);
    for n in 1..64 {
        assert_eq!(kept(&n.to_string(), 100), 100);
    }
    assert_eq!((kept("one more", 100), kept("short", 200)), (0, 200));
}

/// The tasks of an endpoint and of its connections end with them.
#[test]
fn an_endpoint_leaves_no_task_behind() {
    for threads in [1, 2] {
        runtime(threads).block_on(async {
            // No event reports that a task has ended, so this is polled.
            let none = || until("the end of all tasks", || tasks() == 0);
            drop(endpoint());
            none().await;
            let client = endpoint();
            let ends = connected_from(&client, transport()).await;
            upload(&ends, 50_000).await;
            assert!(tasks() >= 6, "{} tasks", tasks());
            ends.0.close(1_u32.into(), b"over");
            ends.1.closed().await;
            drop((ends, client));
            none().await;
        });
    }
}
