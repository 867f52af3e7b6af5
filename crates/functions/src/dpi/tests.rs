//! Verdicts beside a plain search over whole streams, for rules and segmentations that are drawn;
//! and the rules' language.

use super::*;
use crate::packet::build;
use proptest::prelude::*;
use std::collections::BTreeSet;

mod plain;
mod refused;

const CLIENT: (IpAddr, u16) = (IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2)), 40_000);
const SERVER: (IpAddr, u16) = (IpAddr::V4(std::net::Ipv4Addr::new(198, 51, 100, 1)), 80);

fn rules(text: &str) -> Arc<Ruleset> {
    Arc::new(Ruleset::compile("test.rules", text, Limits::default()).unwrap())
}

fn dpi(text: &str) -> Dpi {
    let settings = Settings { flows_max: 16, ..Settings::default() };
    Dpi::new(rules(text), settings)
}

fn refusal(text: &str) -> String {
    Ruleset::compile("test.rules", text, Limits::default()).unwrap_err().to_string()
}

/// Sends a packet; gives the verdict and the rules that were told.
fn send(dpi: &mut Dpi, mut bytes: Vec<u8>) -> (Verdict, Vec<u32>) {
    let mut output = Output::default();
    let verdict = dpi.process(Nanos(0), Side::Inside, &mut bytes, &mut output);
    let sid = |event: Event| match event {
        Event::Matched { sid, .. } => sid,
        other => panic!("{other:?}"),
    };
    (verdict, output.events.into_iter().map(sid).collect())
}

fn segment(sequence: u32, payload: &[u8]) -> Vec<u8> {
    build::tcp((CLIENT, SERVER), 0x18, sequence, payload)
}

/// Result of a stream: the rules that were told, and the decision about the flow.
type Result2 = (BTreeSet<u32>, Option<Action>);

/// Sends a stream in pieces `(start, end)`, in that order, behind a SYN.
fn stream(dpi: &mut Dpi, bytes: &[u8], pieces: &[(usize, usize)]) -> Result2 {
    let first = 0xffff_fff0_u32;
    let (verdict, mut told) =
        send(dpi, build::tcp((CLIENT, SERVER), 2, first.wrapping_sub(1), b""));
    assert_eq!((verdict, told.len()), (Verdict::Pass, 0));
    let mut decision = None;
    for &(start, end) in pieces {
        let sequence = first.wrapping_add(start as u32);
        let (verdict, new) = send(dpi, segment(sequence, &bytes[start..end]));
        told.extend(new);
        match verdict {
            Verdict::Pass => assert_ne!(decision, Some(Action::Drop), "a dropped flow goes on"),
            Verdict::Dropped(Reason::Rule) => decision = Some(Action::Drop),
            other => panic!("{other:?}"),
        }
    }
    let passed = dpi.flows[dpi.queues.first(0).unwrap()].has(bit::PASSED);
    (told.into_iter().collect(), decision.or(passed.then_some(Action::Pass)))
}

/// Pieces that cover a stream, overlap, repeat and come in any order but the last byte's.
fn pieces(length: usize, cuts: &[(usize, usize)], shuffle: u64) -> Vec<(usize, usize)> {
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.0 % (length + 1)).collect();
    ends.extend([0, length]);
    ends.sort_unstable();
    let mut pieces: Vec<(usize, usize)> = ends.windows(2).map(|pair| (pair[0], pair[1])).collect();
    for cut in cuts.iter().filter(|cut| cut.1 % 3 == 0) {
        let start = cut.0 % (length + 1);
        pieces.push((start, (start + cut.1 % 40).min(length)));
    }
    thermocline_units::Rng::seeded(shuffle).shuffle(&mut pieces);
    pieces
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    /// The oldest evasion is a pattern that is cut in two.
    #[test]
    fn verdicts_are_those_of_a_plain_search_over_the_stream(
        drawn in prop::collection::vec(plain::rule(), 1..6),
        bytes in prop::collection::vec(prop::sample::select(&b"abABxy"[..]), 0..120),
        cuts in prop::collection::vec((any::<u16>().prop_map(usize::from), 0..100usize), 0..12),
        seed: u64,
    ) {
        let text: String =
            (1..).zip(&drawn).map(|(sid, rule)| rule.text(sid) + "\n").collect();
        // Three nearnesses in a row may need too many states; proptest bounds how often.
        prop_assume!(Ruleset::compile("f", &text, Limits::default()).is_ok());
        let expected = plain::verdict(&drawn, &bytes);
        let result = stream(&mut dpi(&text), &bytes, &pieces(bytes.len(), &cuts, seed));
        prop_assert_eq!(result, expected, "{}", text);
    }

    #[test]
    fn any_text_is_compiled_or_refused(text in "[a-z|\"();:!\\[\\]$,>< \\\\0-9\n/.*]{0,200}") {
        let options = format!("alert tcp any any -> any any (sid:1; {text})");
        for text in [text, options] {
            if let Err(error) = Ruleset::compile("f", &text, Limits::default()) {
                prop_assert!(error.line >= 1 && error.line <= text.lines().count().max(1));
            }
        }
    }
}

