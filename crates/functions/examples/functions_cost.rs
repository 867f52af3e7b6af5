//! CPU time of NAT and inspection by packet, beside bare automata; with texts that are chosen to
//! cost much; memory of a million flows.
//!
//! `cargo run --release -p thermocline-functions --example functions_cost -- PART`, with a part of
//! nat, dpi, hard, figure, memory, files and told.

#![allow(clippy::print_stdout, clippy::disallowed_macros)]

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use regex_automata::Input;
use regex_automata::dfa::{Automaton as _, dense};
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use thermocline_functions::dpi::{self, Dpi, Limits, Ruleset};
use thermocline_functions::nat::{Nat, Scope, Settings};
use thermocline_functions::packet::build;
use thermocline_functions::{Event, Function, Output, Side, Verdict};
use thermocline_units::{Nanos, Rng};

const ROUNDS: usize = 5;
const PIECE: usize = 1460;

/// Bytes of text in one run. The kernel counts CPU time in steps of 4 ms.
const TEXT_BYTES: usize = 256_000_000;

/// CPU time of this thread, seconds.
fn cpu() -> f64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").expect("Linux has it");
    text.split_whitespace().next().expect("Linux has it").parse::<f64>().expect("a number") / 1e9
}

fn resident() -> f64 {
    let text = fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = text.lines().find(|line| line.starts_with("VmRSS")).expect("Linux has it");
    line.split_whitespace().nth(1).expect("Linux has it").parse::<f64>().expect("a number") / 1024.0
}

/// Median, least and greatest of several runs.
fn spread(mut run: impl FnMut() -> f64) -> String {
    let mut values: Vec<f64> = (0..ROUNDS).map(|_| run()).collect();
    values.sort_by(f64::total_cmp);
    format!("{:.2} ({:.2} to {:.2})", values[ROUNDS / 2], values[0], values[ROUNDS - 1])
}

fn host(flow: u32) -> IpAddr {
    Ipv4Addr::from_bits(0x0a00_0000 + flow / 16).into()
}

fn remote() -> (IpAddr, u16) {
    (IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1)), 443)
}

fn nat_with(flows: usize, addresses: u8) -> Nat {
    let external = (1..=addresses).map(|n| Ipv4Addr::new(203, 0, 113, n));
    let mut settings = Settings::new(external.collect());
    settings.flows_max = flows;
    settings.filtering = Scope::AddressAndPort;
    settings.log_mappings = false;
    Nat::new(settings).expect("settings, rules and literals that fit")
}

fn nat() {
    for (size, flows) in [(64, 64), (64, 100_000), (1460, 64), (1460, 100_000)] {
        let mut nat = nat_with(flows, 2);
        let packets: Vec<Vec<u8>> = (0..flows as u32)
            .map(|flow| {
                let inside = (host(flow), 1024 + (flow % 16) as u16 * 7);
                build::udp((inside, remote()), &vec![0; size - 28])
            })
            .collect();
        let headers: Vec<[u8; 28]> =
            packets.iter().map(|packet| packet[..28].try_into().expect("28 bytes")).collect();
        let mut buffers = packets;
        let mut output = Output::default();
        let count = 4_000_000 / flows.max(1000) * flows.max(1000);
        let rate = spread(|| {
            let start = cpu();
            for nth in 0..count {
                let flow = nth % flows;
                // The device has written the packet anew; what it wrote behind is unchanged.
                buffers[flow][..28].copy_from_slice(&headers[flow]);
                let now = Nanos(nth as u64);
                let verdict = nat.process(now, Side::Inside, &mut buffers[flow], &mut output);
                assert_eq!(verdict, Verdict::Changed);
            }
            count as f64 / (cpu() - start) / 1e6
        });
        println!("NAT, {size} B, {flows} flows: {rate} million packets a CPU second");
    }
}

