//! Hits, fills, long requests and write-back: which device each request goes to.

use super::{BlockCache, Settings};
use crate::PoolDevice;
use thermocline_ports::faulty::{Background, Faults, SimDisk};
use thermocline_ports::{Completion, Device, DeviceError, Geometry, Io, Payload, Ticket};
use thermocline_units::{Bytes, Nanos};

const LINE: u64 = crate::LINE as u64;

type Cache = BlockCache<SimDisk, SimDisk>;

fn disk(size: Bytes) -> SimDisk {
    SimDisk::new(Geometry { size, discard_zeroes: true, far: false }, 3, Faults::NONE)
}

fn cache(settings: Settings) -> (Cache, Nanos) {
    let (fast, slow) = (disk(Bytes::from_mib(2)), disk(Bytes::from_mib(16)));
    let mut cache = BlockCache::format(Nanos(0), fast, slow, 1, settings).unwrap();
    let mut now = Nanos(0);
    assert_eq!(run(&mut cache, &mut now), []);
    assert_eq!(cache.is_open(), Ok(true));
    (cache, now)
}

fn run(cache: &mut Cache, now: &mut Nanos) -> Vec<Completion> {
    let mut done = Vec::new();
    while let Some(next) = cache.next_event() {
        *now = next.max(*now);
        cache.poll(*now, &mut done);
    }
    done
}

/// Runs one request to its end, and everything it sets going.
fn ask(cache: &mut Cache, now: &mut Nanos, io: Io) -> Result<Payload, DeviceError> {
    cache.submit(*now, Ticket(9), io);
    let mut done = run(cache, now);
    assert_eq!(done.len(), 1);
    done.remove(0).result
}

/// The byte that `write` fills lines with: never zero.
fn mark(line: u64) -> u8 {
    (line % 255) as u8 + 1
}

fn write(line: u64, lines: u64) -> Io {
    let data = Payload::from(vec![mark(line); (lines * LINE) as usize]);
    Io::Write { offset: Bytes(line * LINE), data, fua: false }
}

fn read(line: u64, lines: u64) -> Io {
    Io::Read { offset: Bytes(line * LINE), length: (lines * LINE) as u32 }
}

#[test]
fn a_pool_device_adds_its_answers_to_those_that_wait_and_names_its_main_device_first() {
    let (cache, now) = cache(Settings::default());
    let mut pool = PoolDevice::Cached(Box::new(cache));
    let sizes: Vec<Bytes> = pool.devices_mut().map(|device| device.geometry().size).collect();
    assert_eq!(sizes, [Bytes::from_mib(16), Bytes::from_mib(2)]);
    let mut done = vec![Completion { ticket: Ticket(1), result: Err(DeviceError::Io) }];
    pool.submit(now, Ticket(2), read(0, 1));
    while let Some(next) = pool.next_event() {
        pool.poll(next.max(now), &mut done);
    }
    let tickets: Vec<Ticket> = done.iter().map(|answer| answer.ticket).collect();
    assert_eq!(tickets, [Ticket(1), Ticket(2)]);
}

#[test]
fn what_was_read_once_is_read_from_the_fast_device() {
    let (mut cache, mut now) = cache(Settings::default());
    for _ in 0..2 {
        ask(&mut cache, &mut now, read(100, 1)).unwrap();
    }
    let status = cache.status();
    assert_eq!((status.read_hits, status.read_misses), (Bytes(LINE), Bytes(LINE)));
    assert_eq!((status.filled, status.cached, status.dirty), (Bytes(LINE), 1, 0));
    assert_eq!(status.hit_ratio(), Some(0.5));
}

#[test]
fn a_read_of_a_sector_keeps_its_line() {
    let (mut cache, mut now) = cache(Settings::default());
    ask(&mut cache, &mut now, Io::Read { offset: Bytes(5 * LINE + 512), length: 512 }).unwrap();
    ask(&mut cache, &mut now, read(5, 1)).unwrap();
    assert_eq!(cache.status().read_hits, Bytes(LINE));
}

