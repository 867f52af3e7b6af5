//! Rules beside Open CAS's own table, ranges beside a model of bytes, precedence, bounds, scores.

use super::accounts::NEUTRAL;
use super::ranges::{Mark, Ranges};
use super::rules::{Classes, Tier};
use super::store::{Hint, HintError, Hints, SOURCE_RANGES_MAX, SOURCES_MAX, TRUST};
use super::{Facts, Level, Life, PinScore, Usage, Wishes};
use crate::placement::tests::pools::{Pools, chunk};
use crate::placement::{Move, VolumeView};
use thermocline_units::{Bytes, Nanos, PoolId, Rng, VolumeId};

const MIB: u64 = 1 << 20;

fn size(bytes: u64) -> Facts {
    Facts { file_size: Some(Bytes(bytes)), ..Facts::default() }
}

fn metadata() -> Facts {
    Facts { metadata: true, ..Facts::default() }
}

fn name_of(classes: &Classes, facts: &Facts) -> String {
    classes.get(classes.of(facts, Bytes(0))).name.clone()
}

/// The file that Open CAS is delivered with (opencas.org, ioclass-config.csv), in part.
const OPEN_CAS: &str = "\
IO class id,IO class name,Eviction priority,Allocation
0,unclassified,22,0.00
1,metadata&done,0,1.00
11,file_size:le:4096&done,9,1.00
12,file_size:gt:4096&file_size:le:16384&done,10,1.00
22,direct&done,20,1.00
";

#[test]
fn a_table_of_open_cas_is_read_as_it_is() {
    let classes = Classes::parse(OPEN_CAS).expect("it is one");
    assert_eq!(name_of(&classes, &metadata()), "metadata&done");
    assert_eq!(name_of(&classes, &size(4096)), "file_size:le:4096&done");
    assert_eq!(name_of(&classes, &size(4097)), "file_size:gt:4096&file_size:le:16384&done");
    assert_eq!(name_of(&classes, &size(16_385)), "unclassified");
    let direct = Facts { direct: true, ..size(1 << 30) };
    assert_eq!(name_of(&classes, &direct), "direct&done");
    assert_eq!(classes.get(1).tiers, [Tier::Fastest]);
    assert_eq!(Classes::parse(&classes.to_text()), Ok(classes));
}

#[test]
fn conditions_are_joined_from_left_to_right() {
    let classes = Classes::parse("1,metadata|direct&stream:eq:7,0,1.00").expect("it is a rule");
    let of = |metadata, direct, stream| {
        classes.of(&Facts { metadata, direct, stream, ..Facts::default() }, Bytes(0)) == 1
    };
    // (metadata or direct) and stream 7.
    assert!(of(true, false, 7) && of(false, true, 7));
    assert!(!of(true, false, 8) && !of(false, false, 7) && !of(true, true, 0));
}

#[test]
fn files_are_known_by_directory_name_extension_and_program() {
    let table = "1,directory:/var/log,0,1.00\n2,extension:db,1,1.00\n3,file_name_prefix:core,2,1.00\n\
                 4,process_name:rsync&io_direction:write,3,1.00\n5,lba:lt:2048,4,1.00";
    let classes = Classes::parse(table).expect("five rules");
    let file = |directory: &str, name: &str| Facts {
        directory: Some(directory.to_string()),
        file_name: Some(name.to_string()),
        ..Facts::default()
    };
    let far = Bytes(MIB);
    assert_eq!(classes.of(&file("/var/log", "x"), far), 1);
    assert_eq!(classes.of(&file("/var/log/apt", "x"), far), 1);
    assert_eq!(classes.of(&file("/var/logs", "x"), far), 0);
    assert_eq!(classes.of(&file("/", "a.b.db"), far), 2);
    assert_eq!(classes.of(&file("/", ".db"), far), 0, "a hidden file has no extension");
    assert_eq!(classes.of(&file("/", "core.17"), far), 3);
    let rsync = |writes| Facts { process: Some("rsync".to_string()), writes, ..Facts::default() };
    assert_eq!(classes.of(&rsync(Some(true)), far), 4);
    assert_eq!([classes.of(&rsync(Some(false)), far), classes.of(&rsync(None), far)], [0, 0]);
    assert_eq!(classes.of(&Facts::default(), Bytes(2047 * 512)), 5);
}

