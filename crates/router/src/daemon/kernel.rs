//! What the kernel says of interfaces, asked by a thread of its own: rtnetlink waits for a lock of
//! the whole machine, which may take seconds where other interfaces come and go, and no client of
//! the status socket waits so long.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{self, Receiver, SyncSender};

use crate::tun::{LinkState, Watch};

/// Interfaces to ask about, each with its place among the links.
pub(super) type Watches = Vec<(usize, Watch)>;
/// What the kernel says of those that are there.
pub(super) type Looks = Vec<(usize, LinkState)>;

/// The thread that asks. It ends when this is dropped, as soon as the kernel lets it.
#[derive(Debug)]
pub(super) struct Kernel {
    questions: SyncSender<(Watches, SyncSender<Looks>)>,
}

impl Kernel {
    /// Starts the thread, which asks by `look`. What is written to `bell` tells of an answer.
    pub(super) fn start(
        bell: UnixStream,
        look: impl Fn(&Watch) -> Option<LinkState> + Send + 'static,
    ) -> io::Result<Self> {
        let (questions, asked) = mpsc::sync_channel::<(Watches, SyncSender<Looks>)>(1);
        let serve = move || {
            for (watches, reply) in asked {
                let looks = watches
                    .iter()
                    .filter_map(|(at, watch)| Some((*at, look(watch)?)));
                if reply.send(looks.collect()).is_ok() {
                    // A bell that cannot be rung any more has been rung often enough.
                    let _ = (&bell).write(&[1]);
                }
            }
        };
        let thread = std::thread::Builder::new().name("interfaces".to_owned());
        thread.spawn(serve).map(|_| Self { questions })
    }

    /// Where the answer will be, once the bell rings. `None`: the kernel has not answered
    /// earlier questions.
    pub(super) fn ask(&self, watches: Watches) -> Option<Receiver<Looks>> {
        let (reply, answer) = mpsc::sync_channel(1);
        self.questions.try_send((watches, reply)).ok()?;
        Some(answer)
    }
}
