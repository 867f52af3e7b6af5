//! The engine of the package: started and stopped by systemd, or as its unit says.

use super::debian::{Debian, PATIENCE, pause};
use super::{SERVICE, VOLUME, read};
use crate::Failure;
use crate::dist::output;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// A started engine. `None`: it is systemd's.
pub(super) struct Engine(Option<Child>);

impl Engine {
    /// Starts it; it serves when this returns.
    pub(super) fn start(debian: &Debian) -> Result<Engine, Failure> {
        if debian.is_booted() {
            // It returns when the service has told that it serves.
            debian.output(&["systemctl", "start", SERVICE])?;
            return Ok(Engine(None));
        }
        let unit = read(&debian.at(&format!("usr/lib/systemd/system/{SERVICE}")))?;
        let line = |key: &str| unit.lines().find_map(|line| line.strip_prefix(key));
        let (Some(command), Some(user)) = (line("ExecStart="), line("User=")) else {
            return Err("the unit has no ExecStart or no User".into());
        };
        debian.output(&["install", "-d", "-o", user, "-g", user, "/run/thermocline"])?;
        let log = debian.at("tmp/engine.log");
        let file = std::fs::File::create(&log).map_err(|error| error.to_string())?;
        let mut words = vec!["setpriv", "--reuid", user, "--regid", user, "--init-groups"];
        words.extend(command.split_whitespace());
        let mut started = debian.command(&words);
        started.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
        let child = started.spawn().map_err(|error| format!("chroot: {error}"))?;
        let mut engine = Engine(Some(child));
        let start = Instant::now();
        while debian.output(&["nbdinfo", "--size", VOLUME]).is_err() {
            if engine.has_ended()? || start.elapsed() > PATIENCE {
                return Err(Failure::Failed(format!("no engine comes up: {}", read(&log)?)));
            }
            pause();
        }
        Ok(engine)
    }

    fn has_ended(&mut self) -> Result<bool, Failure> {
        let child = self.0.as_mut().expect("systemd's are not asked");
        Ok(child.try_wait().map_err(|error| error.to_string())?.is_some())
    }

    /// Stops it; it has ended well when this returns.
    pub(super) fn stop(mut self, debian: &Debian) -> Result<(), Failure> {
        let Some(child) = &mut self.0 else {
            debian.output(&["systemctl", "stop", SERVICE])?;
            let words = ["systemctl", "show", "-P", "Result", SERVICE];
            return match debian.output(&words)?.trim_ascii() {
                b"success" => Ok(()),
                other => {
                    let other = String::from_utf8_lossy(other);
                    Err(Failure::Failed(format!("the engine ended with {other}")))
                }
            };
        };
        output(Command::new("kill").args(["-TERM", &child.id().to_string()]))?;
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            match child.try_wait().map_err(|error| error.to_string())? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => {
                    return Err(Failure::Failed(format!("the engine ended with {status}")));
                }
                None => pause(),
            }
        }
        Err("the engine does not end".into())
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill(); // It has ended, but for an error on the way.
            let _ = child.wait();
        }
    }
}
