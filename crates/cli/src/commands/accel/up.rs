//! `thermocline accel up`: a pool that runs until somebody stops it.

use crate::commands::store::serve::{notes, stop};
use crate::config::accel::{AccelServe, load};
use crate::error::CliError;
use crate::listeners::{self, LogFormat};
use crate::output;
use std::fmt::Write as _;
use std::path::PathBuf;
use thermocline_admin::http::{HttpListeners, TcpListen};
use thermocline_admin::tls::tls;
use thermocline_offload::{OffloadError, Pool, serve_pool};

const EXAMPLES: &str = "\
Examples:
  thermocline accel up pool.toml
  thermocline accel status
  thermocline accel chain tenant-a dpi nat

The configuration names two interfaces, the tenants and their chains: docs/formats/accel.md. It
takes root, or CAP_NET_RAW (for TUN devices CAP_NET_ADMIN).";

/// Arguments.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The configuration file.
    config: PathBuf,
    /// Form in which events are told on stderr.
    #[arg(long, value_name = "FORM", default_value = "text")]
    log: LogFormat,
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let AccelServe { pool: config, socket, tcp } = load(&args.config).map_err(CliError::input)?;
    let stop = stop().map_err(CliError::failed)?;
    let mut text = format!(
        "inside {}, outside {}; tenants: {}\n",
        config.inside.interface,
        config.outside.interface,
        config.tenants.iter().map(|tenant| tenant.name.as_str()).collect::<Vec<_>>().join(", ")
    );
    let pool = Pool::start(config, notes(args.log)).map_err(|error| match error {
        OffloadError::Settings(_)
        | OffloadError::Saved { .. }
        | OffloadError::Busy(_)
        | OffloadError::Open(_) => CliError::input(error),
        OffloadError::Interface { .. } | OffloadError::System(_) => CliError::failed(error),
    })?;
    let mut page = None;
    let tcp = match tcp {
        None => None,
        Some((address, token, files)) => {
            let tls = files.map(|files| tls(&files).map_err(CliError::input)).transpose()?;
            let token = listeners::token(&token)?;
            page = Some((if tls.is_some() { "https" } else { "http" }, token.clone()));
            Some(TcpListen { address, any_port: false, token, tls })
        }
    };
    let listeners = HttpListeners { unix: Some(socket.clone()), tcp, ..Default::default() };
    let http = serve_pool(listeners, pool.api()).map_err(CliError::failed)?;
    let _ = writeln!(text, "API: {}", socket.display());
    if let (Some(address), Some((scheme, token))) = (http.address, page) {
        let _ = writeln!(text, "API: {address}, with tokens; OpenStack: /accelerator/v2");
        text += &listeners::dashboard(scheme, address, &token);
    } else {
        text.push_str("no dashboard: `tcp` and `token-file` under [api] in the configuration\n");
    }
    output::print(&(text + "stop with Ctrl-C or SIGTERM\n"))?;
    let ended = pool.run(&stop).map_err(CliError::failed);
    drop(http);
    ended?;
    listeners::say("stopped");
    Ok(())
}
