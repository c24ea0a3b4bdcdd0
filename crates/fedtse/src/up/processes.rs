//! Processes of this program that end with it.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// How long a process may take to say goodbye.
const GOODBYE: Duration = Duration::from_secs(10);

/// Processes by name; whatever still runs is ended when this is dropped.
#[derive(Default)]
pub(super) struct Processes(Vec<Process>);

struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Processes {
    /// Starts this program with arguments, in a folder that has its log.
    pub(super) fn start(&mut self, name: &str, arguments: &[&str], folder: &Path) -> Result<()> {
        let log = folder.join("log.txt");
        let file = OpenOptions::new().create(true).append(true).open(&log);
        let file = file.with_context(|| log.display().to_string())?;
        let program = std::env::current_exe().context("this program")?;
        let child = Command::new(program)
            .args(arguments)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(file.try_clone().context("a log")?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("{name}: cannot be started"))?;
        self.0.push(Process { name: name.into(), child, log });
        Ok(())
    }

    pub(super) fn ids(&self) -> BTreeMap<&str, u32> {
        self.0.iter().map(|process| (process.name.as_str(), process.child.id())).collect()
    }

    /// Whether all have ended, and well.
    pub(super) fn all_ended(&mut self) -> Result<bool> {
        let mut all = true;
        for process in &mut self.0 {
            match process.child.try_wait()? {
                None => all = false,
                Some(status) if status.success() => {}
                Some(status) => bail!(process.failed(status)),
            }
        }
        Ok(all)
    }

    /// Whether the first still runs: a federation lives without a guest, but not without its host. A guest that ends is
    /// told of once.
    pub(super) fn check(&mut self) -> Result<()> {
        let mut at = 0;
        while let Some(process) = self.0.get_mut(at) {
            let Some(status) = process.child.try_wait()? else {
                at += 1;
                continue;
            };
            if at == 0 {
                bail!(process.failed(status));
            }
            eprintln!("{} has ended ({status}); the others go on without it", process.name);
            self.0.remove(at);
        }
        Ok(())
    }
}

impl Process {
    fn failed(&self, status: ExitStatus) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines[lines.len().saturating_sub(5)..].join("\n");
        format!("{} has ended, {status}; the end of {}:\n{tail}", self.name, self.log.display())
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for process in &mut self.0 {
            ask_to_end(&mut process.child);
        }
        let until = Instant::now() + GOODBYE;
        for process in &mut self.0 {
            while process.child.try_wait().is_ok_and(|status| status.is_none()) {
                if Instant::now() > until {
                    let _ = process.child.kill();
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

#[cfg(unix)]
fn ask_to_end(child: &mut Child) {
    use rustix::process::{Pid, Signal, kill_process};
    let running = child.try_wait().is_ok_and(|status| status.is_none());
    if let Some(id) = i32::try_from(child.id()).ok().and_then(Pid::from_raw).filter(|_| running) {
        let _ = kill_process(id, Signal::TERM);
    }
}

#[cfg(not(unix))]
fn ask_to_end(child: &mut Child) {
    let _ = child.kill();
}
