//! A relay that holds up a transfer midway.

use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Condvar, Mutex};

/// A relay between clients and a server. It passes a number of bytes, then nothing until it is
/// opened.
#[derive(Clone)]
pub(crate) struct Gate {
    pub(crate) address: SocketAddr,
    left: Arc<(Mutex<u64>, Condvar)>,
}

impl Gate {
    /// Creates a gate in front of `server` for one client. It passes `bytes` in both directions
    /// together.
    pub(crate) fn new(server: &str, bytes: u64) -> Self {
        let near = UdpSocket::bind("127.0.0.1:0").unwrap();
        let far = UdpSocket::bind("127.0.0.1:0").unwrap();
        far.connect(server).unwrap();
        let gate = Self {
            address: near.local_addr().unwrap(),
            left: Arc::new((Mutex::new(bytes), Condvar::new())),
        };
        let client = Arc::new(Mutex::new(None));
        let (to_server, from_server) = (far.try_clone().unwrap(), far);
        let (from_client, to_client) = (near.try_clone().unwrap(), near);
        let (known, this) = (Arc::clone(&client), gate.clone());
        // The threads end with the process, because they only hold sockets.
        std::thread::spawn(move || {
            let mut buffer = [0; 65536];
            while let Ok((length, from)) = from_client.recv_from(&mut buffer) {
                *known.lock().unwrap() = Some(from);
                this.pass(length);
                // If the server or client is gone, its socket refuses the datagram, which counts as
                // lost.
                let _ = to_server.send(&buffer[..length]);
            }
        });
        let this = gate.clone();
        std::thread::spawn(move || {
            let mut buffer = [0; 65536];
            loop {
                // An ICMP error of an earlier packet is reported here, once.
                let Ok(length) = from_server.recv(&mut buffer) else {
                    continue;
                };
                this.pass(length);
                let to = client.lock().unwrap().unwrap();
                let _ = to_client.send_to(&buffer[..length], to);
            }
        });
        gate
    }

    /// Waits until `bytes` more bytes may pass.
    fn pass(&self, bytes: usize) {
        let (left, changed) = &*self.left;
        let mut left = changed
            .wait_while(left.lock().unwrap(), |left| *left < bytes as u64)
            .unwrap();
        *left -= bytes as u64;
    }

    /// Lets everything pass from now on.
    pub(crate) fn open(&self) {
        *self.left.0.lock().unwrap() = u64::MAX;
        self.left.1.notify_all();
    }
}
