//! Processor time of a tunnel's parts: a chunk, a byte, a fingerprint, a packet.
//!  `cargo run --release -p thermocline-tunnel --example costs -- FILE… [--repeat 7] [--fits]`
//! takes the files as one stream of 256 MiB at most; `--fits` stops after the first part.
//! 1. *Fit*: a · bytes + b · chunks for cutting, fingerprint, index and store, by content
//!    (rabin16, and the source's function) and by count, over the sizes; without compression.
//!    `source's` has the source's parts: MurmurHash3 of 128 bits and a Bloom filter (0.025 %).
//! 2. *Fingerprints* of chunks of 512 B to 8 KiB: ours, which is compared byte by byte with what
//!    was kept, and keyed BLAKE3, which need not be; every chunk is known already.
//! 3. *Packets* of 1,460 B through both ends in memory, each sent at once.
//!
//! Time is the thread's own (/proc/thread-self/schedstat), so other programs count little. Repeats
//! go round robin; told are median, least and greatest.

// A program that measures and reports, not a decision.
#![allow(clippy::print_stdout, clippy::disallowed_types, clippy::disallowed_macros)]

use std::collections::VecDeque;
use std::hint::black_box;
use thermocline_chunking::Chunking;
use thermocline_tunnel::{
    Cache, End, FlowEvent, FlowId, Name, Owner, Settings, Sharing, Store, Target,
};
use thermocline_units::{Bytes, Nanos};
use thermocline_wire::Role;
use twox_hash::XxHash3_64;

const BYTES_MAX: usize = 256 << 20;
const PACKET_BYTES: usize = 1460;

fn main() {
    let (mut bytes, mut repeats, mut only_fits) = (Vec::new(), 7, false);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--repeat" => {
                let text = arguments.next().expect("a number behind --repeat");
                repeats = text.parse().expect("a number behind --repeat");
            }
            "--fits" => only_fits = true,
            path => bytes.extend(std::fs::read(path).expect("a file that can be read")),
        }
        bytes.truncate(BYTES_MAX);
    }
    assert!(bytes.len() > 1 << 20, "give files of a MiB or more in all");
    assert_eq!(murmur3(b"The quick brown fox jumps over the lazy dog", 0), FOX, "murmur3 is wrong");
    println!("{} MiB, {repeats} repeats, processor time of one thread", bytes.len() >> 20);
    fits(&bytes, repeats);
    if only_fits {
        return;
    }
    fingerprints(&bytes, repeats);
    packets(&bytes, repeats);
}

/// Nanoseconds that this thread was on a processor.
fn spent() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    text.split(' ').next().and_then(|first| first.parse().ok()).expect("a number first")
}

fn timed(work: impl FnOnce()) -> f64 {
    let started = spent();
    work();
    spent() - started
}

/// Median, least and greatest.
fn spread(times: &mut [f64]) -> (f64, f64, f64) {
    times.sort_by(f64::total_cmp);
    (times[times.len() / 2], times[0], times[times.len() - 1])
}

fn cuts(bytes: &[u8], chunking: &str) -> Vec<u64> {
    let chunking: Chunking = chunking.parse().expect("a chunking");
    let mut cuts = Vec::new();
    chunking.chunker().push(bytes, &mut cuts);
    cuts
}

fn fits(bytes: &[u8], repeats: usize) {
    println!(
        "\n{:<14} {:>10} {:>8} {:>22}  CPU time, ns a byte",
        "", "size", "chunks", "median (least-greatest)"
    );
    for (kind, is_source) in [
        ("fixed", false),
        ("rabin16", false),
        ("gear", false),
        ("rabin-source", false),
        ("rabin-source", true),
    ] {
        let name = if is_source { "source's" } else { kind };
        let mut points = Vec::new();
        for size in ["128B", "512B", "2KiB", "8KiB", "32KiB"] {
            let chunking = format!("{kind}:{size}");
            let (mut times, mut chunks) = (Vec::new(), 0);
            for _ in 0..repeats {
                times.push(timed(|| {
                    chunks =
                        if is_source { as_source(bytes, &chunking) } else { ours(bytes, &chunking) }
                }));
            }
            let length = bytes.len() as f64;
            let (median, least, greatest) = spread(&mut times);
            points.push((chunks as f64 / length, median / length));
            println!(
                "{name:<14} {size:>10} {chunks:>8} {:>8.3} ({:.3}-{:.3})",
                median / length,
                least / length,
                greatest / length
            );
        }
        let (a, b) = line(&points);
        println!("{name}: {a:.2} ns a byte + {b:.0} ns a chunk");
    }
}

