//! Recordings of a machine in virtual time: a replay gives the same proposals, and a recording is
//! the machine's trace.

use std::io::Cursor;
use std::sync::{Arc, Mutex};
use thermocline_policy::placement::chew::library::{
    Library, NAME_BYTES_MAX, Rule, SPELLED_BYTES_MAX, Thresholds,
};
use thermocline_policy::registry::{PolicySpec, entries};
use thermocline_recording::{EpochRow, Recorder, Replay, ReplayError};
use thermocline_sim::machine::{
    Arrivals, Load, MachineOptions, PoolPlan, Run, explain, run, run_observed,
};
use thermocline_sim::synth::from_words;
use thermocline_trace::recording::{
    Access, Encoder, Epoch, Event, EventReader, Homes, Packer, PoolFill, SecondCopy,
};
use thermocline_trace::synth::Synth;
use thermocline_trace::{Batch, ReadOptions, Request, open};
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, VolumeId};
use thermocline_volume::{Group, Observer};

fn load() -> Load {
    let spec = from_words("mixed,requests=20k,vms=3,seed=5").unwrap();
    Load::read(&mut Synth::new(&spec).unwrap(), &|_| ()).unwrap()
}

fn options(load: &Load) -> MachineOptions {
    MachineOptions {
        epoch: Nanos(load.span().0 / 12),
        arrivals: Arrivals::Open { speed: 1.0 },
        ..MachineOptions::default()
    }
}

fn spec(text: &str) -> PolicySpec {
    PolicySpec::parse(text).unwrap()
}

/// The file of a run under `policy`, whose sink takes `blocks` blocks at most.
fn recorded_up_to(load: &Load, policy: &str, blocks: usize) -> Vec<u8> {
    let file = Arc::new(Mutex::new((Packer::default(), Packer::default().head(), 0)));
    let sink = Arc::clone(&file);
    let observer = move |group: &Group| -> Box<dyn Observer> {
        let sink = Arc::clone(&sink);
        Box::new(Recorder::new(group, move |block: Vec<u8>| {
            let (packer, bytes, taken) = &mut *sink.lock().unwrap();
            bytes.extend(packer.pack(&block));
            *taken += 1;
            *taken < blocks
        }))
    };
    let options = options(load);
    let observed =
        run_observed(load, &PoolPlan::assumed(), &spec(policy), &options, &observer).unwrap();
    let plain = run(load, &PoolPlan::assumed(), &[spec(policy)], &options, &|_| ()).unwrap();
    let outcome = |run: &Run| (run.moves_proposed, run.all, run.span_s.to_bits());
    assert_eq!(outcome(&observed), outcome(&plain[0]), "an observer changes nothing");
    std::mem::take(&mut file.lock().unwrap().1)
}

fn recorded(load: &Load, policy: &str) -> Vec<u8> {
    recorded_up_to(load, policy, usize::MAX)
}

fn replay(file: &[u8], rival: Option<&str>) -> Result<(Vec<EpochRow>, Replay), ReplayError> {
    let events = EventReader::open(Box::new(Cursor::new(file.to_vec())), "r")?;
    let mut replay = Replay::new(events, rival.map(spec).as_ref())?;
    let mut rows = Vec::new();
    while let Some(row) = replay.next_epoch()? {
        assert_eq!(row.equal, replay.difference().is_none());
        rows.push(row);
    }
    Ok((rows, replay))
}

/// Number of times that a recording says of chunks that a move has left a slow copy of them.
fn kept_copies(file: &[u8]) -> usize {
    let mut events = EventReader::open(Box::new(Cursor::new(file.to_vec())), "r").unwrap();
    let all = std::iter::from_fn(|| events.next_event().unwrap());
    let kept = |event: &Event| match event {
        Event::Homes(homes) => matches!(homes.second, Some(SecondCopy::Kept(_))),
        _ => false,
    };
    all.filter(kept).count()
}

