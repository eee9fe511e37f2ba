//! What clients want to know of the router, asked so that nobody waits but they themselves.
//!
//! One question at a time is open at the thread that moves packets: a change, or a look at the
//! state for all who had asked for one when it began. Who comes later is told a later state. An
//! answer that does not come within a second is no answer. What the kernel alone knows of
//! interfaces is left out where it takes longer.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use super::desk::Counter;
use super::exchange::error_line;
use super::kernel::{Kernel, Looks};
use super::prometheus;
use super::query::{Hint, Query};
use super::snapshot::Snapshot;
use crate::tun::{LinkState, Watch};

/// How long the thread that moves packets may take for an answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long the kernel may take to tell of the interfaces.
const KERNEL: Duration = Duration::from_millis(500);

/// A client that waits.
#[derive(Debug)]
struct Asker {
    client: u64,
    query: Query,
    until: Instant,
}

/// Where the answer to the open question will be.
#[derive(Debug)]
enum Open {
    State(Receiver<Snapshot>),
    /// The state, without what the kernel says of the interfaces until then.
    Kernel(Box<Snapshot>, Receiver<Looks>, Instant),
    Change(Hint, Receiver<Result<(), String>>),
    Reload(Receiver<u64>),
}

/// Questions, and who waits for their answers.
#[derive(Debug)]
pub(super) struct Questions {
    counter: Counter,
    /// `None`: it cannot be asked.
    kernel: Option<Kernel>,
    open: Option<Open>,
    /// Who waits for the open question's answer.
    told: Vec<Asker>,
    /// Who waits for the next one, in the order in which they asked.
    waiting: Vec<Asker>,
}

/// An answer for a client; `None`: the router does not answer.
pub(super) type Told = (u64, Option<Arc<str>>);

impl Questions {
    pub(super) fn new(counter: Counter) -> Self {
        Self {
            counter,
            kernel: None,
            open: None,
            told: Vec::new(),
            waiting: Vec::new(),
        }
    }

    /// Has the kernel asked by `look` from here on, in a thread of its own.
    ///
    /// # Errors
    /// If there can be no such thread.
    pub(super) fn ask_kernel(
        &mut self,
        look: impl Fn(&Watch) -> Option<LinkState> + Send + 'static,
    ) -> io::Result<()> {
        self.kernel = Some(Kernel::start(self.counter.other_end()?, look)?);
        Ok(())
    }

    /// A client asks. What becomes of it [`settle`](Self::settle) says.
    pub(super) fn ask(&mut self, client: u64, query: Query, now: Instant) {
        let until = now + PATIENCE;
        self.waiting.push(Asker {
            client,
            query,
            until,
        });
    }

    /// Becomes readable when there is an answer.
    pub(super) fn bell(&self) -> RawFd {
        self.counter.bell().as_raw_fd()
    }

    /// When somebody's patience ends.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let all = self.told.iter().chain(&self.waiting);
        let kernel = match &self.open {
            Some(Open::Kernel(_, _, until)) => Some(*until),
            _ => None,
        };
        all.map(|asker| asker.until).chain(kernel).min()
    }

    /// Takes answers that have come, gives up those that have not come in time, and puts the next
    /// question. Never waits.
    pub(super) fn settle(&mut self, now: Instant) -> Vec<Told> {
        self.counter.hear();
        let mut told = Vec::new();
        loop {
            if let Some(open) = self.open.take() {
                match open.answer(now) {
                    Answered::Yet(open) => self.open = Some(open),
                    Answered::With(Answer::State(state)) => {
                        if let Err(state) = self.look(state, now) {
                            Answer::State(state).tell(&mut self.told, &mut told);
                        }
                    }
                    Answered::With(answer) => answer.tell(&mut self.told, &mut told),
                }
            }
            if self.open.is_some() || !self.put() {
                break;
            }
        }
        for askers in [&mut self.told, &mut self.waiting] {
            let late = askers.extract_if(.., |asker| asker.until <= now);
            told.extend(late.map(|asker| (asker.client, None)));
        }
        if self.told.is_empty() {
            // An answer that still comes is nobody's.
            self.open = None;
        }
        told
    }

    /// Asks the kernel about the interfaces in `state`. It is given back if there is nothing to
    /// ask, or nobody.
    fn look(&mut self, mut state: Box<Snapshot>, now: Instant) -> Result<(), Box<Snapshot>> {
        let watches = state.take_watches();
        if watches.is_empty() {
            return Err(state);
        }
        let asked = self.kernel.as_ref().and_then(|kernel| kernel.ask(watches));
        let Some(looks) = asked else {
            return Err(state);
        };
        // Those whose patience ends are told what there is.
        let patience = self.told.iter().map(|asker| asker.until).min();
        let until = patience.map_or(now, |until| until.min(now + KERNEL));
        self.open = Some(Open::Kernel(state, looks, until));
        Ok(())
    }

    /// Puts the next question. False if there is none, or the router has too many to answer.
    fn put(&mut self) -> bool {
        // First what changes something, so that a state asked for in the same moment shows it.
        let changes = |asker: &Asker| matches!(asker.query, Query::Capacity(_) | Query::Reload);
        if let Some(index) = self.waiting.iter().position(changes) {
            let open = self
                .waiting
                .get(index)
                .and_then(|asker| match &asker.query {
                    Query::Capacity(hint) => {
                        let answer = self.counter.capacity(hint.clone())?;
                        Some(Open::Change(hint.clone(), answer))
                    }
                    _ => self.counter.reload().map(Open::Reload),
                });
            self.open = open;
            if self.open.is_some() {
                self.told.push(self.waiting.remove(index));
            }
            return self.open.is_some();
        }
        if self.waiting.is_empty() {
            return false;
        }
        let Some(answer) = self.counter.snapshot() else {
            return false;
        };
        self.open = Some(Open::State(answer));
        self.told.append(&mut self.waiting);
        true
    }
}