#[test]
fn what_is_no_rule_is_refused_with_its_line() {
    for (text, says) in [
        ("1,metadata,0", "a class is"),
        ("x,metadata,0,1.00", "`x` is no number"),
        ("1,metadata,256,1.00", "`256` is no eviction priority"),
        ("1,metadata,0,1.5", "`1.5` is no allocation"),
        ("1,metadata,0,1.00,ssd", "`ssd` is no place among pools"),
        ("1,colour:blue,0,1.00", "`colour` is no condition"),
        ("1,pid:eq:17,0,1.00", "`pid` is no condition"),
        ("1,file_size:4096,0,1.00", "write file_size:lt:4096"),
        ("1,file_size:lt:4KiB,0,1.00", "write file_size:lt:4096"),
        ("1,usage:often,0,1.00", "`often` is none of"),
        ("1,io_direction:up,0,1.00", "`up` is no direction"),
        ("1,directory:,0,1.00", "write directory:VALUE"),
        ("1,metadata&,0,1.00", "`` is no condition"),
    ] {
        let error = Classes::parse(&format!("# a table\n{text}")).expect_err(text);
        assert_eq!(error.line, 2, "{text}");
        assert!(error.what.contains(says), "{text}: {}", error.what);
    }
    let many: String = (1..=40).map(|id| format!("{id},metadata,0,1.00\n")).collect();
    assert!(Classes::parse(&many).expect_err("40 classes").what.contains("more than 33"));
}

#[test]
fn the_standard_classes_are_the_sources_with_two_pools_and_with_three() {
    let classes = Classes::default();
    let first = |facts: &Facts, pools| {
        let class = classes.get(classes.of(facts, Bytes(0)));
        class.tiers.iter().flat_map(|tier| tier.pools(pools)).next().map(|pool| pool.0)
    };
    let three = |bytes| first(&size(bytes), 3);
    assert_eq!([three(1), three(262_143)], [Some(0), Some(0)]);
    assert_eq!([three(262_144), three(104_857_599)], [Some(1), Some(1)]);
    assert_eq!([three(104_857_600), three(1 << 40)], [Some(2), Some(2)]);
    let two = |bytes| first(&size(bytes), 2);
    assert_eq!([two(1), two(10_485_759)], [Some(0), Some(0)]);
    assert_eq!([two(10_485_760), two(1 << 40)], [Some(1), Some(1)]);
    assert_eq!([first(&metadata(), 2), first(&metadata(), 3)], [Some(0), Some(0)]);
    let usage = |usage| first(&Facts { usage, ..Facts::default() }, 3);
    let streams =
        [Usage::ReadIntensive, Usage::SequentialWrite, Usage::RandomWrite, Usage::Unknown];
    assert_eq!(streams.map(usage), [Some(1), Some(2), Some(0), None]);
    let life = |life| first(&Facts { life, ..Facts::default() }, 3);
    assert_eq!(
        [life(Life::Short), life(Life::Medium), life(Life::Extreme)],
        [Some(0), None, Some(2)]
    );
}

