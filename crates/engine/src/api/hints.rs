//! Hints, as the API says them. docs/guides/hints.md explains every field.

use crate::http::openapi;
use serde::{Deserialize, Serialize};
use thermocline_policy::hints::{Facts, Level, Life, Usage, Wishes};
use thermocline_units::Bytes;
use utoipa::ToSchema;

/// The version of the document that this program reads.
pub const HINTS_VERSION: u32 = 1;
/// Hints of one document at most.
pub(crate) const HINTS_MAX: usize = 10_000;
/// Bytes of a document at most: room for [`HINTS_MAX`] hints of 800 bytes in JSON, which have a
/// path of 600. Whoever has longer ones gives fewer at once.
pub(crate) const HINTS_BYTES_MAX: usize = 8 << 20;
const _: () = assert!(HINTS_BYTES_MAX / HINTS_MAX > 800, "a full document has room");
/// Hints that fit into a document even if all have the longest of paths.
pub const HINTS_AT_ONCE: usize = 1600;
const _: () = assert!(HINTS_BYTES_MAX / HINTS_AT_ONCE > 4096 + 255 + 800, "PATH_MAX and NAME_MAX");
/// Bytes of a text in a hint.
const TEXT_MAX: usize = 4096;
/// Hints that were not taken of which a document's answer tells.
const REFUSED_MAX: usize = 100;

/// Hints of one source about data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewHints {
    /// The document's version: 1.
    pub version: u32,
    /// Name of the source, 1 to 64 bytes: hints of one source replace each other, and are scored
    /// together.
    pub source: String,
    /// Hints in order; at most 10,000.
    pub hints: Vec<NewHint>,
}

/// Facts about bytes of a volume. A fact that is left out is not known.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NewHint {
    /// Subject: system, volume, process, file or range (when left out). The more specific level
    /// wins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<HintLevel>,
    /// The volume's name; left out only at the level of the system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume: Option<String>,
    /// From where on, bytes; 0 when left out.
    pub offset_bytes: u64,
    /// Length in bytes; to the volume's end when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length_bytes: Option<u64>,
    /// The file system's own structures.
    #[serde(skip_serializing_if = "is_false")]
    pub metadata: bool,
    /// Size of the file that the bytes belong to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_size_bytes: Option<u64>,
    /// The file's directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// The file's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_name: Option<String>,
    /// The program that uses it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<String>,
    /// Bytes of a request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_size_bytes: Option<u64>,
    /// True if requests write, false if they read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writes: Option<bool>,
    /// True if requests pass the page cache by.
    #[serde(skip_serializing_if = "is_false")]
    pub direct: bool,
    /// A number for what belongs together; 0: none.
    #[serde(skip_serializing_if = "is_zero")]
    pub stream: u16,
    /// Use: unknown, read-intensive, write-intensive, random-write, sequential-write, mixed,
    /// archival.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<String>,
    /// Lifetime, as Linux's write-life hints: not-set, none, short, medium, long, extreme.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub life: Option<String>,
    /// Placements shall leave it where it is.
    #[serde(skip_serializing_if = "is_false")]
    pub pin: bool,
    /// Not needed soon: to the slowest pool.
    #[serde(skip_serializing_if = "is_false")]
    pub demote: bool,
    /// Background: requests may wait so long, 1 to 10,000 ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub background_ms: Option<u32>,
    /// Needed soon: copies in the reserve of a faster pool.
    #[serde(skip_serializing_if = "is_false")]
    pub prefetch: bool,
    /// Time within which it is needed, with `prefetch`: 0.001 to 1,000,000,000 s; what is needed
    /// first is fetched first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefetch_within_seconds: Option<f64>,
    /// Forgotten after so long; when replaced, if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_seconds: Option<f64>,
}

/// Subject of a hint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum HintLevel {
    /// Every volume.
    System,
    /// A volume.
    Volume,
    /// Files that a program touches.
    Process,
    /// A file.
    File,
    /// Bytes of a volume.
    Range,
}

/// Outcome of a document.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct HintsTaken {
    /// Hints that were taken.
    pub taken: u64,
    /// Hints that were not, and changed nothing.
    pub refused: u64,
    /// Chunks that prefetches wish.
    pub prefetched_chunks: u64,
    /// Reasons, of the first hundred.
    pub reasons: Vec<RefusedHint>,
}

