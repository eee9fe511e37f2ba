//! Programs that run on a node and die with the process that started them, and real-time
//! measurements on a machine that also does other work.
//!
//! A test that measures rates or delays of real processes also measures the scheduler. If a check
//! fails while threads were held up, this says nothing about the code, so the check is repeated. If
//! it fails without any delays, it has failed.

use std::io::{self, Read};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, thread};

use rustix::process::{Pid, Signal, kill_process};

use crate::namespace::Node;
use crate::sys::{self, Namespaces};

/// A running program, which is killed when you drop this value.
///
/// It is also killed when the starting process dies in any way.
#[derive(Debug)]
pub struct ChildGuard {
    child: Child,
}

impl Node {
    /// Starts `command` on this node. The program inherits the descriptors in `inherit` under the
    /// same numbers.
    ///
    /// # Errors
    /// Those of [`Command::spawn`] and of entering the namespaces.
    pub fn spawn(
        &self,
        mut command: Command,
        inherit: &[BorrowedFd<'_>],
    ) -> io::Result<ChildGuard> {
        let (user, net) = self.namespaces();
        let user = user.try_clone_to_owned()?;
        let net = net.try_clone_to_owned()?;
        let inherited: Vec<RawFd> = inherit.iter().map(AsRawFd::as_raw_fd).collect();
        sys::before_exec(&mut command, Namespaces { user, net }, inherited);
        Ok(ChildGuard {
            child: spawn_from_lasting_thread(command)?,
        })
    }

    /// Runs a script of sh(1) as root, to its end or its first failure, and returns its output.
    ///
    /// # Errors
    /// Those of [`spawn`](Self::spawn), or if the script fails.
    pub fn script(&self, script: &str) -> io::Result<String> {
        let mut shell = Command::new("sh");
        let path = "/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin";
        shell.args(["-e", "-c", script]).env("PATH", path);
        shell.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut shell = self.spawn(shell, &[])?;
        let mut text = String::new();
        if let Some(mut stdout) = shell.child().stdout.take() {
            stdout.read_to_string(&mut text)?;
        }
        let status = shell.wait()?;
        match status.success() {
            true => Ok(text),
            false => Err(io::Error::other(format!("{script}: {status}"))),
        }
    }
}

impl ChildGuard {
    /// Returns the running program, for example to take its pipes.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Returns the process ID.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(kill_process(Pid::from_child(&self.child), signal)?)
    }

    /// Asks the program to terminate (SIGTERM).
    ///
    /// # Errors
    /// If it has already ended.
    pub fn terminate(&self) -> io::Result<()> {
        self.signal(Signal::TERM)
    }

    /// Asks the program to reload its configuration (SIGHUP).
    ///
    /// # Errors
    /// If it has already ended.
    pub fn hang_up(&self) -> io::Result<()> {
        self.signal(Signal::HUP)
    }

    /// Stops the program (SIGSTOP) until [`go_on`](Self::go_on), and returns once all of its
    /// threads have stopped, because only one thread receives the signal at first.
    ///
    /// # Errors
    /// If it has already ended.
    pub fn halt(&self) -> io::Result<()> {
        self.signal(Signal::STOP)?;
        let tasks = format!("/proc/{}/task", self.child.id());
        let is_stopped = |task: io::Result<fs::DirEntry>| {
            let stat = fs::read_to_string(task?.path().join("stat"))?;
            // The state follows the name, which is in parentheses (proc(5)).
            let state = stat
                .rsplit_once(") ")
                .map(|(_, rest)| rest.starts_with('T'));
            Ok::<_, io::Error>(state == Some(true))
        };
        loop {
            let states: io::Result<Vec<bool>> = fs::read_dir(&tasks)?.map(is_stopped).collect();
            if states?.into_iter().all(|stopped| stopped) {
                return Ok(());
            }
            std::thread::yield_now();
        }
    }

    /// Continues the program (SIGCONT) after [`halt`](Self::halt).
    ///
    /// # Errors
    /// If it has already ended.
    pub fn go_on(&self) -> io::Result<()> {
        self.signal(Signal::CONT)
    }

    /// Kills the program (SIGKILL) and waits until it has ended.
    ///
    /// # Errors
    /// If its end was already waited for.
    pub fn kill(&mut self) -> io::Result<ExitStatus> {
        self.child.kill()?;
        self.child.wait()
    }

    /// Waits until the program ends.
    ///
    /// # Errors
    /// If its end was already waited for.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait()
    }
}

