//! Segments of a request: bytes that go to one device at once, and how they become one again.

use crate::LINE;
use std::ops::Range;
use thermocline_ports::Payload;

/// Bytes that go to one device in one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Segment {
    /// The first slot; none: the slow device.
    pub(crate) slot: Option<u32>,
    pub(crate) bytes: Range<u64>,
}

impl Segment {
    /// Bytes of it.
    pub(crate) fn length(&self) -> u32 {
        (self.bytes.end - self.bytes.start) as u32
    }

    /// The slot that a line must have to take this segment; none: it goes to the slow device, too.
    pub(crate) fn slot_after(&self) -> Option<u32> {
        let lines = lines_of(&self.bytes);
        self.slot.map(|slot| slot + (lines.end - lines.start))
    }
}

/// One write to the slow device in place of several that lie close together, if there are several:
/// a disk would seek for each. It also has what lies between them, which slots have too and keep: a
/// slot's line is dirty, and hides what the slow device has of it. `None`: there are not several,
/// or more lies between them than they have themselves.
pub(crate) fn parts_together(segments: &[Segment]) -> Option<Segment> {
    let parts = || segments.iter().filter(|segment| segment.slot.is_none());
    let bytes = parts().next()?.bytes.start..parts().next_back()?.bytes.end;
    let theirs: u64 = parts().map(|segment| u64::from(segment.length())).sum();
    let close = bytes.end - bytes.start <= 2 * theirs;
    (parts().count() > 1 && close).then_some(Segment { slot: None, bytes })
}

/// The lines that `bytes` touches.
pub(crate) fn lines_of(bytes: &Range<u64>) -> Range<u32> {
    let line = u64::from(LINE);
    (bytes.start / line) as u32..bytes.end.div_ceil(line) as u32
}

/// The pieces of a read, as one; those that begin before `bytes` or end behind are cut.
pub(crate) fn assemble(bytes: &Range<u64>, pieces: &mut [(u64, Payload)]) -> Payload {
    pieces.sort_unstable_by_key(|&(at, _)| at);
    let meet = |two: &[(u64, Payload)]| two[0].0 + u64::from(two[0].1.len()) == two[1].0;
    assert!(pieces.windows(2).all(meet), "pieces of {bytes:?} do not meet");
    let cut = |(at, payload): &(u64, Payload)| {
        let from = bytes.start.saturating_sub(*at) as u32;
        let to = u64::from(payload.len()).min(bytes.end - at) as u32;
        payload.slice(from..to)
    };
    let length = (bytes.end - bytes.start) as u32;
    if let [only] = &*pieces {
        let whole = cut(only);
        assert!(whole.len() == length, "a piece does not cover {bytes:?}");
        return whole;
    }
    let parts: Vec<Payload> = pieces.iter().map(cut).collect();
    let there: u32 = parts.iter().map(Payload::len).sum();
    assert!(there == length, "pieces do not cover {bytes:?}");
    if parts.iter().all(|part| matches!(part, Payload::Zeroes(_))) {
        return Payload::Zeroes(length);
    }
    let mut whole = vec![0; length as usize];
    let mut rest = whole.as_mut_slice();
    for part in &parts {
        let (head, tail) = rest.split_at_mut(part.len() as usize);
        part.copy_to(head);
        rest = tail;
    }
    Payload::from(whole)
}
