//! Child processes that cannot outlive their owner.
//!
//! Dropping a [`Child`] kills it and waits for its end, in a panicking test too. If the whole test process is killed, the kernel
//! kills the children: they are started through util-linux' `setpriv --pdeathsig KILL` where that is installed. The kernel
//! watches the *thread* that started the child, so one thread, which lives as long as the process, starts all of them.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::wait;

/// A running program with its output in a file.
#[derive(Debug)]
pub struct Child {
    name: String,
    process: std::process::Child,
    log: PathBuf,
}

/// What a process has used since it started.
#[derive(Debug, Clone, Copy)]
pub struct Usage {
    /// Memory resident now, in bytes.
    pub resident: u64,
    /// The most that was ever resident, in bytes.
    pub peak: u64,
    /// Processor time, user and system together.
    pub cpu: Duration,
}

impl Child {
    /// Starts `command` with its output appended to the file `log`. `name` is for messages.
    pub fn spawn(name: impl Into<String>, command: &Command, log: impl Into<PathBuf>) -> Result<Self> {
        let (name, log) = (name.into(), log.into());
        let output = OpenOptions::new().create(true).append(true).open(&log).with_context(|| format!("open {}", log.display()))?;
        let process = spawn(bound_to_us(command), output).with_context(|| format!("start {name}: {}", command.get_program().display()))?;
        Ok(Self { name, process, log })
    }

    /// The name given at the start.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// The file with everything the program printed, over all its starts.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// The last `lines` lines of the log.
    pub fn log_tail(&self, lines: usize) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let skip = text.lines().count().saturating_sub(lines);
        text.lines().skip(skip).collect::<Vec<_>>().join("\n")
    }

    /// How it ended, if it has.
    pub fn exited(&mut self) -> Result<Option<ExitStatus>> {
        self.process.try_wait().with_context(|| format!("look after {}", self.name))
    }

    /// An error with the end of the log once the process has ended: for conditions that only a live process can fulfil.
    pub fn ensure_running(&mut self) -> Result<()> {
        match self.exited()? {
            None => Ok(()),
            Some(status) => bail!("{} has ended ({status}); the end of {}:\n{}", self.name, self.log.display(), self.log_tail(20)),
        }
    }

    /// Sends a signal, unless the process has ended.
    pub fn signal(&mut self, signal: Signal) -> Result<()> {
        if self.exited()?.is_some() {
            return Ok(());
        }
        let pid = Pid::from_child(&self.process);
        kill_process(pid, signal).with_context(|| format!("send {signal:?} to {}", self.name))
    }

    /// Stops the process in its tracks (SIGSTOP), as a suspended machine would; none of its threads runs when this returns.
    pub fn freeze(&mut self) -> Result<()> {
        self.ensure_running()?;
        self.signal(Signal::STOP)?;
        // The kernel reports the stop once the last thread has stopped. An end instead is left for `exited` to find.
        let stop = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(Pid::from_child(&self.process)), stop).with_context(|| format!("wait for {} to freeze", self.name))?;
        self.ensure_running()
    }

    /// Lets a frozen process run on (SIGCONT).
    pub fn thaw(&mut self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// Sends SIGTERM and waits for the end. A process that is still there at the deadline is killed, and that is an error.
    pub async fn terminate(&mut self, within: Duration) -> Result<ExitStatus> {
        self.signal(Signal::TERM)?;
        let what = format!("the end of {} after SIGTERM", self.name);
        let ended = wait::until(&what, within, async || self.exited()?.context("still running")).await;
        if ended.is_err() {
            self.kill9()?;
        }
        ended
    }

    /// Kills the process and waits for its end.
    pub fn kill9(&mut self) -> Result<ExitStatus> {
        // An error here means that it has ended already.
        let _ = self.process.kill();
        self.process.wait().with_context(|| format!("wait for {}", self.name))
    }

    /// Memory and processor time so far (Linux only).
    pub fn usage(&self) -> Result<Usage> {
        let proc = PathBuf::from(format!("/proc/{}", self.pid()));
        let read = |file: &str| std::fs::read_to_string(proc.join(file)).with_context(|| format!("{} is not running", self.name));
        usage_of(&read("status")?, &read("stat")?).with_context(|| format!("usage of {}", self.name))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.kill9();
    }
}

