//! A registered protocol: its shims in datagrams and packets, and which protocols can be
//! registered.

#[path = "../../../shim/tests/it/packet.rs"]
mod around;

use std::thread;

use around::packet;
use pathmark_cc::{Answer, Carried, OwnWords};
use pathmark_protocols::packet::{Row, Target, write_answer};
use pathmark_protocols::shim::{Carrier, Identity, NoHeader, alike, find, read, write};
use pathmark_protocols::tunnel::{copy_outward, lift, merge_back};
use pathmark_protocols::{Protocol, RegisterError, register};
use pathmark_shim::Kind;
use pathmark_shim::frame::{expect, seal};
use pathmark_shim::ip::Layout;
use pathmark_shim::udp::{ChecksumState, Datagram};

const LEN: usize = 12;

/// Shims of 12 bytes with a 32-bit field, which ports lower, and the last router's identity.
struct Lowered {
    kind: u8,
    name: &'static str,
}

impl Protocol for Lowered {
    fn kind(&self) -> Kind {
        Kind::new(self.kind).unwrap()
    }

    fn name(&self) -> &'static str {
        self.name
    }

    fn read(&self, payload: &[u8]) -> Option<[u64; 3]> {
        let &[_, _, _, _, a, b, c, d, ..] = expect::<LEN>(self.kind(), payload).ok()?;
        Some([u32::from_be_bytes([a, b, c, d]).into(), 0, 0])
    }

    fn write(&self, [field, _, _]: [u64; 3], router: u16, payload: &mut [u8]) -> bool {
        let Some([before, _, _]) = self.read(payload) else {
            return false;
        };
        let Some(room) = payload.first_chunk_mut::<LEN>() else {
            return false;
        };
        *room = shim(self.kind, field.min(before) as u32, router);
        true
    }

    #[cfg(feature = "transport")]
    fn signal(&self) -> std::sync::Arc<dyn pathmark_transport::Signal> {
        std::sync::Arc::new(vcp_proto::VcpEcnSignal)
    }
}

fn shim(kind: u8, field: u32, router: u16) -> [u8; LEN] {
    let mut shim = [0; LEN];
    shim[4..8].copy_from_slice(&field.to_be_bytes());
    shim[8..10].copy_from_slice(&router.to_be_bytes());
    seal(Kind::new(kind).unwrap(), &mut shim);
    shim
}

fn answer(kind: u8, field: u64) -> Answer {
    let words = [field, 0, 0];
    Answer::Own(OwnWords { kind, words })
}

fn carried(kind: u8, field: u64) -> Carried {
    let words = [field, 0, 0];
    Carried::Own(OwnWords { kind, words })
}

fn located(bytes: &[u8]) -> (Layout, Datagram) {
    let ip = Layout::walk(bytes).unwrap();
    let udp = Datagram::locate(bytes, &ip).unwrap();
    (ip, udp)
}

#[test]
fn shims_are_read_and_answered() {
    const KIND: u8 = 7;
    let unread = [&shim(KIND, 900, 0)[..], &[1; 20]].concat();
    assert_eq!(read(&unread, 1500, &NoHeader), Carried::Foreign);
    static LOWERED: Lowered = Lowered {
        kind: KIND,
        name: "lowered",
    };
    register(&LOWERED).unwrap();
    assert_eq!(read(&unread, 1500, &NoHeader), carried(KIND, 900));

    // Outside a tunnel: by default the copy's fields replace those of the inner shim.
    let inner = lift(&unread).unwrap();
    let outer = lift(&shim(KIND, 950, 8)).unwrap();
    assert_eq!(copy_outward(&inner, 3), inner);
    assert_eq!(merge_back(&inner, &outer, 3), Some(outer));

    // In a separate datagram, only the shim changes, and its field is only lowered.
    let router = Identity::new(3);
    let mut payload = unread.clone();
    assert!(write(&mut payload, &answer(KIND, 500), 1500, &router));
    assert_eq!(payload, [&shim(KIND, 500, 3)[..], &[1; 20]].concat());
    assert!(!write(&mut payload, &answer(6, 1), 1500, &router));
    assert!(!write(
        &mut payload[..LEN - 1],
        &answer(KIND, 1),
        1500,
        &router
    ));
    payload[5] ^= 1;
    assert_eq!(read(&payload, 1500, &NoHeader), Carried::Foreign);

    // In a packet, the checksum remains the one that a sender would compute.
    let mut bytes = packet(false, &unread);
    let (ip, udp) = located(&bytes);
    let (seen, carrier) = find(&bytes, &udp, 1500, &NoHeader);
    assert_eq!(seen, carried(KIND, 900));
    assert_eq!(carrier, Carrier::Shim { payload: 28 });
    let target = Target {
        carrier,
        segment: None,
        checksum: ChecksumState::Complete,
    };
    let mut row = Row::default();
    write_answer(
        &mut bytes,
        &target,
        0,
        &answer(KIND, 100),
        &router,
        &mut row,
    );
    let expected = [&shim(KIND, 100, 3)[..], &[1; 20]].concat();
    assert_eq!(udp.payload(&bytes), expected);
    let renewed = udp.compute_checksum(&bytes, &ip);
    assert_eq!(bytes[26..28], renewed.to_be_bytes());

    // The second segment of a super-packet, whose checksum is completed later by offload.
    let mut two = packet(false, &[&unread[..], &unread].concat());
    let mut target = target;
    (target.segment, target.checksum) = (Some(unread.len()), ChecksumState::Partial);
    write_answer(&mut two, &target, 1, &answer(KIND, 100), &router, &mut row);
    let segments: Vec<&[u8]> = two[28..].chunks(unread.len()).collect();
    assert_eq!(segments[0], unread);
    assert_eq!(segments[1], [&shim(KIND, 100, 3)[..], &[1; 20]].concat());
    assert!(!alike(segments[0], segments[1]) && alike(segments[0], &unread));
    assert!(!alike(segments[0], &[1; 32]));
}

#[test]
fn one_of_many_registers_a_kind() {
    static MANY: [Lowered; 4] = [const {
        Lowered {
            kind: 5,
            name: "one-of-many",
        }
    }; 4];
    let results: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = MANY
            .iter()
            .map(|one| scope.spawn(|| register(one)))
            .collect();
        threads.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let taken = Err(RegisterError::Taken { kind: 5 });
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    assert_eq!(results.iter().filter(|result| **result == taken).count(), 3);
    static VCP: Lowered = Lowered {
        kind: 0,
        name: "mine",
    };
    assert_eq!(register(&VCP), Err(RegisterError::Taken { kind: 0 }));
    static NAMED: Lowered = Lowered {
        kind: 6,
        name: "xcp",
    };
    assert_eq!(register(&NAMED), Err(RegisterError::Name { name: "xcp" }));
}