#[test]
fn ranges_are_what_bytes_say_that_are_marked_one_by_one() {
    let mut rng = Rng::seeded(7);
    for _ in 0..200 {
        let mut ranges = Ranges::default();
        let mut bytes: [Option<(u8, u64)>; 64] = [None; 64];
        for _ in 0..40 {
            let start = rng.below(63);
            let end = start + 1 + rng.below(64 - start - 1).min(20);
            let (class, until) = (rng.below(3) as u8, 10 + rng.below(2) * 10);
            let place = start as usize..end as usize;
            if rng.below(4) == 0 {
                ranges.clear(start..end);
                bytes[place].fill(None);
            } else {
                let mark = Mark { class, flags: 0, wait_ms: 0 };
                ranges.mark(start..end, Nanos(until), mark);
                bytes[place].fill(Some((class, until)));
            }
        }
        for now in [5, 10, 15] {
            let mut found = [None; 64];
            for (range, mark) in ranges.iter(Nanos(now)) {
                found[range.start as usize..range.end as usize].fill(Some(mark.class));
            }
            let model = bytes.map(|byte| byte.filter(|&(_, until)| until > now).map(|b| b.0));
            assert_eq!(found, model);
            for at in 0..64u64 {
                let touching = ranges.touching(Nanos(now), at..at + 1).map(|mark| mark.class);
                assert_eq!(touching.collect::<Vec<_>>(), model[at as usize].as_slice());
            }
        }
        ranges.expire(Nanos(10));
        let held = |byte: &Option<(u8, u64)>| byte.is_some_and(|(_, until)| until > 10);
        let runs = bytes.chunk_by(|a, b| a == b).filter(|run| held(&run[0])).count();
        assert_eq!(ranges.len(), runs, "equal neighbours are one");
    }
}

/// A hint of bytes of volume 0 from one who is called so.
fn hint<'a>(source: &'a str, level: Level, range: (u64, u64), facts: &'a Facts) -> Hint<'a> {
    let (volume, wishes, until) = (Some(VolumeId(0)), Wishes::default(), None);
    Hint { source, level, volume, range, facts, wishes, until }
}

/// The name of the class that holds for a chunk of 1 MiB of volume 0.
fn class_of(hints: &Hints, index: u32) -> Option<String> {
    let found = hints.of(Nanos(0), chunk(index), Bytes(MIB))?;
    Some(hints.classes().get(found.class).name.clone())
}

#[test]
fn of_several_files_in_a_chunk_the_smallest_decides_and_a_range_before_a_file() {
    let mut hints = Hints::default();
    let mut take = |level, range, facts: &Facts| {
        hints.take(Nanos(0), &hint("fs", level, range, facts)).expect("it is taken");
    };
    take(Level::File, (0, MIB / 2), &size(1 << 30));
    take(Level::File, (MIB / 2, MIB / 2 + 4096), &size(4096));
    take(Level::File, (MIB, 2 * MIB), &size(1 << 30));
    take(Level::Volume, (0, 100 * MIB), &Facts { usage: Usage::Archival, ..Facts::default() });
    assert_eq!(class_of(&hints, 0).as_deref(), Some("file_size:lt:262144"));
    assert_eq!(class_of(&hints, 1).as_deref(), Some("file_size:ge:1073741824"));
    assert_eq!(class_of(&hints, 2).as_deref(), Some("usage:archival|usage:sequential-write"));
    hints.take(Nanos(0), &hint("me", Level::Range, (0, 1), &metadata())).expect("it is taken");
    assert_eq!(class_of(&hints, 0).as_deref(), Some("metadata"));
    hints.withdraw("me", Level::Range, VolumeId(0), 0..1);
    assert_eq!(class_of(&hints, 0).as_deref(), Some("file_size:lt:262144"));
    assert!(hints.forget("fs"));
    assert!(hints.is_empty() && !hints.forget("nobody"));
}