#[test]
fn a_flow_moves_in_the_middle_of_a_pattern() {
    let text =
        "drop tcp any any -> any any (content:\"SECRET\"; content:\"end\"; distance:2; sid:7;)";
    let bytes = b"..SECRET.endSECRET..end";
    for cut in 0..bytes.len() {
        let mut before = dpi(text);
        let (verdict, _) = send(&mut before, segment(0, &bytes[..cut]));
        assert_eq!(verdict, Verdict::Pass);
        let mut state = Vec::new();
        before.export(Nanos(0), Part::All, &mut state);
        let mut after = dpi(text);
        assert_eq!(after.import(Nanos(9), &state), Ok(Imported { flows: 1, restarted: 0 }));
        let (verdict, told) = send(&mut after, segment(cut as u32, &bytes[cut..]));
        assert_eq!((verdict, told), (Verdict::Dropped(Reason::Rule), vec![7]), "cut at {cut}");
        let mut other = dpi("drop tcp any any -> any any (content:\"SECRET\"; sid:7;)");
        assert_eq!(other.import(Nanos(9), &state), Ok(Imported { flows: 1, restarted: 1 }));
        for at in 0..state.len() {
            let mut flipped = state.clone();
            flipped[at] ^= 1 << (at % 8);
            assert!(dpi(text).import(Nanos(9), &flipped).is_err());
        }
    }
}

/// Sends bytes of the client's stream in segments; the verdict of each must be `Pass`.
fn all_pass(dpi: &mut Dpi, bytes: std::ops::Range<u32>) {
    for at in bytes.clone().step_by(1000) {
        let length = (bytes.end - at).min(1000) as usize;
        assert_eq!(send(dpi, segment(at, &vec![b'.'; length])).0, Verdict::Pass, "byte {at}");
    }
}

fn acknowledge(dpi: &mut Dpi, upto: u32) -> (Verdict, Vec<u32>) {
    send(dpi, answer(0x10, 1, upto))
}

/// A segment of the server without bytes, which acknowledges all before a number.
fn answer(flags: u8, sequence: u32, upto: u32) -> Vec<u8> {
    build::tcp_answer((SERVER, CLIENT), flags, (sequence, upto), b"")
}

/// An inspection that has seen a handshake; the client's bytes begin at 100.
fn open_connection(text: &str) -> Dpi {
    let mut dpi = dpi(text);
    send(&mut dpi, build::tcp((CLIENT, SERVER), 2, 99, b""));
    send(&mut dpi, answer(0x12, 0, 100));
    assert_eq!(send(&mut dpi, segment(100, b"")).0, Verdict::Pass);
    assert_eq!(send(&mut dpi, answer(0x10, 1, 100)).0, Verdict::Pass);
    dpi
}

fn moved(before: &Dpi, text: &str) -> Dpi {
    let (mut state, mut after) = (Vec::new(), dpi(text));
    before.export(Nanos(0), Part::All, &mut state);
    after.import(Nanos(0), &state).unwrap();
    after
}

const EVIL: &str = "drop tcp any any -> any any (content:\"evil\"; sid:1;)";

