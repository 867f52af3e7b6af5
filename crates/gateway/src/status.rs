//! Status of a gateway: plain data.

use serde::{Deserialize, Serialize};
use thermocline_policy::tunnel::ChunkSize;
use thermocline_tunnel::{ClassReport, DiskCounts, FlowReport};
use utoipa::ToSchema;

/// Flows of a connection that are told one by one: those that carried most in the last second.
pub(crate) const FLOWS_TOLD_MAX: usize = 100;

/// A class of flows on a connection, as this end sent for them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ClassStatus {
    /// The server's port.
    pub class: u16,
    /// The choice by which the next segment is cut.
    pub choice: String,
    /// Bytes of a chunk, as the choice expects them; nothing when nothing is cut.
    pub chunk_bytes: Option<u32>,
    /// The reason for that.
    pub why: String,
    /// Bytes of clients, since this end met the other one first.
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
    /// References among them.
    pub references: u64,
    /// Time that cutting, finding and packing took, microseconds.
    pub processing_us: u64,
}

impl ClassStatus {
    pub(crate) fn new(report: &ClassReport, goodput_bytes_per_s: u64) -> ClassStatus {
        ClassStatus {
            class: report.class,
            choice: report.choice.to_string(),
            chunk_bytes: report.choice.size().map(ChunkSize::bytes),
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

/// Chunks on disk, counted since this end met the other one first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DiskStatus {
    /// Chunks that memory gave up and the file got.
    pub inserted: u64,
    /// Chunks whose place was written over.
    pub evicted: u64,
    /// Chunks that were dropped because the disk was behind.
    pub dropped: u64,
    /// Chunks that were read.
    pub read: u64,
    /// Chunks that could not be read, or had changed; the other end was asked for them.
    pub lost: u64,
    /// True after a write that failed: no chunk is on disk from then on.
    pub has_failed: bool,
}

impl From<DiskCounts> for DiskStatus {
    fn from(counts: DiskCounts) -> DiskStatus {
        let DiskCounts { inserted, evicted, dropped, read, lost, has_failed } = counts;
        DiskStatus { inserted, evicted, dropped, read, lost, has_failed }
    }
}

/// A flow, as this end sent for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FlowStatus {
    /// Its destination.
    pub target: String,
    /// Its class: the server's port, or 0 when there are more classes than are told apart.
    pub class: u16,
    /// Seconds since it began.
    pub for_s: f64,
    /// The choice by which what comes next is cut.
    pub choice: String,
    /// Bytes of a chunk, as the choice expects them; nothing when nothing is cut.
    pub chunk_bytes: Option<u32>,
    /// The reason of the class for that.
    pub why: String,
    /// Bytes of this end's client.
    pub bytes: u64,
    /// Bytes that were sent for them.
    pub sent: u64,
    /// Bytes that were not sent because the other end had them.
    pub saved: u64,
    /// Share of the bytes that need not be sent; nothing without bytes.
    pub re_ratio: Option<f64>,
    /// Bytes of this end's client in the last second.
    pub goodput_bytes_per_s: u64,
    /// Bytes that this end's client has got.
    pub received: u64,
    /// Those of the last second.
    pub received_bytes_per_s: u64,
    /// Bytes that this end holds for the other one.
    pub held_bytes: usize,
    /// Bytes that wait for this end's client to take them.
    pub waiting_bytes: usize,
}

/// State of a flow in a hub.
pub(crate) struct OfClient {
    pub(crate) target: String,
    pub(crate) for_s: f64,
    pub(crate) received: u64,
    pub(crate) sent_per_s: u64,
    pub(crate) received_per_s: u64,
}

impl FlowStatus {
    pub(crate) fn new(report: &FlowReport, why: String, of: OfClient) -> FlowStatus {
        FlowStatus {
            target: of.target,
            class: report.class,
            for_s: of.for_s,
            choice: report.choice.to_string(),
            chunk_bytes: report.choice.size().map(ChunkSize::bytes),
            why,
            bytes: report.sent.bytes,
            sent: report.sent.sent,
            saved: report.sent.saved,
            re_ratio: report.sent.re_ratio(),
            goodput_bytes_per_s: of.sent_per_s,
            received: of.received,
            received_bytes_per_s: of.received_per_s,
            held_bytes: report.held,
            waiting_bytes: report.waiting,
        }
    }
}

/// A connection to another end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LinkStatus {
    /// Its address.
    pub peer: String,
    /// Its key.
    pub key: String,
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
    /// The cache's second tier; nothing when it has none.
    pub disk: Option<DiskStatus>,
    /// Classes of flows.
    pub classes: Vec<ClassStatus>,
    /// Flows that carried most in the last second, at most 100.
    pub busiest: Vec<FlowStatus>,
}

/// An accelerator that cuts content for this end, counted since the start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AcceleratorStatus {
    /// The worker's program.
    pub program: String,
    /// The number of its process; nothing while none runs.
    pub process: Option<u32>,
    /// True while it cuts; otherwise this end's processor does.
    pub is_up: bool,
    /// Seconds since it is so.
    pub for_s: f64,
    /// The reason that it failed; nothing while it works.
    pub last_failure: Option<String>,
    /// The fingerprint by which content is cut, by the worker and in its place.
    pub fingerprint: String,
    /// Jobs that it works on at the same time.
    pub units: u32,
    /// Jobs that it was given.
    pub jobs: u64,
    /// Bytes that it cut and that were used.
    pub bytes: u64,
    /// Jobs that this end's processor did in its place.
    pub jobs_failed: u64,
    /// Answers that were found to be false.
    pub false_answers: u64,
    /// Times that it failed.
    pub failures: u64,
}

/// A gateway.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
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
    /// The reason that the last connection ended, or could not be made.
    pub last_error: Option<String>,
    /// Connections that were made.
    pub connections: u64,
    /// The treatment of clients while there is none: `refuse` or `pass`; nothing for an exit.
    pub when_down: Option<String>,
    /// Clients (enter) or servers (exit) that are connected.
    pub clients: usize,
    /// Flows that began.
    pub flows: u64,
    /// Flows that were refused: no connection, no room, a target that is not allowed.
    pub refused: u64,
    /// Flows that were cut.
    pub cut: u64,
    /// Times that a client's bytes waited for more to come, until a timer rang.
    pub lingered: u64,
    /// Clients that were passed by, because there was no connection.
    pub passed: u64,
    /// The accelerator; nothing where content is cut by this end's processor.
    pub accelerator: Option<AcceleratorStatus>,
}
