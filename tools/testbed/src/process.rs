//! Programs that run on a node and die with the process that started them.

use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock, PoisonError};

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

    /// Asks the program to terminate (SIGTERM).
    ///
    /// # Errors
    /// If it has already ended.
    pub fn terminate(&self) -> io::Result<()> {
        sys::kill(self.child.id(), libc::SIGTERM)
    }

    /// Asks the program to reload its configuration (SIGHUP).
    ///
    /// # Errors
    /// If it has already ended.
    pub fn hang_up(&self) -> io::Result<()> {
        sys::kill(self.child.id(), libc::SIGHUP)
    }

    /// Stops the program (SIGSTOP) until [`go_on`](Self::go_on), and returns once all of its
    /// threads have stopped, because only one thread receives the signal at first.
    ///
    /// # Errors
    /// If it has already ended.
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

    /// Continues the program (SIGCONT) after [`halt`](Self::halt).
    ///
    /// # Errors
    /// If it has already ended.
    pub fn go_on(&self) -> io::Result<()> {
        sys::kill(self.child.id(), libc::SIGCONT)
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