/// A packet was lost, and its flow moved. What had passed behind the gap never came again, and all
/// later bytes waited for it: a download of 200 MB stalled.
#[test]
fn a_flow_that_moves_with_a_gap_goes_on_behind_it() {
    let mut before = dpi(EVIL);
    send(&mut before, build::tcp((CLIENT, SERVER), 2, u32::MAX, b""));
    all_pass(&mut before, 0..100);
    all_pass(&mut before, 200..300);
    let mut after = moved(&before, EVIL);
    all_pass(&mut after, 100..200);
    assert_eq!(acknowledge(&mut after, 300), (Verdict::Pass, vec![]));
    all_pass(&mut after, 300..1_000_300);
    assert_eq!(after.reorder.memory(), 0);
    assert_eq!(send(&mut after, segment(1_000_300, b"evil")).0, Verdict::Dropped(Reason::Rule));
}

/// Frames passed by the old place while the flow moved, and the new one waited for them for ever.
#[test]
fn bytes_that_a_receiver_has_are_not_waited_for_after_a_move() {
    let mut before = dpi(EVIL);
    send(&mut before, build::tcp((CLIENT, SERVER), 2, u32::MAX, b""));
    all_pass(&mut before, 0..100);
    let mut after = moved(&before, EVIL);
    all_pass(&mut after, 300..400);
    all_pass(&mut after, 500..600);
    assert_eq!(acknowledge(&mut after, 600), (Verdict::Pass, vec![]));
    all_pass(&mut after, 600..1_000_600);
    assert_eq!(after.reorder.memory(), 0);
    // What was kept is inspected when it is taken, and its flow is dropped.
    assert_eq!(send(&mut after, segment(1_000_700, b"evil")).0, Verdict::Pass);
    assert_eq!(acknowledge(&mut after, 1_000_704), (Verdict::Dropped(Reason::Rule), vec![1]));
}

/// The first segment that was seen filled a gap, and what was behind the gap had passed before.
#[test]
fn a_flow_that_is_first_seen_by_a_retransmission_goes_on() {
    let mut dpi = dpi(EVIL);
    all_pass(&mut dpi, 100..200);
    assert_eq!(acknowledge(&mut dpi, 300), (Verdict::Pass, vec![]));
    all_pass(&mut dpi, 300..1_000_300);
    assert_eq!(dpi.reorder.memory(), 0);
}

#[test]
fn a_forged_acknowledgement_hides_nothing_of_a_flow_that_was_seen_whole() {
    let mut dpi = dpi(EVIL);
    send(&mut dpi, build::tcp((CLIENT, SERVER), 2, u32::MAX, b""));
    send(&mut dpi, answer(0x12, 0, 0));
    all_pass(&mut dpi, 0..100);
    assert_eq!(acknowledge(&mut dpi, 500), (Verdict::Pass, vec![]));
    assert_eq!(send(&mut dpi, segment(100, b"evil")).0, Verdict::Dropped(Reason::Rule));
}

/// A packet that nobody takes came before the handshake, and set the place where bytes were
/// expected so far ahead that all of the connection counted as inspected.
#[test]
fn nothing_that_came_before_a_handshake_hides_its_bytes() {
    for (flags, sequence, payload) in [
        (0x10, 100 + (1 << 30), &b""[..]),
        (0, 100 + (1 << 30), b""),
        (0x10, 100 + (1 << 30), b"........"),
        (2, 100 + (1 << 30), b""),
        (0x11, 50, b""),
    ] {
        let mut dpi = dpi(EVIL);
        send(&mut dpi, build::tcp((CLIENT, SERVER), flags, sequence, payload));
        send(&mut dpi, build::tcp((CLIENT, SERVER), 2, 99, b""));
        send(&mut dpi, answer(0x12, 0, 100));
        let verdict = send(&mut dpi, segment(100, b"evil")).0;
        assert_eq!(verdict, Verdict::Dropped(Reason::Rule), "{flags:#x} {sequence}");
    }
}

