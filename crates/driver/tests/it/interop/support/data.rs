//! Data that both ends can generate from a seed, and its hash.

use aws_lc_rs::digest::{Context, SHA256};

use super::peers::Connection;
use super::proxy::mix;
use super::streams::{Fault, Receiver, Sender};

/// Bytes generated and written at a time.
const PIECE: usize = 64 * 1024;

/// SHA-256 and length of the data of a stream.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fingerprint {
    pub(crate) length: u64,
    pub(crate) sha256: Vec<u8>,
}

/// Writes `length` bytes generated from `seed`, and finishes the stream.
pub(crate) async fn send(
    sender: &mut Sender,
    seed: u64,
    length: u64,
) -> Result<Fingerprint, Fault> {
    let mut hash = Context::new(&SHA256);
    let mut piece = vec![0; PIECE];
    let mut left = length;
    let mut counter = mix(seed);
    while left > 0 {
        for word in piece.chunks_exact_mut(8) {
            counter = counter.wrapping_add(1);
            word.copy_from_slice(&mix(counter).to_be_bytes());
        }
        let take = PIECE.min(usize::try_from(left).unwrap_or(usize::MAX));
        hash.update(&piece[..take]);
        sender.write_all(&piece[..take]).await?;
        left -= take as u64;
    }
    sender.finish()?;
    Ok(Fingerprint {
        length,
        sha256: hash.finish().as_ref().to_vec(),
    })
}

/// Reads to the end.
pub(crate) async fn receive(receiver: &mut Receiver) -> Result<Fingerprint, Fault> {
    receive_and(receiver, |_| ()).await
}

/// Reads to the end, and after each piece calls `progress` with the number of bytes so far.
pub(crate) async fn receive_and(
    receiver: &mut Receiver,
    mut progress: impl FnMut(u64),
) -> Result<Fingerprint, Fault> {
    let mut hash = Context::new(&SHA256);
    let mut length = 0;
    while let Some(chunk) = receiver.read_chunk().await? {
        hash.update(&chunk);
        length += chunk.len() as u64;
        progress(length);
    }
    Ok(Fingerprint {
        length,
        sha256: hash.finish().as_ref().to_vec(),
    })
}

/// Sends `length` bytes generated from `seed` on a new stream from `from` to `to`, and checks that
/// they arrive unchanged. After each piece, `progress` is called with the number of bytes so far.
pub(crate) async fn pass(
    from: &Connection,
    to: &Connection,
    (seed, length): (u64, u64),
    progress: impl FnMut(u64),
) {
    let sending = async {
        let mut sender = from.open_uni().await.unwrap();
        let sent = send(&mut sender, seed, length).await.unwrap();
        sender.stopped().await.unwrap();
        sent
    };
    let receiving = async {
        let mut receiver = to.accept_uni().await.unwrap();
        receive_and(&mut receiver, progress).await.unwrap()
    };
    let (sent, received) = tokio::join!(sending, receiving);
    assert!(sent == received, "{length} bytes of seed {seed} differ");
}

/// Returns the request for a file of [`answer`].
pub(crate) fn asking(seed: u64, length: u64) -> Vec<u8> {
    [seed.to_be_bytes(), length.to_be_bytes()].concat()
}

/// Sends a file on each of as many streams, and returns what was sent in the order of seeds.
pub(crate) async fn answer(server: &Connection, files: usize) -> Vec<(u64, Fingerprint)> {
    let mut tasks = Vec::new();
    for _ in 0..files {
        let (mut sender, mut receiver) = server.accept_bi().await.unwrap();
        tasks.push(tokio::spawn(async move {
            let asked = receiver.read_to_end().await.unwrap();
            let number = |at: usize| u64::from_be_bytes(*asked[at..].first_chunk().unwrap());
            let sent = send(&mut sender, number(0), number(8)).await.unwrap();
            // Losing the last acknowledgement only concerns the client's end.
            let _ = sender.stopped().await;
            (number(0), sent)
        }));
    }
    let mut sent = Vec::new();
    for task in tasks {
        sent.push(task.await.unwrap());
    }
    sent.sort_unstable_by_key(|(seed, _)| *seed);
    sent
}
