//! Arguments that choose a live volume's placement, its epoch, and whether decisions are recorded.

use crate::config::library;
use crate::error::CliError;
use crate::recording::{Recording, Trouble};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thermocline_admin::api::Severity;
use thermocline_engine::{Engine, Mailbox};
use thermocline_policy::registry::PolicySpec;
use thermocline_recording::Recorder;
use thermocline_units::Nanos;
use thermocline_volume::Settings;

/// Policy, epoch, recording.
#[derive(clap::Args, Default)]
#[command(next_help_heading = "Decisions")]
pub(crate) struct DecidingArgs {
    /// The placement that decides what moves, with settings if wanted: baseline:k=200; `none`
    /// leaves every chunk where it is.
    #[arg(long, value_name = "POLICY", value_parser = policy)]
    policy: Option<Wish>,
    /// Time between two decisions; when not given 5 min, or as the policy wants it (auto: 5 s).
    #[arg(long, value_name = "TIME", value_parser = epoch)]
    epoch: Option<Nanos>,
    /// Record all requests, and what the placement sees and proposes, in a new file: a trace for
    /// every other command, and for `lab volume --replay`.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
}

/// A placement, or nobody.
#[derive(Debug, Clone)]
struct Wish(Option<PolicySpec>);

fn policy(text: &str) -> Result<Wish, String> {
    if text == "none" {
        return Ok(Wish(None));
    }
    let spec = library::engine_placement(text)?;
    Ok(Wish(Some(spec)))
}

fn epoch(text: &str) -> Result<Nanos, String> {
    match text.parse() {
        Ok(Nanos(0)) => Err("an epoch lasts some time, 5m for example".to_string()),
        Ok(epoch) => Ok(epoch),
        Err(error) => Err(format!("{error}")),
    }
}

impl DecidingArgs {
    /// `settings` with the epoch that was asked for, or that the policy of the command line wants.
    pub(crate) fn settings(&self, settings: Settings) -> Settings {
        let own = || self.policy.as_ref()?.0.as_ref().and_then(own_epoch);
        Settings { epoch: self.epoch.or_else(own).unwrap_or(settings.epoch), ..settings }
    }

    /// True if the command line says who decides, or that nobody does.
    pub(crate) fn names_policy(&self) -> bool {
        self.policy.is_some()
    }

    /// Finds what is wrong before anything is started.
    ///
    /// # Errors
    /// When the recording exists already.
    pub(crate) fn check(&self) -> Result<(), CliError> {
        self.record.iter().try_for_each(|path| Recording::check(path))
    }

    /// File of the recording, if there is to be one.
    pub(crate) fn record(&self) -> Option<&Path> {
        self.record.as_deref()
    }

    /// Begins recording, then gives the engine its policy: the one of the command line, else
    /// `otherwise`. It goes on from what it had learnt (`learnt`), unless that is recorded: a
    /// recording holds all that its policy knew. To be done before a client can come in.
    ///
    /// # Errors
    /// When the recording cannot be begun, or the policy cannot be built.
    pub(crate) fn begin(
        &self,
        engine: &mut Engine,
        otherwise: Option<&PolicySpec>,
        learnt: &Path,
    ) -> Result<Option<Recording>, CliError> {
        let recording = match &self.record {
            Some(path) => {
                let (recording, blocks) = Recording::begin(path, event_of(engine.mailbox()))?;
                engine.admin().set_observer(|group| Box::new(Recorder::new(group, blocks)));
                Some(recording)
            }
            None => None,
        };
        let spec = self.policy.as_ref().map_or(otherwise, |wish| wish.0.as_ref());
        if let Some(spec) = spec {
            engine.admin().begin_policy(&spec.written).map_err(CliError::input)?;
            if self.record.is_none() {
                engine.admin().recall(learnt);
            }
        }
        Ok(recording)
    }
}

/// Time between two questions that a placement wants, where it says so.
pub(crate) fn own_epoch(spec: &PolicySpec) -> Option<Nanos> {
    spec.build_placement().ok()?.epoch()
}

/// Tells the trouble that stops a recording as an event of the engine.
fn event_of(mailbox: Mailbox) -> Trouble {
    Arc::new(move |text| {
        let text = text.to_string();
        mailbox.send(move |admin| admin.note(Severity::Warning, "recording", text));
    })
}