#[test]
fn bytes_that_a_receiver_refuses_do_not_stand_for_later_ones() {
    let mut dpi = open_connection(EVIL);
    send(&mut dpi, segment(100, b"ev"));
    let without_ack = build::tcp((CLIENT, SERVER), 0, 102, b"..");
    assert_eq!(send(&mut dpi, without_ack).0, Verdict::Dropped(Reason::Malformed));
    let with_syn = build::tcp((CLIENT, SERVER), 0x12, 101, b"..");
    assert_eq!(send(&mut dpi, with_syn).0, Verdict::Dropped(Reason::Refused));
    assert_eq!(send(&mut dpi, build::tcp((CLIENT, SERVER), 2, 101, b"")).0, Verdict::Pass);
    assert_eq!(send(&mut dpi, segment(90, b"..........")).0, Verdict::Dropped(Reason::Reorder));
    // A probe of the connection, as some systems send it, and a SYN that comes twice.
    assert_eq!(send(&mut dpi, segment(99, b".")).0, Verdict::Pass);
    assert_eq!(send(&mut dpi, build::tcp((CLIENT, SERVER), 2, 99, b"")).0, Verdict::Pass);
    assert_eq!(send(&mut dpi, segment(102, b"il")).0, Verdict::Dropped(Reason::Rule));
}

#[test]
fn bytes_before_those_that_were_seen_first_are_inspected() {
    let mut dpi = dpi(EVIL);
    assert_eq!(send(&mut dpi, segment(100, b"..")).0, Verdict::Pass);
    assert_eq!(send(&mut dpi, segment(98, b"..")).0, Verdict::Pass);
    assert_eq!(send(&mut dpi, segment(90, b"..evil....")).0, Verdict::Dropped(Reason::Rule));
}

/// The end of a connection was not seen, and the next one on its ports was not inspected, or waited
/// for bytes of the old one for ever.
#[test]
fn a_connection_that_the_server_accepts_is_inspected_from_its_beginning() {
    for first in [50_u32, 5_000, 100 + (1 << 30), u32::MAX] {
        let mut dpi = open_connection(EVIL);
        all_pass(&mut dpi, 100..3_100);
        let syn = build::tcp((CLIENT, SERVER), 2, first.wrapping_sub(1), b"");
        assert_eq!(send(&mut dpi, syn).0, Verdict::Pass);
        // The server knows nothing of it.
        assert_eq!(send(&mut dpi, answer(0x12, 9, 77)).0, Verdict::Pass);
        all_pass(&mut dpi, 3_100..4_100);
        assert_eq!(send(&mut dpi, answer(0x12, 0, first)).0, Verdict::Pass);
        assert_eq!(send(&mut dpi, segment(first, b"ev")).0, Verdict::Pass);
        let verdict = send(&mut dpi, segment(first.wrapping_add(2), b"il")).0;
        assert_eq!(verdict, Verdict::Dropped(Reason::Rule), "{first}");
    }
}

/// The last segment was lost before its end, and the connection counted as open for two hours.
#[test]
fn an_end_ahead_of_a_gap_ends_the_connection_when_the_gap_is_filled() {
    let mut dpi = open_connection(EVIL);
    let end = |sequence, payload: &[u8]| build::tcp((CLIENT, SERVER), 0x11, sequence, payload);
    assert_eq!(send(&mut dpi, end(110, b"....")).0, Verdict::Pass);
    assert_eq!(send(&mut dpi, end(111, b"....")).0, Verdict::Dropped(Reason::Conflict));
    assert_eq!(send(&mut dpi, answer(0x11, 1, 100)).0, Verdict::Pass);
    let closed = |dpi: &Dpi| dpi.all().any(|slot| dpi.flows[slot].has(bit::CLOSED));
    assert!(!closed(&dpi));
    all_pass(&mut dpi, 100..110);
    assert!(closed(&dpi));
    assert_eq!(dpi.reorder.memory(), 0);
    send(&mut dpi, end(300, b""));
    dpi.forget(Part::All);
    assert_eq!(dpi.reorder.memory(), 0);
}

/// Whoever keeps a byte far ahead would hide all before it, when the flow moves.
#[test]
fn a_byte_far_ahead_is_not_kept() {
    let mut dpi = dpi(EVIL);
    all_pass(&mut dpi, 0..100);
    let far = Settings::default().direction_memory.0 as u32 + 100;
    assert_eq!(send(&mut dpi, segment(far, b".")).0, Verdict::Dropped(Reason::Reorder));
}

