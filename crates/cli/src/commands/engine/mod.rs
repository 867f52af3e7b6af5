//! Commands that talk to a running engine over its unix socket.

pub(crate) mod hint;
pub(crate) mod migrate;
pub(crate) mod policy;
pub(crate) mod pool;
pub(crate) mod scrub;
pub(crate) mod shadow;
pub(crate) mod status;
pub(crate) mod top;
pub(crate) mod volume;

use crate::error::CliError;
use crate::output;
use serde::Serialize;
use std::path::PathBuf;
use thermocline_admin::client::Client;
use thermocline_units::text::seconds;
use thermocline_volume::{AdminError, is_volume_name};

/// Engine to ask, and form of the answer.
#[derive(clap::Args)]
#[command(next_help_heading = "Engine")]
pub(crate) struct EngineArgs {
    /// Data folder of the engine.
    #[arg(long, value_name = "DIR", default_value = "thermocline-data", global = true)]
    data: PathBuf,
    /// Socket of the engine's API; http.sock in the data folder when not given.
    #[arg(long, value_name = "PATH", global = true)]
    api: Option<PathBuf>,
    /// Print JSON.
    #[arg(long, global = true)]
    json: bool,
}

impl EngineArgs {
    fn client(&self) -> Client {
        let socket = self.api.clone().unwrap_or_else(|| self.data.join("http.sock"));
        Client::new(&socket)
    }

    /// Prints an answer: as JSON when that was asked for, else as `text` says it.
    fn answer<T: Serialize>(
        &self,
        value: &T,
        text: impl FnOnce(&T) -> String,
    ) -> Result<(), CliError> {
        output::answer(self.json, value, text)
    }
}

/// Reads the name of a volume: one that none can have is refused before the engine is asked.
pub(super) fn volume_name(text: &str) -> Result<String, AdminError> {
    let name = text.to_string();
    if is_volume_name(text) { Ok(name) } else { Err(AdminError::VolumeName(name)) }
}

/// Microseconds, as people read them.
pub(super) fn micros(us: f64) -> String {
    if us <= 0.0 { "–".to_string() } else { seconds(us / 1e6) }
}

/// Seconds, as people read them.
pub(super) fn span(seconds: f64) -> String {
    let whole = seconds as u64;
    match (whole / 86_400, whole / 3600 % 24, whole / 60 % 60, whole % 60) {
        (0, 0, 0, _) if seconds < 10.0 => format!("{seconds:.1} s"),
        (0, 0, 0, s) => format!("{s} s"),
        (0, 0, m, s) => format!("{m} min {s} s"),
        (0, h, m, _) => format!("{h} h {m} min"),
        (d, h, _, _) => format!("{d} d {h} h"),
    }
}
