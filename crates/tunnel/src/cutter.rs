//! Ends of a flow's chunks: what came is cut piece by piece, by this processor or by another unit.
//!
//! 1. Bytes that came ([`Cutter::came`]) wait until they are cut. A *piece* is what may be cut
//!    next: everything up to the first *pause*, where the chunk under way ends in any case.
//! 2. This processor cuts a piece at once ([`Cutter::cut`]). A unit gets it as a job
//!    ([`Cutter::ask`]) and answers later ([`Cutter::answered`]); one job of a flow at a time,
//!    because each needs the chunk that the one before it left under way. A piece that no unit cuts
//!    after all goes to this processor ([`Cutter::withdraw`]).
//! 3. Either way the ends of chunks are the same. They depend on the bytes, on the pauses and on
//!    the chunking, and never on who cut which piece, or when.
//!
//! Positions count the bytes of the flow. Not here: the bytes themselves, which the caller keeps
//! until they are cut, and the choice of who cuts.

use std::collections::VecDeque;
use thermocline_chunking::{
    BelowMin, Chunker, Chunking, Claim, CoreFunction, Lie, TAIL_BYTES, Tests, UnderWay, check,
};
use thermocline_ports::Payload;
use thermocline_ports::accelerator::{Answer, Context, Fingerprint, Function, Job};
use thermocline_units::Rng;
use thermocline_units::mutants::mutant;

/// A place at which the chunk under way ends in any case.
struct Pause {
    at: u64,
    /// True if everything before it is to be sent.
    sends: bool,
    /// The chunking of what comes behind it, if it is another one.
    then: Option<Chunking>,
}

/// The ends of one flow's chunks.
pub(crate) struct Cutter {
    /// The chunking of the next piece.
    chunking: Chunking,
    /// This processor's; `None` when a unit cut the last piece.
    chunker: Option<Chunker>,
    under_way: UnderWay,
    /// Everything before is cut.
    cut_to: u64,
    /// Everything before has come.
    came: u64,
    /// End of the piece that a unit is cutting.
    asked: Option<u64>,
    /// Pauses that are not reached, in their order.
    pauses: VecDeque<Pause>,
    /// Ends of chunks that nobody has taken.
    cuts: VecDeque<u64>,
    /// Pauses that are reached, before which everything is to be sent.
    sends: VecDeque<u64>,
}

impl Cutter {
    pub(crate) fn new(chunking: Chunking) -> Cutter {
        Cutter {
            chunking,
            chunker: None,
            under_way: UnderWay::default(),
            cut_to: 0,
            came: 0,
            asked: None,
            pauses: VecDeque::new(),
            cuts: VecDeque::new(),
            sends: VecDeque::new(),
        }
    }

    /// The chunking of the next piece.
    pub(crate) fn chunking(&self) -> Chunking {
        self.chunking
    }

    /// Everything before this position is cut, but for the chunk under way.
    pub(crate) fn cut_to(&self) -> u64 {
        self.cut_to
    }

    /// True while a unit cuts a piece.
    pub(crate) fn is_asked(&self) -> bool {
        self.asked.is_some()
    }

    /// Length of the next piece, bytes; 0 when there is none, or a unit has it.
    pub(crate) fn piece(&self) -> u64 {
        if self.asked.is_some() { 0 } else { self.piece_end() - self.cut_to }
    }

    /// The same, where units have the method; otherwise 0.
    pub(crate) fn piece_for_units(&self) -> u64 {
        function(self.chunking).map_or(0, |_| self.piece())
    }

    /// True if the next piece ends at a pause: waiting for more bytes does not make it longer.
    pub(crate) fn piece_is_whole(&self) -> bool {
        !self.pauses.is_empty()
    }

    /// The last end of a chunk that nobody has taken.
    pub(crate) fn last_cut(&self) -> Option<u64> {
        self.cuts.back().copied()
    }

    /// The first end of a chunk that nobody has taken.
    pub(crate) fn first_cut(&self) -> Option<u64> {
        self.cuts.front().copied()
    }

    /// Takes the first end of a chunk.
    pub(crate) fn take_cut(&mut self) {
        let taken = self.cuts.pop_front();
        debug_assert!(taken.is_some(), "it was looked at");
    }

    /// The first place behind `origin` before which everything is to be sent, if it is reached.
    pub(crate) fn sends_to(&mut self, origin: u64) -> Option<u64> {
        while self.sends.front().is_some_and(|&to| to <= origin) {
            self.sends.pop_front();
        }
        self.sends.front().copied()
    }

    /// Takes note of so many bytes more.
    pub(crate) fn came(&mut self, bytes: usize) {
        self.came += bytes as u64;
        assert!(self.cut_to <= self.came, "nothing is cut that has not come");
    }

    /// Ends the chunk that is under way behind what came; `sends`: everything before is to be sent.
    /// With `then` everything behind is cut in that way.
    pub(crate) fn pause(&mut self, sends: bool, then: Option<Chunking>) {
        assert!(self.pauses.back().is_none_or(|last| last.at <= self.came), "pauses are in order");
        match self.pauses.back_mut().filter(|last| last.at == self.came) {
            Some(last) => {
                last.sends |= sends;
                last.then = then.or(last.then);
            }
            None => self.pauses.push_back(Pause { at: self.came, sends, then }),
        }
        self.reach();
    }

