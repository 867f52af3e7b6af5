//! The package's services under systemd: what their units promise, on a booted Debian.
//!
//! Begins and ends with an engine that serves.

use super::debian::Debian;
use super::{SERVICE, must_read, write};
use crate::Failure;

const SOCKET: &str = "thermocline.socket";
const BALANCER: &str = "thermocline-balance.service";
const UNITS: &str = "/usr/lib/systemd/system";
/// The exposure that `systemd-analyze security` may find, in tenths: 10 is `SAFE`, 100 the worst.
const EXPOSURE_MAX: &str = "25";

/// All of it.
pub(super) fn run(debian: &Debian, written: &[u8]) -> Result<(), Failure> {
    let text = debian.output(&["systemctl", "cat", SERVICE])?;
    if !String::from_utf8_lossy(&text).contains("ExecStart=/usr/bin/thermocline up") {
        return Err("`systemctl cat` does not show the engine's unit".into());
    }
    are_closed(debian)?;
    comes_back(debian, written)?;
    is_started_by_its_socket(debian, written)?;
    balances(debian)
}

/// The units leave programs no more than they need, by systemd's own count, and are free of
/// mistakes.
fn are_closed(debian: &Debian) -> Result<(), Failure> {
    for unit in [SERVICE, BALANCER] {
        let threshold = format!("--threshold={EXPOSURE_MAX}");
        debian.output(&["systemd-analyze", "security", "--no-pager", &threshold, unit])?;
    }
    let units = [SERVICE, SOCKET, BALANCER].map(|unit| format!("{UNITS}/{unit}")).join(" ");
    // It fails for what it tells.
    let verify = format!("systemd-analyze verify {units} 2>&1 || true");
    let verified = debian.output(&["sh", "-c", &verify])?;
    match verified.is_empty() {
        true => Ok(()),
        false => {
            let told = String::from_utf8_lossy(&verified).into_owned();
            Err(Failure::Failed(format!("systemd finds fault with a unit: {told}")))
        }
    }
}

/// An engine that was killed is started again, and has what was flushed.
fn comes_back(debian: &Debian, written: &[u8]) -> Result<(), Failure> {
    let before = main_process(debian, SERVICE)?;
    debian.output(&["systemctl", "kill", "--signal=KILL", SERVICE])?;
    must_be_another(debian, SERVICE, &before)?;
    must_read(debian, written, "a kill")
}

/// A client that connects to the socket starts the engine, and waits until it serves; one that
/// connects while the engine is restarted is not refused.
fn is_started_by_its_socket(debian: &Debian, written: &[u8]) -> Result<(), Failure> {
    debian.output(&["systemctl", "stop", SERVICE])?;
    debian.output(&["systemctl", "start", SOCKET])?;
    must_be(debian, SERVICE, "inactive")?;
    must_read(debian, written, "a start by the socket")?;
    must_be(debian, SERVICE, "active")?;
    debian.output(&["systemctl", "--no-block", "restart", SERVICE])?;
    must_read(debian, written, "a restart under the socket")?;
    // A stop of the engine ends it for good only if nothing listens for it.
    debian.output(&["systemctl", "stop", SOCKET, SERVICE])?;
    debian.output(&["systemctl", "start", SERVICE])?;
    Ok(())
}

/// The balancer serves, takes a new configuration, and is upgraded in place.
fn balances(debian: &Debian) -> Result<(), Failure> {
    let text = "[[listen]]\naddress = \"127.0.0.1:8080\"\n[[backend]]\naddress = \
                \"127.0.0.1:8081\"\n[admin]\nsocket = \"/run/thermocline-balance/admin.sock\"\n";
    write(&debian.at("etc/thermocline/balance.toml"), text.as_bytes())?;
    debian.output(&["systemctl", "start", BALANCER])?;
    answers(debian)?;
    let before = main_process(debian, BALANCER)?;
    debian.output(&["systemctl", "reload", BALANCER])?;
    answers(debian)?;
    if main_process(debian, BALANCER)? != before {
        return Err("a reload of the balancer started another process".into());
    }
    debian.output(&["systemctl", "kill", "--kill-whom=main", "--signal=USR2", BALANCER])?;
    must_be_another(debian, BALANCER, &before)?;
    answers(debian)?;
    debian.output(&["systemctl", "restart", BALANCER])?;
    answers(debian)?;
    debian.output(&["systemctl", "stop", BALANCER])?;
    must_be(debian, BALANCER, "inactive")
}

/// The balancer answers: that no server is there.
fn answers(debian: &Debian) -> Result<(), Failure> {
    let talk = "exec 3<>/dev/tcp/127.0.0.1/8080 && printf 'GET / HTTP/1.1\\r\\nHost: x\\r\\n\
                Connection: close\\r\\n\\r\\n' >&3 && head -c 12 <&3";
    let is_known = |said: &str| matches!(said, "HTTP/1.1 502" | "HTTP/1.1 503");
    debian.wait_for(&["bash", "-c", talk], &is_known)
}

/// The number of a service's main process.
pub(super) fn main_process(debian: &Debian, unit: &str) -> Result<String, Failure> {
    let number = debian.output(&["systemctl", "show", "-P", "MainPID", unit])?;
    let number = String::from_utf8_lossy(number.trim_ascii()).into_owned();
    match number.as_str() {
        "" | "0" => Err(Failure::Failed(format!("{unit} does not run"))),
        _ => Ok(number),
    }
}

/// Waits until a service serves with another process than before.
pub(super) fn must_be_another(debian: &Debian, unit: &str, before: &str) -> Result<(), Failure> {
    let words = ["systemctl", "show", "-P", "MainPID", "-P", "ActiveState", unit];
    debian.wait_for(&words, &|said| {
        let mut lines = said.lines();
        let process = lines.next().unwrap_or("0");
        process != "0" && process != before && lines.next() == Some("active")
    })
}

fn must_be(debian: &Debian, unit: &str, state: &str) -> Result<(), Failure> {
    let said = debian.output(&["systemctl", "show", "-P", "ActiveState", unit])?;
    let said = String::from_utf8_lossy(said.trim_ascii()).into_owned();
    match said == state {
        true => Ok(()),
        false => Err(Failure::Failed(format!("{unit} is {said}, not {state}"))),
    }
}