/// Text of words that are drawn from a vocabulary, and literals that share their beginnings.
fn text_and_literals(count: usize, bytes: usize) -> (Vec<u8>, Vec<Vec<u8>>) {
    let mut rng = Rng::seeded(1);
    let mut word = || -> Vec<u8> {
        let length = 2 + rng.below(8);
        (0..length)
            .map(|_| b"etaoinshrdlucmfwypvbgkqjxz"[rng.below(26).min(rng.below(26)) as usize])
            .collect()
    };
    let words: Vec<Vec<u8>> = (0..4000).map(|_| word()).collect();
    let literals =
        (0..count).map(|nth| [&words[nth % 4000][..], &word(), &word(), b"#"].concat()).collect();
    let mut rng = Rng::seeded(2);
    let mut text = Vec::with_capacity(bytes + 16);
    while text.len() < bytes {
        text.extend(&words[rng.below(4000) as usize]);
        text.push(b' ');
    }
    text.truncate(bytes);
    (text, literals)
}

/// Literals of random letters, which the text hardly begins.
fn other_literals(count: usize) -> Vec<Vec<u8>> {
    let mut rng = Rng::seeded(3);
    let mut literal =
        || -> Vec<u8> { (0..8 + rng.below(9)).map(|_| b'a' + rng.below(26) as u8).collect() };
    (0..count).map(|_| literal()).collect()
}

fn dpi() {
    for (count, like_text) in
        [100, 1000, 5000].into_iter().flat_map(|count| [(count, true), (count, false)])
    {
        let (text, mut literals) = text_and_literals(count, TEXT_BYTES / PIECE * PIECE);
        if !like_text {
            literals = other_literals(count);
        }
        println!("literals that begin as words of the text: {like_text}");
        let gbit = text.len() as f64 * 8.0 / 1e9;
        let bare = AhoCorasick::builder()
            .kind(Some(AhoCorasickKind::DFA))
            .ascii_case_insensitive(true)
            .prefilter(false)
            .build(&literals)
            .expect("settings, rules and literals that fit");
        let mut found = 0;
        let bare_rate = spread(|| {
            let start = cpu();
            for piece in text.chunks(PIECE) {
                found += bare.find_overlapping_iter(piece).count();
            }
            gbit / (cpu() - start)
        });
        println!("bare DFA, {count} literals: {bare_rate} Gbit a CPU second, {found} found");
        let start = cpu();
        let rules = rules_of(&literals);
        let (states, memory) = rules.cost();
        let compiled = cpu() - start;
        println!("compiled in {compiled:.2} CPU s: {states} states, {memory} bytes");
        for verify in [true, false] {
            let (rate, found) = inspection(&rules, &text, verify);
            println!(
                "inspection, {count} rules, checksums verified: {verify}: {rate} Gbit a CPU \
                 second, {found} told"
            );
        }
    }
}

/// A rule for each literal.
fn rules_of(literals: &[Vec<u8>]) -> Arc<Ruleset> {
    let rules: String = (1..)
        .zip(literals)
        .map(|(sid, literal)| {
            let hex: Vec<String> = literal.iter().map(|byte| format!("{byte:02x}")).collect();
            let hex = hex.join(" ");
            format!("alert tcp any any -> any any (content:\"|{hex}|\"; sid:{sid};)\n")
        })
        .collect();
    Arc::new(Ruleset::compile("literals", &rules, Limits::default()).expect("literals that fit"))
}

/// Texts and literals that are hard to tell from matches, beside the same number of usual ones.
fn hard() {
    let literals = other_literals(1000);
    let (usual, _) = text_and_literals(1, TEXT_BYTES / 4 / PIECE * PIECE);
    let mut rng = Rng::seeded(4);
    // The last bytes of literals, five of each: nearly a match in every five bytes.
    let ends = std::iter::repeat_with(|| {
        let literal = &literals[rng.below(1000) as usize];
        &literal[literal.len() - 5..]
    });
    let ends: Vec<u8> = ends.flatten().copied().take(usual.len()).collect();
    // Every group of one literal is the same, and none is its end.
    let alike = vec![b'a'; usual.len()];
    let like_it = vec![b"aaaaaaaaaaaaaaab".to_vec()];
    // Whole literals but for the last byte.
    let mut rng = Rng::seeded(5);
    let beginnings = std::iter::repeat_with(|| {
        let literal = &literals[rng.below(1000) as usize];
        &literal[..literal.len() - 1]
    });
    let beginnings: Vec<u8> = beginnings.flatten().copied().take(usual.len()).collect();
    let mut rng = Rng::seeded(6);
    let short = || {
        let marks = b"{}[]()<>=;:&%$!?\r\n\0\x7f";
        (0..2 + rng.below(2)).map(|_| marks[rng.below(20) as usize]).collect::<Vec<u8>>()
    };
    let mut mixed: Vec<Vec<u8>> = std::iter::repeat_with(short).take(50).collect();
    mixed.extend_from_slice(&literals);
    mixed.sort_unstable();
    mixed.dedup();
    for (name, literals, text) in [
        ("usual text", &literals, &usual),
        ("ends of literals", &literals, &ends),
        ("beginnings of literals", &literals, &beginnings),
        ("one byte again and again, one literal", &like_it, &alike),
        ("usual text, 50 literals of 2 and 3 bytes beside", &mixed, &usual),
    ] {
        let (rate, found) = inspection(&rules_of(literals), text, true);
        println!("{name}: {rate} Gbit a CPU second, {found} told");
    }
}

