//! Events of devices that do not answer: suspect, well again, given up.

use super::Engine;
use thermocline_admin::api::Severity;
use thermocline_blockcache::PoolDevice;
use thermocline_ports_os::{Disk, Health};
use thermocline_units::PoolId;

/// The worst of a pool's devices.
pub(super) fn health_of(device: &PoolDevice<Disk>) -> Health {
    device.devices().map(Disk::health).fold(Health::Well, worse)
}

fn worse(one: Health, other: Health) -> Health {
    match (one, other) {
        (Health::GivenUp, _) | (_, Health::GivenUp) => Health::GivenUp,
        (Health::Suspect { since: one }, Health::Suspect { since: other }) => {
            Health::Suspect { since: one.min(other) }
        }
        (suspect @ Health::Suspect { .. }, Health::Well)
        | (Health::Well, suspect @ Health::Suspect { .. }) => suspect,
        (Health::Well, Health::Well) => Health::Well,
    }
}

impl Engine {
    /// Tells of a pool's device when its health is another than it `was`.
    pub(super) fn tell_health(&mut self, id: PoolId, name: &str, was: Health) {
        let Some(device) = self.disks[usize::from(id.0)].as_ref() else { return };
        let health = health_of(device);
        if std::mem::discriminant(&health) == std::mem::discriminant(&was) {
            return;
        }
        let worst = device.devices().find(|disk| worse(disk.health(), health) == disk.health());
        let path = worst.unwrap_or(device.main()).path().display();
        let limit = worst.and_then(Disk::patience).map(|patience| patience.fail_after);
        let (severity, text) = match health {
            Health::Suspect { since } => {
                let silent = self.now().saturating_sub(since).as_secs_f64();
                let end = limit.filter(|limit| limit.0 < u64::MAX).map_or(
                    "it is waited for as long as it takes (fail-after = \"none\")".to_string(),
                    |limit| format!("after {limit} the pool counts as failed (fail-after)"),
                );
                let text = format!(
                    "{name} is suspect: {path} has not answered a request for {silent:.0} s; {end}"
                );
                (Severity::Warning, text)
            }
            Health::Well => (Severity::Info, format!("{name}: {path} answers again")),
            Health::GivenUp => {
                let limit = limit.map_or(String::new(), |limit| format!(" for {limit}"));
                let text = format!(
                    "{name}: {path} has not answered a request{limit} and is given up; what it \
                     answers later is dropped"
                );
                (Severity::Error, text)
            }
        };
        self.event(severity, "pool", text);
    }
}
