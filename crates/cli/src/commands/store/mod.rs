//! `thermocline store …`: a server of volumes whose equal blocks are stored once.

mod admin;
mod beside;
mod create;
mod image;
pub(crate) mod serve;

use crate::config::hosting::STORE_SOCKET;
use crate::error::CliError;
use crate::output;
use clap::Subcommand;
use serde::Serialize;
use std::path::PathBuf;
use thermocline_admin::client::Client;

/// The commands.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Make an empty store on a file or a block device.
    Create(create::Args),
    /// Serve a store to hosts.
    Serve(serve::Args),
    /// Volumes of a running store: list, and create, with quotas if wanted.
    Volume(admin::VolumeArgs),
    /// Images of a running store: import a file.
    Image(image::Args),
    /// Make a volume that begins as another one is now.
    Clone(admin::CloneArgs),
    /// Keep a volume as it is now; a snapshot cannot be written.
    Snapshot(admin::CloneArgs),
    /// Delete a volume, clone, snapshot or image with all it holds.
    Delete(admin::DeleteArgs),
    /// Free blocks that no volume has any more.
    Gc(StoreArgs),
    /// Count everything anew and say what does not hold; hosts wait meanwhile.
    Check(StoreArgs),
    /// A running store at a glance.
    Status(StoreArgs),
}

/// The store, and the form to answer in.
#[derive(clap::Args)]
pub(crate) struct StoreArgs {
    /// Socket of the running store's API.
    #[arg(long, value_name = "PATH", default_value = STORE_SOCKET)]
    socket: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl StoreArgs {
    fn client(&self) -> Client {
        Client::of_store(&self.socket)
    }

    fn answer<T: Serialize>(
        &self,
        value: &T,
        text: impl FnOnce(&T) -> String,
    ) -> Result<(), CliError> {
        output::answer(self.json, value, text)
    }
}

pub(crate) fn run(command: Command) -> Result<(), CliError> {
    match command {
        Command::Create(args) => create::run(&args),
        Command::Serve(args) => serve::run(args),
        Command::Volume(args) => admin::volume(args),
        Command::Image(args) => image::run(args),
        Command::Clone(args) => admin::clone(&args, false),
        Command::Snapshot(args) => admin::clone(&args, true),
        Command::Delete(args) => admin::delete(&args),
        Command::Gc(args) => admin::gc(&args),
        Command::Check(args) => admin::check(&args),
        Command::Status(args) => admin::status(&args),
    }
}

/// Reads the name of a volume: one that none can have is refused before anybody is asked.
pub(crate) fn volume_name(text: &str) -> Result<String, String> {
    match thermocline_content::settings::is_volume_name(text) {
        true => Ok(text.to_string()),
        false => Err(format!(
            "`{text}` is no volume's name: use 1 to 64 of a-z, A-Z, 0-9, `.`, `_`, `-`, `@`, `+`, \
             and begin with none of `.` and `-`"
        )),
    }
}
