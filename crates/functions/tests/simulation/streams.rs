//! Inspected streams with gaps, repetitions, contradictions and packets that no receiver takes,
//! that move between instances.
//!
//! The rules are fixed and so is a search by hand for each of them, over the bytes that a receiver
//! would have.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, OnceLock};
use thermocline_functions::dpi::{Dpi, Limits, Ruleset, Settings};
use thermocline_functions::packet::build;
use thermocline_functions::{Event, Function, Output, Part, Reason, Side, Verdict};
use thermocline_units::{Bytes, Nanos, Rng};

const RULES: &str = "\
drop tcp any any -> any any (content:\"aBc\"; sid:1;)
alert tcp any any -> any any (content:\"ab\"; content:\"cd\"; distance:3; sid:2;)
pass tcp any any -> any any (content:\"xyz\"; nocase; sid:3;)
alert tcp any any -> any any (content:\"c\"; content:\"da\"; sid:4;)
alert tcp any any -> any any (content:\"d\"; content:\"ya\"; sid:5;)
alert tcp any any -> any any (pcre:\"/b[cd]+a/\"; sid:6;)
drop tcp any any -> any any (content:\"zxyzq\"; sid:7;)
drop tcp any any -> any any (content:\"xyz\"; sid:8;)
alert tcp any any -> any any (content:\"mnop--ponm\"; sid:9;)
alert tcp any any -> any any (pcre:\"/ponm[.-]*mnop/\"; sid:10;)
";

/// The content of rule 9, which letters that are drawn do not make by chance.
const LONG: &[u8] = b"mnop--ponm";

/// End of the first match of each rule in a stream, by hand; 0 where there is none.
fn ends(stream: &[u8]) -> [usize; 10] {
    let find = |word: &[u8], from: usize, nocase: bool| -> usize {
        let same =
            |part: &[u8]| if nocase { part.eq_ignore_ascii_case(word) } else { part == word };
        let mut starts = from..(stream.len() + 1).saturating_sub(word.len());
        starts.find(|&at| same(&stream[at..at + word.len()])).map_or(0, |at| at + word.len())
    };
    let both = |a: usize, b: usize| if a == 0 || b == 0 { 0 } else { a.max(b) };
    let ab = find(b"ab", 0, false);
    let run = (0..stream.len()).filter(|&at| stream[at] == b'b').filter_map(|at| {
        let end = at + 1 + stream[at + 1..].iter().take_while(|b| b"cd".contains(b)).count();
        (end > at + 1 && stream.get(end) == Some(&b'a')).then_some(end + 1)
    });
    let run = run.min().unwrap_or(0);
    // End of the first match of two words with nothing but dots and dashes between them.
    let between = |first: &[u8], second: &[u8]| -> usize {
        let starts = (0..stream.len()).filter(|&at| stream[at..].starts_with(first));
        let ends = starts.filter_map(|at| {
            let behind = at + first.len();
            let gap = stream[behind..].iter().take_while(|byte| b".-".contains(byte)).count();
            let is_match = stream[behind + gap..].starts_with(second);
            is_match.then_some(behind + gap + second.len())
        });
        ends.min().unwrap_or(0)
    };
    [
        find(b"aBc", 0, false),
        if ab == 0 { 0 } else { find(b"cd", ab + 3, false) },
        find(b"xyz", 0, true),
        both(find(b"c", 0, false), find(b"da", 0, false)),
        both(find(b"d", 0, false), find(b"ya", 0, false)),
        run,
        find(b"zxyzq", 0, false),
        find(b"xyz", 0, false),
        find(LONG, 0, false),
        between(b"ponm", b"mnop"),
    ]
}

/// Rules that must have been told after so much of a stream, and the decision: 1 pass, 2 drop.
fn expected(stream: &[u8]) -> (BTreeSet<u32>, u8) {
    let ends = ends(stream);
    let first = |sids: &[usize]| sids.iter().map(|sid| ends[sid - 1]).filter(|&end| end > 0).min();
    let (pass, drop) = (first(&[3]), first(&[1, 7, 8]));
    let never = usize::MAX;
    let decision = match (pass.unwrap_or(never), drop.unwrap_or(never)) {
        (usize::MAX, usize::MAX) => 0,
        (pass, drop) => 1 + u8::from(drop < pass),
    };
    let last = match decision {
        1 => pass.unwrap_or(0) - 1,
        2 => drop.unwrap_or(0),
        _ => never,
    };
    let told = (1..=10).filter(|sid| *sid != 3 && (1..=last).contains(&ends[sid - 1]));
    (told.map(|sid| sid as u32).collect(), decision)
}

/// Source and destination: address and port.
type Ends = ((IpAddr, u16), (IpAddr, u16));

struct Streams {
    rng: Rng,
    rules: Arc<Ruleset>,
    settings: Settings,
    dpi: Dpi,
}

pub(crate) fn run(seed: u64) {
    let mut rng = Rng::seeded(seed ^ 0x5eed);
    static COMPILED: OnceLock<Arc<Ruleset>> = OnceLock::new();
    let rules = COMPILED
        .get_or_init(|| Arc::new(Ruleset::compile("rules", RULES, Limits::default()).unwrap()));
    let rules = Arc::clone(rules);
    let settings = Settings {
        flows_max: 3,
        direction_memory: Bytes(2048),
        seed: rng.next_u64(),
        ..Settings::default()
    };
    let dpi = Dpi::new(Arc::clone(&rules), settings.clone());
    let mut streams = Streams { rng, rules, settings, dpi };
    for port in 0..4 {
        streams.stream(1000 + port);
    }
    let mut output = Output::default();
    streams.dpi.expire(Nanos::from_secs(100_000), &mut output);
    assert_eq!((streams.dpi.flows(), streams.dpi.next_deadline()), (0, None));
}

impl Streams {
    /// Letters that make matches by chance; in some streams there is the content of rule 9, or
    /// stretches without any letter of a rule.
    fn bytes(&mut self) -> Vec<u8> {
        let letters = b"aabbccddxyzBXq";
        let plain = self.rng.below(60);
        let mut bytes: Vec<u8> = Vec::new();
        let kind = self.rng.below(3);
        for _ in 0..plain {
            match self.rng.below(12) {
                0 if kind == 1 => bytes.extend(LONG),
                0 if kind == 2 => bytes.extend(vec![b'-'; self.rng.below(40) as usize]),
                1 if kind == 2 => bytes.extend(&LONG[..1 + self.rng.below(10) as usize]),
                _ if kind == 2 => bytes.push(b'.'),
                _ => bytes.push(letters[self.rng.below(14) as usize]),
            }
        }
        bytes
    }

    /// One stream, in pieces.
    fn stream(&mut self, port: u16) {
        let end = |n, port| (IpAddr::V4(Ipv4Addr::new(10, 0, 0, n)), port);
        let ends = (end(2, port), end(3, 80));
        let bytes = self.bytes();
        let length = bytes.len();
        let longest = [9, 9, 80][self.rng.below(3) as usize];
        let first = self.rng.next_u64() as u32;
        let mut received = vec![false; length];
        let (mut told, mut decision) = (BTreeSet::new(), 0);
        // Every packet acknowledges all before number 1.
        let answers = 1;
        // One of two is answered: open connections do not give way, and there is room for three.
        let is_answered = port % 2 == 1;
        self.open(ends, first, answers, is_answered);
        let (mut has_moved, mut has_ended) = (false, false);
        for _ in 0..200 {
            let Some(missing) = received.iter().position(|got| !got) else { break };
            if decision == 0 && is_answered && self.rng.below(4) == 0 {
                self.refused_by_all(ends, (first, missing as u32), has_moved);
            }
            if decision == 0 && !has_ended && self.rng.below(8) == 0 {
                let end = first.wrapping_add(length as u32);
                assert_eq!(self.send(build::tcp(ends, 0x11, end, b"")).0, Verdict::Pass);
                has_ended = true;
            }
            let ahead = [0, 0, 0, self.rng.below(12)][self.rng.below(4) as usize] as usize;
            let back = self.rng.below(4) as usize;
            let start = (missing + ahead).saturating_sub(back).min(length - 1);
            let stop = (start + 1 + self.rng.below(longest) as usize).min(length);
            let mut piece = bytes[start..stop].to_vec();
            // Sometimes a segment contradicts bytes that are buffered ahead of the gap.
            let buffered = (missing.max(start)..stop).find(|&at| received[at]);
            let lies = buffered.filter(|_| decision == 0 && self.rng.below(3) == 0);
            if let Some(at) = lies {
                piece[at - start] ^= 1;
            }
            let sequence = first.wrapping_add(start as u32);
            let (verdict, new) = self.send(build::tcp(ends, 0x18, sequence, &piece));
            told.extend(new);
            if lies.is_some() {
                assert_eq!(verdict, Verdict::Dropped(Reason::Conflict));
                continue;
            }
            received[start..stop].fill(true);
            let prefix = received.iter().position(|got| !got).unwrap_or(length);
            let expected = expected(&bytes[..prefix]);
            decision = expected.1;
            assert_eq!(told, expected.0, "{:?}", std::str::from_utf8(&bytes[..prefix]));
            let dropped = verdict == Verdict::Dropped(Reason::Rule);
            assert_eq!(dropped, decision == 2, "{verdict:?}");
            if decision == 2 {
                break;
            }
            let is_whole = received.iter().take_while(|got| **got).count()
                == received.iter().filter(|got| **got).count();
            if self.rng.below(6) == 0 {
                let restarted = self.move_flows();
                (has_moved, has_ended) = (true, false);
                assert!(is_whole || decision == 1 || restarted, "buffers moved");
                if restarted {
                    // Inspection begins anew at the next byte: not a stream to compare any more.
                    return;
                }
            }
        }
        if has_ended && decision == 0 && received.iter().all(|got| *got) {
            self.next_connection(ends, (answers, first.wrapping_add(length as u32)));
        }
    }

    /// A handshake, and sometimes what came before it and never arrived.
    fn open(&mut self, ends: Ends, first: u32, answers: u32, is_answered: bool) {
        if self.rng.below(3) == 0 {
            let flags = [0, 0x10, 0x11, 2][self.rng.below(4) as usize];
            let payload: &[u8] = if flags == 0x10 && self.rng.below(2) == 0 { b"..." } else { b"" };
            let anywhere = self.rng.next_u64() as u32;
            assert_eq!(self.send(build::tcp(ends, flags, anywhere, payload)).0, Verdict::Pass);
        }
        let back = (ends.1, ends.0);
        let syn = build::tcp(ends, 2, first.wrapping_sub(1), b"");
        if self.rng.below(4) == 0 {
            let bytes = build::tcp(ends, 2, first.wrapping_sub(1), b"...");
            assert_eq!(self.send(bytes).0, Verdict::Dropped(Reason::Refused));
        }
        assert_eq!(self.send(syn).0, Verdict::Pass);
        if !is_answered {
            return;
        }
        // A server that has not answered yet takes no bytes.
        if self.rng.below(3) == 0 {
            let at = first.wrapping_add(self.rng.below(3) as u32);
            assert_eq!(self.send(build::tcp(ends, 0x18, at, b"...")).0, Verdict::Pass);
        }
        let packets = [
            build::tcp_answer(back, 0x12, (answers.wrapping_sub(1), first), b""),
            build::tcp(ends, 0x10, first, b""),
            build::tcp_answer(back, 0x10, (answers, first), b""),
        ];
        for packet in packets {
            assert_eq!(self.send(packet).0, Verdict::Pass);
        }
    }

    /// A packet that no receiver takes bytes of, where the first `missing` bytes have come.
    fn refused_by_all(&mut self, ends: Ends, (first, missing): (u32, u32), has_moved: bool) {
        let next = first.wrapping_add(missing);
        let refused = Verdict::Dropped(Reason::Refused);
        let (packet, expected) = match self.rng.below(6) {
            0 => (build::tcp(ends, 0, next, b"..."), Verdict::Dropped(Reason::Malformed)),
            1 => (build::tcp(ends, 2, next.wrapping_sub(1), b"..."), refused),
            3 if !has_moved => {
                let never_sent = 2 + self.rng.below(1 << 31) as u32;
                (build::tcp_answer(ends, 0x18, (next, never_sent), b"..."), refused)
            }
            4 => (build::tcp(ends, 0x38, next, b"..."), refused),
            2 if !has_moved => {
                let bytes = build::tcp(ends, 0x10, first.wrapping_sub(4), b"....");
                (bytes, Verdict::Dropped(Reason::Reorder))
            }
            _ => {
                let anywhere = self.rng.next_u64() as u32;
                (build::tcp(ends, 2, anywhere, b""), Verdict::Pass)
            }
        };
        assert_eq!(self.send(packet).0, expected);
    }

    /// Both streams have ended: the next connection on the same ports is inspected.
    fn next_connection(&mut self, ends: Ends, (answers, upto): (u32, u32)) {
        let back = build::tcp_answer((ends.1, ends.0), 0x11, (answers, upto), b"");
        assert_eq!(self.send(back).0, Verdict::Pass);
        let first = self.rng.next_u64() as u32;
        let open = build::tcp(ends, 2, first.wrapping_sub(1), b"");
        assert_eq!(self.send(open).0, Verdict::Pass);
        let (verdict, told) = self.send(build::tcp(ends, 0x18, first, b"aBc"));
        assert_eq!((verdict, told), (Verdict::Dropped(Reason::Rule), vec![1]));
    }

    fn send(&mut self, mut bytes: Vec<u8>) -> (Verdict, Vec<u32>) {
        let (mut output, before) = (Output::default(), bytes.clone());
        let verdict = self.dpi.process(Nanos(1), Side::Inside, &mut bytes, &mut output);
        assert_eq!(bytes, before, "inspection changes nothing");
        let sids = output.events.into_iter().filter_map(|event| match event {
            Event::Matched { sid, .. } => Some(sid),
            _ => None,
        });
        (verdict, sids.collect())
    }

    /// True if a flow begins anew.
    fn move_flows(&mut self) -> bool {
        let mut state = Vec::new();
        self.dpi.export(Nanos(1), Part::All, &mut state);
        self.dpi = Dpi::new(Arc::clone(&self.rules), self.settings.clone());
        let at = self.rng.below(state.len() as u64) as usize;
        let mut damaged = state.clone();
        damaged[at] ^= 1 << self.rng.below(8);
        assert!(self.dpi.import(Nanos(1), &damaged).is_err());
        assert_eq!(self.dpi.flows(), 0);
        self.dpi.import(Nanos(1), &state).unwrap().restarted > 0
    }
}
