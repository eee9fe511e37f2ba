//! Cells drawn by a seed.

use std::collections::HashSet;

use pathmark_link::impair::Random;

use super::axis::{Buffer, Burst, Count, Declared, Lossy, Mix, Percent, Rate, Size, Time};
use super::cell::{Cell, Group};

/// Number of cells of each group among 150 cells.
const SHARES: [(Group, usize); 6] = [
    (Group::Hidden, 40),
    (Group::Loss, 30),
    (Group::Outage, 20),
    (Group::Hops, 15),
    (Group::Jitter, 20),
    (Group::Flows, 25),
];
/// Default number of cells.
pub const CELLS: usize = 150;
/// Draws in a row without a new cell after which all are known.
const TRIES: usize = 1000;

/// Splits `cells` into groups, in the order of [`Group::ALL`], with the proportions of 150 cells.
/// The groups with the largest fractions get the remainder.
pub fn split(cells: usize) -> Vec<(Group, usize)> {
    let whole = |share: usize| cells * share / CELLS;
    let mut parts: Vec<_> = SHARES.map(|(group, share)| (group, whole(share))).into();
    let given: usize = parts.iter().map(|(_, count)| count).sum();
    let mut order: Vec<usize> = (0..parts.len()).collect();
    let fraction = |index: &usize| SHARES.get(*index).map_or(0, |(_, s)| cells * s % CELLS);
    order.sort_by_key(|index| std::cmp::Reverse(fraction(index)));
    for index in order.into_iter().take(cells - given) {
        if let Some((_, count)) = parts.get_mut(index) {
            *count += 1;
        }
    }
    parts
}

/// Returns the first `count` different cells of a group that this seed draws, or fewer if there are
/// no more.
pub fn draw(group: Group, seed: u64, count: usize) -> Vec<Cell> {
    let mut dice = Dice(Random::new(seed, group.name()));
    let (mut cells, mut known) = (Vec::new(), HashSet::new());
    let mut tries = 0;
    while cells.len() < count && tries < TRIES {
        let cell = dice.cell(group);
        if known.insert(cell) {
            tries = 0;
            cells.push(cell);
        } else {
            tries += 1;
        }
    }
    cells
}

/// Draws values of axes.
struct Dice(Random);

impl Dice {
    fn one<T: Copy>(&mut self, first: T, others: &[T]) -> T {
        let index = self.0.below(others.len() as u64 + 1);
        match index.checked_sub(1) {
            None => first,
            Some(index) => {
                let other = usize::try_from(index).ok().and_then(|i| others.get(i));
                other.copied().unwrap_or(first)
            }
        }
    }

    fn cell(&mut self, group: Group) -> Cell {
        match group {
            Group::Hidden => self.hidden(),
            Group::Loss => self.loss(),
            Group::Outage => self.outage(),
            Group::Hops => self.hops(),
            Group::Jitter => self.jitter(),
            Group::Flows => self.flows(),
        }
    }

    fn rtt(&mut self) -> Time {
        Time::millis(self.one(20, &[80, 400]))
    }

    fn ours(&mut self) -> u32 {
        self.one(1, &[2, 5, 20, 100])
    }

    /// One to 100 flows, alone or with two TCP flows.
    fn mix(&mut self) -> Mix {
        let ours = self.ours();
        Mix::new(ours, self.one(0, &[2]))
    }

    /// One to five flows, alone or with two TCP flows.
    fn few(&mut self) -> Mix {
        let ours = self.one(1, &[2, 5]);
        Mix::new(ours, self.one(0, &[0, 2]))
    }

    fn buffer(&mut self) -> Buffer {
        self.one(
            Buffer::Packets(2),
            &[
                Buffer::Packets(8),
                Buffer::Packets(20),
                Buffer::Packets(100),
                Buffer::Bdp(10),
            ],
        )
    }

    /// A marked rate, a hidden one, and a round trip.
    fn rates(&mut self) -> (Rate, Rate, Time) {
        let marked = Rate::mbit(self.one(20, &[100, 100, 1000]));
        let hidden = marked.percent(self.one(5, &[20, 50, 95]));
        let rtt = match marked.kbit {
            // A run only takes a few seconds.
            1_000_000 => Time::millis(20),
            _ => self.rtt(),
        };
        (marked, hidden, rtt)
    }