/// A hint that was not taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RefusedHint {
    /// Its place in the document, from 0.
    pub index: u64,
    /// The reason.
    pub message: String,
}

/// Another table of classes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewClasses {
    /// The table, in the form of Open CAS's I/O classes.
    pub table: String,
}

/// Hints at a glance.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct HintsStatus {
    /// Ranges held, and the most that can be.
    pub ranges: u64,
    /// See `ranges`.
    pub ranges_most: u64,
    /// Memory that they take.
    pub memory_bytes: u64,
    /// Moves that they led to since the start.
    pub done: HintsDone,
    /// Sources of hints.
    pub sources: Vec<HintSource>,
    /// Ranges that saved or cost most time lately, at most 64; those that are not followed first.
    pub judged: Vec<JudgedRange>,
    /// Pins by pool, as the last epoch of the policy found them.
    pub pins: Vec<PoolPins>,
    /// The table of classes, in the form of Open CAS's.
    pub classes: String,
}

/// Moves that hints led to since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct HintsDone {
    /// Chunks that they claimed at the last epoch's end.
    pub claimed_chunks: u64,
    /// Chunks placed by their class when they were written first.
    pub placed_chunks: u64,
    /// Moves proposed beside the policy's.
    pub moves: u64,
    /// Moves of the policy that were dropped.
    pub moves_dropped: u64,
    /// Chunks redirected by writes.
    pub redirected_chunks: u64,
    /// Requests that were let wait.
    pub requests_waited: u64,
    /// Chunks that prefetches wished.
    pub prefetched_chunks: u64,
    /// Prefetches and redirections without room.
    pub refused_chunks: u64,
}

/// A source of hints, and its accuracy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HintSource {
    /// Its name.
    pub name: String,
    /// Hints taken.
    pub taken: u64,
    /// Hints refused.
    pub refused: u64,
    /// Ranges held.
    pub ranges: u64,
    /// Scores by class that it spoke of.
    pub scores: Vec<HintScore>,
}

/// Accuracy of a source about a class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HintScore {
    /// The class: its rule.
    pub class: String,
    /// 0 wrong, 1 right, 0.75 at first and while its data is quiet: the mean over its bytes.
    pub score: f64,
    /// True if it is followed.
    pub followed: bool,
    /// Chunks of the class, and accesses to them, in the last epoch with requests.
    pub chunks: u64,
    /// See `chunks`.
    pub accesses: u64,
    /// Bytes of which the class decides.
    pub bytes: u64,
    /// Those of them of which accesses say something.
    pub proved_bytes: u64,
    /// Time that users waited less because it was followed, since the start.
    pub saved_seconds: f64,
    /// Time that users waited longer because it was followed, since the start.
    pub lost_seconds: f64,
}

/// A range of hints of one source and class, by what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JudgedRange {
    /// The source.
    pub source: String,
    /// The class: its rule.
    pub class: String,
    /// The volume's name.
    pub volume: String,
    /// From where on.
    pub offset_bytes: u64,
    /// Length in bytes.
    pub length_bytes: u64,
    /// Time saved lately: in the last epoch, and less and less of those before.
    pub saved_seconds: f64,
    /// Time lost lately, or that would be lost if the hints were followed.
    pub lost_seconds: f64,
    /// 0 wrong, 1 right.
    pub score: f64,
    /// True if hints of the range are followed.
    pub followed: bool,
}

/// Pins on a pool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PoolPins {
    /// The pool's name.
    pub pool: String,
    /// Chunks that hints may pin, beside those that administrators pinned.
    pub budget_chunks: u64,
    /// Chunks that hints pin, and that are held.
    pub held_chunks: u64,
    /// Chunks that hints pin, and that are not held: users waited for the pin.
    pub wrong_chunks: u64,
    /// Chunks that hints pin, and that are not held: they are beyond the budget.
    pub beyond_chunks: u64,
    /// Chunks that administrators pinned; they are held in any case.
    pub by_name_chunks: u64,
    /// Time that users waited less because of pins, since the start.
    pub saved_seconds: f64,
    /// Time that users waited longer because of pins, since the start.
    pub lost_seconds: f64,
}