#[test]
fn hints_expire_and_a_system_hint_holds_for_every_volume() {
    let mut hints = Hints::default();
    let facts = metadata();
    let short = Hint { until: Some(Nanos(100)), ..hint("a", Level::Range, (0, 1), &facts) };
    hints.take(Nanos(0), &short).expect("it is taken");
    let every = Hint { volume: None, ..hint("b", Level::System, (0, u64::MAX), &facts) };
    assert!(hints.of(Nanos(99), chunk(0), Bytes(MIB)).is_some());
    assert!(hints.of(Nanos(100), chunk(0), Bytes(MIB)).is_none());
    hints.take(Nanos(100), &every).expect("it is taken");
    let elsewhere = thermocline_units::ChunkId { volume: VolumeId(9), index: 77 };
    assert!(hints.of(Nanos(100), elsewhere, Bytes(MIB)).is_some());
    hints.expire(Nanos(100));
    assert_eq!(hints.len(), 1);
}

#[test]
fn requests_wait_only_where_everything_said_of_them_says_so() {
    let mut hints = Hints::default();
    let (facts, volume) = (Facts::default(), VolumeId(0));
    assert_eq!(hints.wait(Nanos(0), volume, 0..10), None);
    let mut say = |level, range, background_ms| {
        let wishes = Wishes { background_ms, ..Wishes::default() };
        hints.take(Nanos(0), &Hint { wishes, ..hint("run", level, range, &facts) })
    };
    say(Level::File, (0, 100), Some(500)).expect("it is taken");
    say(Level::File, (100, 200), None).expect("it is taken");
    say(Level::Volume, (0, 1000), Some(50)).expect("it is taken");
    assert_eq!(say(Level::File, (0, 1), Some(0)), Err(HintError::Wait(0)));
    assert_eq!(say(Level::File, (0, 1), Some(10_001)), Err(HintError::Wait(10_001)));
    assert_eq!(hints.wait(Nanos(0), volume, 0..100), Some(Nanos(500_000_000)));
    assert_eq!(hints.wait(Nanos(0), volume, 90..110), None);
    assert_eq!(hints.wait(Nanos(0), volume, 300..400), Some(Nanos(50_000_000)));
    assert_eq!(hints.wait(Nanos(0), VolumeId(1), 300..400), None);
}

/// `thermocline hint run --background` around rsync let next to nothing wait while the engine read
/// the file system: files, which a survey tells of, are more specific than processes.
#[test]
fn what_tells_nothing_of_waiting_does_not_decide_who_waits() {
    let mut hints = Hints::default();
    let (facts, volume) = (Facts::default(), VolumeId(0));
    let mut say = |source, level, range, background_ms| {
        let wishes = Wishes { background_ms, ..Wishes::default() };
        hints.take(Nanos(0), &Hint { wishes, ..hint(source, level, range, &facts) })
    };
    say("fs/v0", Level::File, (0, 1000), None).expect("it is taken");
    say("rsync", Level::Process, (0, 500), Some(500)).expect("it is taken");
    say("server", Level::Process, (400, 1000), None).expect("it is taken");
    assert_eq!(hints.wait(Nanos(0), volume, 0..100), Some(Nanos(500_000_000)));
    assert_eq!(hints.wait(Nanos(0), volume, 400..500), None, "the server waits for these");
    assert_eq!(hints.wait(Nanos(0), volume, 600..700), None);
}

#[test]
fn malformed_and_too_many_hints_change_nothing() {
    let mut hints = Hints::default();
    let facts = metadata();
    let ask = |hints: &mut Hints, source: &str, range| {
        hints.take(Nanos(0), &hint(source, Level::Range, range, &facts))
    };
    assert_eq!(ask(&mut hints, "", (0, 1)), Err(HintError::Name));
    assert_eq!(ask(&mut hints, &"x".repeat(65), (0, 1)), Err(HintError::Name));
    assert_eq!(ask(&mut hints, "a", (5, 5)), Err(HintError::Range(5, 5)));
    assert!(hints.is_empty() && hints.sources().is_empty());
    ask(&mut hints, "a", (0, 1)).expect("there is room");
    assert_eq!(ask(&mut hints, "a", (5, 5)), Err(HintError::Range(5, 5)));
    assert_eq!((hints.sources()[0].taken, hints.sources()[0].refused), (1, 1));
    hints.forget("a");
    for number in 1..SOURCES_MAX as u64 {
        ask(&mut hints, &format!("s{number}"), (number, number + 1)).expect("there is room");
    }
    // "a" holds nothing: it makes room for one more, and then all have something to say. What is
    // refused has no need of it.
    assert_eq!(ask(&mut hints, "b", (5, 5)), Err(HintError::Range(5, 5)));
    assert_eq!(hints.sources()[0].name, "a");
    ask(&mut hints, "b", (0, 1)).expect("there is room");
    assert_eq!(ask(&mut hints, "c", (0, 1)), Err(HintError::Sources));
    assert_eq!(hints.len(), SOURCES_MAX);
}

