//! Over sockets: memory for received data is short, and the application reads one stream after the
//! other.

use super::sending_tests::{connected_from, transport};
use super::*;
use pathmark_transport::Duration;

const STREAMS: usize = 128;
const SIZE: usize = 1000;

#[tokio::test]
async fn streams_are_read_one_after_the_other_without_memory() {
    let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    endpoint.set_receive_memory(0);
    let (ours, theirs) = connected_from(&endpoint, transport()).await;
    let writing = async {
        let mut streams = Vec::new();
        for _ in 0..STREAMS {
            let mut stream = theirs.open_uni().await.unwrap();
            stream.write_all(&[7; SIZE]).await.unwrap();
            stream.finish().unwrap();
            streams.push(stream);
        }
        streams
    };
    let reading = async {
        for _ in 0..STREAMS {
            let mut stream = ours.accept_uni().await.unwrap();
            assert_eq!(stream.read_to_end(SIZE).await.unwrap(), [7; SIZE]);
        }
    };
    let begun = now();
    let both = async { tokio::join!(writing, reading) };
    // 2 s where the machine has nothing else to do.
    let done = tokio::time::timeout(Duration::from_secs(10), both).await;
    println!("{:?}, {:?}", now() - begun, ours.stats().packets_refused);
    assert!(done.is_ok());
}
