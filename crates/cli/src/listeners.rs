//! Listeners of a running engine, as the command line makes them: tokens on disk, events on stderr.

use crate::config::{self, HttpConfig};
use crate::error::CliError;
use crate::stderr;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use thermocline_admin::api::{Event, Severity};
use thermocline_admin::files;
use thermocline_admin::http::{Http, HttpListeners, TcpListen};
use thermocline_admin::secret::random_number;

/// The token in a file; made, for its owner alone, when there is none.
///
/// # Errors
/// When the file cannot be made, or what is there is no token (see [`config::token`]).
pub(crate) fn token(path: &Path) -> Result<String, CliError> {
    if path.exists() {
        return config::token(path).map_err(CliError::input);
    }
    let token = format!("{:016x}{:016x}", random()?, random()?);
    // Never half of one: the next start would refuse it.
    files::replace(path, files::OWNER_ONLY, |mut file| writeln!(file, "{token}"))
        .map_err(|error| CliError::failed(format!("{}: {error}", path.display())))?;
    Ok(token)
}

/// Ways to the API of a store or a host: its socket, and an address for browsers, with its token.
/// Without a configured address, `page` is listened on, or any port beside it, with a new token.
///
/// # Errors
/// When the token can be neither read nor made.
pub(crate) fn admin_ways(
    config: &HttpConfig,
    page: Option<SocketAddr>,
) -> Result<(HttpListeners, Option<String>), CliError> {
    let tcp = match (&config.tcp, page) {
        (Some((address, file)), _) => Some((*address, token(file)?, false)),
        (None, Some(page)) => Some((page, format!("{:016x}{:016x}", random()?, random()?), true)),
        (None, None) => None,
    };
    let token = tcp.as_ref().map(|(_, token, _)| token.clone());
    let tcp =
        tcp.map(|(address, token, any_port)| TcpListen { address, any_port, token, tls: None });
    let unix = Some(config.socket.clone());
    Ok((HttpListeners { unix, tcp, ..HttpListeners::default() }, token))
}

/// The lines that tell of these ways.
pub(crate) fn tell_ways(http: &Http, config: &HttpConfig, token: Option<String>) -> String {
    let mut text = format!("API: {}\n", config.socket.display());
    if let (Some(address), Some(token)) = (http.address, token) {
        text += &dashboard("http", address, &token);
    }
    text
}

/// Ports above 1024 that browsers refuse, by the Fetch standard ("port blocking"). Cyborg's own,
/// 6666, is among them.
const BROWSERS_REFUSE: [u16; 19] = [
    1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669,
    6679, 6697, 10080,
];

/// The line that tells where a dashboard is, with the token that opens it. The page reads the token
/// as a query's value, in which `+` and `&` have other meanings.
pub(crate) fn dashboard(scheme: &str, address: SocketAddr, token: &str) -> String {
    match address.port() {
        port if BROWSERS_REFUSE.contains(&port) => {
            format!("no dashboard: browsers refuse port {port}; give another one\n")
        }
        _ => {
            let token = utf8_percent_encode(token, NON_ALPHANUMERIC);
            format!("dashboard: {scheme}://{address}/#token={token}\n")
        }
    }
}

/// A number that nobody can guess.
///
/// # Errors
/// When the system has none.
pub(crate) fn random() -> Result<u64, CliError> {
    random_number().map_err(CliError::failed)
}

/// Says something on stderr, and waits for nobody who reads it.
pub(crate) fn say(text: &str) {
    stderr::say(text.to_string());
}

/// Format of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum LogFormat {
    /// A line a person can read.
    #[default]
    Text,
    /// A JSON object a line.
    Json,
    /// Nothing.
    None,
}

/// Tells an event on stderr, and waits for nobody who reads it.
pub(crate) fn tell(format: LogFormat, event: &Event) {
    let line = match format {
        LogFormat::None => return,
        LogFormat::Json => serde_json::to_string(event).expect("events are plain"),
        LogFormat::Text => {
            let severity = match event.severity {
                Severity::Info => "info",
                Severity::Warning => "warning",
                Severity::Error => "ERROR",
            };
            format!("{} {severity} {}: {}", moment(event.at_ms), event.subject, event.text)
        }
    };
    stderr::say(line);
}

/// Milliseconds since 1970 as `2026-11-21T16:02:03.456Z` (RFC 3339; the calendar is the proleptic
/// Gregorian, by the day count of H. Hinnant, "chrono-compatible low-level date algorithms").
pub(crate) fn moment(at_ms: u64) -> String {
    let (days, rest) = ((at_ms / 86_400_000) as i64, at_ms % 86_400_000);
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (seconds, millis) = (rest / 1000, rest % 1000);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{millis:03}Z",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

#[cfg(test)]
mod tests;