    fn hidden(&mut self) -> Cell {
        let (marked, hidden, rtt) = self.rates();
        let (buffer, flows) = (self.buffer(), self.mix());
        if self.one(true, &[false]) {
            Cell::After {
                marked,
                hidden,
                buffer,
                flows,
                rtt,
            }
        } else {
            Cell::Before {
                marked,
                hidden,
                buffer,
                flows,
                rtt,
            }
        }
    }

    fn per(&mut self) -> Percent {
        Percent {
            permille: self.one(1, &[10, 20, 50, 100]),
        }
    }

    fn loss(&mut self) -> Cell {
        let per = self.per();
        match self.0.below(11) {
            0..=5 => Cell::Random {
                rate: Rate::mbit(self.one(10, &[100])),
                per,
                burst: self.one(Burst::Single, &[Burst::Five]),
                lossy: self.one(Lossy::Through, &[Lossy::Begins, Lossy::Ends]),
                declared: self.one(Declared::Undeclared, &[Declared::Declared]),
                flows: self.mix(),
                rtt: self.rtt(),
            },
            6 | 7 => {
                let (marked, hidden, rtt) = self.rates();
                Cell::Both {
                    marked,
                    hidden,
                    buffer: self.buffer(),
                    per,
                    flows: self.mix(),
                    rtt,
                }
            }
            8 => {
                let (marked, hidden, rtt) = self.rates();
                Cell::Late {
                    marked,
                    hidden,
                    buffer: self.buffer(),
                    per,
                    flows: self.mix(),
                    rtt,
                }
            }
            9 => Cell::Join {
                rate: Rate::mbit(self.one(10, &[100])),
                per,
                flows: Mix::new(self.ours(), self.one(1, &[2])),
                rtt: self.rtt(),
            },
            _ => {
                let (marked, hidden, rtt) = self.rates();
                Cell::Forged {
                    marked,
                    hidden,
                    buffer: self.buffer(),
                    per,
                    flows: self.mix(),
                    rtt,
                }
            }
        }
    }

    fn outage(&mut self) -> Cell {
        match self.0.below(10) {
            0..=2 => Cell::Cut {
                rate: Rate::mbit(self.one(2, &[20, 100])),
                outage: Time::millis(self.one(100, &[300, 1000, 5000])),
                times: Count(self.one(1, &[3])),
                flows: self.few(),
                rtt: self.rtt(),
            },
            3 | 4 => Cell::Low {
                rate: Rate {
                    kbit: self.one(64, &[128, 256, 500, 1000]),
                },
                buffer: self.one(
                    Buffer::Packets(5),
                    &[Buffer::Packets(20), Buffer::Packets(100)],
                ),
                flows: self.few(),
                rtt: self.rtt(),
            },
            5 | 6 => Cell::Trace {
                rate: Rate::mbit(self.one(2, &[10, 50])),
                buffer: self.one(Buffer::Packets(100), &[Buffer::Bdp(10), Buffer::Bdp(50)]),
                flows: self.few(),
                rtt: Time::millis(self.one(30, &[60, 120])),
            },
            7 | 8 => Cell::Handover {
                rate: Rate::mbit(self.one(10, &[50])),
                outage: Time::millis(self.one(100, &[300, 1000])),
                flows: self.few(),
                rtt: Time::millis(self.one(30, &[60])),
            },
            _ => Cell::Radio {
                rate: Rate::mbit(self.one(10, &[50])),
                flows: self.few(),
                rtt: Time::millis(self.one(10, &[40])),
            },
        }
    }

    fn hops(&mut self) -> Cell {
        let rate = Rate::mbit(self.one(5, &[20]));
        let hops = Count(self.one(2, &[3, 5, 8]));
        let long = Count(self.one(1, &[1, 3]));
        let cross = self.one(
            Mix::new(1, 0),
            &[Mix::new(2, 0), Mix::new(4, 0), Mix::new(1, 1)],
        );
        let buffer = self.one(Buffer::Bdp(10), &[Buffer::Bdp(5), Buffer::Packets(50)]);
        let rtt = Time::millis(self.one(40, &[120, 240]));
        if self.0.below(3) < 2 {
            Cell::Lot {
                rate,
                hops,
                long,
                cross,
                buffer,
                rtt,
            }
        } else {
            Cell::Taper {
                rate,
                hops,
                long,
                cross,
                buffer,
                rtt,
            }
        }
    }