/// Right hints ended distrusted, in 14 of 15 live runs, because what they had moved was quiet.
#[test]
fn quiet_data_says_nothing_of_its_hint() {
    let at: Vec<(u32, u16)> = (0..100).map(|index| (index, 1)).collect();
    let mut view = Pools::new(&[50, 200], &at);
    let mut hints = Hints::default();
    let small = size(1);
    hints.take(Nanos(0), &hint("survey", Level::File, (0, 10 * MIB), &small)).expect("taken");
    view.accesses = (10..100).map(|index| (index, 5)).collect();
    for _ in 0..20 {
        let mut moves = Vec::new();
        hints.direct(Nanos(0), &view, &mut moves);
        view.carry_out(&moves);
    }
    assert_eq!(view.used_chunks(PoolId(0)), 10, "they are where their class wants them");
    let (_, score) = hints.sources()[0].scores().next().expect("it spoke");
    assert_eq!((score.value, score.proved, score.chunks), (NEUTRAL, 0, 10));
    assert!(class_of(&hints, 0).is_some(), "it is followed");
    // They are asked for: then their hint has saved time.
    view.accesses = (0..100).map(|index| (index, 5)).collect();
    hints.direct(Nanos(0), &view, &mut Vec::new());
    let (_, score) = hints.sources()[0].scores().next().expect("it spoke");
    assert!(score.value > NEUTRAL && score.waits.saved > 0.5 && score.waits.lost == 0.0);
    assert_eq!((score.proved, score.bytes), (10 * MIB, 10 * MIB));
}

/// Epochs under one source, whose moves are carried out.
fn pass(hints: &mut Hints, view: &mut Pools, epochs: u32) -> f64 {
    for _ in 0..epochs {
        let mut moves = Vec::new();
        hints.direct(Nanos(0), view, &mut moves);
        view.carry_out(&moves);
    }
    hints.sources()[0].scores().next().map_or(NEUTRAL, |(_, score)| score.value)
}

#[test]
fn a_source_that_makes_users_wait_is_not_followed_until_it_would_not() {
    // The fast pool is full of what is asked for.
    let at: Vec<(u32, u16)> = (0..100).map(|index| (index, u16::from(index < 50))).collect();
    let mut view = Pools::new(&[50, 200], &at);
    let mut hints = Hints::default();
    let small = size(1);
    hints.take(Nanos(0), &hint("liar", Level::File, (0, 10 * MIB), &small)).expect("taken");
    // Nobody accesses what it calls hot; what made room for it is missed.
    view.accesses = (50..100).map(|index| (index, 50)).collect();
    let value = pass(&mut hints, &mut view, 8);
    assert!(value < TRUST && class_of(&hints, 0).is_none(), "{value}");
    let (_, score) = hints.sources()[0].scores().next().expect("it spoke");
    assert!(score.waits.lost > 10.0 * score.waits.saved, "{score:?}");
    // The placement brings back what is missed, and the liar's chunks go.
    view.at = at.iter().copied().collect();
    let value = pass(&mut hints, &mut view, 20);
    assert!(value < TRUST, "{value}: it would do the same again");
    assert!((50..100).all(|index| view.at[&index] == 0), "nobody makes room for it");
    // Then everybody accesses what it calls hot, and little else.
    view.accesses = (0..10).map(|index| (index, 500)).chain([(60, 1)]).collect();
    let value = pass(&mut hints, &mut view, 12);
    assert!(value > TRUST && class_of(&hints, 0).is_some(), "{value}");
    assert!((0..10).all(|index| view.at[&index] == 0), "they are where their class wants them");
    // A quiet epoch says nothing.
    view.accesses.clear();
    let before = pass(&mut hints, &mut view, 1);
    assert_eq!(pass(&mut hints, &mut view, 1), before);
}

