//! Programs that run on a node and die with the process that started them.

use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::namespace::Node;
use crate::sys::{self, Namespaces};

/// A running program, ended when this value is dropped.
///
/// It also ends when the starting process dies, however that happens.
#[derive(Debug)]
pub struct ChildGuard {
    child: Child,
}

impl Node {
    /// Starts `command` on this node. It inherits the descriptors in `inherit` under their numbers.
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

    /// Runs a script of sh(1) to its end or its first failure, with the tools of a superuser:
    /// returns what it prints.
    ///
    /// # Errors
    /// Those of [`spawn`](Self::spawn), and a script that fails.
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
    /// The running program, to take its pipes.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to end (SIGTERM).
    ///
    /// # Errors
    /// If it is gone already.
    pub fn terminate(&self) -> io::Result<()> {
        sys::kill(self.child.id(), libc::SIGTERM)
    }

    /// Asks it to read its configuration again (SIGHUP).
    ///
    /// # Errors
    /// If it is gone already.
    pub fn hang_up(&self) -> io::Result<()> {
        sys::kill(self.child.id(), libc::SIGHUP)
    }

    /// Stops it (SIGSTOP) until [`go_on`](Self::go_on), and returns once each of its threads has
    /// stopped: one of them takes the signal first.
    ///
    /// # Errors
    /// If it is gone already.
    pub fn halt(&self) -> io::Result<()> {
        sys::kill(self.child.id(), libc::SIGSTOP)?;
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

    /// Has it go on (SIGCONT) where it was [`halt`](Self::halt)ed.
    ///
    /// # Errors
    /// If it is gone already.
    pub fn go_on(&self) -> io::Result<()> {
        sys::kill(self.child.id(), libc::SIGCONT)
    }

    /// Ends it at once (SIGKILL) and waits.
    ///
    /// # Errors
    /// If it was waited for already.
    pub fn kill(&mut self) -> io::Result<ExitStatus> {
        self.child.kill()?;
        self.child.wait()
    }

    /// Waits until it ends.
    ///
    /// # Errors
    /// If it was waited for already.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait()
    }
}

impl Drop for ChildGuard {
    fn drop(&mut self) {
        // Both fail only if the program has ended and was waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

type Job = (Command, Sender<io::Result<Child>>);

/// The kernel's parent-death signal follows the *thread* that forked. So one thread that lasts as
/// long as the process starts all programs.
fn spawn_from_lasting_thread(command: Command) -> io::Result<Child> {
    static SPAWNER: OnceLock<Mutex<Sender<Job>>> = OnceLock::new();
    let gone = || io::Error::other("the thread that starts programs ended");
    let spawner = SPAWNER.get_or_init(|| {
        let (jobs, queue) = channel::<Job>();
        std::thread::spawn(move || {
            for (mut command, reply) in queue {
                // A caller that gave up drops its receiver; the child is then reaped by its own
                // guard's absence.
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