/// The JSON Schema (draft 2020-12) of a document of hints, from the same definitions as the API's.
pub fn hints_schema() -> String {
    let api = serde_json::to_value(openapi()).expect("the document is plain");
    let schemas = &api["components"]["schemas"];
    let mut schema = schemas["NewHints"].clone();
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    schema["title"] = "Hints for thermocline, version 1".into();
    for part in ["NewHint", "HintLevel"] {
        schema["$defs"][part] = schemas[part].clone();
    }
    let text = serde_json::to_string_pretty(&schema).expect("it is plain");
    text.replace("#/components/schemas/", "#/$defs/") + "\n"
}

fn is_false(value: &bool) -> bool {
    !value
}

fn is_zero(value: &u16) -> bool {
    *value == 0
}

impl HintLevel {
    /// The other way round.
    pub fn of(level: Level) -> HintLevel {
        match level {
            Level::System => HintLevel::System,
            Level::Volume => HintLevel::Volume,
            Level::Process => HintLevel::Process,
            Level::File => HintLevel::File,
            Level::Range => HintLevel::Range,
        }
    }

    /// The level as policies know it.
    pub fn level(self) -> Level {
        match self {
            HintLevel::System => Level::System,
            HintLevel::Volume => Level::Volume,
            HintLevel::Process => Level::Process,
            HintLevel::File => Level::File,
            HintLevel::Range => Level::Range,
        }
    }
}

impl NewHints {
    /// Looks at the document as a whole.
    ///
    /// # Errors
    /// When it is of another version, or too long.
    pub fn check(&self) -> Result<(), String> {
        if self.version != HINTS_VERSION {
            let version = self.version;
            return Err(format!("the document's version is {version}; this program reads 1"));
        }
        if self.hints.len() > HINTS_MAX {
            let count = self.hints.len();
            return Err(format!("{count} hints are too many; give at most {HINTS_MAX} at once"));
        }
        Ok(())
    }
}

impl NewHint {
    /// Facts of the hint, as policies know them.
    ///
    /// # Errors
    /// When a word is not known, or a text too long.
    pub fn facts(&self) -> Result<Facts, String> {
        let text = |key: &str, text: &Option<String>| match text {
            Some(text) if text.len() > TEXT_MAX => {
                Err(format!("`{key}` has {} bytes; at most {TEXT_MAX}", text.len()))
            }
            text => Ok(text.clone()),
        };
        let usage = self.usage.as_deref().unwrap_or(Usage::Unknown.name());
        let life = self.life.as_deref().unwrap_or(Life::NotSet.name());
        Ok(Facts {
            metadata: self.metadata,
            file_size: self.file_size_bytes.map(Bytes),
            directory: text("directory", &self.directory)?,
            file_name: text("file_name", &self.file_name)?,
            process: text("process", &self.process)?,
            request_size: self.request_size_bytes.map(Bytes),
            writes: self.writes,
            direct: self.direct,
            stream: self.stream,
            usage: Usage::named(usage).ok_or_else(|| {
                format!("`{usage}` is no usage; write {}", Usage::ALL.map(Usage::name).join(", "))
            })?,
            life: Life::named(life).ok_or_else(|| {
                format!("`{life}` is no life; write {}", Life::ALL.map(Life::name).join(", "))
            })?,
        })
    }

    /// Wishes of the hint.
    pub fn wishes(&self) -> Wishes {
        Wishes { pin: self.pin, demote: self.demote, background_ms: self.background_ms }
    }
}

impl HintsTaken {
    /// Adds what became of a later part of the same document.
    pub fn add(&mut self, part: HintsTaken) {
        self.taken += part.taken;
        self.refused += part.refused;
        self.prefetched_chunks += part.prefetched_chunks;
        let room = REFUSED_MAX.saturating_sub(self.reasons.len());
        self.reasons.extend(part.reasons.into_iter().take(room));
    }

    /// Counts a hint that was not taken.
    pub fn refuse(&mut self, index: usize, message: String) {
        self.refused += 1;
        if self.reasons.len() < REFUSED_MAX {
            self.reasons.push(RefusedHint { index: index as u64, message });
        }
    }
}
