//! The mutants of the volume machine, and the run that plants each of them.
//!
//! A mutant that no seed catches says that the simulation does not test what it leaves out. Some
//! are equivalent: docs/testing/simulation.md argues why nothing wrong can come of them.

use crate::run::{Extras, run};
use crate::{THREADS, generate, number};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use thermocline_units::mutants::plant;

/// Seeds in which a mutant must be caught.
const SEEDS: u64 = 20_000;
/// Seeds in which one that is marked as quick must be caught.
const QUICK_SEEDS: u64 = 400;

/// Way in which a mutant is caught.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Caught {
    /// Within a few dozen seeds: the hazard check plants it.
    Quickly,
    /// Caught by a run over all mutants.
    Seldom,
    /// Caught by a plan among the accidents, which names it; seeds reach it too seldom.
    ByPlan,
    /// Never: it breaks no promise.
    Equivalent,
}

use Caught::{ByPlan, Equivalent, Quickly, Seldom};

/// Names, what each leaves out, and how soon it is caught.
const MUTANTS: [(&str, &str, Caught); 115] = [
    ("backlog_takes_all_requests", "a share of all requests for each pool", ByPlan),
    ("block_crc_of_one_sector", "a checksum over all of a block of records", Quickly),
    ("block_forgets_its_commit", "counting the blocks of a commit", Seldom),
    ("blocks_of_sides_not_saved", "recording which side has which blocks", Quickly),
    ("blocks_written_in_part_not_counted", "counting blocks that were written in part", Quickly),
    ("both_sides_count_while_one_goes", "reading only the side of a mirror that stays", ByPlan),
    ("change_of_copies_hides_blocks", "recording blocks of a chunk whose copies change", ByPlan),
    ("checkpoint_not_forced", "forcing blocks of a checkpoint to the medium", Quickly),
    (
        "checkpoint_of_memory",
        "describing in a checkpoint what is durable, not what is in memory",
        Equivalent,
    ),
    ("checkpoint_over_the_one_in_force", "two areas for checkpoints", Quickly),
    (
        "checkpoint_skips_at_batch_end",
        "the first record of the next batch of a checkpoint",
        Quickly,
    ),
    (
        "checkpoint_skips_at_block_end",
        "the record that did not fit into a block of a checkpoint",
        Quickly,
    ),
    ("checkpoint_uncovered", "the commit that covers a checkpoint before its superblock", Seldom),
    (
        "checksums_evicted_under_a_read",
        "keeping the checksums that a read under way is held against",
        Seldom,
    ),
    ("chunks_among_grown_tables", "keeping chunks from slots that hold checksums", ByPlan),
    ("closed_with_volatile_writes", "flushing before closing", Seldom),
    (
        "coming_replicas_without_journal",
        "the journal on replicas that a checkpoint will put in force",
        Quickly,
    ),
    (
        "commit_counts_though_superseded",
        "waiting for a younger superblock when one may come back that never was in force",
        ByPlan,
    ),
    (
        "checkpoint_waits_for_a_full_journal",
        "a checkpoint that takes in what the journal has no room for",
        ByPlan,
    ),
    ("commit_without_its_wrapped_part", "the part of a commit behind the end of the ring", Seldom),
    ("copies_equal_under_a_write", "calling copies equal only when nobody writes", Seldom),
    ("copies_equal_without_rest", "a rest before copies are called equal", Equivalent),
    ("copy_read_before_it_is_whole", "reading from a copy only what has arrived", Quickly),
    ("copy_stays_that_missed_a_write", "dropping a copy that missed a write", Quickly),
    (
        "copy_without_table_believed",
        "holding copies without a table against that of another",
        ByPlan,
    ),
    ("dead_pool_believed", "distrusting what a dead pool answers", Seldom),
    (
        "death_in_recovery_not_recorded",
        "recording that a pool died while a recovery wrote its superblocks",
        ByPlan,
    ),
    ("death_loses_in_silence", "noting the unflushed writes of a dead pool", Quickly),
    ("death_not_recorded", "recording that a pool died", Seldom),
    ("death_record_last", "a death before the records that rely on the dead pool", ByPlan),
    (
        "deleted_volume_frees_at_once",
        "keeping the slots of a deleted volume until that is recorded",
        Seldom,
    ),
    ("deletion_said_late", "recording a deletion before the last request has ended", ByPlan),
    (
        "discard_passed_on_under_a_copy",
        "keeping discards from a chunk that is being copied",
        Seldom,
    ),
    (
        "distrusted_block_written_at_once",
        "waiting for the record that a block counts on one side only",
        ByPlan,
    ),
    (
        "earlier_write_spoils_no_piece",
        "copying a piece again when a write began before it",
        Quickly,
    ),
    ("failed_flush_not_reported", "telling clients of a flush that failed", Quickly),
    ("failed_flush_tried_again", "giving up a pool that failed a flush", Quickly),
    ("failed_read_distrusts_under_a_write", "trusting a side that is being written", Equivalent),
    ("failed_side_trusted", "distrusting the side of a mirror that failed a write", Quickly),
    ("failed_write_leaves_its_pool_clean", "flushing what a failed write has changed", Quickly),
    ("first_block_verified_only", "verifying all blocks of a read", Quickly),
    (
        "flush_answered_with_records_left",
        "keeping who flushes until all records are written",
        Seldom,
    ),
    ("forced_before_its_record", "making a forced write wait for the record of its chunk", Quickly),
    (
        "forced_zeroes_on_nothing_at_once",
        "making forced zeroes wait for the record that unmaps",
        ByPlan,
    ),
    (
        "grown_slots_before_the_superblock",
        "keeping slots from chunks until a superblock says that the pool grew",
        ByPlan,
    ),
    ("grown_slots_called_clean", "zeroing slots that a pool grew by", Quickly),
    ("growth_not_recorded", "recording that a volume grew", Quickly),
    ("growth_without_room_for_its_map", "more room for the map when a pool grows", Quickly),
    (
        "replicas_without_room_for_a_growth",
        "room for the map on all replicas of a superblock that says that a pool grew",
        ByPlan,
    ),
    ("intent_not_in_the_record", "saying in later records that writes are expected", Quickly),
    ("journal_keeps_its_generation", "a new generation of the journal after a recovery", Quickly),
    ("journal_not_forced", "forcing the journal to the medium", Quickly),
    ("journal_space_early", "keeping the journal until the checkpoint is in force", Seldom),
    ("journal_start_at_the_end", "replaying the journal from where the checkpoint began", Seldom),
    ("kept_copy_still_prefetched", "making a prefetched copy an ordinary one", Seldom),
    ("last_block_not_replayed", "the last block of the journal", Quickly),
    (
        "lent_slot_freed_under_requests",
        "keeping a lent slot until the last request on it has ended",
        ByPlan,
    ),
    ("loss_told_to_nobody", "telling clients who flush later what a dead pool lost", Quickly),
    ("losses_told_again", "telling a loss to whoever flushes first, and to nobody else", ByPlan),
    (
        "no_table_beside_a_bare_copy",
        "writing a chunk's table although a copy has no room for one",
        ByPlan,
    ),
    (
        "old_copy_forgotten_at_once",
        "naming the old copy of a chunk in the record that moves it",
        ByPlan,
    ),
    (
        "old_side_forgotten_at_once",
        "naming the side of a mirror that goes in the record of the one that stays",
        ByPlan,
    ),
    ("opened_without_room_for_its_map", "room for the map before a group is opened", ByPlan),
    ("operation_carries_rot", "verifying what an operation reads", Quickly),
    ("other_side_not_stale", "calling the other side of a mirror stale after a write", Quickly),
    ("piece_copied_under_a_write", "waiting for a write before its piece is copied", Quickly),
    (
        "placed_elsewhere_after_a_write",
        "leaving a new chunk where another write has been answered",
        ByPlan,
    ),
    (
        "read_fails_where_the_chunk_came_back",
        "telling a new copy on a pool from the one there that could not be read",
        ByPlan,
    ),
    (
        "read_fails_where_the_chunk_was",
        "reading a chunk anew that has moved when a read fails",
        ByPlan,
    ),
    ("record_before_its_data", "flushing data before the record that points at it", Quickly),
    (
        "recovery_trusts_both_sides",
        "doubting, after a crash, that both sides of a mirror are equal",
        Quickly,
    ),
    (
        "recovered_pools_flushed_late",
        "flushing what a killed program left before it is believed",
        ByPlan,
    ),
    (
        "recovered_pools_taken_for_flushed",
        "flushing what a killed program left in the devices' caches",
        Quickly,
    ),
    ("recovery_trusts_copies", "doubting copies that may differ", Quickly),
    ("scrub_adds_to_the_pile", "a scrub that waits while much is queued", Equivalent),
    ("scrub_ignores_checksums", "judging copies by their checksums", Seldom),
    (
        "table_outlives_its_copies",
        "dropping a table with the last copy that has room for it",
        ByPlan,
    ),
    ("table_where_there_is_no_room", "writing tables only where pools have room for them", Quickly),
    (
        "tables_not_flushed",
        "flushing tables of checksums before the record that names them",
        Seldom,
    ),
    (
        "region_opened_for_one_chunk",
        "telling the journal of every chunk of a region that is opened",
        Quickly,
    ),
    ("table_sought_once", "seeking checksums on every copy", ByPlan),
    ("checksums_though_unreadable", "checksums of all blocks, or none", Seldom),
    ("checksums_though_written", "checksums only of what was not written meanwhile", Seldom),
    ("old_read_fills_lines", "filling lines only with what no write has overtaken", Quickly),
    (
        "older_places_of_a_line_forgotten",
        "voiding a line in all places that it may have been in",
        ByPlan,
    ),
    ("overtaken_fill_counts", "forgetting what a write overtook on its way to a line", Quickly),
    ("write_leaves_its_lines", "voiding lines when their blocks are written", Quickly),
    (
        "deleted_volume_leaves_its_lines",
        "forgetting the lines of a volume whose number another may get",
        ByPlan,
    ),
    ("old_read_fed", "feeding an operation only what no write has overtaken", Quickly),
    ("write_fed_under_a_piece", "feeding no write that a piece under way could undo", Quickly),
    (
        "fed_write_marks_parts_of_blocks",
        "counting only whole blocks of a write as brought",
        Quickly,
    ),
    ("kept_copy_misses_writes", "dropping a kept copy before its chunk is written", Quickly),
    ("kept_copy_not_counted", "counting kept copies among those that give way", Quickly),
    ("sequence_not_skipped", "skipping the number of a superblock that may come back", ByPlan),
    ("slot_clean_though_not_discarded", "zeroing a slot whose discard failed", Quickly),
    (
        "slot_freed_one_sub_request_early",
        "keeping a slot until the last sub-request on it has ended",
        ByPlan,
    ),
    ("slot_not_zeroed", "zeroing a slot before it shows", Quickly),
    ("slot_opened_though_not_zeroed", "another slot when zeroing one failed", Seldom),
    ("slot_reused_before_the_record", "waiting for the record that frees a slot", Seldom),
    ("spoiled_piece_kept", "copying again what was written while it was copied", Quickly),
    ("superblock_crc_of_one_sector", "a checksum over all of a superblock", Quickly),
    ("superblock_not_forced", "forcing superblocks to the medium", Quickly),
    ("superblocks_all_at_once", "superblocks on the metadata replicas first", Equivalent),
    ("switch_not_taken_back", "taking a switch back when a write failed on one side", ByPlan),
    ("switch_says_copies_are_equal", "saying that new copies may differ", Seldom),
    ("third_pool_not_flushed", "flushing the third pool and those behind it", Quickly),
    ("two_writes_into_one_block", "one write at a time in a block of a mirror", ByPlan),
    ("unlike_pools_forgotten", "saying of each pool whether it has checksums", Quickly),
    (
        "unmapped_under_sub_requests",
        "waiting for sub-requests under way before a chunk is unmapped",
        Equivalent,
    ),
    ("write_before_its_intent", "waiting for the record that copies may differ", Seldom),
    ("write_before_the_drop", "waiting for the record that a copy was dropped", Quickly),
    ("write_before_voiding", "waiting for the record that checksums are void", Quickly),
    ("write_misses_a_copy_in_part", "writing to the blocks that a copy has already", Seldom),
    (
        "written_before_its_region_is_open",
        "waiting for the record that checksums of a region are void",
        Seldom,
    ),
    ("write_sent_to_a_parting_side", "keeping writes from a side that is about to go", Seldom),
];