impl Drop for ChildGuard {
    fn drop(&mut self) {
        // Both calls only fail if the end of the program was already waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

type Job = (Command, Sender<io::Result<Child>>);

/// Starts all programs from one thread that lasts as long as the process, because the kernel's
/// parent-death signal depends on the *thread* that forked.
fn spawn_from_lasting_thread(command: Command) -> io::Result<Child> {
    static SPAWNER: OnceLock<Mutex<Sender<Job>>> = OnceLock::new();
    let gone = || io::Error::other("the thread that starts programs ended");
    let spawner = SPAWNER.get_or_init(|| {
        let (jobs, queue) = channel::<Job>();
        std::thread::spawn(move || {
            for (mut command, reply) in queue {
                // If the caller has given up, its receiver is gone. Then no guard reaps the child.
                let _ = reply.send(command.spawn());
            }
        });
        Mutex::new(jobs)
    });
    let (reply, answer) = channel();
    spawner
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .send((command, reply))
        .map_err(|_| gone())?;
    answer.recv().map_err(|_| gone())?
}

/// Largest number of attempts per check.
const MOST: u32 = 4;
/// A thread that wakes this late was held up, so routers and endpoints were held up as well.
const HELD_UP: Duration = Duration::from_millis(10);
/// How long a thread sleeps before it checks again.
const LOOK: Duration = Duration::from_millis(1);

/// Runs a check that measures in real time. If the check panics while this machine held threads up
/// by 10 ms or more, it is repeated, up to four attempts in all.
///
/// # Panics
///
/// If `check` panics in the last attempt.
pub fn undisturbed<T>(check: impl Fn() -> T) -> T {
    repeat(|| {
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            // One thread on each of the first 32 processors, because a virtual machine may lose a
            // single processor.
            let processors = sys::processors().unwrap_or_default();
            let pinned = processors
                .into_iter()
                .take(32)
                .map(Some)
                .chain([None])
                .map(|processor| {
                    let over = &over;
                    scope.spawn(move || latest(over, processor))
                });
            let watches: Vec<_> = pinned.collect();
            let outcome = catch_unwind(AssertUnwindSafe(&check));
            over.store(true, Ordering::Relaxed);
            let late = watches
                .into_iter()
                .map(|watch| watch.join().unwrap_or_default());
            (outcome, late.max().unwrap_or_default())
        })
    })
}

fn repeat<T>(mut once: impl FnMut() -> (thread::Result<T>, Duration)) -> T {
    let mut times = 1;
    loop {
        match once() {
            (Ok(done), _) => return done,
            (Err(panic), late) if late < HELD_UP || times == MOST => resume_unwind(panic),
            (Err(_), late) => {
                times += 1;
                eprintln!("threads were held up by {late:?} meanwhile: time {times} of {MOST}");
            }
        }
    }
}

/// Returns the largest delay with which a thread that repeatedly sleeps for [`LOOK`] wakes up. It
/// runs on `processor` if this is given.
#[expect(
    clippy::disallowed_methods,
    reason = "the clock and the scheduler are what it measures"
)]
fn latest(over: &AtomicBool, processor: Option<usize>) -> Duration {
    if let Some(processor) = processor
        && sys::stay_on(processor).is_err()
    {
        // This process may not be allowed to use it any more.
        return Duration::ZERO;
    }
    let mut latest = Duration::ZERO;
    while !over.load(Ordering::Relaxed) {
        let before = Instant::now();
        thread::sleep(LOOK);
        latest = latest.max(before.elapsed().saturating_sub(LOOK));
    }
    latest
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a check that fails the first `failures` times while threads are held up by `late`.
    /// Returns the number of attempts and whether the check passes.
    fn run(failures: u32, late: Duration) -> (u32, bool) {
        let mut times = 0;
        let passes = catch_unwind(AssertUnwindSafe(|| {
            repeat(|| {
                times += 1;
                let outcome = if times <= failures {
                    Err(Box::new("it failed") as Box<dyn std::any::Any + Send>)
                } else {
                    Ok(())
                };
                (outcome, late)
            });
        }));
        (times, passes.is_ok())
    }

    #[test]
    fn a_check_is_made_again_only_where_threads_were_held_up() {
        let quiet = Duration::from_millis(9);
        assert_eq!(run(0, Duration::ZERO), (1, true));
        assert_eq!(run(0, HELD_UP), (1, true));
        assert_eq!(run(1, quiet), (1, false));
        assert_eq!(run(1, HELD_UP), (2, true));
        assert_eq!(run(3, HELD_UP), (4, true));
        assert_eq!(run(4, HELD_UP), (4, false), "not for ever");
    }

    #[test]
    fn a_watch_stays_on_its_processor() {
        let all = sys::processors().unwrap();
        assert!(!all.is_empty());
        for processor in all {
            thread::spawn(move || {
                sys::stay_on(processor).unwrap();
                assert_eq!(sys::processors().unwrap(), [processor]);
            })
            .join()
            .unwrap();
        }
        assert!(sys::stay_on(usize::MAX).is_err());
    }

    #[test]
    fn what_the_check_returns_and_says_is_handed_on() {
        assert_eq!(undisturbed(|| 7), 7);
        let said = catch_unwind(|| undisturbed(|| panic!("as the check does"))).unwrap_err();
        assert_eq!(said.downcast_ref::<&str>(), Some(&"as the check does"));
    }
}
