//! A stream as one end sees it: a queue, a window, and which last words have been said.
//!
//! Each end says one last frame on each stream: RESET, or CLOSED when both directions have ended
//! and its user has consumed everything, or when it was reset by the other end. The stream is
//! forgotten when both last frames are there; until then late frames of the other end are in order.

use crate::pool::Pool;
use crate::queue::{Direction, Queue};
use crate::window::Window;
use thermocline_units::mutants::mutant;

/// Last frame of this end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Last {
    /// The stream is in use.
    No,
    /// CLOSED or RESET is queued.
    Queued { reset: bool },
    /// CLOSED or RESET has left.
    Left { reset: bool },
}

/// State of a stream.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) queue: Queue,
    pub(crate) window: Window,
    /// The other end has ended its direction.
    pub(crate) theirs_ended: bool,
    pub(crate) last: Last,
    /// Last frame of the other end has come.
    pub(crate) theirs_last: bool,
    /// True if it stands in the row of those that want to send.
    pub(crate) in_row: bool,
}

impl Stream {
    /// A new one, on which `credit` bytes may be sent.
    pub(crate) fn new(credit: u32, windows: &Pool) -> Stream {
        Stream {
            queue: Queue::new(credit),
            window: Window::new(windows),
            theirs_ended: false,
            last: Last::No,
            theirs_last: false,
            in_row: false,
        }
    }

    /// True while its user may have to do with it.
    pub(crate) fn is_live(&self) -> bool {
        self.last == Last::No
    }

    /// True if this end has nothing more to say but CLOSED.
    pub(crate) fn is_finished(&self) -> bool {
        let consumed = self.window.unconsumed() == 0 || mutant("closed_before_consumed");
        self.is_live()
            && self.theirs_ended
            && self.queue.direction() == Direction::Ended
            && consumed
    }

    /// True if the other end may say CLOSED: both ends' data has ended, or it heard our RESET.
    pub(crate) fn may_be_closed(&self) -> bool {
        let ended = self.theirs_ended && self.queue.direction() == Direction::Ended;
        ended || matches!(self.last, Last::Left { reset: true })
    }

    /// True if this end has reset it.
    pub(crate) fn was_reset(&self) -> bool {
        matches!(self.last, Last::Queued { reset: true } | Last::Left { reset: true })
    }

    /// True if nothing more is said on it by either end.
    pub(crate) fn is_over(&self) -> bool {
        let over = self.theirs_last || mutant("forgotten_before_their_last_frame");
        over && matches!(self.last, Last::Left { .. })
    }

    /// Gives back what it holds: it was reset.
    pub(crate) fn drop_contents(&mut self, queues: &mut Pool, windows: &mut Pool) {
        self.queue.clear(queues);
        self.window.release(windows);
    }
}