#[test]
fn every_placement_of_the_registry_proposes_the_same_again() {
    let load = load();
    let mut kept = Vec::new();
    for entry in entries().filter(|entry| spec(entry.name).is_placement()) {
        let file = recorded(&load, entry.name);
        let (rows, replay) = replay(&file, None).unwrap();
        kept.push((entry.name, kept_copies(&file)));
        assert_eq!(replay.placement(), spec(entry.name).spelled_out());
        assert!(rows.len() >= 11, "{}: {} epochs", entry.name, rows.len());
        assert!(rows.iter().all(|row| row.equal), "{}: {rows:?}", entry.name);
        let moves: u64 = rows.iter().map(|row| row.recorded).sum();
        assert_eq!(moves > 0, entry.name != "static", "{} proposes {moves} moves", entry.name);
        assert!(rows.iter().map(|row| row.accesses).sum::<u64>() >= 20_000);
        assert_eq!(replay.torn(), None);
    }
    let of = |name: &str| kept.iter().find(|(each, _)| *each == name).map(|&(_, count)| count);
    assert_eq!(of("static"), Some(0), "{kept:?}");
    assert!(of("auto") > Some(0), "what a placement saw of kept copies is told: {kept:?}");
}

#[test]
fn a_library_of_ones_own_is_in_the_recording_however_long_it_may_be() {
    let load = load();
    let mut library = Library::three_pools(Thresholds { low: 0.01, top: 0.5, very_intense: 2.0 });
    library.name = "mine".to_string();
    let rules = &mut library.levels[0].rules;
    let more = Rule { pattern: "x".repeat(NAME_BYTES_MAX), ..rules[0].clone() };
    while Library::parse(&library.spelled_out()).is_ok() {
        library.levels[0].rules.insert(1, more.clone());
    }
    library.levels[0].rules.remove(1);
    let text = library.spelled_out();
    assert!(text.len() + 100 > SPELLED_BYTES_MAX, "{} B", text.len());
    let policy = format!("chew:demote=always:library={text}");
    let (rows, replay) = replay(&recorded(&load, &policy), None).unwrap();
    assert_eq!(replay.placement(), spec(&policy).spelled_out());
    assert!(rows.iter().all(|row| row.equal), "{rows:?}");
    let others = rows.iter().map(|row| row.recorded).sum::<u64>();
    assert!(others > 0, "it proposes nothing");
    let (rows, _) =
        self::replay(&recorded(&load, &policy), Some("chew:of=none:demote=always")).unwrap();
    assert!(rows.iter().any(|row| !row.equal), "it decides as the built-in one");
}

#[test]
fn a_replay_gives_the_same_reasons_as_the_run_and_none_for_chunks_never_met() {
    let load = load();
    let policy = "chew:of=none:top=0.5:low=0.01:very-intense=2";
    let file = recorded(&load, policy);
    let (rows, told) = replay(&file, None).unwrap();
    assert!(rows.iter().all(|row| row.equal));
    let chunks = load.touched(options(&load).chunk);
    let mut levels = std::collections::BTreeSet::new();
    for &chunk in chunks.iter().step_by(chunks.len() / 8) {
        let pools = PoolPlan::assumed();
        let account =
            explain(&load, &pools, &spec(policy), &options(&load), chunk, &|_| ()).unwrap();
        let (home, reasons) = told.explain(chunk);
        assert!(home.is_some() && account.home.is_some(), "{chunk} is nowhere");
        assert_eq!(reasons, account.reasons, "{chunk}");
        levels.insert(reasons.len());
    }
    assert!(levels.len() > 1, "all chunks have {levels:?} reasons");
    assert_eq!(told.explain(ChunkId { volume: VolumeId(0), index: 1 << 20 }), (None, vec![]));
    let beyond = ChunkId { volume: VolumeId(9), index: 0 };
    let pools = PoolPlan::assumed();
    let refused = explain(&load, &pools, &spec(policy), &options(&load), beyond, &|_| ());
    assert!(refused.unwrap_err().to_string().contains("no volume 9; the trace has 3"));
}