/// What has become of a question.
enum Answered {
    /// Nothing yet.
    Yet(Open),
    With(Answer),
}

enum Answer {
    State(Box<Snapshot>),
    Line(String),
    Nothing,
}

impl Open {
    fn answer(self, now: Instant) -> Answered {
        match self {
            Self::Kernel(mut state, looks, until) => match looks.try_recv() {
                Ok(looks) => {
                    state.add(looks);
                    Answered::With(Answer::State(state))
                }
                Err(TryRecvError::Empty) if now < until => {
                    Answered::Yet(Self::Kernel(state, looks, until))
                }
                Err(_) => Answered::With(Answer::State(state)),
            },
            Self::State(answer) => match answer.try_recv() {
                Ok(snapshot) => Answered::With(Answer::State(Box::new(snapshot))),
                Err(TryRecvError::Empty) => Answered::Yet(Self::State(answer)),
                Err(TryRecvError::Disconnected) => Answered::With(Answer::Nothing),
            },
            Self::Change(hint, answer) => match answer.try_recv() {
                Ok(result) => Answered::With(Answer::Line(changed(&hint, result))),
                Err(TryRecvError::Empty) => Answered::Yet(Self::Change(hint, answer)),
                Err(TryRecvError::Disconnected) => Answered::With(Answer::Nothing),
            },
            Self::Reload(answer) => match answer.try_recv() {
                Ok(reloads) => Answered::With(Answer::Line(format!("{{\"reloads\":{reloads}}}\n"))),
                Err(TryRecvError::Empty) => Answered::Yet(Self::Reload(answer)),
                Err(TryRecvError::Disconnected) => Answered::With(Answer::Nothing),
            },
        }
    }
}

fn changed(hint: &Hint, result: Result<(), String>) -> String {
    let (port, bits) = (&hint.port, hint.rate.map(|rate| rate.bits));
    match result {
        Ok(()) => serde_json::json!({ "port": port, "capacity_bps": bits }).to_string() + "\n",
        Err(error) => error_line(&error),
    }
}

impl Answer {
    /// Gives everybody the text that they asked for; each is made once.
    fn tell(self, askers: &mut Vec<Asker>, told: &mut Vec<Told>) {
        let (mut json, mut metrics) = (None::<Arc<str>>, None::<Arc<str>>);
        let snapshot = match self {
            Self::State(snapshot) => snapshot,
            Self::Line(line) => {
                let line: Arc<str> = line.into();
                let all = askers.drain(..);
                told.extend(all.map(|asker| (asker.client, Some(Arc::clone(&line)))));
                return;
            }
            Self::Nothing => {
                told.extend(askers.drain(..).map(|asker| (asker.client, None)));
                return;
            }
        };
        for asker in askers.drain(..) {
            let text = match asker.query {
                Query::Metrics => {
                    metrics.get_or_insert_with(|| prometheus::render(&snapshot).into())
                }
                _ => json.get_or_insert_with(|| {
                    let text = serde_json::to_string(&snapshot);
                    text.map_or_else(|error| error_line(&error.to_string()), |text| text + "\n")
                        .into()
                }),
            };
            told.push((asker.client, Some(Arc::clone(text))));
        }
    }
}
