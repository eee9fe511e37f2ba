//! The sample packets of RFC 9001, Appendix A.

use super::tls::testing;
use super::*;

const DCID: &str = "8394c8f03e515708";

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<_> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    let pairs = digits.chunks(2);
    let bytes = pairs.map(|d| u8::try_from(d[0] << 4 | d[1]).unwrap());
    bytes.collect()
}

/// Seals header and payload, and masks the header, as a sender does.
fn protect(keys: &DirectionalKeys, pn: u64, header: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut packet = [header, payload, &[0; 16]].concat();
    keys.packet.seal(pn, &mut packet, header.len()).unwrap();
    let pn_len = usize::from(header[0] & 3) + 1;
    let pn_at = header.len() - pn_len;
    let sample = *packet[pn_at + 4..].first_chunk().unwrap();
    let mask = keys.header.mask(&sample);
    packet[0] ^= mask[0] & if header[0] & 0x80 == 0 { 0x1f } else { 0x0f };
    for (byte, m) in packet[pn_at..header.len()].iter_mut().zip(&mask[1..]) {
        *byte ^= m;
    }
    packet
}

#[test]
fn a2_client_initial() {
    // [9001 5.2 initial-derivation]
    let header = hex("c300000001088394c8f03e5157080000449e00000002");
    let mut payload = hex(
        "060040f1010000ed0303ebf8fa56f12939b9584a3896472ec40bb863cfd3e868
         04fe3a47f06a2b69484c00000413011302010000c000000010000e00000b6578
         616d706c652e636f6dff01000100000a00080006001d00170018001000070005
         04616c706e000500050100000000003300260024001d00209370b2c9caa47fba
         baf4559fedba753de171fa71f50f1ce15d43e994ec74d748002b000302030400
         0d0010000e0403050306030203080408050806002d00020101001c0002400100
         3900320408ffffffffffffffff05048000ffff07048000ffff08011001048000
         75300901100f088394c8f03e51570806048000ffff",
    );
    payload.resize(1162, 0);
    let client = testing::client(tls::Trust::Anyone, &[b"a"]);
    let keys = client.initial_keys(&hex(DCID), Side::Client);
    let packet = protect(&keys.local, 2, &header, &payload);
    assert_eq!(packet.len(), 1200);
    let start = hex("c000000001088394c8f03e5157080000449e7b9aec34d1b1c98dd7689fb8ec11d242b123dc9b");
    assert_eq!(packet[..38], start);
    assert_eq!(packet[1184..], hex("e221af44860018ab0856972e194cd934"));

    let server = testing::server("server", &[b"a"]).initial_keys(&hex(DCID), Side::Server);
    let mut plain = [&header, &packet[22..]].concat();
    assert_eq!(server.remote.packet.open(2, &mut plain, 22), Ok(1162));
    assert_eq!(plain[22..1184], payload);
}

#[test]
fn a3_server_initial() {
    let header = hex("c1000000010008f067a5502a4262b50040750001");
    let payload = hex(
        "02000000000600405a020000560303eefce7f7b37ba1d1632e96677825ddf739
         88cfc79825df566dc5430b9a045a1200130100002e00330024001d00209d3c94
         0d89690b84d08a60993c144eca684d1081287c834d5311bcf32bb9da1a002b00
         020304",
    );
    let keys = testing::server("server", &[b"a"]).initial_keys(&hex(DCID), Side::Server);
    assert_eq!(
        protect(&keys.local, 1, &header, &payload),
        hex(
            "cf000000010008f067a5502a4262b5004075c0d95a482cd0991cd25b0aac406a
             5816b6394100f37a1c69797554780bb38cc5a99f5ede4cf73c3ec2493a1839b3
             dbcba3f6ea46c5b7684df3548e7ddeb9c3bf9c73cc3f3bded74b562bfb19fb84
             022f8ef4cdd93795d77d06edbb7aaf2f58891850abbdca3d20398c276456cbc4
             2158407dd074ee"
        )
    );
}

#[test]
fn a4_retry() {
    let retry = hex("ff000000010008f067a5502a4262b5746f6b656e04a265ba2eff4d829058fb3f0f2496ba");
    let (packet, tag) = retry.split_last_chunk::<RETRY_TAG_LEN>().unwrap();
    let server = testing::server("server", &[b"a"]);
    assert_eq!(server.retry_tag(&hex(DCID), packet), *tag);
}

#[test]
fn a5_chacha20_short_header() {
    let array = |text| <[u8; 32]>::try_from(hex(text)).unwrap();
    let keys = testing::chacha20_keys(
        array("c6d98ff3441c3fe1b2182094f69caa2ed4b716b65488960a7a984979fb23e1c8"),
        hex("e0459b3474bdd0e44a41c144").try_into().unwrap(),
        array("25a282b9e82f06f21f488917a4fc8f1b73573685608597d0efcb076b0ab7a7a4"),
    );
    let sealed = protect(&keys, 654_360_564, &hex("4200bff4"), &[1]);
    assert_eq!(sealed, hex("4cfe4189655e5cd55c41f69080575d7999c25a5bfb"));
    assert_eq!(keys.packet.integrity_limit(), 1 << 36);
}

#[test]
fn aes_gcm_limits_are_those_of_section_6_6() {
    let client = testing::client(tls::Trust::Anyone, &[b"a"]);
    let key = client.initial_keys(&hex(DCID), Side::Client).local.packet;
    assert_eq!(key.confidentiality_limit(), 1 << 23);
    assert_eq!((key.integrity_limit(), key.tag_len()), (1 << 52, 16));
}
