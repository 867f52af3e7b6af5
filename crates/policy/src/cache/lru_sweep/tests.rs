//! The sweep against one cache a size, access by access, with discards.

use super::LruSweep;
use crate::cache::lru::Lru;
use crate::cache::{Outcome, Replacement};
use thermocline_units::{LineId, Rng};

const UNIVERSE: u32 = 900;

/// One access to all of `caches`: in how many it missed, and what each evicted.
fn access_each(caches: &mut [Lru], line: LineId) -> (u8, Vec<(usize, LineId)>) {
    let outcomes: Vec<Outcome> = caches.iter_mut().map(|cache| cache.access(line)).collect();
    let missed = outcomes.iter().filter(|outcome| !outcome.is_hit()).count();
    let victims = outcomes.iter().enumerate().filter_map(|(k, o)| Some((k, o.evicted()?)));
    (missed as u8, victims.collect())
}

#[test]
fn every_size_does_what_a_cache_of_its_own_does() {
    for (seed, sizes) in
        [&[1, 2, 3, 64, 65, 127, 200, 500][..], &[40], &[1, 899]].iter().enumerate()
    {
        let mut rng = Rng::seeded(seed as u64);
        let mut sweep = LruSweep::new(sizes).unwrap();
        let mut caches: Vec<Lru> = sizes.iter().map(|size| Lru::new(*size)).collect();
        sweep.reserve(UNIVERSE);
        caches.iter_mut().for_each(|cache| cache.reserve(UNIVERSE));
        for i in 0..30_000 {
            let line = LineId((rng.unit_f64().powi(2) * f64::from(UNIVERSE)) as u32);
            let mut victims = Vec::new();
            let missed = sweep.access(line, |size, victim| victims.push((size, victim)));
            assert_eq!((missed, victims), access_each(&mut caches, line), "{sizes:?} at {i}");
            if i % 5 == 0 {
                let line = LineId(rng.below(UNIVERSE.into()) as u32);
                let absent = caches.iter_mut().filter_map(|c| (!c.invalidate(line)).then_some(()));
                assert_eq!(usize::from(sweep.invalidate(line)), absent.count(), "{sizes:?} at {i}");
            }
        }
        let resident: Vec<u32> = caches.iter().map(|cache| cache.resident()).collect();
        assert_eq!(sweep.resident().collect::<Vec<_>>(), resident, "{sizes:?}");
    }
}

#[test]
fn more_lines_than_positions_is_an_error_that_says_how_many_fit() {
    let error = LruSweep::new(&[10, u32::MAX]).unwrap_err().to_string();
    assert!(error.contains("at most 268435392 lines"), "{error}");
}