/// Reads `/proc/PID/status` and `/proc/PID/stat`.
fn usage_of(status: &str, stat: &str) -> Result<Usage> {
    let kib = |key: &str| -> Result<u64> {
        let line = status.lines().find(|line| line.starts_with(key)).with_context(|| format!("no {key} in status"))?;
        Ok(line.split_whitespace().nth(1).context("no value")?.parse::<u64>()? * 1024)
    };
    // The program's name, in brackets, can hold anything; the fields after it are plain.
    let (_, fields) = stat.rsplit_once(')').context("no name in stat")?;
    let ticks = |n: usize| -> Result<u64> { Ok(fields.split_whitespace().nth(n).context("short stat")?.parse()?) };
    // Linux counts in hundredths of a second here, whatever its own tick is.
    let cpu = Duration::from_millis((ticks(11)? + ticks(12)?) * 10);
    Ok(Usage { resident: kib("VmRSS:")?, peak: kib("VmHWM:")?, cpu })
}

/// The same command, killed by the kernel when the thread that starts it ends.
fn bound_to_us(command: &Command) -> Command {
    let mut bound = match setpriv() {
        Some(setpriv) => {
            let mut bound = Command::new(setpriv);
            bound.args(["--pdeathsig", "KILL", "--"]).arg(command.get_program());
            bound
        }
        None => Command::new(command.get_program()),
    };
    bound.args(command.get_args());
    for (key, value) in command.get_envs() {
        match value {
            Some(value) => bound.env(key, value),
            None => bound.env_remove(key),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        bound.current_dir(folder);
    }
    bound
}

fn setpriv() -> Option<&'static Path> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOUND.get_or_init(|| on_path(OsStr::new("setpriv"))).as_deref()
}

/// Where `PATH` finds a program.
pub(crate) fn on_path(program: &OsStr) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// A command to start, and where to send what came of it.
type Start = (Command, Sender<io::Result<std::process::Child>>);

/// Starts `command` on the thread that starts all children.
fn spawn(mut command: Command, output: File) -> io::Result<std::process::Child> {
    static STARTER: OnceLock<Sender<Start>> = OnceLock::new();
    let starter = STARTER.get_or_init(|| {
        let (starts, todo) = channel::<Start>();
        std::thread::spawn(move || {
            for (mut command, answer) in todo {
                let _ = answer.send(command.spawn());
            }
        });
        starts
    });
    command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
    let (answer, result) = channel();
    let gone = |_| io::Error::other("the thread that starts child processes has ended");
    starter.send((command, answer)).map_err(|_| io::Error::other("the thread that starts child processes has ended"))?;
    result.recv().map_err(gone)?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_usage_past_a_strange_program_name() {
        let status = "Name:\ta) 1 (b\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";
        let stat = "7 (a) 1 (b) S 1 7 7 0 -1 4194560 100 0 0 0 150 50 0 0 20 0 1 0 1 1 1";
        let usage = usage_of(status, stat).unwrap();
        assert_eq!((usage.resident, usage.peak, usage.cpu), (1 << 20, 2 << 20, Duration::from_secs(2)));
    }

    #[test]
    fn a_dropped_child_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let child = Child::spawn("sleep", Command::new("sleep").arg("1000"), folder.path().join("log")).unwrap();
        let proc = PathBuf::from(format!("/proc/{}", child.pid()));
        assert!(proc.exists());
        drop(child);
        assert!(!proc.exists());
    }

    #[tokio::test]
    async fn an_ended_child_says_what_it_printed() {
        let folder = tempfile::tempdir().unwrap();
        let command = &mut Command::new("sh");
        command.args(["-c", "echo first; echo last; exit 3"]);
        let mut child = Child::spawn("failing", command, folder.path().join("log")).unwrap();
        let status = wait::until("end", Duration::from_secs(10), async || child.exited()?.context("running")).await.unwrap();
        assert_eq!(status.code(), Some(3));
        let error = child.ensure_running().unwrap_err().to_string();
        assert!(error.ends_with("first\nlast"), "{error}");
    }
}