/// The first seed that catches a mutant, and what was seen.
type Catch = Option<(u64, usize, String)>;

/// Runs seeds with the mutant until one fails.
fn hunt(mutant: &'static str, from: u64, seeds: u64) -> Catch {
    (from..from + seeds).find_map(|seed| {
        let plan = generate::plan(seed);
        let failure = {
            let _planted = plant(mutant);
            run(&plan, Extras::default()).err()?
        };
        // A seed that fails by itself catches nothing.
        run(&plan, Extras::default()).ok()?;
        Some((seed, failure.step, failure.what))
    })
}

/// Plants mutants on all threads; those that survive.
fn hunt_all(
    mutants: &[(&'static str, &'static str)],
    from: u64,
    seeds: u64,
    tell: impl Fn(String) + Sync,
) -> Vec<&'static str> {
    let next = AtomicUsize::new(0);
    let survivors = Mutex::new(Vec::new());
    let tried = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some(&(name, without)) = mutants.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    let catch = hunt(name, from, seeds);
                    let after = catch.as_ref().map_or(seeds, |(seed, ..)| seed - from + 1);
                    tried.fetch_add(after, Ordering::Relaxed);
                    match catch {
                        Some((seed, step, what)) => {
                            let what: String = what.chars().take(160).collect();
                            tell(format!(
                                "{name} (without {without}): seed {seed:#x}, after {after}, \
                                 step {step}: {what}"
                            ));
                        }
                        None => {
                            tell(format!("{name} (without {without}): SURVIVED {seeds} seeds"));
                            survivors.lock().expect("no run panics").push(name);
                        }
                    }
                }
            });
        }
    });
    tell(format!("{} seeds run with mutants", tried.into_inner()));
    survivors.into_inner().expect("no run panics")
}

