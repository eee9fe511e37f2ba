//! Counters read from arbitrary bytes.

use pathmark_cc::Countable;

/// Returns an upper bound of the packets sent, and two sets of counters, with the older set first.
pub(crate) fn read(input: &[u8]) -> Option<(Countable, Vec<u64>, Vec<u64>)> {
    let (numbers, _) = input.as_chunks::<8>();
    let mut numbers = numbers.iter().map(|&bytes| u64::from_be_bytes(bytes));
    let sent = Countable {
        packets: numbers.next()?,
        bytes: numbers.next()?,
        longest: numbers.next()?,
    };
    let mut older: Vec<u64> = numbers.collect();
    let newer = older.split_off(older.len() / 2);
    Some((sent, older, newer))
}
