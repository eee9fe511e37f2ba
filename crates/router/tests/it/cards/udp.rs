//! Datagrams from LAN to WAN that tell whether they passed the router or passed it by.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use super::{Cards, address};

impl Cards {
    /// UDP from LAN to WAN.
    pub(crate) fn udp(&self, v6: bool) -> Udp {
        let [from, to] = [(&self.lan, self.hosts.lan), (&self.wan, self.hosts.wan)]
            .map(|(node, host)| node.udp(address(host, v6, 0)).unwrap());
        from.connect(to.local_addr().unwrap()).unwrap();
        to.set_nonblocking(true).unwrap();
        Udp { from, to, v6 }
    }
}

/// A way for datagrams from LAN to WAN.
pub(crate) struct Udp {
    pub(crate) from: UdpSocket,
    pub(crate) to: UdpSocket,
    v6: bool,
}

/// What a datagram crosses: the kernel, the router and the kernel again, or the kernel alone. One
/// that may cross no more than the kernel alone arrives only if it passes by the router.
const FEW_HOPS: u32 = 3;

/// What is sent until it arrives is sent again after this time.
const AGAIN: Duration = Duration::from_millis(5);

/// What does not happen within this time does not happen.
const PATIENCE: Duration = Duration::from_secs(10);

impl Udp {
    /// Sends one datagram that the router would end; refusals (ICMP) are what closed means.
    pub(crate) fn probe(&self) {
        self.hops(FEW_HOPS);
        let _ = self.from.send(b"past");
    }

    /// Sends one datagram that passes.
    pub(crate) fn send(&self) {
        self.hops(64);
        let _ = self.from.send(b"ok");
    }

    /// Sends this, with the usual TTL.
    pub(crate) fn send_all(&self, payload: &[u8]) {
        self.hops(64);
        let _ = self.from.send(payload);
    }

    fn hops(&self, hops: u32) {
        if self.v6 {
            let socket = socket2::SockRef::from(&self.from);
            socket.set_unicast_hops_v6(hops).unwrap();
        } else {
            self.from.set_ttl(hops).unwrap();
        }
    }

    /// Datagrams that came since the last call: by the router, and past it.
    pub(crate) fn count(&self) -> (usize, usize) {
        let (mut through, mut past) = (0, 0);
        let mut buffer = [0; 16];
        while let Ok(len) = self.to.recv(&mut buffer) {
            match &buffer[..len] {
                b"past" => past += 1,
                _ => through += 1,
            }
        }
        (through, past)
    }

    /// The next datagram, if one comes within `patience`: true if it came past the router.
    pub(crate) fn next(&self, patience: Duration) -> Option<bool> {
        self.to.set_nonblocking(false).unwrap();
        self.to.set_read_timeout(Some(patience)).unwrap();
        let mut buffer = [0; 16];
        let got = self.to.recv(&mut buffer).ok();
        self.to.set_nonblocking(true).unwrap();
        got.map(|len| &buffer[..len] == b"past")
    }

    /// Sends until a datagram has arrived past the router.
    pub(crate) fn until_past(&self) {
        let start = Instant::now();
        loop {
            self.probe();
            if self.next(AGAIN) == Some(true) {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "not open");
        }
    }

    /// Sends until no datagram arrives past the router any more: five times another that was sent
    /// behind it comes alone.
    pub(crate) fn until_not_past(&self) {
        let start = Instant::now();
        let mut alone = 0;
        while alone < 5 {
            self.count();
            self.probe();
            self.send();
            match self.next(AGAIN) {
                Some(true) => alone = 0,
                Some(false) => alone += 1,
                None => {}
            }
            assert!(start.elapsed() < PATIENCE, "still open");
        }
    }

    /// Sends until a datagram has arrived.
    pub(crate) fn until_it_passes(&self) -> Duration {
        let start = Instant::now();
        loop {
            self.send();
            if self.next(AGAIN) == Some(false) {
                return start.elapsed();
            }
            assert!(start.elapsed() < PATIENCE, "nothing passes");
        }
    }
}
