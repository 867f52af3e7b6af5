//! `thermocline completions` and `thermocline man`: what shells and `man` show of the commands.
//! Both are made from the definitions that parse the command line.

use crate::error::CliError;
use crate::output;
use clap_complete::Shell;
use clap_mangen::Man;
use std::path::{Path, PathBuf};

const COMPLETIONS: &str = "\
Examples:
  thermocline completions bash > ~/.local/share/bash-completion/completions/thermocline
  thermocline completions zsh > ~/.zfunc/_thermocline       # a folder of zsh's fpath
  thermocline completions fish > ~/.config/fish/completions/thermocline.fish";

const MAN: &str = "\
Examples:
  thermocline man lab cache | man -l -
  thermocline man --to ~/.local/share/man/man1";

/// Options of `completions`.
#[derive(clap::Args)]
#[command(after_help = COMPLETIONS)]
pub(crate) struct CompletionsArgs {
    /// Shell that the script is for.
    shell: Shell,
}

/// Options of `man`.
#[derive(clap::Args)]
#[command(after_help = MAN)]
pub(crate) struct ManArgs {
    /// Command whose page is printed; without one that of `thermocline`.
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
    /// Write the pages of all commands into this folder instead; it is made when it is missing.
    #[arg(long, value_name = "FOLDER", conflicts_with = "command")]
    to: Option<PathBuf>,
    /// Replace pages that are there.
    #[arg(long, requires = "to")]
    force: bool,
}

/// Prints a script that completes the words of `root`.
pub(crate) fn completions(args: &CompletionsArgs, mut root: clap::Command) -> Result<(), CliError> {
    let mut script = Vec::new();
    let name = root.get_name().to_string();
    clap_complete::generate(args.shell, &mut root, name, &mut script);
    output::print(&String::from_utf8_lossy(&script))
}

/// Prints the page of one command of `root`, or writes those of all.
pub(crate) fn man(args: &ManArgs, mut root: clap::Command) -> Result<(), CliError> {
    root.build();
    if let Some(folder) = &args.to {
        let failed = |error| CliError::input(format!("{}: {error}", folder.display()));
        std::fs::create_dir_all(folder).map_err(failed)?;
        return write_all(&root, folder, args.force);
    }
    let mut command = &root;
    for word in &args.command {
        command = command.find_subcommand(word).ok_or_else(|| {
            let (name, root) = (command.get_name(), root.get_name());
            CliError::input(format!("`{name}` has no command `{word}`; see `{root} {name} --help`"))
        })?;
    }
    output::print(&page(command)?)
}

fn write_all(command: &clap::Command, folder: &Path, force: bool) -> Result<(), CliError> {
    if command.is_hide_set() || command.get_name() == "help" {
        return Ok(());
    }
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    output::write_text(&folder.join(format!("{name}.1")), &page(command)?, force)?;
    command.get_subcommands().try_for_each(|command| write_all(command, folder, force))
}

fn page(command: &clap::Command) -> Result<String, CliError> {
    let mut text = Vec::new();
    let failed = |error| CliError::failed(format!("the page was not written: {error}"));
    let source = concat!("thermocline ", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command.clone()).source(source).manual("Commands of thermocline");
    man.render(&mut text).map_err(failed)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}
