//! Many first packets arrive in one message, while other tasks need to run.

use std::future::poll_fn;
use std::net::UdpSocket;
use std::task::Poll;

use quinn_udp::{Transmit, UdpSockRef, UdpSocketState};

use super::testing::*;
use super::*;

/// First packets in one message from the kernel.
const TRAIN: usize = 50;

/// Returns Initial packets in full-size datagrams, each from another client. No packet is
/// authentic.
fn train(number: usize) -> Vec<u8> {
    let mut datagrams = Vec::new();
    for n in 0..TRAIN {
        let mut datagram = vec![0xa5; 1200];
        // Long header, version 1, a unique destination ID, a source ID, no token, a length.
        datagram[..6].copy_from_slice(&[0xc0, 0, 0, 0, 1, 8]);
        datagram[6..14].copy_from_slice(&((number * TRAIN + n) as u64).to_be_bytes());
        datagram[14] = 8;
        datagram[23] = 0;
        datagram[24..26].copy_from_slice(&(0x4000 | (1200 - 26) as u16).to_be_bytes());
        datagrams.extend(datagram);
    }
    datagrams
}

/// Gives all other tasks of the thread one turn.
async fn turn() {
    let mut is_first = true;
    let turn = poll_fn(|cx| {
        if std::mem::take(&mut is_first) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(())
    });
    turn.await;
}

/// Waits until a server has handled `number` forged packets, and returns the largest number between
/// two turns of a task.
async fn most_in_one_turn(server: Endpoint, number: usize) -> usize {
    let forged = || server.stats().dropped_forged_initials as usize;
    let (before, mut most) = (forged() / number * number, 0);
    let mut seen = forged();
    while seen < before + number {
        turn().await;
        let now = forged();
        most = most.max(now - seen);
        seen = now;
    }
    most
}

/// A batch of 32 messages can hold about two thousand first packets. Other tasks of the thread get
/// their turns in between, no packet is skipped, and a client behind them can connect.
#[tokio::test]
async fn a_train_of_first_packets_keeps_no_task_from_its_turn() {
    let server = server();
    let hostile = UdpSocket::bind(loopback()).unwrap();
    let state = UdpSocketState::new(UdpSockRef::from(&hostile)).unwrap();
    for round in 0..5 {
        for number in [3 * round, 3 * round + 1, 3 * round + 2] {
            let transmit = Transmit {
                destination: server.local_address(),
                ecn: None,
                contents: &train(number),
                segment_size: Some(1200),
                src_ip: None,
            };
            let hostile = UdpSockRef::from(&hostile);
            state.try_send(hostile, &transmit).unwrap();
        }
        let other = tokio::spawn(most_in_one_turn(server.clone(), 3 * TRAIN));
        let most = soon("the train", other).await.unwrap();
        assert!((1..=64).contains(&most), "{most} in one turn");
    }
    soon("a client", both(connect(&endpoint(), &server), &server)).await;
}