#[test]
fn quick_mutants_are_caught() {
    let asked = std::env::var("THERMOCLINE_MUTANTS").ok();
    let wanted = |name: &str, caught| match asked.as_deref() {
        None => caught == Quickly,
        Some("all") => matches!(caught, Quickly | Seldom),
        Some(one) => one.split(',').any(|one| one == name),
    };
    let chosen = MUTANTS.iter().filter(|(name, _, caught)| wanted(name, *caught));
    let chosen: Vec<_> = chosen.map(|&(name, without, _)| (name, without)).collect();
    assert!(!chosen.is_empty(), "no mutant is called {asked:?}");
    let from = number("THERMOCLINE_FROM").unwrap_or(0);
    let seeds = match asked {
        Some(_) => number("THERMOCLINE_SEEDS").unwrap_or(SEEDS),
        None => QUICK_SEEDS,
    };
    let survivors = hunt_all(&chosen, from, seeds, |line| println!("{line}"));
    assert!(survivors.is_empty(), "not noticed within {seeds} seeds: {survivors:?}");
}

/// The strings that follow each `call` in the machine's code.
pub(crate) fn names_after(call: &str) -> BTreeSet<String> {
    let mut folders = vec![PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))];
    let mut names = BTreeSet::new();
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(folder).expect("the crate's sources are there");
        for path in entries.map(|entry| entry.expect("a folder can be read").path()) {
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let source = std::fs::read_to_string(path).expect("a source can be read");
            for (at, _) in source.match_indices(call) {
                let after = source[at..].split('"').nth(1);
                names.extend(after.map(str::to_string));
            }
        }
    }
    names
}

#[test]
fn every_mutant_in_the_code_is_listed() {
    let listed: BTreeSet<String> = MUTANTS.iter().map(|(name, ..)| name.to_string()).collect();
    assert_eq!(names_after("mutant(\""), listed, "left: in the code; right: in the list");
    assert!(listed.len() >= 60, "the list shrinks only with its reason: {}", listed.len());
}

#[test]
fn every_mutant_that_a_plan_must_catch_is_named_by_one() {
    let plans = concat!(
        include_str!("accidents.rs"),
        include_str!("accidents/changeover.rs"),
        include_str!("accidents/planted.rs"),
        include_str!("accidents/unseen.rs"),
        include_str!("accidents/unseen_later.rs")
    );
    let by_plan = MUTANTS.iter().filter(|(.., caught)| *caught == ByPlan);
    for (name, ..) in by_plan {
        assert!(plans.contains(&format!("fails_with(\"{name}\"")), "no plan names {name}");
    }
}