#[test]
fn bytes_that_contradict_buffered_ones_are_dropped() {
    let mut dpi = dpi("drop tcp any any -> any any (content:\"evil\"; sid:1;)");
    assert_eq!(send(&mut dpi, segment(0, b"..")).0, Verdict::Pass);
    assert_eq!(send(&mut dpi, segment(4, b"il")).0, Verdict::Pass);
    assert_eq!(send(&mut dpi, segment(4, b"xx")).0, Verdict::Dropped(Reason::Conflict));
    assert_eq!(send(&mut dpi, segment(2, b"evxx")).0, Verdict::Dropped(Reason::Conflict));
    assert_eq!(send(&mut dpi, segment(2, b"ev")).0, Verdict::Dropped(Reason::Rule));
    assert_eq!(send(&mut dpi, segment(6, b"more")).0, Verdict::Dropped(Reason::Rule));
    assert_eq!(dpi.reorder.memory(), 0);
}

#[test]
fn room_for_bytes_ahead_of_gaps_is_bounded() {
    let mut dpi = Dpi::new(
        rules("alert tcp any any -> any any (content:\"a\"; sid:1;)"),
        Settings { flows_max: 4, direction_memory: Bytes(4096), ..Settings::default() },
    );
    send(&mut dpi, segment(0, b"."));
    let refused = (0..100).filter(|n| {
        send(&mut dpi, segment(10 + n * 100, &[0; 90])).0 == Verdict::Dropped(Reason::Reorder)
    });
    assert!(refused.count() > 50);
    assert!(dpi.reorder.memory() <= 4096);
    dpi.forget(Part::All);
    assert_eq!((dpi.reorder.memory(), dpi.flows()), (0, 0));
}

#[test]
fn too_many_partial_matches_drop_the_flow_and_leave_nothing() {
    let text: String = (1..=100)
        .map(|n| {
            format!(
                "alert tcp any any -> any any (content:\"<{n:03}>\"; content:\"zz\"; sid:{n};)\n"
            )
        })
        .collect();
    let mut dpi = dpi(&text);
    let pieces: String = (1..=66).map(|n| format!("<{n:03}>")).collect();
    assert_eq!(send(&mut dpi, segment(0, pieces.as_bytes())).0, Verdict::Pass);
    let at = pieces.len() as u32;
    assert_eq!(send(&mut dpi, segment(at, b"<067>")).0, Verdict::Dropped(Reason::TableFull));
    dpi.forget(Part::All);
    let memory = dpi.memory();
    assert_eq!(send(&mut dpi, segment(0, pieces.as_bytes())).0, Verdict::Pass);
    let (verdict, told) = send(&mut dpi, segment(at, b"zz"));
    assert_eq!((verdict, told.len()), (Verdict::Pass, 66));
    dpi.forget(Part::All);
    assert!(dpi.memory().0 <= memory.0 + 4096, "only reused buffers have grown");
}

/// Many rules share a content, and a packet is full of it: the list of what was found had an entry
/// for each byte and rule.
#[test]
fn a_packet_full_of_matches_takes_bounded_memory() {
    let text: String = (1..=200)
        .map(|n| format!("alert udp any any -> any any (content:\"a\"; content:\"z\"; sid:{n};)\n"))
        .collect();
    let mut dpi = dpi(&text);
    let empty = dpi.memory().0;
    send(&mut dpi, build::udp((CLIENT, SERVER), &[b'a'; 60_000]));
    assert!(dpi.memory().0 - empty < 40_000_000, "{}", dpi.memory());
}