#[test]
fn long_requests_go_around_and_still_find_what_is_cached() {
    let (mut cache, mut now) = cache(Settings::default());
    ask(&mut cache, &mut now, write(3, 1)).unwrap();
    let whole = ask(&mut cache, &mut now, read(0, 16)).unwrap().to_vec();
    assert!(whole[3 * LINE as usize..4 * LINE as usize].iter().all(|&byte| byte == 4));
    let status = cache.status();
    assert_eq!((status.cached, status.filled), (1, Bytes(0)));
    ask(&mut cache, &mut now, write(0, 16)).unwrap();
    let status = cache.status();
    assert_eq!((status.cached, status.written_around), (1, Bytes(15 * LINE)));
    let whole = ask(&mut cache, &mut now, read(0, 16)).unwrap().to_vec();
    assert!(whole.iter().all(|&byte| byte == 1));
}

#[test]
fn a_write_of_part_of_a_line_that_is_not_cached_goes_to_the_slow_device() {
    let (mut cache, mut now) = cache(Settings::default());
    let data = Payload::from(vec![7; 512]);
    let io = Io::Write { offset: Bytes(512), data: data.clone(), fua: false };
    ask(&mut cache, &mut now, io).unwrap();
    assert_eq!((cache.status().cached, cache.status().written_around), (0, Bytes(512)));
    let found = ask(&mut cache, &mut now, Io::Read { offset: Bytes(512), length: 512 });
    assert_eq!(found, Ok(data));
}

#[test]
fn dirty_lines_are_taken_back_down_to_their_share_and_neighbours_go_together() {
    let settings = Settings { dirty_percent: 10, ..Settings::default() };
    let (mut cache, mut now) = cache(settings);
    for line in 0..200 {
        ask(&mut cache, &mut now, write(line, 1)).unwrap();
    }
    let status = cache.status();
    let most = status.lines / 10;
    assert!(status.dirty <= most, "{status:?}");
    assert_eq!(status.cached, 200);
    let slow = cache.origin().submitted();
    assert!(slow < 10, "{slow} requests for some 150 lines in a row");
}

#[test]
fn a_flush_writes_a_sector_of_the_table_for_lines_that_lie_together_and_none_twice() {
    let (mut cache, mut now) = cache(Settings::default());
    for line in 0..8 {
        ask(&mut cache, &mut now, write(line, 1)).unwrap();
    }
    ask(&mut cache, &mut now, Io::Flush).unwrap();
    assert_eq!(cache.status().table, Bytes(512));
    ask(&mut cache, &mut now, write(3, 1)).unwrap();
    ask(&mut cache, &mut now, Io::Flush).unwrap();
    assert_eq!(cache.status().table, Bytes(512), "the table names the line already");
}

#[test]
fn writes_that_find_their_set_full_go_around_and_nothing_is_lost() {
    let (mut cache, mut now) = cache(Settings::default());
    let lines = u64::from(cache.status().lines) * 2;
    for line in 0..lines {
        cache.submit(now, Ticket(line), write(line, 1));
    }
    assert_eq!(run(&mut cache, &mut now).len() as u64, lines);
    assert!(cache.status().written_around > Bytes(0));
    for line in 0..lines {
        let found = ask(&mut cache, &mut now, read(line, 1)).unwrap().to_vec();
        assert!(found.iter().all(|&byte| byte == mark(line)), "line {line}");
    }
}

fn bytes_of(disk: &SimDisk, offset: Bytes, length: u32) -> Vec<u8> {
    disk.peek(offset, length).unwrap().to_vec()
}

fn unfinished(fast: &SimDisk, slow: &SimDisk) -> bool {
    let head = bytes_of(slow, Bytes(0), 128 << 10);
    let read = |offset: Bytes, into: &mut [u8]| {
        into.copy_from_slice(&bytes_of(fast, offset, into.len() as u32));
        Ok::<(), DeviceError>(())
    };
    crate::is_unfinished(fast.geometry().size, &head, read).unwrap()
}

fn blank(size: Bytes, seed: u64) -> SimDisk {
    let faults = Faults { background: Background::Zeroes, ..Faults::NONE };
    SimDisk::new(Geometry { size, discard_zeroes: true, far: false }, seed, faults)
}

