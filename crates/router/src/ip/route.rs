//! Longest prefix match over IPv4 and IPv6.
//!
//! IPv4 is looked up in a few reads: one table covers the first 16 bits, and further tables cover
//! each of the next two bytes if longer prefixes need them. Each entry holds the longest prefix
//! that covers all of its addresses, so that a lookup never goes back. Tables are first built in
//! full ([`Draft`]) and then packed ([`Table`]). Because neighbouring entries of a byte's table
//! mostly agree, packing keeps only the first entry of each run, and one bit per place records
//! whether a run starts there. This takes about 100 bytes for each KiB, so that 10⁵ routes with the
//! prefix lengths of the global table fit into a second-level cache.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use prefix_trie::PrefixMap;

/// A prefix such as `10.1.0.0/16`; a bare address is a host route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix(IpNet);

/// Text that is not a prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PrefixError {
    /// Not an address, or an impossible length.
    #[error("cannot read the prefix `{0}`: write ADDRESS/LENGTH, as in 10.1.0.0/16 or fd00::/8")]
    Syntax(String),
    /// Bits are set beyond the prefix length.
    #[error("`{given}` has bits set behind its length: did you mean `{meant}`?")]
    HostBits {
        /// The given text.
        given: String,
        /// The same without those bits.
        meant: String,
    },
}

impl FromStr for Prefix {
    type Err = PrefixError;
    fn from_str(text: &str) -> Result<Self, PrefixError> {
        let net = match text.parse::<IpAddr>() {
            Ok(address) => IpNet::from(address),
            Err(_) => text
                .parse()
                .map_err(|_| PrefixError::Syntax(text.to_owned()))?,
        };
        if net != net.trunc() {
            return Err(PrefixError::HostBits {
                given: text.to_owned(),
                meant: net.trunc().to_string(),
            });
        }
        Ok(Self(net))
    }
}

impl Prefix {
    /// Returns true if the prefix contains `address`.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address)
    }

    /// Returns the prefix as address and length.
    pub fn net(&self) -> IpNet {
        self.0
    }
}