#[test]
fn one_wrong_range_is_not_followed_though_its_class_is() {
    let at: Vec<(u32, u16)> = (0..100).map(|index| (index, 0)).collect();
    let mut view = Pools::new(&[200, 200], &at);
    let mut hints = Hints::default();
    let archival = Facts { usage: Usage::Archival, ..Facts::default() };
    hints.take(Nanos(0), &hint("me", Level::File, (0, 20 * MIB), &archival)).expect("taken");
    view.accesses = (20..100).map(|index| (index, 5)).chain([(7, 400), (8, 300)]).collect();
    let value = pass(&mut hints, &mut view, 6);
    assert!(value > TRUST, "{value}: eighteen of twenty chunks are quiet");
    let followed: Vec<u32> = (0..20).filter(|&at| class_of(&hints, at).is_some()).collect();
    assert_eq!(followed, (0..20).filter(|at| ![7, 8].contains(at)).collect::<Vec<u32>>());
    let judged = hints.judged();
    let [wrong] = judged.as_slice() else { panic!("one range is judged: {judged:?}") };
    assert_eq!((wrong.chunks, wrong.value < TRUST), ((chunk(7), 2), true));
    let reasons = hints.explain(Nanos(0), chunk(7), Bytes(MIB)).join("; ");
    assert!(reasons.contains("hint of me: class usage:archival"), "{reasons}");
    assert!(reasons.contains("not followed here"), "{reasons}");
    // It is quiet at last: then it may go down.
    view.accesses = (20..100).map(|index| (index, 5)).collect();
    pass(&mut hints, &mut view, 30);
    assert!(class_of(&hints, 7).is_some());
}

#[test]
fn what_made_room_is_on_the_account_of_who_got_it() {
    let mut view = Pools::new(&[1, 9], &[(0, 0), (1, 1)]);
    let mut hints = Hints::default();
    let small = size(1);
    hints.take(Nanos(0), &hint("me", Level::File, (MIB, 2 * MIB), &small)).expect("taken");
    // Chunk 1 rises while nothing is asked for, and chunk 0 makes room.
    pass(&mut hints, &mut view, 1);
    assert_eq!((view.at[&0], view.at[&1]), (1, 0));
    view.accesses = [(0, 200), (1, 20)].into();
    hints.direct(Nanos(0), &view, &mut Vec::new());
    let (_, score) = hints.sources()[0].scores().next().expect("it spoke");
    let ratio = score.waits.lost / score.waits.saved;
    assert!((9.9..10.1).contains(&ratio), "lost by 200 accesses, saved by 20: {ratio}");
}

