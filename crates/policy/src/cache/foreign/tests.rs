//! Answers that cannot be true end a plug-in's part; true ones count as a built-in policy's do.

use super::{Checked, ForeignCache, ForeignPolicy};
use crate::Footprint;
use crate::cache::{CachePolicy, Outcome, Tag};
use crate::registry::{Built, Geometry, PolicySpec};
use std::sync::Arc;
use thermocline_units::{LineId, Nanos};

/// A cache that answers what it was told to.
struct Said(Vec<Outcome>);

impl ForeignCache for Said {
    fn reserve(&mut self, _universe: u32) -> Result<(), String> {
        Ok(())
    }

    fn access_batch(
        &mut self,
        lines: &[LineId],
        _tags: &[Tag],
        out: &mut [Outcome],
    ) -> Result<(), String> {
        for (outcome, said) in out.iter_mut().zip(self.0.drain(..lines.len().min(self.0.len()))) {
            *outcome = said;
        }
        Ok(())
    }

    fn invalidate(&mut self, line: LineId) -> Result<(), String> {
        Err(format!("it does not drop line {}", line.0))
    }

    fn end_epoch(&mut self, _now: Nanos) -> Result<(), String> {
        Ok(())
    }

    fn footprint(&self) -> Footprint {
        Footprint::default()
    }
}

/// Failure after accesses of `lines` in a cache of two, answered by `said`.
fn failure(lines: &[u32], said: &[Outcome]) -> Option<String> {
    let mut cache = Checked::new(Box::new(Said(said.to_vec())), 2);
    cache.reserve(8);
    let lines: Vec<LineId> = lines.iter().map(|line| LineId(*line)).collect();
    let mut out = vec![Outcome::HIT; lines.len()];
    cache.access_batch(&lines, &vec![Tag::default(); lines.len()], &mut out);
    cache.failure().map(str::to_string)
}

const NEW: Outcome = Outcome::ADMITTED;

#[test]
fn answers_that_cannot_be_true_are_failures_that_name_the_line() {
    let evicts = |line| Outcome::evicting(LineId(line));
    for (lines, said, expected) in [
        (&[3][..], &[Outcome::HIT][..], "line 3 is not resident, and it answered: a hit"),
        (&[3, 3], &[NEW, NEW], "line 3 is resident, and it answered: admitted"),
        (&[1, 2, 3], &[NEW, NEW, NEW], "though all 2 lines are taken"),
        (&[1, 2, 3], &[NEW, NEW, evicts(4)], "the eviction of line 4, which is not resident"),
        (&[1, 2, 3], &[NEW, NEW, evicts(700)], "the eviction of line 700, which is not resident"),
        (&[1, 2, 2], &[NEW, NEW, evicts(1)], "line 2 is resident, and it answered: the eviction"),
        (&[1, 1], &[NEW, Outcome::BYPASSED], "line 1 is resident, and it answered: bypassed"),
        (&[1, 2], &[NEW], "which means nothing"),
    ] {
        let failure = failure(lines, said).expect(expected);
        assert!(failure.contains(expected), "{failure}");
    }
}

#[test]
fn true_answers_count_and_keep_the_books() {
    let mut cache = Checked::new(
        Box::new(Said(vec![NEW, NEW, Outcome::HIT, Outcome::evicting(LineId(0)), NEW])),
        2,
    );
    cache.reserve(4);
    let outcomes: Vec<bool> =
        [0, 1, 0, 2].map(|line| cache.access(LineId(line), Tag::default()).is_hit()).to_vec();
    assert_eq!(outcomes, [false, false, true, false]);
    assert_eq!((cache.resident(), cache.failure()), (2, None));
    assert!(!cache.contains(LineId(0)) && cache.contains(LineId(2)));
    assert!(cache.invalidate(LineId(2)));
    assert_eq!(cache.failure(), Some("it does not drop line 2"));
}

#[test]
fn a_plug_in_is_built_like_a_policy_of_the_registry() {
    struct Never;
    impl ForeignPolicy for Never {
        fn create(&self, _geometry: &Geometry) -> Result<Box<dyn ForeignCache>, String> {
            Err("it needs a GPU".to_string())
        }
    }
    let spec = PolicySpec::foreign("./mine.so:never".to_string(), Arc::new(Never));
    assert!(!spec.is_placement() && !spec.is_clairvoyant() && !spec.is_plain_lru());
    let Err(error) = spec.build(&Geometry::for_tests(), None) else { panic!("built") };
    assert_eq!(error.to_string(), "it needs a GPU");
    struct Works;
    impl ForeignPolicy for Works {
        fn create(&self, _geometry: &Geometry) -> Result<Box<dyn ForeignCache>, String> {
            Ok(Box::new(Said(Vec::new())))
        }
    }
    let spec = PolicySpec::foreign("mine".to_string(), Arc::new(Works));
    assert!(matches!(spec.build(&Geometry::for_tests(), None), Ok(Built::Cache(_))));
}