#[test]
fn a_pair_that_was_used_is_never_taken_for_an_unfinished_one_though_it_lost_its_label() {
    let settings = Settings { dirty_percent: 0, ..Settings::default() };
    let (fast, slow) = (blank(Bytes::from_mib(2), 1), blank(Bytes::from_mib(16), 2));
    let (mut cache, mut now) =
        (BlockCache::format(Nanos(0), fast, slow, 1, settings).unwrap(), Nanos(0));
    run(&mut cache, &mut now);
    let lose_label = |cache: &mut Cache, now: &mut Nanos| {
        let zeroes = Io::WriteZeroes { offset: Bytes(0), length: Bytes(4096) };
        let fast = cache.devices_mut().0;
        *now = Nanos(now.0 + 1);
        fast.submit(*now, Ticket(1 << 40), zeroes);
        *now = fast.next_event().unwrap();
        fast.poll(*now, &mut Vec::new());
    };
    let head = bytes_of(cache.cache(), Bytes(0), 4096);
    assert!(!unfinished(cache.cache(), cache.origin()), "it has both labels");
    ask(&mut cache, &mut now, write(0, 1)).unwrap();
    ask(&mut cache, &mut now, Io::Flush).unwrap();
    ask(&mut cache, &mut now, Io::Flush).unwrap();
    assert_eq!(cache.status().dirty, 0, "the table names nothing any more");
    lose_label(&mut cache, &mut now);
    assert!(!unfinished(cache.cache(), cache.origin()));
    assert_ne!(head, bytes_of(cache.cache(), Bytes(0), 4096));
    // What the same devices were before anything was stored there.
    let behind = Io::WriteZeroes { offset: Bytes(0), length: Bytes(LINE) };
    ask(&mut cache, &mut now, behind).unwrap();
    assert!(unfinished(cache.cache(), cache.origin()));
}

/// The second flush said that all was well, although the first had forgotten the write.
#[test]
fn a_failed_flush_is_not_made_good_by_the_next_one() {
    let forgetful = Faults { fail: 1.0, forgets: true, ..Faults::NONE };
    for side in 0..2 {
        let (mut cache, mut now) = cache(Settings { dirty_percent: 0, ..Settings::default() });
        ask(&mut cache, &mut now, write(1, 1)).unwrap();
        ask(&mut cache, &mut now, Io::Flush).unwrap();
        ask(&mut cache, &mut now, write(2, 1)).unwrap();
        let (fast, slow) = cache.devices_mut();
        [fast, slow][side].set_faults(forgetful);
        assert_eq!(ask(&mut cache, &mut now, Io::Flush), Err(DeviceError::Io));
        let (fast, slow) = cache.devices_mut();
        [fast, slow][side].set_faults(Faults::NONE);
        // Nobody is told that what was forgotten is durable, nor shown what is there in its place.
        assert_eq!(ask(&mut cache, &mut now, Io::Flush), Err(DeviceError::Io), "device {side}");
        assert_eq!(ask(&mut cache, &mut now, read(1, 2)), Err(DeviceError::Io), "device {side}");
    }
}

/// One that took too long has forgotten nothing.
#[test]
fn a_flush_that_timed_out_is_tried_again() {
    let (mut cache, mut now) = cache(Settings::default());
    ask(&mut cache, &mut now, write(1, 1)).unwrap();
    cache.devices_mut().0.set_faults(Faults { time_out: 1.0, ..Faults::NONE });
    assert_eq!(ask(&mut cache, &mut now, Io::Flush), Err(DeviceError::TimedOut));
    cache.devices_mut().0.set_faults(Faults::NONE);
    ask(&mut cache, &mut now, Io::Flush).unwrap();
    assert!(ask(&mut cache, &mut now, read(1, 1)).is_ok());
}

