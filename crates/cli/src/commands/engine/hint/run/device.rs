//! A hint of a whole block device, for commands that do not go through files: checks of file
//! systems, `dd` of a device.
//!
//! It holds for whoever uses the device, since a volume sees addresses only; it is given anew
//! before it expires, and withdrawn when the command has ended.

use crate::commands::engine::hint::{Saying, all_taken, note};
use crate::error::CliError;
use hyper::Method;
use std::path::Path;
use std::time::Instant;
use thermocline_admin::client::{Client, segment};
use thermocline_engine::api::{HINTS_VERSION, HintLevel, HintsTaken, NewHint, NewHints};
use thermocline_filehints::files::device_on_volume;
use thermocline_filehints::session::LASTS;

/// A hint of a whole block device.
pub(super) struct DeviceHint {
    client: Client,
    document: NewHints,
    again: Instant,
}

impl DeviceHint {
    /// Says `saying` of all of a device.
    ///
    /// # Errors
    /// When it is no device of a volume, or the engine does not take the hint.
    pub(super) fn give(
        device: &Path,
        client: Client,
        volume: Option<&str>,
        source: &str,
        saying: &Saying,
    ) -> Result<DeviceHint, CliError> {
        let (volume, range) = device_on_volume(device, &client, volume)?;
        let mut hint = NewHint {
            level: Some(HintLevel::Process),
            volume: Some(volume),
            offset_bytes: range.start,
            length_bytes: Some(range.end - range.start),
            ..saying.hint()
        };
        hint.expires_seconds.get_or_insert(LASTS.as_secs_f64());
        let document =
            NewHints { version: HINTS_VERSION, source: source.to_string(), hints: vec![hint] };
        let taken: HintsTaken = client.send(Method::POST, "/v1/hints", &document)?;
        all_taken(&taken)?;
        Ok(DeviceHint { client, document, again: Instant::now() + LASTS / 2 })
    }

    /// Says it anew, in time, as long as nobody said when it ends.
    pub(super) fn turn(&mut self, now: Instant) {
        let [hint] = &mut self.document.hints[..] else { return };
        hint.prefetch = false; // That is done once.
        if now < self.again || hint.expires_seconds != Some(LASTS.as_secs_f64()) {
            return;
        }
        self.again = now + LASTS / 2;
        // Failing here costs the rest of a hint.
        let _: Result<HintsTaken, _> = self.client.send(Method::POST, "/v1/hints", &self.document);
    }

    /// Takes it back.
    pub(super) fn withdraw(self) {
        let path = format!("/v1/hints/{}", segment(&self.document.source));
        if let Err(error) = self.client.order(Method::DELETE, &path) {
            note(&format!("the hint was not withdrawn: {error}"));
        }
    }
}
