//! A running engine in a folder of its own: started, killed, stopped, checked.
//!
//! Whatever was started is killed when it is dropped.

use super::nbd::Client;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

/// An engine that takes longer to come up, or to stop, has hung.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time between two looks at a process.
const LOOK: Duration = Duration::from_millis(2);

/// A folder with a configuration, and the program that runs it.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    pub(crate) folder: PathBuf,
    pub(crate) binary: PathBuf,
}

/// A process that serves.
pub(crate) struct Engine {
    child: Child,
}

impl Site {
    /// An empty folder with this configuration.
    pub(crate) fn new(binary: &Path, folder: PathBuf, config: &str) -> Result<Site, String> {
        let _ = std::fs::remove_dir_all(&folder); // It need not be there.
        let failed = |e: std::io::Error| format!("{}: {e}", folder.display());
        std::fs::create_dir_all(&folder).map_err(failed)?;
        std::fs::write(folder.join("engine.toml"), config).map_err(failed)?;
        Ok(Site { binary: binary.to_path_buf(), folder })
    }

    /// A file of the data folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join("pools").join(name)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.path("nbd.sock")
    }

    /// Any command of the product, run to its end.
    pub(crate) fn command(&self, words: &str) -> Result<Output, String> {
        let mut command = Command::new(&self.binary);
        command.args(words.split_whitespace()).current_dir(&self.folder);
        command.stdin(Stdio::null()).output().map_err(|e| format!("{words}: {e}"))
    }

    /// A command that must succeed; what it said.
    pub(crate) fn expect(&self, words: &str) -> Result<String, String> {
        let output = self.command(words)?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(format!(
                "`thermocline {words}` ended with {}: {}",
                output.status,
                said(&output)
            )),
        }
    }

    /// A command that must be refused with this exit status, saying this.
    pub(crate) fn refused(&self, words: &str, status: i32, part: &str) -> Result<(), String> {
        let output = self.command(words)?;
        match output.status.code() == Some(status) && said(&output).contains(part) {
            true => Ok(()),
            false => Err(format!(
                "`thermocline {words}` ended with {}, not {status} and “{part}”: {}",
                output.status,
                said(&output)
            )),
        }
    }

    /// Starts the engine without waiting for it.
    pub(crate) fn spawn(&self, arguments: &str) -> Result<Engine, String> {
        let log = self.folder.join("log");
        let log = File::options().create(true).append(true).open(&log);
        let log = log.map_err(|e| format!("{}: {e}", self.folder.display()))?;
        let errors = log.try_clone().map_err(|e| e.to_string())?;
        let mut command = Command::new(&self.binary);
        command.args(["up", "engine.toml"]).args(arguments.split_whitespace());
        command.current_dir(&self.folder).stdin(Stdio::null()).stdout(log).stderr(errors);
        let child = command.spawn().map_err(|e| format!("{}: {e}", self.binary.display()))?;
        Ok(Engine { child })
    }

    /// Starts the engine and waits until it serves.
    pub(crate) fn start(&self, arguments: &str) -> Result<Engine, String> {
        let mut engine = self.spawn(arguments)?;
        let begin = Instant::now();
        loop {
            if Client::connect(&self.socket(), "v0").is_ok() {
                return Ok(engine);
            }
            let ended = engine.child.try_wait().map_err(|e| e.to_string())?;
            if let Some(status) = ended {
                return Err(format!("the engine ended with {status} at its start: {}", self.log()));
            }
            if begin.elapsed() > PATIENCE {
                return Err(format!("the engine does not come up in {PATIENCE:?}"));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// The end of what the engine said.
    pub(crate) fn log(&self) -> String {
        let text = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(8)..].join("\n")
    }

    /// Everything on disk must be whole while no engine runs.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.expect("check engine.toml").map(|_| ())
    }
}

impl Engine {
    /// `kill -9`, and waits for the end.
    pub(crate) fn kill(mut self) -> Result<(), String> {
        let ended = self.child.try_wait().map_err(|e| e.to_string())?;
        self.child.kill().map_err(|e| e.to_string())?;
        self.child.wait().map_err(|e| e.to_string())?;
        match ended {
            None => Ok(()),
            Some(status) => Err(format!("the engine ended by itself, with {status}")),
        }
    }

    /// Asks it to stop, and waits until it has.
    pub(crate) fn stop(mut self) -> Result<ExitStatus, String> {
        let pid = self.child.id().to_string();
        let asked = Command::new("kill").args(["-TERM", &pid]).status();
        asked.map_err(|e| format!("kill: {e}"))?;
        let begin = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().map_err(|e| e.to_string())? {
                return Ok(status);
            }
            if begin.elapsed() > PATIENCE {
                return Err(format!("the engine does not stop in {PATIENCE:?}"));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// True if it still runs.
    pub(crate) fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.child.kill(); // It may have ended already.
        let _ = self.child.wait();
    }
}

fn said(output: &Output) -> String {
    let text = [&output.stderr[..], b"\n", &output.stdout[..]].concat();
    String::from_utf8_lossy(&text).trim().to_string()
}