#[test]
fn a_placement_that_decides_otherwise_is_found_at_the_first_move() {
    let load = load();
    let file = recorded(&load, "baseline:k=40");
    let (rows, _) = replay(&file, Some("baseline:k=40")).unwrap();
    assert!(rows.iter().all(|row| row.equal));
    let events = EventReader::open(Box::new(Cursor::new(file)), "r").unwrap();
    let mut rival = Replay::new(events, Some(&spec("baseline:k=3"))).unwrap();
    let row = std::iter::from_fn(|| rival.next_epoch().unwrap()).find(|row| !row.equal);
    let (row, found) = (row.unwrap(), rival.difference().unwrap());
    let (then, now) = rival.proposals();
    assert_eq!(then[..found.index], now[..found.index]);
    assert_eq!(then.get(found.index).copied(), found.recorded);
    assert_eq!(now.get(found.index).copied(), found.proposed);
    assert_ne!(found.recorded, found.proposed);
    assert_eq!((row.recorded, row.proposed), (then.len() as u64, now.len() as u64));
    assert!(row.common < row.recorded);
}

#[test]
fn a_recording_is_the_trace_of_its_machine() {
    let load = load();
    let file = recorded(&load, "baseline");
    let mut reader = open(Box::new(Cursor::new(file)), "r", &ReadOptions::default()).unwrap();
    let (mut batch, mut requests): (Batch, Vec<Request>) = Default::default();
    while reader.read_batch(&mut batch).is_ok() && !batch.requests.is_empty() {
        requests.extend(&batch.requests);
    }
    assert_eq!(requests.len(), load.demands.len());
    let first = load.demands[0].at;
    // The trace numbers volumes in the order of first sight, and names them.
    let name = |request: &Request| reader.volumes()[request.volume.0 as usize].clone();
    for (request, demand) in requests.iter().zip(&load.demands) {
        let told = (request.time, name(request), request.op, request.offset, request.length);
        let at = demand.at.saturating_sub(first);
        let volume = demand.volume().to_string();
        assert_eq!(told, (at, volume, demand.op, demand.offset(), demand.length()));
        assert!(request.response.is_some(), "every request was answered");
    }
}

#[test]
fn a_sink_that_takes_no_more_ends_the_recording_and_nothing_else() {
    let load = load();
    let whole = recorded(&load, "vfrm");
    let short = recorded_up_to(&load, "vfrm", 4);
    assert!(short.len() < whole.len() && whole.starts_with(&short));
    let (rows, replay) = replay(&short, None).unwrap();
    assert!(rows.iter().all(|row| row.equal));
    assert!(replay.torn().unwrap().contains("was not closed"));
}

#[test]
fn a_recording_cut_off_anywhere_replays_up_to_there() {
    let load = load();
    let file = recorded(&load, "baseline");
    let (whole, _) = replay(&file, None).unwrap();
    for length in (16..file.len()).step_by(file.len() / 60) {
        let (rows, replay) = replay(&file[..length], None).unwrap();
        assert_eq!(rows[..], whole[..rows.len()], "cut at {length}");
        assert!(replay.torn().is_some(), "cut at {length}");
    }
}

#[test]
fn caches_and_unknown_names_are_no_placements() {
    let file = recorded(&load(), "static");
    let error = replay(&file, Some("lru")).err().unwrap().to_string();
    assert!(error.contains("is a cache, not a placement"), "{error}");
}

/// Blocks of records that no machine made.
fn made_up(tell: impl FnOnce(&mut Encoder)) -> Vec<u8> {
    let mut encoder = Encoder::new(Bytes::from_mib(1), &[]);
    tell(&mut encoder);
    encoder.end();
    let mut packer = Packer::default();
    let mut file = packer.head();
    while let Some(block) = encoder.take_block() {
        file.extend(packer.pack(&block));
    }
    file
}

/// An epoch of one volume, that says of its pools what version 1 said.
fn epoch(pools: usize) -> Epoch {
    let pool = PoolFill { capacity: 4, used: 1, figures: Vec::new() };
    let (at, length, pools) = (Nanos(5), None, vec![pool; pools]);
    Epoch { at, budget: u64::MAX, volumes: 1, length, pools }
}

