//! `tunnel` of a port.

use pathmark_link::keys::nearest;

use crate::encapsulation::Encapsulation;

const ALL: [Encapsulation; 2] = [Encapsulation::IpInIp, Encapsulation::Vxlan];
/// Tunnels that encrypt their packets.
const OPAQUE: [&str; 3] = ["esp", "ipsec", "wireguard"];

/// Parses the value.
///
/// # Errors
/// The reason why the value is invalid.
pub(super) fn read(value: &str) -> Result<Encapsulation, String> {
    if let Some(known) = ALL.into_iter().find(|known| known.name() == value) {
        return Ok(known);
    }
    if OPAQUE.contains(&value) {
        return Err(format!(
            "`{value}` encrypts the packets inside: no router can copy their shims, or merge \
             answers into them"
        ));
    }
    let meant = nearest(value, ALL.map(Encapsulation::name));
    let hint = meant.map_or_else(String::new, |meant| format!(": did you mean `{meant}`?"));
    Err(format!(
        "no tunnel is called `{value}`, only `ipip` and `vxlan`{hint}"
    ))
}
