//! Placements of an argument: names of the registry, `./mine.so:name`, and Python classes.
//!
//! A class is called without arguments for each run and makes an object; at the end of each epoch
//! its `propose` takes a dictionary: `chunks` and `pools`, tables whose rows are numbered from 0,
//! `now_ns`, `epoch_ns` and `chunk_bytes`. It returns moves, pairs of a chunk's and a pool's
//! number. They are checked like those of every placement from outside. An exception of the class
//! ends the run, and is raised again.

use crate::job::check_interpreter;
use crate::options::{refused, shown};
use crate::policies::{Named, Raised, name_of, named, parse, raise};
use crate::table::Table;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::Arc;
use thermocline_policy::Footprint;
use thermocline_policy::placement::{
    ChunkFacts, EpochFacts, ForeignPlacement, ForeignPlacements, Pattern, PoolFacts, Wish,
};
use thermocline_policy::registry::PolicySpec;
use thermocline_sim::table;

/// Placements when none is named.
const USUAL: [&str; 2] = ["static", "auto"];

/// The chosen placements; exceptions of classes go to `raised`.
pub(crate) fn chosen(
    policies: Option<&Bound<'_, PyAny>>,
    raised: &Raised,
) -> PyResult<Vec<PolicySpec>> {
    let named = named(policies)?;
    if named.is_empty() {
        return USUAL.iter().map(|name| parse(name).map_err(refused)).collect();
    }
    let spec = |policy| match policy {
        Named::Word(word) => parse(&word).map_err(refused),
        Named::Class(made) => {
            let name = name_of(&made)?;
            let class = Class { class: made.unbind(), raised: Arc::clone(raised) };
            Ok(PolicySpec::foreign_placement(name, Arc::new(class)))
        }
    };
    named.into_iter().map(spec).collect()
}

/// A class, or whatever makes objects like one.
struct Class {
    class: Py<PyAny>,
    raised: Raised,
}

impl ForeignPlacements for Class {
    fn create(&self) -> Result<Box<dyn ForeignPlacement>, String> {
        check_interpreter()?;
        let made = Python::attach(|py| {
            let object = self.class.bind(py).call0()?;
            let propose = object.getattr("propose")?.unbind();
            Ok(Object { propose, raised: Arc::clone(&self.raised) })
        });
        made.map(|object| Box::new(object) as Box<dyn ForeignPlacement>)
            .map_err(|error| raise(&self.raised, error))
    }
}

/// A placement made by a class.
struct Object {
    propose: Py<PyAny>,
    raised: Raised,
}

impl Object {
    fn try_propose(
        &self,
        py: Python<'_>,
        epoch: &EpochFacts<'_>,
        moves: &mut Vec<Wish>,
    ) -> PyResult<()> {
        let facts = PyDict::new(py);
        facts.set_item("chunks", Bound::new(py, chunks(epoch.chunks))?)?;
        facts.set_item("pools", Bound::new(py, pools(epoch.pools))?)?;
        facts.set_item("now_ns", epoch.now.0)?;
        facts.set_item("epoch_ns", epoch.length.0)?;
        facts.set_item("chunk_bytes", epoch.chunk_size.0)?;
        let answers = self.propose.bind(py).call1((facts,))?;
        let each = answers.try_iter().map_err(|_| {
            let given = shown(&answers);
            refused(format!(
                "`propose` returned {given}; return a list of moves, pairs of a chunk's and a \
                 pool's number, which is empty when nothing moves"
            ))
        })?;
        // One more than there may be is seen to be too many.
        for (at, answer) in each.take(epoch.moves_max.saturating_add(1)).enumerate() {
            let answer = answer?;
            let (chunk, pool) = answer.extract::<(u32, u32)>().map_err(|_| {
                let given = shown(&answer);
                refused(format!(
                    "move {at} of `propose` is {given}; a move is a pair, a tuple of a chunk's \
                     and a pool's number, both from 0"
                ))
            })?;
            moves.push(Wish { chunk, pool });
        }
        Ok(())
    }
}

impl ForeignPlacement for Object {
    fn propose(&mut self, epoch: &EpochFacts<'_>, moves: &mut Vec<Wish>) -> Result<(), String> {
        check_interpreter()?;
        let done = Python::attach(|py| self.try_propose(py, epoch, moves));
        done.map_err(|error| raise(&self.raised, error))
    }

    fn footprint(&self) -> Footprint {
        Footprint::default() // Python does not say.
    }
}

/// Chunks as a table, a row each by number.
fn chunks(rows: &[ChunkFacts]) -> Table {
    let mut table = table::Table::default();
    table.count("volume", rows, |chunk| chunk.volume.into());
    table.count("index", rows, |chunk| chunk.index.into());
    table.count("pool", rows, |chunk| chunk.pool.into());
    table.count("reads", rows, |chunk| chunk.reads);
    table.count("writes", rows, |chunk| chunk.writes);
    table.count("read_bytes", rows, |chunk| chunk.read_bytes);
    table.count("written_bytes", rows, |chunk| chunk.written_bytes);
    table.count("last_access", rows, |chunk| chunk.last_access);
    table.count("last_ns", rows, |chunk| chunk.last_ns);
    for (name, flag) in [
        ("empty", ChunkFacts::EMPTY),
        ("pinned", ChunkFacts::PINNED),
        ("replicated", ChunkFacts::REPLICATED),
    ] {
        table.flag(name, rows, |chunk| chunk.flags & flag != 0);
    }
    Table::new(table, "{}".to_string())
}

/// Pools as a table, a row each by number.
fn pools(rows: &[PoolFacts]) -> Table {
    let mut table = table::Table::default();
    table.count("total_chunks", rows, |pool| pool.total_chunks);
    table.count("free_chunks", rows, |pool| pool.free_chunks);
    for (name, pattern) in [
        ("random_read", Pattern::RandomRead),
        ("random_write", Pattern::RandomWrite),
        ("sequential_read", Pattern::SequentialRead),
        ("sequential_write", Pattern::SequentialWrite),
    ] {
        let of = |pool: &PoolFacts| pool.services[pattern as usize];
        table.count(&format!("{name}_latency_ns"), rows, |pool| of(pool).latency_ns);
        table.count(&format!("{name}_per_second"), rows, |pool| of(pool).per_second);
    }
    table.count("reads", rows, |pool| pool.reads);
    table.count("writes", rows, |pool| pool.writes);
    table.count("read_bytes", rows, |pool| pool.read_bytes);
    table.count("written_bytes", rows, |pool| pool.written_bytes);
    table.count("read_latency_ns", rows, |pool| pool.read_latency_ns);
    table.count("write_latency_ns", rows, |pool| pool.write_latency_ns);
    Table::new(table, "{}".to_string())
}