/// Refused as fast as it was asked, a full slow device kept the engine's processor busy.
#[test]
fn a_slow_device_that_refuses_is_asked_now_and_then() {
    let settings = Settings { dirty_percent: 0, ..Settings::default() };
    let (mut cache, mut now) = cache(settings);
    cache.devices_mut().1.fill_up();
    let before = cache.origin().submitted();
    for line in 0..100 {
        cache.submit(now, Ticket(line), write(line * 3, 1));
    }
    let end = Nanos(now.0 + 1_000_000_000);
    while let Some(next) = cache.next_event().filter(|next| *next < end) {
        now = next.max(now);
        cache.poll(now, &mut Vec::new());
    }
    let asked = cache.origin().submitted() - before;
    assert!(asked > 5, "it is tried again: {asked}");
    assert!(asked < 16 * 12, "{asked} requests in a second");
    cache.devices_mut().1.make_room();
    run(&mut cache, &mut now);
    assert_eq!(cache.status().dirty, 0, "and goes on when there is room");
}

/// Lines that left for others were counted on: a cache of 128 MiB said that it used 800.
#[test]
fn what_is_used_is_never_more_than_there_is_and_what_is_counted_is_there() {
    let (mut cache, mut now) = cache(Settings::default());
    let lines = u64::from(cache.status().lines);
    for line in 0..3 * lines {
        let io = if line % 3 == 0 { write(line, 1) } else { read(line, 1) };
        ask(&mut cache, &mut now, io).unwrap();
    }
    let status = cache.status();
    assert!(status.cached > status.lines / 2 && status.cached <= status.lines, "{status:?}");
    assert_eq!(cache.count_lines(), (status.cached, status.dirty));
}

#[test]
fn a_line_that_cannot_be_read_from_its_slot_is_read_from_the_slow_device_if_it_is_clean() {
    let (mut cache, mut now) = cache(Settings::default());
    ask(&mut cache, &mut now, read(1, 1)).unwrap();
    ask(&mut cache, &mut now, write(2, 1)).unwrap();
    let size = cache.cache().geometry().size.0 as u32;
    cache.devices_mut().0.spoil(Bytes(64 << 10), size - (64 << 10));
    assert!(ask(&mut cache, &mut now, read(1, 1)).is_ok());
    assert_eq!(ask(&mut cache, &mut now, read(2, 1)), Err(DeviceError::Io));
}

/// Alternate lines of a long write are cached: the rest does not go to the slow device one by one.
#[test]
fn parts_of_a_write_that_go_around_go_together_and_cached_lines_keep_what_is_newest() {
    let (mut cache, mut now) = cache(Settings::default());
    let line = LINE as usize;
    for at in (0..32).step_by(2) {
        ask(&mut cache, &mut now, write(at, 1)).unwrap();
    }
    let before = cache.origin().submitted();
    let data = Payload::from(vec![2; 32 * line]);
    ask(&mut cache, &mut now, Io::Write { offset: Bytes(0), data, fua: false }).unwrap();
    assert_eq!(cache.origin().submitted() - before, 1, "one write, and nothing is taken back");
    let read = |lines: usize| Io::Read { offset: Bytes(0), length: (lines * line) as u32 };
    assert!(ask(&mut cache, &mut now, read(32)) == Ok(Payload::from(vec![2; 32 * line])));
    for at in (0..32).step_by(2) {
        ask(&mut cache, &mut now, write(at, 1)).unwrap();
    }
    let both = [vec![mark(0); line], vec![2; line]].concat();
    assert!(ask(&mut cache, &mut now, read(2)) == Ok(Payload::from(both)));
}

/// A request that is not answered for so long.
const HANGS: Nanos = Nanos::from_secs(10);

/// Requests to the slow device, which from now on answers none, after `clients` came; before
/// anything hangs for longer than that.
fn sent_to_a_slow_device_that_hangs(cache: &mut Cache, now: &mut Nanos, clients: Vec<Io>) -> u64 {
    let hangs = Faults { time_out: 1.0, time_out_after: HANGS, ..Faults::NONE };
    cache.devices_mut().1.set_faults(hangs);
    let before = cache.origin().submitted();
    let end = Nanos(now.0 + HANGS.0 / 2);
    for (ticket, io) in (0..).zip(clients) {
        cache.submit(*now, Ticket(ticket), io);
    }
    while let Some(next) = cache.next_event().filter(|next| *next < end) {
        *now = next.max(*now);
        cache.poll(*now, &mut Vec::new());
    }
    cache.origin().submitted() - before
}

