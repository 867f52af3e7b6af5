//! Segments that a receiver refuses, or that receivers take differently: none of them stands for
//! bytes that come later.

use super::*;

const REFUSED: Verdict = Verdict::Dropped(Reason::Refused);
const RULE: Verdict = Verdict::Dropped(Reason::Rule);

/// A segment of the client with a number that it acknowledges.
fn acknowledging(flags: u8, sequence: u32, upto: u32, payload: &[u8]) -> Vec<u8> {
    build::tcp_answer((CLIENT, SERVER), flags, (sequence, upto), payload)
}

/// A segment of the server.
fn back(flags: u8, sequence: u32, upto: u32, payload: &[u8]) -> Vec<u8> {
    build::tcp_answer((SERVER, CLIENT), flags, (sequence, upto), payload)
}

fn from_client(flags: u8, sequence: u32, payload: &[u8]) -> Vec<u8> {
    build::tcp((CLIENT, SERVER), flags, sequence, payload)
}

fn is_closed(dpi: &Dpi) -> bool {
    dpi.all().any(|slot| dpi.flows[slot].has(bit::CLOSED))
}

/// Most servers throw the bytes of a SYN away, and they counted as inspected.
#[test]
fn bytes_with_a_syn_do_not_stand_for_later_ones() {
    let mut unopened = dpi(EVIL);
    assert_eq!(send(&mut unopened, from_client(2, 99, &[b'.'; 1400])).0, REFUSED);
    assert_eq!(unopened.flows(), 0);
    send(&mut unopened, from_client(2, 99, b""));
    send(&mut unopened, back(0x12, 0, 100, b""));
    assert_eq!(send(&mut unopened, segment(100, b"evil")).0, RULE);

    let mut open = open_connection(EVIL);
    all_pass(&mut open, 100..110);
    assert_eq!(send(&mut open, from_client(2, 99, &[b'.'; 500])).0, REFUSED);
    assert_eq!(send(&mut open, from_client(0x12, 99, &[b'.'; 500])).0, REFUSED);
    assert_eq!(send(&mut open, segment(110, b"evil")).0, RULE);
}

#[test]
fn bytes_that_acknowledge_what_was_never_sent_do_not_stand_for_later_ones() {
    let mut dpi = open_connection(EVIL);
    for upto in [2, 6, 1 << 30, (1 << 31) + 1, 0, u32::MAX - 70_000] {
        assert_eq!(send(&mut dpi, acknowledging(0x18, 100, upto, b"..")).0, REFUSED, "{upto}");
        assert_eq!(send(&mut dpi, acknowledging(0x11, 100, upto, b"")).0, REFUSED, "{upto}");
    }
    assert_eq!(send(&mut dpi, segment(100, b"evil")).0, RULE);
}

#[test]
fn bytes_that_acknowledge_what_was_sent_pass() {
    let mut dpi = open_connection(EVIL);
    assert_eq!(send(&mut dpi, back(0x18, 1, 100, b"12345")).0, Verdict::Pass);
    assert_eq!(send(&mut dpi, acknowledging(0x18, 100, 6, b"a")).0, Verdict::Pass);
    // What was kept ahead of a gap may have arrived, and what fills the gap may be on its way.
    assert_eq!(send(&mut dpi, back(0x18, 10, 101, b"1234567890")).0, Verdict::Pass);
    assert_eq!(send(&mut dpi, acknowledging(0x18, 101, 20, b"a")).0, Verdict::Pass);
    assert_eq!(send(&mut dpi, acknowledging(0x18, 102, 21, b"a")).0, REFUSED);
    // An end takes a number of its own.
    assert_eq!(send(&mut dpi, back(0x11, 20, 102, b"")).0, Verdict::Pass);
    assert_eq!(send(&mut dpi, acknowledging(0x18, 102, 21, b"a")).0, Verdict::Pass);
    assert_eq!(send(&mut dpi, back(0x18, 6, 102, b"1234")).0, Verdict::Pass);
    assert_eq!(send(&mut dpi, acknowledging(0x18, 103, 21, b"a")).0, Verdict::Pass);
    assert_eq!(send(&mut dpi, acknowledging(0x18, 104, 22, b"a")).0, REFUSED);
    // A segment that was overtaken acknowledges less.
    assert_eq!(send(&mut dpi, acknowledging(0x18, 104, 1, b"a")).0, Verdict::Pass);
}

#[test]
fn an_end_that_acknowledges_what_was_never_sent_ends_nothing() {
    let mut dpi = open_connection(EVIL);
    send(&mut dpi, back(0x11, 1, 100, b""));
    send(&mut dpi, acknowledging(0x11, 100, 9, b""));
    assert_eq!(send(&mut dpi, acknowledging(1, 100, 2, b"")).0, Verdict::Pass);
    assert!(!is_closed(&dpi));
    send(&mut dpi, acknowledging(0x11, 100, 2, b""));
    assert!(is_closed(&dpi));
}