/// A pin on the wrong pool cost 9 to 53 ms a request for as long as it stood.
#[test]
fn a_pin_that_makes_users_wait_is_let_go() {
    let at: Vec<(u32, u16)> = (0..20).map(|index| (index, 1)).collect();
    let mut view = Pools::new(&[10, 40], &at);
    let mut hints = Hints::default();
    let pin = Wishes { pin: true, ..Wishes::default() };
    let facts = Facts::default();
    let range = hint("me", Level::Range, (0, 2 * MIB), &facts);
    hints.take(Nanos(0), &Hint { wishes: pin, ..range }).expect("it is taken");
    view.accesses = [(0, 100), (1, 1), (5, 20)].into();
    let wish = [0, 1].map(|index| Move::to(chunk(index), PoolId(0)));
    let mut epoch = |view: &Pools| {
        let mut moves = wish.to_vec();
        hints.direct(Nanos(0), view, &mut moves);
        (moves, hints.pins().to_vec())
    };
    let (moves, pins) = epoch(&view);
    assert_eq!(moves, [], "pinned where nothing is known of it");
    assert_eq!((pins[1].held, pins[1].wrong, pins[1].budget), (2, 0, 20));
    let (moves, pins) = epoch(&view);
    assert_eq!(moves, [Move::to(chunk(0), PoolId(0))], "the wrong one goes, the quiet one stays");
    assert_eq!((pins[1].held, pins[1].wrong), (1, 1));
    assert!(pins[1].waits.lost > 1.0, "a hundred requests waited for a disk: {:?}", pins[1]);
    let reasons = hints.explain(Nanos(0), chunk(0), Bytes(MIB)).join("; ");
    assert!(reasons.contains("it is pinned"), "{reasons}");
}

#[test]
fn pins_beyond_a_share_of_the_pool_are_not_held() {
    let at: Vec<(u32, u16)> = (0..8).map(|index| (index, 0)).collect();
    let mut view = Pools::new(&[8, 40], &at);
    view.pinned = vec![0];
    view.accesses = [(3, 90), (4, 80), (5, 70), (6, 60)].into();
    let mut hints = Hints::default();
    hints.set_pin_share(0.5);
    let (facts, wishes) = (Facts::default(), Wishes { pin: true, ..Wishes::default() });
    let range = hint("me", Level::Range, (2 * MIB, 8 * MIB), &facts);
    hints.take(Nanos(0), &Hint { wishes, ..range }).expect("it is taken");
    let mut moves: Vec<Move> = (0..8).map(|index| Move::to(chunk(index), PoolId(1))).collect();
    hints.direct(Nanos(0), &view, &mut moves);
    // Four may be pinned: that of the administrator, and the three that are accessed most.
    let left: Vec<u32> = moves.iter().map(|step| step.chunk.index).collect();
    assert_eq!(left, [0, 1, 2, 6, 7], "the machine refuses the first of these");
    let PinScore { held, wrong, beyond, by_name, budget, .. } = hints.pins()[0];
    assert_eq!([held, wrong, beyond, by_name, budget], [3, 0, 3, 1, 3]);
}

#[test]
fn pins_of_administrators_are_charged_though_nobody_gave_hints() {
    let mut view = Pools::new(&[10, 40], &[(0, 1), (1, 1)]);
    view.pinned = vec![0];
    view.accesses = [(0, 100)].into();
    let mut hints = Hints::default();
    for _ in 0..3 {
        let mut moves = vec![Move::to(chunk(0), PoolId(0))];
        hints.direct(Nanos(0), &view, &mut moves);
        assert_eq!(moves.len(), 1, "the machine refuses it, not the director");
    }
    let pins = hints.pins()[1];
    assert!(pins.waits.lost > 2.0 && pins.waits.saved == 0.0, "{pins:?}");
    assert_eq!((pins.by_name, pins.budget), (1, 19));
}

#[test]
fn pools_of_tiers_are_those_that_there_are() {
    let pools =
        |tier: Tier, count| tier.pools(count).map(|pool: PoolId| pool.0).collect::<Vec<_>>();
    assert_eq!(pools(Tier::Between, 2), []);
    assert_eq!(pools(Tier::Between, 4), [1, 2]);
    assert_eq!([pools(Tier::Fastest, 1), pools(Tier::Slowest, 1)], [[0], [0]]);
    assert_eq!([pools(Tier::Fastest, 0), pools(Tier::Between, 1)], [[]; 2]);
}