/// Gbit a CPU second, and how many matches were told.
fn inspection(rules: &Arc<Ruleset>, text: &[u8], verify: bool) -> (String, usize) {
    let gbit = text.len() as f64 * 8.0 / 1e9;
    let mut found = 0;
    let rate = spread(|| {
        let settings = dpi::Settings { verify_checksums: verify, ..Default::default() };
        let mut dpi = Dpi::new(Arc::clone(rules), settings);
        let mut packets: Vec<Vec<u8>> = text
            .chunks(PIECE)
            .zip(0u32..)
            .map(|(piece, nth)| {
                let ends = ((host(nth % 64 * 16), 5000), remote());
                build::tcp(ends, 0x18, nth / 64 * PIECE as u32, piece)
            })
            .collect();
        let mut output = Output::default();
        let start = cpu();
        for packet in &mut packets {
            let verdict = dpi.process(Nanos(1), Side::Inside, packet, &mut output);
            assert_eq!(verdict, Verdict::Pass);
        }
        let rate = gbit / (cpu() - start);
        let is_match = |event: &&Event| matches!(event, Event::Matched { .. });
        found = output.events.iter().filter(is_match).count();
        rate
    });
    (rate, found)
}

/// Rules of literals like the text, every twentieth an expression of two of them with digits
/// between; and the same as expressions, one for each rule.
fn rules_of_figure(literals: &[Vec<u8>]) -> (String, Vec<String>) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("letters");
    let expressions: Vec<String> = literals
        .iter()
        .enumerate()
        .map(|(nth, literal)| match nth % 20 {
            0 => {
                let (first, second) = literal.split_at(literal.len() / 2);
                format!("{}[0-9]+{}", text(first), text(second))
            }
            _ => text(literal),
        })
        .collect();
    let rules = (1..).zip(&expressions).map(|(sid, expression)| {
        let option = match expression.contains('[') {
            true => format!("pcre:\"/{expression}/i\""),
            false => format!("content:\"{expression}\"; nocase"),
        };
        format!("alert tcp any any -> any any ({option}; sid:{sid};)\n")
    });
    (rules.collect(), expressions)
}

/// Figure 4.16 of Ge 2017: NAT and inspection, and inspection by one expression after the other.
/// Writes the text and the expressions into the current folder for another program.
fn figure() {
    nat();
    for count in [100, 1000] {
        let (text, literals) = text_and_literals(count, TEXT_BYTES / PIECE * PIECE);
        let (rules, expressions) = rules_of_figure(&literals);
        fs::write("text", &text).expect("a folder that can be written to");
        fs::write(format!("expressions-{count}"), expressions.join("\n"))
            .expect("a folder that can be written to");
        let rules = Ruleset::compile("figure", &rules, Limits::default());
        let rules = Arc::new(rules.expect("rules that fit"));
        let (rate, found) = inspection(&rules, &text, true);
        println!("DPI, {count} rules, inspection: {rate} Gbit a CPU second, {found} told");
        // A hundredth of the text: each rule goes over all of it.
        let text = &text[..text.len() / 100 / PIECE * PIECE];
        let one_each: Vec<_> = expressions.iter().map(|text| automaton_of(text)).collect();
        let mbit = text.len() as f64 * 8.0 / 1e6;
        let mut found = 0;
        let rate = spread(|| {
            let start = cpu();
            for piece in text.chunks(PIECE) {
                let finds = |dfa: &&Dense| {
                    let result = dfa.try_search_fwd(&Input::new(piece)).expect("no byte quits");
                    result.is_some()
                };
                found += one_each.iter().filter(finds).count();
            }
            mbit / (cpu() - start)
        });
        println!(
            "DPI, {count} rules, one after the other: {rate} Mbit a CPU second, {found} found"
        );
    }
}

