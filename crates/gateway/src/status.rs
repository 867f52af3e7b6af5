//! What a gateway tells about itself: plain data, as JSON on a unix socket.

use serde::{Deserialize, Serialize};
use thermocline_policy::tunnel::Choice;
use thermocline_tunnel::ClassReport;

/// A class of flows on a connection, as this end sent for them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClassStatus {
    /// The server's port.
    pub class: u16,
    /// How the next segment is cut.
    pub choice: String,
    /// The reason for that.
    pub why: String,
    /// Bytes of clients since the connection is there.
    pub bytes: u64,
    /// Bytes that were sent for them.
    pub sent: u64,
    /// Bytes that were not sent because the other end had them.
    pub saved: u64,
    /// Share of the bytes that need not be sent; nothing without bytes.
    pub re_ratio: Option<f64>,
    /// Bytes of clients in the last second.
    pub goodput_bytes_per_s: u64,
    /// Chunks that were cut, and those that went as references.
    pub chunks: u64,
    /// Of those.
    pub references: u64,
    /// Time that cutting, finding and packing took, microseconds.
    pub processing_us: u64,
}

impl ClassStatus {
    pub(crate) fn new(report: &ClassReport, goodput_bytes_per_s: u64) -> ClassStatus {
        let choice: Choice = report.choice;
        ClassStatus {
            class: report.class,
            choice: choice.to_string(),
            why: report.why.to_string(),
            bytes: report.sent.bytes,
            sent: report.sent.sent,
            saved: report.sent.saved,
            re_ratio: report.sent.re_ratio(),
            goodput_bytes_per_s,
            chunks: report.sent.chunks,
            references: report.sent.references,
            processing_us: report.processing.0 / 1000,
        }
    }
}

/// A connection to another end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkStatus {
    /// Its address.
    pub peer: String,
    /// True once both ends have said their first words.
    pub is_up: bool,
    /// Seconds since it was made.
    pub for_s: f64,
    /// Time from the last ping to its answer; pings are sent when nothing else comes.
    pub round_trip_us: Option<u64>,
    /// Flows that are not over.
    pub flows: usize,
    /// Bytes that were sent on it, before encryption.
    pub sent_bytes: u64,
    /// Bytes that came on it.
    pub received_bytes: u64,
    /// Bytes a second that it took while more waited; nothing as long as it took everything.
    pub link_bytes_per_s: Option<u64>,
    /// Chunks that the other end did not hold, and asked for.
    pub chunks_asked_of_us: u64,
    /// Chunks that this end did not hold.
    pub chunks_asked_by_us: u64,
    /// Classes of flows.
    pub classes: Vec<ClassStatus>,
}

/// A gateway.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// `enter` or `exit`.
    pub role: String,
    /// This end's key.
    pub key: String,
    /// Seconds since it runs.
    pub for_s: f64,
    /// Connections to other ends: one at most of an enter, one for each key of an exit.
    pub links: Vec<LinkStatus>,
    /// Seconds since there is no connection; nothing while there is one.
    pub down_for_s: Option<f64>,
    /// Why the last connection ended, or could not be made.
    pub last_error: Option<String>,
    /// Connections that were made.
    pub connections: u64,
    /// What clients get while there is none: `refuse` or `pass`; nothing for an exit.
    pub when_down: Option<String>,
    /// Clients (enter) or servers (exit) that are connected.
    pub clients: usize,
    /// Flows that began.
    pub flows: u64,
    /// Flows that were refused: no connection, no room, a target that is not allowed.
    pub refused: u64,
    /// Flows that were cut.
    pub cut: u64,
    /// Clients that were passed by, because there was no connection.
    pub passed: u64,
}
