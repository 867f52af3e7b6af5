//! Real traces as accesses to dense lines. They are found through `THERMOCLINE_SHARED`, by default
//! `../shared` beside the workspace; they are never part of the project.

use std::collections::HashMap;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use thermocline_policy::cache::{Outcome, Tag};
use thermocline_policy::registry::{Built, Geometry, PolicySpec};
use thermocline_units::{Bytes, LineId};

/// A trace of unit-size objects.
pub(crate) struct Accesses {
    pub(crate) lines: Vec<LineId>,
    pub(crate) distinct: u32,
}

/// The contents of a shared file; `None`, said loudly, when it is not there.
pub(crate) fn shared(name: &str) -> Option<Vec<u8>> {
    let root = std::env::var_os("THERMOCLINE_SHARED").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    );
    let path = root.join(name);
    let bytes = std::fs::read(&path).ok();
    if bytes.is_none() {
        eprintln!("SKIPPED: {} is not there (set THERMOCLINE_SHARED)", path.display());
    }
    bytes
}

impl Accesses {
    /// The CloudPhysics slice: each request is one access to the object named by its first byte, as
    /// libCacheSim counts with sizes ignored.
    pub(crate) fn cloudphysics() -> Option<Accesses> {
        let packed = shared("traces/cloudphysics_2h.csv.gz")?;
        let mut text = String::new();
        let mut stream = flate2::read::MultiGzDecoder::new(packed.as_slice());
        stream.read_to_string(&mut text).expect("the shared trace is gzip text");
        let mut ids = HashMap::new();
        let lines = text
            .lines()
            .map(|row| {
                let offset: u64 = row.split(',').nth(4).expect("columns").parse().expect("bytes");
                let next = ids.len() as u32;
                LineId(*ids.entry(offset).or_insert(next))
            })
            .collect();
        Some(Accesses { lines, distinct: ids.len() as u32 })
    }

    /// A trace of the ARC paper: `first count ignored request` a line, every page one access.
    pub(crate) fn arc_paper(name: &str) -> Option<Accesses> {
        let packed = shared(&format!("traces/arc_{name}.lis.zst"))?;
        let text = zstd::decode_all(packed.as_slice()).expect("the shared trace is zstd");
        let text = String::from_utf8(text).expect("numbers in ASCII");
        // Page numbers are below a few tens of millions: a table numbers them faster than a map.
        let mut ids = Vec::new();
        let mut distinct = 0;
        let pages = text.lines().flat_map(|row| {
            let mut words = row.split_ascii_whitespace().map(|w| w.parse::<u64>());
            let mut number = || words.next().expect("four columns").expect("a number");
            let (first, count) = (number(), number());
            first..first + count
        });
        let lines = pages
            .map(|page| {
                let page = page as usize;
                if page >= ids.len() {
                    ids.resize(page + 1, u32::MAX);
                }
                if ids[page] == u32::MAX {
                    (ids[page], distinct) = (distinct, distinct + 1);
                }
                LineId(ids[page])
            })
            .collect();
        Some(Accesses { lines, distinct })
    }

    /// For each access, the position of the next one to the same line; `u32::MAX` for none.
    fn next_uses(&self) -> Arc<[u32]> {
        let mut seen = vec![u32::MAX; self.distinct as usize];
        let mut next = vec![u32::MAX; self.lines.len()];
        for (i, line) in self.lines.iter().enumerate().rev() {
            next[i] = std::mem::replace(&mut seen[line.index()], i as u32);
        }
        next.into()
    }

    /// Misses of the policy written as `spec` with room for `capacity` lines.
    pub(crate) fn misses(&self, spec: &str, capacity: u32) -> u64 {
        let spec = PolicySpec::parse(spec).expect("a policy of the registry");
        let line_bytes = Bytes::from_kib(4);
        let geometry = Geometry { lines: capacity, line_bytes, volumes: 1, seed: 1 };
        let future = spec.is_clairvoyant().then(|| self.next_uses());
        let built = spec.build(&geometry, future.as_ref()).expect("its settings are valid");
        let Built::Cache(mut cache) = built else { unreachable!("{spec:?} is not a cache") };
        cache.reserve(self.distinct);
        let tags = [Tag::default(); 4096];
        let mut out = [Outcome::HIT; 4096];
        let mut misses = 0;
        for lines in self.lines.chunks(4096) {
            let out = &mut out[..lines.len()];
            cache.access_batch(lines, &tags[..lines.len()], out);
            misses += out.iter().filter(|o| !o.is_hit()).count() as u64;
        }
        misses
    }
}