/// Least squares.
fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let above: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    let below: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    (y - above / below * x, above / below)
}

/// Cuts, looks up and keeps as the sending half does; how many chunks.
fn ours(bytes: &[u8], chunking: &str) -> usize {
    let cuts = cuts(bytes, chunking);
    let mut store = Store::new(Bytes::from_mib(128), 1);
    let mut start = 0;
    for (number, &cut) in cuts.iter().enumerate() {
        let chunk = &bytes[start..cut as usize];
        start = cut as usize;
        let fingerprint = XxHash3_64::oneshot_with_seed(7, chunk);
        if store.find(fingerprint, chunk).is_none() {
            store.insert(Name { owner: Owner::Us, number: number as u64 }, fingerprint, chunk);
        }
    }
    cuts.len()
}

/// The same with the source's parts: MurmurHash3 and a Bloom filter in place of fingerprint and
/// comparison. What the receiver keeps is not counted.
fn as_source(bytes: &[u8], chunking: &str) -> usize {
    let cuts = cuts(bytes, chunking);
    let mut filter = Bloom::new(cuts.len());
    let (mut start, mut found) = (0, 0);
    for &cut in &cuts {
        let fingerprint = murmur3(&bytes[start..cut as usize], 7);
        start = cut as usize;
        found += usize::from(filter.add(fingerprint));
    }
    black_box(found);
    cuts.len()
}

/// A Bloom filter with 0.025 % of wrong hits: 17.3 bits an entry, 12 probes.
struct Bloom {
    words: Vec<u64>,
}

impl Bloom {
    fn new(entries: usize) -> Bloom {
        Bloom { words: vec![0; (entries * 173).div_ceil(640).max(1)] }
    }

    /// Adds an entry; true if it was (or seems to have been) there.
    fn add(&mut self, (first, second): (u64, u64)) -> bool {
        let bits = self.words.len() as u128 * 64;
        let mut was_there = true;
        for probe in 0..12_u64 {
            let hash = first.wrapping_add(probe.wrapping_mul(second | 1));
            let at = ((u128::from(hash) * bits) >> 64) as usize;
            let bit = 1 << (at % 64);
            was_there &= self.words[at / 64] & bit != 0;
            self.words[at / 64] |= bit;
        }
        was_there
    }
}

const FOX: (u64, u64) = (0xe34b_bc7b_bc07_1b6c, 0x7a43_3ca9_c49a_9347);

