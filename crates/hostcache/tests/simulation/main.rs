//! A server and three hosts with broken connections, partitions and killed processes, by seed.
//!
//! `THERMOCLINE_SEEDS` says how many seeds (2,000), `THERMOCLINE_FROM` the first one. A run that
//! fails prints the line that runs its seed alone. The run reports which situations its seeds met;
//! one that none met is a failure. Every mutant must be caught; `THERMOCLINE_MUTANT` says which
//! alone.

#![allow(clippy::unwrap_used, clippy::print_stderr, clippy::disallowed_macros)]

mod guest;
mod network;
mod world;

use thermocline_seeds::{Seeds, Simulation, met_by, plain};
use thermocline_units::Digest;
use world::World;

/// Situations that the seeds must have met.
const SITUATIONS: [&str; 61] = [
    "a block was not admitted",
    "a block was read from a write to the second level",
    "a block was requested while a write of it was not answered",
    "a clone took over its image's map",
    "a connection broke",
    "a crash lost a write that was not flushed",
    "a flush waited for the server",
    "a host came back to a volume that is gone",
    "a host came back to another volume of the same name",
    "a host came back with its lease",
    "a host died",
    "a host flushed because much was not flushed",
    "a host that is not entitled was refused",
    "a host that was answered first serves those that asked with it",
    "a host told again what it holds",
    "a host was told that its volume was deleted",
    "a host was to serve what it does not hold",
    "a lease of an earlier run kept a volume from being deleted",
    "a lease that was over here was renewed",
    "a lease was over before it was used",
    "a lease that was over went to another",
    "a leaf of an image's map was copied",
    "a partition began",
    "a peer answered what nobody waits for",
    "a peer sent a block",
    "a peer sent a block before the server named it",
    "a peer sent wrong bytes",
    "a peer was silent",
    "a place was given to other content",
    "a read joined another of the same block",
    "a read joined another of the same content",
    "a read waited for a lease",
    "a source of content failed",
    "a sweep dropped content",
    "a volume was deleted and made anew",
    "a volume was deleted of which a host did not know that it had lost it",
    "a volume was handed over",
    "a volume was in use",
    "a volume was opened again because one was deleted meanwhile",
    "a volume was taken from a host",
    "a write pinned content that a sweep had marked",
    "a write from before a refused one was said again",
    "a write that was answered was said again",
    "a write waited for a lease",
    "a write waited for another of the same block",
    "a write was to a block that is being read",
    "a write was refused after another of the same block that was not durable",
    "a write's content was not known",
    "an answer or a push was older than a write",
    "an earlier run had granted a longer lease",
    "content is known in another domain only",
    "content was swept while it was read",
    "the server died",
    "the server named content that was evicted",
    "the second level brought wrong bytes",
    "the second level served a read",
    "the second level was given up",
    "the server wanted the bytes of a write",
    "there was no room for a write",
    "there was no room for a write that was said again",
    "versions of written blocks were dropped",
];

/// Bugs that a seed must catch. `tests/scripted.rs` has those that few seeds catch.
const MUTANTS: [&str; 17] = [
    "a_deletion_is_not_told",
    "a_domain_is_not_asked_for",
    "a_fence_is_told_before_it_is_durable",
    "a_late_push_overtakes_a_write",
    "a_lease_is_kept_too_long",
    "a_longer_lease_is_forgotten",
    "a_number_is_used_again",
    "a_pinned_block_is_swept",
    "a_read_joins_one_from_before_a_write",
    "a_refused_write_takes_the_one_before",
    "a_volume_is_known_by_its_name",
    "bytes_of_peers_are_not_checked",
    "dropped_versions_are_forgotten",
    "earlier_leases_are_forgotten",
    "overlapping_writes_do_not_wait",
    "the_second_level_is_not_checked",
    "unflushed_writes_are_not_said_again",
];

/// Seeds in which a mutant must be caught.
const MUTANT_SEEDS: u64 = 4000;

fn simulation() -> Simulation {
    Simulation {
        replay: "thermocline-hostcache --test simulation no_wrong_byte".to_string(),
        situations: met_by(1000, &SITUATIONS),
        ..Simulation::default()
    }
}

#[test]
fn no_wrong_byte_nothing_flushed_is_lost_and_never_two_writers() {
    let seeds = Seeds::asked(2000);
    let digest = Digest::default();
    let simulation = simulation();
    let met = simulation.run(seeds, |seed| World::new(seed, &digest).run());
    eprintln!("{} seeds from {}, digest {:#018x}", seeds.count, seeds.from, digest.value());
    met.report();
}

#[test]
fn every_mutant_is_caught() {
    simulation()
        .catch(plain(&MUTANTS), MUTANT_SEEDS, |seed| World::new(seed, &Digest::default()).run());
}