#[test]
fn headers_say_which_packets_a_rule_looks_at() {
    let cases = [
        ("tcp any any -> any 80", true),
        ("tcp any any -> any [1:79,81:]", false),
        ("tcp any any -> any !80", false),
        ("tcp any any <- any any", true), // Refused; see below.
        ("tcp 10.0.0.0/8 any -> ![10.0.0.0/8,192.168.0.0/16] any", true),
        ("tcp !10.0.0.2 any -> any any", false),
        ("udp any any -> any any", false),
        ("ip any any -> any any", true),
        ("tcp any 80 -> any any", false),
        ("tcp any 80 <> any any", true),
        ("tcp $HOME_NET any -> $OUT any", true),
        ("tcp 2001:db8::/32 any -> any any", false),
    ];
    for (header, expected) in cases.into_iter().filter(|case| !case.0.contains("<-")) {
        let text = format!(
            "var HOME_NET [10.0.0.0/24, 192.168.0.0/16]\nvar OUT !$HOME_NET\n\
             alert {header} (content:\"x\"; sid:1;)"
        );
        // The value of a variable is not looked into: OUT is written out.
        let text = text.replace("!$HOME_NET", "![10.0.0.0/24]");
        let (_, told) = send(&mut dpi(&text), segment(0, b"x"));
        assert_eq!(!told.is_empty(), expected, "{header}");
    }
}

#[test]
fn flow_options_follow_the_handshake() {
    let answer = |flags, sequence, upto, payload: &[u8]| {
        build::tcp_answer((SERVER, CLIENT), flags, (sequence, upto), payload)
    };
    for (option, on_request, on_answer) in [
        ("to_server", true, false),
        ("to_client,established", false, true),
        ("established", true, true),
        ("not_established", false, false),
        ("stateless", true, true),
    ] {
        let text = format!("alert tcp any any -> any any (flow:{option}; content:\"x\"; sid:1;)");
        let mut dpi = dpi(&text);
        send(&mut dpi, build::tcp((CLIENT, SERVER), 2, 99, b""));
        send(&mut dpi, answer(0x12, 0, 100, b""));
        assert_eq!(!send(&mut dpi, segment(100, b"x")).1.is_empty(), on_request, "{option}");
        assert_eq!(!send(&mut dpi, answer(0x18, 1, 101, b"x")).1.is_empty(), on_answer, "{option}");
    }
}

#[test]
fn other_protocols_are_inspected_packet_by_packet() {
    let text = "drop udp any any -> any 80 (content:\"ab\"; offset:1; depth:2; sid:1;)\n\
                drop icmp any any -> any any (content:\"ping\"; sid:2;)\n\
                alert udp any any -> any 81 (msg:\"header alone\"; sid:3;)";
    let mut dpi = dpi(text);
    let udp = |payload: &[u8]| build::udp((CLIENT, SERVER), payload);
    for (payload, verdict) in [
        (&b"a"[..], Verdict::Pass),
        (b"b.", Verdict::Pass),
        (b"..ab", Verdict::Pass),
        (b".ab", Verdict::Dropped(Reason::Rule)),
        (b"..", Verdict::Dropped(Reason::Rule)),
    ] {
        assert_eq!(send(&mut dpi, udp(payload)).0, verdict);
    }
    let echo = build::echo((CLIENT, SERVER), true, b"..ping");
    assert_eq!(send(&mut dpi, echo), (Verdict::Dropped(Reason::Rule), vec![2]));
    let other = build::udp((CLIENT, (SERVER.0, 81)), b"");
    assert_eq!(send(&mut dpi, other), (Verdict::Pass, vec![3]));
    assert_eq!(dpi.rules.message(3), Some("header alone"));
}

#[test]
fn what_a_receiver_would_not_take_is_not_inspected() {
    let mut dpi = dpi("drop tcp any any -> any any (content:\"evil\"; sid:1;)");
    send(&mut dpi, segment(0, b"ev"));
    acknowledge(&mut dpi, 2);
    let mut wrong = segment(2, b"xx");
    wrong[36] ^= 1;
    assert_eq!(send(&mut dpi, wrong).0, Verdict::Dropped(Reason::Checksum));
    // A reset with a number that its receiver ignores does not end the inspection.
    assert_eq!(send(&mut dpi, build::tcp((CLIENT, SERVER), 4, 77, b"")).0, Verdict::Pass);
    assert_eq!(send(&mut dpi, build::tcp((CLIENT, SERVER), 2, 5000, b"")).0, Verdict::Pass);
    assert_eq!(send(&mut dpi, segment(2, b"il")).0, Verdict::Dropped(Reason::Rule));
    let whole = build::udp((CLIENT, SERVER), &[0; 100]);
    let piece = build::fragments(&whole, 64, 1).swap_remove(1);
    assert_eq!(send(&mut dpi, piece).0, Verdict::Dropped(Reason::Fragment));
}