/// MurmurHash3, the variant of 128 bits for 64-bit processors (Appleby, 2011).
fn murmur3(bytes: &[u8], seed: u64) -> (u64, u64) {
    const C1: u64 = 0x87c3_7b91_1142_53d5;
    const C2: u64 = 0x4cf5_ad43_2745_937f;
    let first = |word: u64| word.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2);
    let second = |word: u64| word.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1);
    let word = |part: &[u8]| {
        let mut word = [0; 8];
        word[..part.len()].copy_from_slice(part);
        u64::from_le_bytes(word)
    };
    let (mut a, mut b) = (seed, seed);
    let mut blocks = bytes.chunks_exact(16);
    for block in &mut blocks {
        a ^= first(word(&block[..8]));
        a = a.rotate_left(27).wrapping_add(b).wrapping_mul(5).wrapping_add(0x52dc_e729);
        b ^= second(word(&block[8..]));
        b = b.rotate_left(31).wrapping_add(a).wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }
    let rest = blocks.remainder();
    if rest.len() > 8 {
        b ^= second(word(&rest[8..]));
    }
    if !rest.is_empty() {
        a ^= first(word(&rest[..rest.len().min(8)]));
    }
    a ^= bytes.len() as u64;
    b ^= bytes.len() as u64;
    a = a.wrapping_add(b);
    b = b.wrapping_add(a);
    let mix = |word: u64| {
        let word = (word ^ (word >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        let word = (word ^ (word >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        word ^ (word >> 33)
    };
    a = mix(a);
    b = mix(b);
    a = a.wrapping_add(b);
    (a, b.wrapping_add(a))
}

fn fingerprints(bytes: &[u8], repeats: usize) {
    println!("\nfingerprints, CPU seconds a GB: median (least-greatest)");
    let key = [7; 32];
    for size in [512, 1024, 2048, 8192] {
        let mut store = Store::new(Bytes(bytes.len() as u64 + (1 << 20)), 1);
        for (number, chunk) in bytes.chunks(size).enumerate() {
            let fingerprint = XxHash3_64::oneshot_with_seed(7, chunk);
            store.insert(Name { owner: Owner::Us, number: number as u64 }, fingerprint, chunk);
        }
        type Work<'a> = Box<dyn FnMut() + 'a>;
        let mut works: Vec<(&str, Work<'_>)> = vec![
            (
                "xxh3 alone",
                Box::new(|| {
                    bytes.chunks(size).for_each(|chunk| {
                        black_box(XxHash3_64::oneshot_with_seed(7, chunk));
                    });
                }),
            ),
            (
                "murmur3",
                Box::new(|| {
                    bytes.chunks(size).for_each(|chunk| {
                        black_box(murmur3(chunk, 7));
                    });
                }),
            ),
            (
                "keyed BLAKE3",
                Box::new(|| {
                    bytes.chunks(size).for_each(|chunk| {
                        black_box(blake3::keyed_hash(&key, chunk));
                    });
                }),
            ),
            (
                "xxh3, index, comparison",
                Box::new(|| {
                    bytes.chunks(size).for_each(|chunk| {
                        let fingerprint = XxHash3_64::oneshot_with_seed(7, chunk);
                        black_box(store.find(fingerprint, chunk));
                    });
                }),
            ),
        ];
        let mut times = vec![Vec::new(); works.len()];
        for _ in 0..repeats {
            for ((_, work), times) in works.iter_mut().zip(&mut times) {
                times.push(timed(work) / bytes.len() as f64);
            }
        }
        for ((name, _), times) in works.iter().zip(&mut times) {
            let (median, least, greatest) = spread(times);
            println!("{size:>6} B  {name:<24} {median:.3} ({least:.3}-{greatest:.3})");
        }
    }
}

/// Two ends in memory, and a flow from one to the other.
struct Tunnel {
    ends: [End; 2],
    flow: FlowId,
}

impl Tunnel {
    fn new(controller: &str) -> Tunnel {
        let end = |role, run: u8| {
            let settings =
                Settings { controller: controller.to_string(), ..Settings::new(role, 1) };
            let cache = Cache::new(Bytes::from_mib(128), [run; 16], 1);
            End::new(settings, cache, Box::new(|| Nanos(0)), Nanos(0)).expect("settings that fit")
        };
        let mut ends = [end(Role::Connector, 1), end(Role::Acceptor, 2)];
        while !std::iter::from_fn(|| ends[0].next_event()).any(|event| event == FlowEvent::Ready) {
            carry(&mut ends);
        }
        let target = Target { address: "a:1".to_string(), class: 1, sharing: Sharing::All };
        let flow = ends[0].open(Nanos(0), &target).expect("the other end is there");
        Tunnel { ends, flow }
    }

    /// Sends a packet and waits until the other client has it.
    fn send(&mut self, packet: &[u8]) {
        self.ends[0].give(Nanos(0), self.flow, packet);
        self.ends[0].flush(Nanos(0), self.flow);
        let mut got = 0;
        while got < packet.len() {
            carry(&mut self.ends);
            while let Some(event) = self.ends[1].next_event() {
                if let FlowEvent::Bytes { flow, bytes } = event {
                    got += bytes.len();
                    self.ends[1].taken(Nanos(0), flow, bytes.len()).expect("both keep the rules");
                }
            }
        }
        carry(&mut self.ends);
    }
}

fn carry(ends: &mut [End; 2]) {
    for (from, to) in [(0, 1), (1, 0)] {
        let mut out = VecDeque::new();
        ends[from].transmit(Nanos(0), &mut out, 1 << 20);
        for bytes in out {
            ends[to].receive(Nanos(0), &bytes).expect("both keep the rules");
        }
    }
}

fn packets(bytes: &[u8], repeats: usize) {
    println!(
        "\npackets of {PACKET_BYTES} B through both ends, microseconds each: median, 99th percentile, greatest"
    );
    let bytes = &bytes[..bytes.len().min(30_000 * PACKET_BYTES)];
    for controller in ["none", "content:size=512B", "content:size=2KiB", "goodput"] {
        let mut times = Vec::new();
        for _ in 0..repeats {
            let mut tunnel = Tunnel::new(controller);
            for packet in bytes.chunks(PACKET_BYTES) {
                let started = std::time::Instant::now();
                tunnel.send(packet);
                times.push(started.elapsed().as_nanos() as f64 / 1e3);
            }
        }
        times.sort_by(f64::total_cmp);
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
        println!("{controller:<20} {:>8.1} {:>8.1} {:>8.1}", at(0.5), at(0.99), at(1.0));
    }
}