impl From<IpAddr> for Prefix {
    /// Creates the host route to `address`.
    fn from(address: IpAddr) -> Self {
        Self(IpNet::from(address))
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Routes with `T` as next hops. They can be looked up once they are [compiled](Self::compile).
#[derive(Clone, Debug)]
pub struct Routes<T> {
    v4: BTreeMap<Ipv4Net, T>,
    v6: PrefixMap<Ipv6Net, T>,
}

impl<T> Routes<T> {
    /// Creates a set without routes.
    pub fn new() -> Self {
        Self {
            v4: BTreeMap::new(),
            v6: PrefixMap::new(),
        }
    }

    /// Adds a route, replacing any route for the same prefix.
    pub fn insert(&mut self, prefix: Prefix, next_hop: T) {
        match prefix.0 {
            IpNet::V4(net) => drop(self.v4.insert(net, next_hop)),
            IpNet::V6(net) => drop(self.v6.insert(net, next_hop)),
        }
    }

    /// Number of routes.
    pub fn len(&self) -> usize {
        self.v4.len() + self.v6.len()
    }

    /// Returns true if there is no route.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T: PartialEq> Routes<T> {
    /// Compiles a table for lookups. It should have few different next hops; routes to more than
    /// 2²⁴ of them are omitted.
    pub fn compile(self) -> RouteTable<T> {
        let mut hops: Vec<T> = Vec::new();
        let mut draft = Draft::new();
        for (net, hop) in self.v4 {
            let number = hops.iter().position(|known| *known == hop);
            let number = number.unwrap_or_else(|| {
                hops.push(hop);
                hops.len() - 1
            });
            draft.insert(net, number);
        }
        RouteTable {
            v4: draft.pack(),
            v6: self.v6,
            hops,
        }
    }
}

impl<T> Default for Routes<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// An immutable routing table.
#[derive(Clone, Debug)]
pub struct RouteTable<T> {
    v4: Table,
    v6: PrefixMap<Ipv6Net, T>,
    /// IPv4 next hops, indexed by number.
    hops: Vec<T>,
}

impl<T> RouteTable<T> {
    /// Returns the next hop of the longest prefix that contains `destination`.
    pub fn lookup(&self, destination: IpAddr) -> Option<&T> {
        match destination {
            IpAddr::V4(address) => self.hops.get(self.v4.lookup(address)?),
            IpAddr::V6(address) => self.v6.get_lpm(&Ipv6Net::from(address)).map(|(_, hop)| hop),
        }
    }
}

impl<T> Default for RouteTable<T> {
    /// Creates a table without routes.
    fn default() -> Self {
        Self {
            v4: Table::default(),
            v6: PrefixMap::new(),
            hops: Vec::new(),
        }
    }
}

/// Maximum number of next hops in a table.
const MAX_HOPS: usize = (1 << HOP_BITS) - 1;
const HOP_BITS: u32 = 24;
const HOP_MASK: u32 = (1 << HOP_BITS) - 1;
/// Marks an entry that holds the number of a table over the next byte.
const DEEPER: u32 = 1 << 31;

/// Either a prefix's length and next hop, or a reference to a deeper table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry(u32);

impl Entry {
    /// No prefix. Next hops are numbered from 1.
    const NONE: Self = Self(0);

    fn leaf(length: u8, hop: u32) -> Self {
        Self(u32::from(length) << HOP_BITS | hop)
    }

    fn deeper(self) -> Option<usize> {
        (self.0 & DEEPER != 0).then_some((self.0 & !DEEPER) as usize)
    }

    fn length(self) -> u32 {
        self.0 >> HOP_BITS
    }
}

/// Unpacked tables.
#[derive(Debug)]
pub(super) struct Draft {
    /// Indexed by the first 16 bits.
    first: Box<[Entry]>,
    bytes: Vec<[Entry; 256]>,
}

impl Draft {
    pub(super) fn new() -> Self {
        Self {
            first: vec![Entry::NONE; 1 << 16].into_boxed_slice(),
            bytes: Vec::new(),
        }
    }

    /// Adds a route, replacing any route for the same prefix. If `hop` is too large, returns
    /// false without changing anything.
    pub(super) fn insert(&mut self, net: Ipv4Net, hop: usize) -> bool {
        let Some(hop) = u32::try_from(hop + 1)
            .ok()
            .filter(|hop| *hop as usize <= MAX_HOPS)
        else {
            return false;
        };
        let leaf = Entry::leaf(net.prefix_len(), hop);
        let (from, to) = (u32::from(net.network()), u32::from(net.broadcast()));
        let mut range = from as usize >> 16..=to as usize >> 16;
        if net.prefix_len() <= 16 {
            for entry in self.first.get_mut(range).unwrap_or_default() {
                cover(&mut self.bytes, entry, leaf);
            }
            return true;
        }
        let [_, _, third, fourth] = from.to_be_bytes();
        let [_, _, third_end, fourth_end] = to.to_be_bytes();
        let Some(entry) = self.first.get_mut(*range.start()) else {
            return false;
        };
        let mut table = deepen(&mut self.bytes, entry);
        range = third.into()..=third_end.into();
        if net.prefix_len() > 24 {
            let place = (table, *range.start());
            let mut entry = self.at(place);
            table = deepen(&mut self.bytes, &mut entry);
            self.put(place, entry);
            range = fourth.into()..=fourth_end.into();
        }
        for index in range {
            let mut entry = self.at((table, index));
            cover(&mut self.bytes, &mut entry, leaf);
            self.put((table, index), entry);
        }
        true
    }

    fn at(&self, (table, index): (usize, usize)) -> Entry {
        let table = self.bytes.get(table);
        *table
            .and_then(|table| table.get(index))
            .unwrap_or(&Entry::NONE)
    }

    fn put(&mut self, (table, index): (usize, usize), entry: Entry) {
        let table = self.bytes.get_mut(table);
        if let Some(place) = table.and_then(|table| table.get_mut(index)) {
            *place = entry;
        }
    }

    /// Packs the tables.
    pub(super) fn pack(&self) -> Table {
        let mut table = Table::default();
        let pack = |entry: &Entry| table.pack(&self.bytes, *entry);
        table.first = self.first.iter().map(pack).collect();
        table
    }
}

/// Makes `leaf` the result for all addresses of `entry` that no longer prefix covers.
fn cover(bytes: &mut [[Entry; 256]], entry: &mut Entry, leaf: Entry) {
    let Some(table) = entry.deeper() else {
        if entry.length() <= leaf.length() {
            *entry = leaf;
        }
        return;
    };
    for index in 0..256 {
        let Some(place) = bytes.get(table).and_then(|table| table.get(index)) else {
            return;
        };
        let mut inner = *place;
        cover(bytes, &mut inner, leaf);
        if let Some(place) = bytes.get_mut(table).and_then(|table| table.get_mut(index)) {
            *place = inner;
        }
    }
}

/// Number of the table below `entry`, and creates the table if necessary.
fn deepen(bytes: &mut Vec<[Entry; 256]>, entry: &mut Entry) -> usize {
    if let Some(table) = entry.deeper() {
        return table;
    }
    bytes.push([*entry; 256]);
    let table = bytes.len() - 1;
    // At most 2¹⁶ + 2²⁴ tables.
    *entry = Entry(DEEPER | u32::try_from(table).unwrap_or(0));
    table
}

/// Words of a packed table before its runs. They hold one bit per place, set if a run starts
/// there, and for each quarter the number of runs that start before it.
const HEADER: usize = 9;

/// Maps addresses to next hops, which the caller numbers from 0 to 2²⁴ − 2.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    /// Indexed by the first 16 bits; empty if there are no routes.
    first: Box<[Entry]>,
    /// Consecutive packed tables. Entries that refer to a table hold its start.
    packed: Vec<u32>,
}

impl Table {
    /// Packs the tables below `entry`.
    fn pack(&mut self, bytes: &[[Entry; 256]], entry: Entry) -> Entry {
        let Some(table) = entry.deeper().and_then(|table| bytes.get(table)) else {
            return entry;
        };
        let table = table.map(|entry| self.pack(bytes, entry));
        let begin = self.packed.len();
        let mut header = [0; HEADER];
        self.packed.extend(header);
        let mut before = None;
        let mut counts = [0u8; 4];
        let (starts, _) = header.split_at_mut(8);
        for (quarter, (places, count)) in table.chunks(64).zip(&mut counts).enumerate() {
            // At most 192.
            *count = u8::try_from(self.packed.len() - begin - HEADER).unwrap_or(u8::MAX);
            for (place, entry) in places.iter().enumerate() {
                if before != Some(entry) {
                    before = Some(entry);
                    self.packed.push(entry.0);
                    if let Some(word) = starts.get_mut(quarter * 2 + place / 32) {
                        *word |= 1 << (place % 32);
                    }
                }
            }
        }
        header[8] = u32::from_ne_bytes(counts);
        if let Some(place) = self.packed.get_mut(begin..begin + HEADER) {
            place.copy_from_slice(&header);
        }
        Entry(DEEPER | u32::try_from(begin).unwrap_or(0))
    }

