//! Routing by least propagation delay, then fewest links, then the order in the file.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use pathmark_cc::Duration;

use super::LinkSetup;

/// The links from one node to another. `None`: there is no way.
pub(crate) fn route(
    nodes: usize,
    links: &[LinkSetup],
    from: usize,
    to: usize,
) -> Option<Vec<usize>> {
    let mut leaving: Vec<Vec<usize>> = vec![Vec::new(); nodes];
    for (index, link) in links.iter().enumerate() {
        leaving.get_mut(link.from)?.push(index);
    }
    // Cost, and the last link on the best way to a node.
    let mut best: Vec<Option<(Cost, Option<usize>)>> = vec![None; nodes];
    *best.get_mut(from)? = Some((Cost::default(), None));
    let mut open = BinaryHeap::from([Reverse((Cost::default(), from))]);
    while let Some(Reverse((cost, node))) = open.pop() {
        if best.get(node)?.is_some_and(|(least, _)| least < cost) {
            continue;
        }
        for &index in leaving.get(node)? {
            let link = links.get(index)?;
            let next = Cost {
                delay: cost.delay.saturating_add(link.spec.delay.0),
                hops: cost.hops + 1,
            };
            let known = best.get_mut(link.to)?;
            if known.is_none_or(|(least, _)| next < least) {
                *known = Some((next, Some(index)));
                open.push(Reverse((next, link.to)));
            }
        }
    }
    let mut way = Vec::new();
    let mut node = to;
    while node != from {
        let (_, by) = (*best.get(node)?)?;
        let index = by?;
        way.push(index);
        node = links.get(index)?.from;
    }
    way.reverse();
    Some(way)
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Cost {
    delay: Duration,
    hops: u32,
}
