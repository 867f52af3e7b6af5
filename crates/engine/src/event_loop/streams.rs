//! Streams of connections: how a client that attached `VOLUME@USAGE` uses what it writes.
//!
//! A hint by range comes after the file system has chosen where a file is, and often after its
//! bytes are written. A stream is known before: a connection has one from its handshake on. Its
//! writes to chunks that hold nothing yet are hinted before the machine sees them, so that the
//! first slot is already on the pool of the class, and nothing has to move.
//!
//! Only first writes are hinted: other connections may write what is there, too, and what a file
//! system or a person says of a file or range is more specific. Hints of a stream are kept, scored
//! and withdrawn as those of any source; its name is `stream USAGE`.

use thermocline_policy::hints::store::Hint;
use thermocline_policy::hints::{Facts, Level, Usage, Wishes};
use thermocline_units::{ChunkId, Nanos, VolumeId};
use thermocline_volume::{Action, Group};

/// Words that may follow a volume's name: all usages but `unknown`, by their numbers less one.
pub(super) const STREAMS: [&str; Usage::ALL.len() - 1] = [
    Usage::ALL[1].name(),
    Usage::ALL[2].name(),
    Usage::ALL[3].name(),
    Usage::ALL[4].name(),
    Usage::ALL[5].name(),
    Usage::ALL[6].name(),
];

/// Hints what a stream is about to write first. A hint that there is no room for is left out: it
/// costs speed.
pub(super) fn hint_first_writes(
    group: &mut Group,
    now: Nanos,
    stream: u8,
    volume: VolumeId,
    action: &Action,
) {
    let Action::Write { offset, payload, .. } = action else { return };
    let Some(usage) = Usage::ALL.get(usize::from(stream) + 1) else { return };
    let chunk_size = group.chunk_size().0;
    let end = offset.0 + payload.len() as u64;
    for index in offset.0 / chunk_size..end.div_ceil(chunk_size) {
        // Nearly all writes are to chunks that hold data: for them nothing is made.
        if !group.is_unwritten(ChunkId { volume, index: index as u32 }) {
            continue;
        }
        let start = index * chunk_size;
        let hint = Hint {
            source: &format!("stream {}", usage.name()),
            // Below what programs say: a stream says nothing of who waits for it.
            level: Level::Volume,
            volume: Some(volume),
            range: (start, start + chunk_size),
            facts: &Facts { usage: *usage, ..Facts::default() },
            wishes: Wishes::default(),
            until: None,
        };
        let _ = group.hint(now, &hint);
    }
}