    /// The next hop of the longest prefix that contains `address`.
    pub(super) fn lookup(&self, address: Ipv4Addr) -> Option<usize> {
        let [a, b, c, d] = address.octets();
        let first = usize::from(u16::from_be_bytes([a, b]));
        let mut entry = *self.first.get(first)?;
        for byte in [c, d] {
            let Some(table) = entry.deeper() else { break };
            entry = self.entry(table, byte)?;
        }
        (entry.0 & HOP_MASK).checked_sub(1).map(|hop| hop as usize)
    }

    /// The entry for a byte, in the table that starts at `begin`.
    fn entry(&self, begin: usize, byte: u8) -> Option<Entry> {
        let (header, runs) = self.packed.get(begin..)?.split_first_chunk::<HEADER>()?;
        let quarter = usize::from(byte >> 6);
        let low = u64::from(*header.get(quarter * 2)?);
        let high = u64::from(*header.get(quarter * 2 + 1)?);
        let up_to = (high << 32 | low) & u64::MAX >> (63 - (byte & 63));
        let before = *header[8].to_ne_bytes().get(quarter)?;
        let begun = usize::from(before) + up_to.count_ones() as usize;
        // The first place always starts a run.
        runs.get(begun.checked_sub(1)?).map(|run| Entry(*run))
    }
}

#[cfg(test)]
#[path = "route_tests.rs"]
mod tests;