#[test]
fn only_one_run_goes_back_while_clients_wait_for_the_slow_device_and_only_then() {
    let scattered = || (0..150).map(|line| write(line * 3, 1));
    let sent = |first: Option<Io>, was_read: bool| {
        let (mut cache, mut now) = cache(Settings::default());
        if was_read {
            ask(&mut cache, &mut now, read(3000, 1)).unwrap();
        }
        let clients = first.into_iter().chain(scattered()).collect();
        sent_to_a_slow_device_that_hangs(&mut cache, &mut now, clients)
    };
    let most = u64::from(Settings::default().writers_max);
    assert_eq!(sent(None, false), most, "nobody waits");
    assert_eq!(sent(None, true), most, "who waited was answered");
    let offset = Bytes(3000 * LINE);
    assert_eq!(sent(Some(read(3000, 1)), false), 2, "the read and one run");
    let discard = Io::Discard { offset, length: Bytes(LINE) };
    assert_eq!(sent(Some(discard), false), 2, "the discard and one run");
}

#[test]
fn a_cache_full_of_dirty_lines_is_emptied_although_clients_wait() {
    let (mut cache, mut now) = cache(Settings::default());
    let clients = std::iter::once(read(4000, 1));
    let clients = clients.chain((0..1300).map(|line| write(line * 3, 1))).collect();
    let sent = sent_to_a_slow_device_that_hangs(&mut cache, &mut now, clients);
    let status = cache.status();
    assert!(u64::from(status.dirty) * 100 > 90 * u64::from(status.lines), "{status:?}");
    let around = status.written_around.0 / LINE;
    assert!(sent - around - 1 > 1, "{sent} requests, {around} of them writes of clients");
}

/// A run began at the line that the hand met, and left the dirty ones in front of it for later.
#[test]
fn dirty_lines_in_front_go_back_together_with_the_one_that_is_met() {
    let settings = Settings { dirty_percent: 0, ..Settings::default() };
    let (mut cache, mut now) = cache(settings);
    cache.devices_mut().1.fill_up();
    const PAIRS: u64 = 60;
    for pair in 0..PAIRS {
        cache.submit(now, Ticket(pair), write(pair * 4, 2));
    }
    // Nothing goes back meanwhile but what is tried once in 100 ms.
    let end = Nanos(now.0 + 1_000_000_000);
    while let Some(next) = cache.next_event().filter(|next| *next < end) {
        now = next.max(now);
        cache.poll(now, &mut Vec::new());
    }
    assert_eq!(u64::from(cache.status().dirty), 2 * PAIRS);
    cache.devices_mut().1.make_room();
    let before = cache.origin().submitted();
    run(&mut cache, &mut now);
    assert_eq!(cache.status().dirty, 0);
    let sent = cache.origin().submitted() - before;
    assert!(sent <= PAIRS, "{sent} requests for {PAIRS} pairs");
}

/// Two lines at the ends of a long write that slots have: 60 KiB would go with their 8 KiB.
#[test]
fn parts_that_lie_far_apart_go_in_requests_of_their_own() {
    let (mut cache, mut now) = cache(Settings::default());
    for line in 1..15 {
        ask(&mut cache, &mut now, write(line, 1)).unwrap();
    }
    let before = (cache.origin().submitted(), cache.status().written_around);
    ask(&mut cache, &mut now, write(0, 16)).unwrap();
    assert_eq!(cache.origin().submitted() - before.0, 2);
    assert_eq!(cache.status().written_around.0 - before.1.0, 2 * LINE);
}

#[test]
fn lines_that_are_written_again_and_again_stay_until_twice_as_many_are_dirty() {
    let (mut cache, mut now) = cache(Settings::default());
    let most = u64::from(cache.status().lines) / 10;
    for line in 0..4 * most {
        for _ in 0..3 {
            ask(&mut cache, &mut now, write(line * 3, 1)).unwrap();
        }
        let dirty = u64::from(cache.status().dirty);
        assert!(dirty <= 2 * most, "{dirty} after {line} lines");
    }
    assert!(u64::from(cache.status().dirty) > most, "they are not taken back before that");
}