    fn jitter(&mut self) -> Cell {
        let rate = Rate::mbit(self.one(5, &[20, 50]));
        let rtt = Time::millis(self.one(40, &[80]));
        let jitter = Time::millis(self.one(5, &[20, 40]));
        match self.0.below(10) {
            0..=2 => Cell::Order {
                rate,
                jitter,
                flows: self.few(),
                rtt,
            },
            3 => Cell::Reorder {
                rate,
                jitter: Time::millis(self.one(2, &[10])),
                flows: self.few(),
                rtt,
            },
            4..=6 => {
                let flows = Mix::new(self.one(1, &[2, 8, 16]), self.one(0, &[0, 2]));
                let buffer = self.one(Buffer::Packets(100), &[Buffer::Packets(500)]);
                let fast = self.one(true, &[false]);
                let (rate, micros) = if fast {
                    (1000, self.one(100, &[200, 500]))
                } else {
                    (100, self.one(200, &[1000, 2000, 5000]))
                };
                Cell::Short {
                    rate: Rate::mbit(rate),
                    buffer,
                    flows,
                    rtt: Time { micros },
                }
            }
            _ => {
                let (rtt, then) = self.one((20, 300), &[(20, 80), (300, 20), (100, 200)]);
                Cell::Step {
                    rate,
                    flows: self.few(),
                    rtt: Time::millis(rtt),
                    then: Time::millis(then),
                }
            }
        }
    }

    fn flows(&mut self) -> Cell {
        match self.0.below(12) {
            0..=2 => Cell::Many {
                rate: Rate::mbit(self.one(10, &[60])),
                flows: self.one(
                    Mix::new(100, 0),
                    &[
                        Mix::new(50, 0),
                        Mix::new(20, 0),
                        Mix::new(20, 2),
                        Mix::new(5, 5),
                        Mix::new(1, 20),
                    ],
                ),
                rtt: self.rtt(),
            },
            3 | 4 => Cell::Mice {
                rate: Rate::mbit(self.one(10, &[50])),
                flows: self.one(Mix::new(1, 0), &[Mix::new(2, 0), Mix::new(2, 2)]),
                mice: Count(self.one(20, &[60])),
                size: Size {
                    kilobytes: self.one(30, &[100, 200]),
                },
                rtt: self.rtt(),
            },
            5 | 6 => Cell::Rtts {
                rate: Rate::mbit(self.one(10, &[50])),
                flows: self.one(Mix::new(1, 0), &[Mix::new(4, 0), Mix::new(2, 1)]),
                near: Time::millis(self.one(5, &[20])),
                far: Time::millis(self.one(200, &[800, 1000])),
            },
            7 => Cell::Sizes {
                rate: Rate::mbit(self.one(10, &[50])),
                flows: self.one(Mix::new(20, 0), &[Mix::new(5, 0), Mix::new(5, 2)]),
                large: Count(self.one(2, &[10])),
                near: Time::millis(self.one(20, &[80])),
                far: Time::millis(self.one(80, &[500])),
            },
            8 | 9 => Cell::Ports {
                rate: Rate::mbit(self.one(10, &[50])),
                flows: self.one(
                    Mix::new(1, 0),
                    &[Mix::new(1, 1), Mix::new(3, 0), Mix::new(2, 4)],
                ),
                guests: Count(self.one(1, &[3])),
                rtt: Time::millis(self.one(20, &[80])),
            },
            10 => Cell::Mixed {
                rate: Rate::mbit(self.one(10, &[50])),
                flows: self.one(Mix::new(1, 0), &[Mix::new(2, 1), Mix::new(4, 2)]),
                guests: Count(self.one(1, &[2])),
                rtt: self.rtt(),
            },
            _ => Cell::Tiny {
                rate: Rate::mbit(self.one(2, &[10])),
                flows: self.one(Mix::new(1, 0), &[Mix::new(2, 2), Mix::new(5, 0)]),
                share: Percent {
                    permille: self.one(100, &[300, 500]),
                },
                rtt: self.rtt(),
            },
        }
    }
}
