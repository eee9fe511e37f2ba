//! The kernel's state of interfaces, which a separate thread queries. This is necessary because
//! rtnetlink waits for a lock of the whole machine. While other interfaces are created and
//! removed, this may take seconds, longer than a client of the status socket waits.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{self, Receiver, SyncSender};

use super::wake::wake;
use crate::tun::{LinkState, Watch};

/// Interfaces to query, each with its index among the links.
pub(super) type Watches = Vec<(usize, Watch)>;
/// States of the interfaces that exist, by the same index.
pub(super) type Looks = Vec<(usize, LinkState)>;

/// The querying thread. After dropping this handle, the thread ends as soon as the kernel
/// returns.
#[derive(Debug)]
pub(super) struct Kernel {
    questions: SyncSender<(Watches, SyncSender<Looks>)>,
}

impl Kernel {
    /// Starts the thread, which queries by calling `look` and writes a byte to `waker` after
    /// each reply.
    pub(super) fn start(
        waker: UnixStream,
        look: impl Fn(&Watch) -> Option<LinkState> + Send + 'static,
    ) -> io::Result<Self> {
        let (questions, asked) = mpsc::sync_channel::<(Watches, SyncSender<Looks>)>(1);
        let serve = move || {
            for (watches, reply) in asked {
                let looks = watches
                    .iter()
                    .filter_map(|(at, watch)| Some((*at, look(watch)?)));
                if reply.send(looks.collect()).is_ok() {
                    wake(&waker);
                }
            }
        };
        let thread = std::thread::Builder::new().name("interfaces".to_owned());
        thread.spawn(serve).map(|_| Self { questions })
    }

    /// Sends a query. The reply is in the receiver once the other end of `waker` is readable.
    /// `None`: an earlier query is still open.
    pub(super) fn ask(&self, watches: Watches) -> Option<Receiver<Looks>> {
        let (reply, answer) = mpsc::sync_channel(1);
        self.questions.try_send((watches, reply)).ok()?;
        Some(answer)
    }
}