#[test]
fn a_flood_takes_no_room_from_established_flows() {
    let mut dpi = dpi("alert tcp any any -> any any (content:\"ab\"; sid:1;)");
    for port in 0..8 {
        let ends = ((CLIENT.0, port), SERVER);
        send(&mut dpi, build::tcp(ends, 2, 99, b""));
        send(&mut dpi, build::tcp_answer((ends.1, ends.0), 0x12, (0, 100), b""));
        send(&mut dpi, build::tcp(ends, 0x18, 100, b"a"));
    }
    for port in 1000..3000 {
        let (verdict, _) = send(&mut dpi, build::tcp(((CLIENT.0, port), SERVER), 2, 0, b""));
        assert_eq!(verdict, Verdict::Pass);
    }
    assert_eq!(dpi.flows(), 16);
    for port in 0..8 {
        let (_, told) = send(&mut dpi, build::tcp(((CLIENT.0, port), SERVER), 0x18, 101, b"b"));
        assert_eq!(told, [1]);
    }
    let mut output = Output::default();
    dpi.expire(Nanos::from_secs(60), &mut output);
    assert_eq!(dpi.flows(), 8);
    dpi.expire(Nanos::from_secs(7440), &mut output);
    assert_eq!((dpi.flows(), dpi.next_deadline()), (0, None));
}

#[test]
fn refusals_name_the_line_and_the_remedy() {
    let rule = |options: &str| format!("\n# one\nalert tcp any any -> any any ({options})\n");
    for (text, expected) in [
        (rule("content:\"a\";"), "a rule needs a sid"),
        (rule("sid:1; content:\"\";"), "1 to 128 bytes"),
        (rule("sid:1; content:!\"a\";"), "must be absent"),
        (rule("sid:1; content:\"|4|\";"), "pairs of hexadecimal"),
        (rule("sid:1; content:\"a\"; distance:1;"), "a content before"),
        (rule("sid:1; content:\"abc\"; depth:2;"), "never matches"),
        (rule("sid:1; byte_test:1,>,2,3;"), "not in the subset"),
        (rule("sid:1; pcre:\"/(a)\\1/\";"), "pcre: backreferences"),
        (rule("sid:1; pcre:\"/a$/\";"), "byte behind"),
        (rule("sid:1; pcre:\"/a*/\";"), "everything"),
        (rule("sid:1; pcre:\"/a/R\";"), "flag `R`"),
        (rule("sid:1; pcre:\"/a.{3000}b.{3000}c/\";"), "test.rules:3: "),
        (rule("sid:1; content:\"a;"), "does not end"),
        (rule("sid:1;").replace("->", "<-"), "direction `<-`"),
        (rule("sid:1;").replace("tcp any", "tcp 10.0.0.0/33"), "10.0.0.0/33"),
        (rule("sid:1;").replace("tcp any", "tcp $NET"), "$NET is not set"),
        (
            rule("sid:1;") + "drop ip any any -> any any (sid:1;)",
            "test.rules:4: sid 1 is that of line 3",
        ),
    ] {
        let error = refusal(&text);
        assert!(error.contains(expected), "{error}");
        assert!(error.starts_with("test.rules:"), "{error}");
    }
    let limits = Limits { literal_states_max: 10, ..Limits::default() };
    let text = "alert ip any any -> any any (content:\"12345678\"; sid:1;)\n\
                alert ip any any -> any any (content:\"abcdefgh\"; sid:2;)";
    let error = Ruleset::compile("r", text, limits).unwrap_err();
    assert_eq!(error.line, 2, "{error}");
}

#[test]
fn a_million_flows_fit_into_256_mib() {
    let settings = Settings { flows_max: 1_000_000, ..Settings::default() };
    let dpi = Dpi::new(rules("alert ip any any -> any any (content:\"a\"; sid:1;)"), settings);
    assert!(dpi.memory().0 + 4_000_000 <= Bytes::from_mib(256).0, "{}", dpi.memory());
}