#[test]
fn pools_that_join_or_go_where_there_can_be_none_are_an_error() {
    let name = spec("vfrm").spelled_out();
    let nowhere = made_up(|e| {
        e.placed(Nanos(0), &name);
        e.epoch(&epoch(2));
        e.epoch_ended();
        e.pools(Nanos(1), PoolId(0), true);
        e.epoch(&epoch(1));
        e.epoch_ended();
        e.pools(Nanos(2), PoolId(1), true);
    });
    let within = made_up(|e| {
        e.placed(Nanos(0), &name);
        e.epoch(&epoch(2));
        e.pools(Nanos(1), PoolId(0), false);
    });
    for (file, part) in [
        (nowhere, "3. epoch: a pool joins or goes where there can be none"),
        (within, "1. epoch: pools change while"),
    ] {
        let error = replay(&file, None).err().unwrap().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn a_recording_that_makes_no_sense_is_an_error_with_its_epoch() {
    let homes = |pool| Homes {
        chunk: ChunkId::default(),
        count: 1,
        pool: Some(PoolId(pool)),
        second: None,
    };
    let says = |file: Vec<u8>, part: &str| {
        let error = replay(&file, None).err().unwrap().to_string();
        assert!(error.contains(part), "{error}");
    };
    let name = spec("vfrm").spelled_out();
    says(made_up(|e| e.epoch(&epoch(2))), "does not say which placement");
    says(made_up(|e| e.placed(Nanos(0), "vfrmm:x=1")), "did you mean `vfrm`");
    says(
        made_up(|e| (e.placed(Nanos(0), &name), e.epoch(&epoch(0))).1),
        "1. epoch: it has no pools",
    );
    says(
        made_up(|e| {
            e.placed(Nanos(0), &name);
            e.epoch(&epoch(2));
            e.homes(&homes(2));
        }),
        "a pool that there is not",
    );
    says(made_up(|e| e.homes(&homes(0))), "outside an epoch");
    says(
        made_up(|e| {
            e.placed(Nanos(0), &name);
            e.epoch(&epoch(3));
            e.epoch_ended();
            e.epoch(&epoch(2));
        }),
        "2. epoch: it has fewer pools",
    );
    // Found by fuzzing: an epoch whose placement is gone at its end.
    says(
        made_up(|e| {
            e.placed(Nanos(0), &name);
            e.epoch(&epoch(2));
            e.placed(Nanos(0), "");
            e.epoch_ended();
        }),
        "1. epoch: the placement changes while it decides",
    );
    // Found by fuzzing: placements index their tables by volume.
    let elsewhere = ChunkId { volume: VolumeId(1), index: 0 };
    says(
        made_up(|e| {
            e.placed(Nanos(0), &name);
            e.epoch(&epoch(2));
            e.homes(&Homes { chunk: elsewhere, ..homes(0) });
            e.epoch_ended();
        }),
        "a volume that there is not",
    );
    let (at, offset, bytes) = (Nanos(1), Bytes(0), Bytes(512));
    let access = Access { at, chunk: elsewhere, offset, bytes, write: false };
    says(
        made_up(|e| {
            e.placed(Nanos(0), &name);
            e.accessed(&access);
            e.epoch(&epoch(2));
            e.epoch_ended();
        }),
        "a volume that there is not",
    );
}

#[test]
fn a_replayed_placement_sees_what_volumes_were_promised() {
    let lmst = spec("lmst:memory=0").spelled_out();
    let chunk = ChunkId { volume: VolumeId(0), index: 3 };
    // A cold chunk on the fast pool, which leaves unless its volume's promise is strict.
    let replayed = |promises: &[&[u64]]| {
        let file = made_up(|e| {
            e.placed(Nanos(0), &lmst);
            for (figures, at) in promises.iter().zip(1..) {
                let at = Nanos::from_secs(at * 10);
                e.epoch(&Epoch { at, length: Some(Nanos::from_secs(10)), ..epoch(2) });
                e.promised(VolumeId(0), figures);
                e.homes(&Homes { chunk, count: 1, pool: Some(PoolId(0)), second: None });
                e.epoch_ended();
            }
        });
        let (rows, _) = replay(&file, None).unwrap();
        rows.iter().map(|row| row.proposed).collect::<Vec<_>>()
    };
    let (strict, loose): (&[u64], &[u64]) = (&[1_000_000, 0], &[1_000_000, 1]);
    assert_eq!(replayed(&[strict, loose, strict, &[]]), [0, 1, 0, 1]);
    let senseless = made_up(|e| {
        e.placed(Nanos(0), &lmst);
        e.epoch(&epoch(2));
        e.promised(VolumeId(0), &[0, 0]);
    });
    let error = replay(&senseless, None).err().unwrap().to_string();
    assert!(error.contains("an SLA makes no sense"), "{error}");
}