    /// Cuts everything that came on this processor. `uncut` is what is not cut.
    pub(crate) fn cut(&mut self, uncut: &[u8]) {
        assert!(self.asked.is_none(), "a unit has the next piece");
        assert_eq!(uncut.len() as u64, self.came - self.cut_to, "everything that is not cut");
        let mut rest = uncut;
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(self.piece() as usize);
            self.cut_piece(piece);
            rest = behind;
        }
    }

    fn cut_piece(&mut self, piece: &[u8]) {
        assert!(!piece.is_empty(), "pauses are reached before the next piece");
        let (chunking, under_way) = (self.chunking, &self.under_way);
        let chunker = self.chunker.get_or_insert_with(|| chunking.chunker().resumed(under_way));
        let (before, from) = (chunker.position(), self.cut_to);
        let mut cuts = Vec::new();
        chunker.push(piece, &mut cuts);
        (self.under_way.length, self.under_way.early) = (chunker.length(), chunker.early());
        self.cuts.extend(cuts.into_iter().map(|cut| from + (cut - before)));
        if chunking.tests().is_some_and(|tests| tests.engine.is_some()) {
            remember(&mut self.under_way.tail, piece);
        }
        self.advance(piece.len());
    }

    /// The next piece, `most` bytes of it at most, as a job for a unit. `uncut` is what is not cut.
    /// `None` if there is no piece, or no unit has this method.
    pub(crate) fn ask(&mut self, uncut: &[u8], most: u64) -> Option<Job> {
        let function = function(self.chunking)?;
        let length = self.piece().min(most);
        if length == 0 {
            return None;
        }
        self.asked = Some(self.cut_to + length);
        let UnderWay { tail, length: begun, early } = &self.under_way;
        assert!(*begun < u64::from(function.max), "a chunk of the greatest size has ended");
        let is_untold = mutant("a_unit_is_not_told_the_bytes_before");
        let tail = if is_untold { Vec::new() } else { tail.clone() };
        let context = Context { tail, length: *begun as u32, early: *early };
        let data = Payload::from(uncut[..length as usize].to_vec());
        Some(Job { data, context, function })
    }

    /// A unit's answer for the piece that it was asked about: it is checked, one chunk in `one_in`
    /// by content, and counts if nothing is found to be false. `uncut` is what is not cut.
    ///
    /// # Errors
    /// It is false. The piece is not cut, and was withdrawn.
    pub(crate) fn answered(
        &mut self,
        uncut: &[u8],
        answer: &Answer,
        one_in: u64,
        rng: &mut Rng,
    ) -> Result<(), Lie> {
        let to = self.asked.take().expect("a unit was asked");
        let piece = &uncut[..(to - self.cut_to) as usize];
        let length = u64::from(answer.length);
        let claim = Claim {
            tests: self.chunking.tests().expect("a unit was asked"),
            sizes: self.chunking.sizes(),
            below_min: BelowMin::Ignore,
            before: &self.under_way,
            bytes: piece,
            positions: &answer.positions,
            length,
            early: answer.early,
        };
        if !mutant("an_answer_is_believed") {
            check(&claim, one_in, rng)?;
        }
        let from = self.cut_to;
        self.cuts.extend(answer.positions.iter().map(|&at| from + u64::from(at)));
        // This processor's chunker did not see the piece.
        self.chunker = None;
        self.under_way = self.under_way.after(piece, length, answer.early);
        self.advance(piece.len());
        Ok(())
    }

    /// Takes the piece back that a unit was asked about.
    pub(crate) fn withdraw(&mut self) {
        let taken = self.asked.take();
        assert!(taken.is_some(), "no unit was asked");
    }

    fn piece_end(&self) -> u64 {
        self.pauses.front().map_or(self.came, |pause| pause.at)
    }

    /// Another piece is cut, which ends there.
    fn advance(&mut self, bytes: usize) {
        self.cut_to += bytes as u64;
        assert!(self.cut_to <= self.piece_end(), "a piece does not reach over a pause");
        assert!(self.last_cut().is_none_or(|cut| cut <= self.cut_to), "chunks end in what is cut");
        self.reach();
    }

    /// Ends the chunk under way where a pause is reached.
    fn reach(&mut self) {
        while let Some(pause) = self.pauses.pop_front_if(|pause| pause.at == self.cut_to) {
            if self.under_way.length > 0 {
                (self.under_way.length, self.under_way.early) = (0, false);
                if let Some(chunker) = &mut self.chunker {
                    chunker.cut();
                }
                if !mutant("the_last_chunk_is_not_flushed") {
                    self.cuts.push_back(pause.at);
                }
            }
            if pause.sends {
                self.sends.push_back(pause.at);
            }
            if let Some(chunking) = pause.then {
                (self.chunking, self.chunker) = (chunking, None);
                self.under_way = UnderWay::default();
            }
        }
        assert!(self.pauses.iter().all(|pause| pause.at > self.cut_to), "a pause was passed");
    }
}

/// Keeps the last bytes of a flow of which `piece` is the next part.
fn remember(tail: &mut Vec<u8>, piece: &[u8]) {
    tail.extend_from_slice(&piece[piece.len().saturating_sub(TAIL_BYTES)..]);
    let surplus = tail.len().saturating_sub(TAIL_BYTES);
    tail.drain(..surplus);
}

/// A method as units are told of it; `None` where there is nothing to compute, or no core does.
fn function(chunking: Chunking) -> Option<Function> {
    let Tests { engine, loose, strict, equals } = chunking.tests()?;
    let fingerprint = match engine? {
        CoreFunction::RabinSource => Fingerprint::RabinSource,
        CoreFunction::Rabin16 => Fingerprint::Rabin16,
    };
    let sizes = chunking.sizes();
    let function = Function {
        fingerprint: Some(fingerprint),
        loose,
        strict,
        equals,
        min: sizes.min,
        expected: sizes.expected,
        max: sizes.max,
        at_min: false,
    };
    function.is_sound().then_some(function)
}

#[cfg(test)]
mod tests;