/// Hints of data that is only written were never judged.
#[test]
fn a_hint_is_judged_by_writes_as_well() {
    let at: Vec<(u32, u16)> = (0..40).map(|index| (index, 0)).collect();
    let mut view = Pools::new(&[200, 200], &at);
    let mut hints = Hints::default();
    let archival = Facts { usage: Usage::Archival, ..Facts::default() };
    hints.take(Nanos(0), &hint("me", Level::File, (0, 20 * MIB), &archival)).expect("taken");
    view.writes = [(7, 400)].into();
    pass(&mut hints, &mut view, 6);
    let unfollowed: Vec<u32> = (0..20).filter(|&at| class_of(&hints, at).is_none()).collect();
    assert_eq!(unfollowed, [7]);
}

/// Each time that it was wrong, it must be right for twice as long; else chunks move to and fro.
#[test]
fn a_hint_that_is_right_now_and_then_does_not_move_its_chunk_each_time() {
    let at: Vec<(u32, u16)> = (0..100).map(|index| (index, 0)).collect();
    let mut view = Pools::new(&[200, 200], &at);
    let mut hints = Hints::default();
    let archival = Facts { usage: Usage::Archival, ..Facts::default() };
    hints.take(Nanos(0), &hint("me", Level::File, (0, 20 * MIB), &archival)).expect("taken");
    let (mut down, mut before) = (Vec::new(), 0);
    for epoch in 0..2_000u32 {
        view.accesses = (20..100).map(|index| (index, 5)).collect();
        if epoch % 24 < 8 {
            view.accesses.insert(7, 20);
        }
        pass(&mut hints, &mut view, 1);
        if view.at[&7] != before {
            before = view.at[&7];
            down.extend((before == 1).then_some(epoch));
        }
        if view.at[&7] == 1 && class_of(&hints, 7).is_none() {
            // The placement brings it back.
            view.at.insert(7, 0);
            before = 0;
        }
    }
    assert!((2..=12).contains(&down.len()), "{down:?}");
}

#[test]
fn a_few_requests_beside_very_many_are_no_judgement() {
    let at: Vec<(u32, u16)> = (0..100).map(|index| (index, 0)).collect();
    let followed = |all: u64| {
        let mut view = Pools::new(&[200, 200], &at);
        let mut hints = Hints::default();
        let archival = Facts { usage: Usage::Archival, ..Facts::default() };
        hints.take(Nanos(0), &hint("me", Level::File, (0, 20 * MIB), &archival)).expect("taken");
        view.loads[1].reads = all;
        view.loads[1].read_latency = Nanos::from_micros(8_000);
        view.accesses = (20..100).map(|index| (index, 5)).chain([(7, 400)]).collect();
        pass(&mut hints, &mut view, 6);
        class_of(&hints, 7).is_some()
    };
    assert!(!followed(0), "nobody else waits");
    assert!(followed(10_000_000), "users wait for others a thousand times as long");
}

#[test]
fn one_source_cannot_take_all_the_room_for_ranges() {
    let mut hints = Hints::default();
    let (facts, step) = (metadata(), 8192);
    let one = |hints: &mut Hints, source: &str, number: u64, until| {
        let range = (number * step, number * step + 4096);
        hints.take(Nanos(0), &Hint { until, ..hint(source, Level::Range, range, &facts) })
    };
    let soon = Some(Nanos(5));
    let most = (0..).find(|&number| one(&mut hints, "greedy", number, soon).is_err()).unwrap();
    assert!(most as usize > SOURCE_RANGES_MAX - 4 && most as usize <= SOURCE_RANGES_MAX);
    let full = one(&mut hints, "greedy", most, None);
    assert_eq!(full, Err(HintError::Full("greedy".to_string(), most as usize)));
    one(&mut hints, "other", most, None).expect("another one still has room");
    // What has expired makes room.
    let range = (most * 2 * step, most * 2 * step + 1);
    let late = hints.take(Nanos(6), &hint("greedy", Level::Range, range, &facts));
    assert!(late.is_ok(), "{late:?}");
}