/// A receiver that has not answered yet takes no bytes.
#[test]
fn bytes_before_the_answer_to_a_syn_do_not_stand_for_later_ones() {
    for ahead in [0, 5] {
        let mut dpi = dpi(EVIL);
        send(&mut dpi, from_client(2, 99, b""));
        assert_eq!(send(&mut dpi, acknowledging(0x18, 100 + ahead, 777, b"....")).0, Verdict::Pass);
        send(&mut dpi, back(0x12, 0, 100, b""));
        assert_eq!(send(&mut dpi, segment(100, b"evil")).0, RULE, "{ahead}");
        assert_eq!(dpi.reorder.memory(), 0);
    }
    // The server answers such bytes with a reset, which ends nothing that it accepts later.
    let mut dpi = dpi(EVIL);
    send(&mut dpi, from_client(2, 99, b""));
    send(&mut dpi, acknowledging(0x10, 100, 777, b""));
    send(&mut dpi, back(4, 777, 0, b""));
    send(&mut dpi, back(0x12, 0, 100, b""));
    send(&mut dpi, segment(100, b"ev"));
    send(&mut dpi, from_client(2, 99, b""));
    assert_eq!(send(&mut dpi, segment(102, b"il")).0, RULE);
}

/// A scan of ports would otherwise leave flows that count as open.
#[test]
fn a_refused_connection_is_over() {
    let mut dpi = dpi(EVIL);
    send(&mut dpi, from_client(2, 99, b""));
    assert_eq!(send(&mut dpi, back(0x14, 0, 100, b"")).0, Verdict::Pass);
    assert!(is_closed(&dpi));
    dpi.expire(Settings::default().timeout, &mut Output::default());
    assert_eq!(dpi.flows(), 0);
    // A reset that the client does not believe is no answer.
    send(&mut dpi, from_client(2, 99, b""));
    send(&mut dpi, back(0x14, 0, 101, b""));
    assert!(!is_closed(&dpi));
    dpi.expire(Settings::default().timeout, &mut Output::default());
    assert_eq!(dpi.flows(), 0);
}

/// A client accepted by itself the connection that it had asked for, and the inspection began anew.
#[test]
fn a_client_cannot_accept_its_own_syn() {
    let mut dpi = open_connection(EVIL);
    send(&mut dpi, segment(100, b"ev"));
    send(&mut dpi, from_client(2, 7_000, b""));
    send(&mut dpi, acknowledging(0x12, 101, 7_001, b""));
    assert_eq!(send(&mut dpi, segment(102, b"il")).0, RULE);
}

#[test]
fn the_client_is_who_sent_the_syn_also_behind_an_answer_to_nothing() {
    let text = "drop tcp any any -> any any (flow:to_server; content:\"evil\"; sid:1;)";
    let mut dpi = dpi(text);
    send(&mut dpi, from_client(0x12, 99, b""));
    send(&mut dpi, from_client(2, 99, b""));
    send(&mut dpi, back(0x12, 0, 100, b""));
    assert_eq!(send(&mut dpi, segment(100, b"evil")).0, RULE);
}

#[test]
fn an_answer_that_the_client_refuses_says_nothing_of_the_servers_bytes() {
    let mut dpi = dpi(EVIL);
    send(&mut dpi, from_client(2, 99, b""));
    assert_eq!(send(&mut dpi, back(0x12, 990, 5, b"")).0, Verdict::Pass);
    assert_eq!(send(&mut dpi, back(0x12, 1_000, 100, b"")).0, Verdict::Pass);
    assert_eq!(send(&mut dpi, acknowledging(0x10, 100, 1_001, b"")).0, Verdict::Pass);
    assert_eq!(send(&mut dpi, back(0x18, 1_001, 100, b"evil")).0, RULE);
}

/// One urgent byte is taken out of the stream by most receivers, and left in it by others.
#[test]
fn urgent_bytes_are_dropped() {
    let mut dpi = open_connection(EVIL);
    send(&mut dpi, segment(100, b"ev"));
    assert_eq!(send(&mut dpi, from_client(0x38, 102, b"x")).0, REFUSED);
    // It may announce an urgent byte of a later segment.
    assert_eq!(send(&mut dpi, from_client(0x30, 102, b"")).0, REFUSED);
    assert_eq!(send(&mut dpi, segment(102, b"il")).0, RULE);
}

/// The reset's number was one short of the expected one, and its SYN made up for that.
#[test]
fn a_reset_or_an_end_with_a_syn_ends_nothing() {
    let mut dpi = open_connection(EVIL);
    send(&mut dpi, segment(100, b"ev"));
    for flags in [6, 0x16, 3, 0x13, 7] {
        assert_eq!(send(&mut dpi, from_client(flags, 101, b"")).0, REFUSED);
        assert_eq!(send(&mut dpi, from_client(flags, 102, b"")).0, REFUSED);
    }
    assert!(!is_closed(&dpi));
    send(&mut dpi, from_client(2, 99, b""));
    assert_eq!(send(&mut dpi, segment(102, b"il")).0, RULE);
    let mut dpi = open_connection(EVIL);
    assert_eq!(send(&mut dpi, from_client(4, 100, b"")).0, Verdict::Pass);
    assert!(is_closed(&dpi));
}

/// A server that answered a SYN by a SYN of its own was taken for the client, and rules for what
/// goes to clients did not look at it.
#[test]
fn a_server_that_answers_by_a_question_stays_the_server() {
    let rule = "drop tcp any any -> any any (sid:1; flow:to_client; content:\"evil\";)";
    let mut dpi = dpi(rule);
    send(&mut dpi, from_client(2, 99, b""));
    send(&mut dpi, build::tcp((SERVER, CLIENT), 2, 0, b""));
    send(&mut dpi, acknowledging(0x12, 99, 1, b""));
    send(&mut dpi, back(0x10, 1, 100, b""));
    assert_eq!(send(&mut dpi, back(0x18, 1, 100, b"evil")).0, RULE);
}