type Dense = dense::DFA<Vec<u32>>;

/// The automaton of one expression without regard to case: an engine that backtracks is slower.
fn automaton_of(expression: &str) -> Dense {
    let syntax = regex_automata::util::syntax::Config::new();
    let syntax = syntax.unicode(false).utf8(false).case_insensitive(true);
    dense::Builder::new().syntax(syntax).build(expression).expect("an expression that fits")
}

fn memory() {
    const FLOWS: u32 = 1_000_000;
    let before = resident();
    let mut nat = nat_with(FLOWS as usize, 32);
    let mut output = Output::default();
    for flow in 0..FLOWS {
        let inside = IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + flow));
        let mut packet = build::udp(((inside, 5000), remote()), b"");
        let verdict = nat.process(Nanos(0), Side::Inside, &mut packet, &mut output);
        assert_eq!(verdict, Verdict::Changed);
    }
    let (mappings, ports, hosts) = nat.usage();
    let resident_mib = resident() - before;
    println!(
        "NAT: {} flows, {mappings} mappings, {ports} ports, {hosts} hosts: {resident_mib:.0} MiB \
         resident, {} reserved",
        nat.flows(),
        nat.memory()
    );
    drop(nat);
    let before = resident();
    let rules = "alert tcp any any -> any any (content:\"pattern\"; sid:1;)";
    let rules = Arc::new(
        Ruleset::compile("bench", rules, Limits::default())
            .expect("settings, rules and literals that fit"),
    );
    let settings = dpi::Settings { flows_max: FLOWS as usize, ..Default::default() };
    let mut dpi = Dpi::new(rules, settings);
    for flow in 0..FLOWS {
        let inside = IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + flow));
        let mut packet = build::tcp(((inside, 5000), remote()), 0x18, 1, b"patt");
        dpi.process(Nanos(0), Side::Inside, &mut packet, &mut output);
    }
    println!(
        "inspection: {} flows: {:.0} MiB resident, {} reserved",
        dpi.flows(),
        resident() - before,
        dpi.memory()
    );
}

/// Writes the text and the literals of `dpi` into the current folder, for other programs.
fn files() {
    for count in [100, 1000, 5000] {
        let (text, literals) = text_and_literals(count, TEXT_BYTES / PIECE * PIECE);
        fs::write("text", text).expect("a folder that can be written to");
        fs::write(format!("literals-{count}-true"), literals.join(&b"\n"[..]))
            .expect("settings, rules and literals that fit");
        let others = other_literals(count).join(&b"\n"[..]);
        fs::write(format!("literals-{count}-false"), others)
            .expect("a folder that can be written to");
    }
}

/// Reads a text and literals from the current folder, and prints which literal was told with which
/// piece of which of 64 streams, to be compared with another program.
fn told() {
    let text = fs::read("text").expect("a file `text`");
    let literals = fs::read("literals").expect("a file `literals`, one a line");
    let literals: Vec<Vec<u8>> =
        literals.split(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect();
    let rules = rules_of(&literals);
    let mut dpi = Dpi::new(rules, dpi::Settings::default());
    for (piece, nth) in text.chunks(PIECE).zip(0u32..) {
        let mut output = Output::default();
        let ends = ((host(nth % 64 * 16), 5000), remote());
        let mut packet = build::tcp(ends, 0x18, nth / 64 * PIECE as u32, piece);
        dpi.process(Nanos(1), Side::Inside, &mut packet, &mut output);
        for event in output.events {
            if let Event::Matched { sid, .. } = event {
                println!("{nth} {sid}");
            }
        }
    }
}

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("nat") => nat(),
        Some("dpi") => dpi(),
        Some("hard") => hard(),
        Some("figure") => figure(),
        Some("memory") => memory(),
        Some("files") => files(),
        Some("told") => told(),
        _ => println!("say nat, dpi, hard, figure, memory, files or told"),
    }
}
