//! The state of a share goes from worker to worker, and over a restart.

use super::{Bench, Clock, Maker, NAT, Told};
use crate::config::TenantConfig;
use crate::saved::{self, Saved};
use crate::tenants::Tenants;
use bytes::Bytes;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};
use thermocline_accel::nsh::Header;
use thermocline_accel::{Answer, Batched, Place, SlotId, Ticket, Verdict, Work};
use thermocline_functions::packet::{Packet, build};
use thermocline_functions::{Event, Side};

const EXTERNAL: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

fn maker(saved: Saved) -> Maker {
    maker_of(4, saved)
}

fn maker_of(shares: u32, saved: Saved) -> Maker {
    let tenant = TenantConfig {
        name: "a".to_string(),
        networks: vec![(Ipv4Addr::new(10, 0, 0, 0), 24)],
        external: vec![EXTERNAL],
        chain: Vec::new(),
        token: None,
        slots_max: 64,
    };
    let tenants = Tenants { tenants: vec![tenant], shares };
    Maker::new(tenants, None, 1024, 1, saved).expect("there are no rules")
}

fn process(bench: &Bench, maker: &Maker, from: Side, packet: Vec<u8>) -> Option<Vec<u8>> {
    let work = batch(maker, from, packet);
    maker.hand_out(bench, &work);
    worked(bench, maker, work)
}

fn batch(maker: &Maker, from: Side, packet: Vec<u8>) -> Work {
    let ((group, flow), way) = maker.tenants.classify(from, &packet).expect("it is a tenant's");
    let header = Header { path: 1, index: 1 };
    let packets = vec![Batched { header, flow, group, way, bytes: packet.into() }];
    let place = Place::Slot(SlotId(0));
    Work::Process { ticket: Ticket(1), place, function: NAT, packets }
}

fn worked(bench: &Bench, maker: &Maker, work: Work) -> Option<Vec<u8>> {
    let Answer::Processed(verdicts) = bench.work(maker, work, &mut Told::default()) else {
        panic!("it was asked to process")
    };
    match &verdicts[..] {
        [Verdict::Replace(bytes)] => Some(bytes.to_vec()),
        [Verdict::Drop] => None,
        other => panic!("{other:?}"),
    }
}

/// Sends a packet out, and returns the answer to it and its flow.
fn opened(bench: &Bench, maker: &Maker) -> Vec<u8> {
    let (host, server) = (Ipv4Addr::new(10, 0, 0, 7), Ipv4Addr::new(198, 51, 100, 1));
    let out = build::udp(((host.into(), 5000), (server.into(), 53)), b"?");
    let out = process(bench, maker, Side::Inside, out).expect("it is translated");
    let packet = Packet::parse(&out).expect("a packet");
    assert_eq!(packet.source, EXTERNAL);
    let port = packet.ports().expect("UDP has ports").0;
    build::udp(((server.into(), 53), (EXTERNAL.into(), port)), b"!")
}

#[test]
fn state_goes_from_one_worker_to_another() {
    let (maker, one, other) = (maker(Saved::new()), Bench::default(), Bench::default());
    let answer = opened(&one, &maker);
    let (share, _) = maker.tenants.classify(Side::Outside, &answer).expect("a tenant's");
    let place = Place::Slot(SlotId(0));
    let export = Work::Export { ticket: Ticket(2), place, function: NAT, flows: vec![share] };
    let mut told = Told::default();
    let Answer::Exported(state) = one.work(&maker, export, &mut told) else { panic!("no state") };
    assert_eq!(one.flows(NAT), 0);
    let import = Work::Import { ticket: Ticket(3), place, function: NAT, state };
    assert_eq!(other.work(&maker, import.clone(), &mut told), Answer::Failed);
    maker.hand_out(&other, &import);
    assert_eq!(other.work(&maker, import, &mut told), Answer::Imported);
    assert!(process(&other, &maker, Side::Outside, answer).is_some() && told.notes.is_empty());
}

/// A slot was given up because it was slow. Its thread went on with a batch, made itself the owner
/// of the share, and the mappings of the new owner were thrown away.
#[test]
fn a_worker_that_was_given_up_takes_nothing_back() {
    let (maker, slow, other) = (maker(Saved::new()), Bench::default(), Bench::default());
    opened(&slow, &maker);
    let host = Ipv4Addr::new(10, 0, 0, 7).into();
    let query =
        |port| build::udp(((host, port), (Ipv4Addr::new(198, 51, 100, 1).into(), 53)), b"?");
    let late = batch(&maker, Side::Inside, query(6000));
    maker.hand_out(&slow, &late);
    let answer = opened(&other, &maker);
    assert_eq!(worked(&slow, &maker, late), None);
    assert!(process(&other, &maker, Side::Outside, answer).is_some());
    // When the share comes back, what the slow one had of it is old.
    assert!(process(&slow, &maker, Side::Inside, query(6001)).is_some());
    assert_eq!(slow.flows(NAT), 1);
}

#[test]
fn damaged_state_is_refused_without_a_panic() {
    let (maker, bench) = (maker(Saved::new()), Bench::default());
    for bytes in
        [&[0; 3][..], &[0xff; 40], &[0; 16], &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 1]]
    {
        let (place, state) = (Place::Slot(SlotId(0)), Bytes::copy_from_slice(bytes));
        let import = Work::Import { ticket: Ticket(3), place, function: NAT, state };
        maker.hand_out(&bench, &import);
        bench.work(&maker, import, &mut Told::default());
    }
}

#[test]
fn mappings_survive_a_restart() {
    let (before, bench) = (maker(Saved::new()), Bench::default());
    let answer = opened(&bench, &before);
    let bytes = before.save(&[bench]);
    let after = maker(saved::decode(&bytes).expect("it was made here"));
    assert!(process(&Bench::default(), &after, Side::Outside, answer).is_some());
}

/// Saving lets old mappings end, and these ends were counted nowhere.
#[test]
fn mappings_that_end_while_they_are_saved_are_told_of() {
    let (mut maker, bench) = (maker(Saved::new()), Bench::default());
    opened(&bench, &maker);
    maker.save(std::slice::from_ref(&bench));
    assert!(maker.take_ended().is_empty(), "it is in use");
    maker.clock = Clock(Instant::now().checked_sub(Duration::from_secs(3600)).expect("a past"));
    maker.save(std::slice::from_ref(&bench));
    assert!(matches!(maker.take_ended()[..], [(_, Event::Unmapped { .. })]), "one, an hour later");
    assert!(maker.take_ended().is_empty(), "once");
}

/// `shares` was changed, and saved mappings kept ports that are another share's now: two hosts had
/// one port.
#[test]
fn saved_mappings_with_ports_of_another_share_are_left_out() {
    let (before, bench) = (maker_of(64, Saved::new()), Bench::default());
    let answer = opened(&bench, &before);
    let (share, _) = before.tenants.classify(Side::Outside, &answer).expect("a tenant's");
    assert!(share.1.0 > 0, "the first share has the same first port");
    let saved = saved::decode(&before.save(&[bench])).expect("it was made here");
    // Half as many shares: the same number, and other ports.
    let (after, mut told) = (maker_of(32, saved), Told::default());
    let (bench, place) = (Bench::default(), Place::Slot(SlotId(0)));
    let header = Header { path: 1, index: 1 };
    let ((group, flow), way) = (share, thermocline_accel::Way::Back);
    let packets = vec![Batched { header, flow, group, way, bytes: answer.into() }];
    let work = Work::Process { ticket: Ticket(1), place, function: NAT, packets };
    after.hand_out(&bench, &work);
    assert_eq!(bench.work(&after, work, &mut told), Answer::Processed(vec![Verdict::Drop]));
    assert!(told.notes[0].contains("external port"), "{:?}", told.notes);
}

/// The pool's thread counts flows each second. It waited for a slot that hung, for ever.
#[test]
fn whoever_counts_flows_does_not_wait_for_a_worker() {
    let (maker, bench) = (maker(Saved::new()), Bench::default());
    opened(&bench, &maker);
    assert_eq!(bench.flows(NAT), 1);
    let at_work = super::locked(&bench.instances);
    assert_eq!(bench.flows(NAT), 1, "as last time");
    drop(at_work);
}

/// Making an instance takes longer than a packet, and is no part of a packet's cost.
#[test]
fn the_making_of_an_instance_is_no_work_on_packets() {
    let (maker, bench) = (maker(Saved::new()), Bench::default());
    let inside = ((Ipv4Addr::new(10, 0, 0, 2).into(), 5000), (EXTERNAL.into(), 80));
    let work = batch(&maker, Side::Inside, build::udp(inside, b"first"));
    maker.hand_out(&bench, &work);
    let (begun, mut told) = (super::processor_time(), Told::default());
    bench.work(&maker, work, &mut told);
    let all = super::processor_time().saturating_sub(begun);
    assert!(told.making.0 > 0, "an instance was made");
    assert!(told.worked.0 + told.making.0 <= all.0, "{told:?}, {all}");
}

/// A clock that began so many seconds ago.
fn clock_since(seconds: u64) -> Clock {
    Clock(Instant::now().checked_sub(Duration::from_secs(seconds)).expect("a past"))
}

/// Saved mappings came back as if they had just been used, and so lived longer with each restart.
#[test]
fn saved_mappings_keep_their_age() {
    for (idle, since, lives) in [(200, 10, true), (200, 150, false), (290, 20, false)] {
        let (mut before, bench) = (maker(Saved::new()), Bench::default());
        let answer = opened(&bench, &before);
        before.clock = clock_since(idle);
        let mut after = maker(saved::decode(&before.save(&[bench])).expect("it was made here"));
        after.clock = clock_since(since);
        let answered = process(&Bench::default(), &after, Side::Outside, answer).is_some();
        assert_eq!(answered, lives, "idle for {idle} s, and taken up after {since} s");
    }
}

/// A worker that failed leaves its mappings to the next one, which takes them at the age that they
/// have by then.
#[test]
fn mappings_that_were_saved_here_keep_their_age() {
    for (taken_up, lives) in [(1_250, true), (1_350, false)] {
        let (mut maker, failed) = (maker(Saved::new()), Bench::default());
        maker.clock = clock_since(1_000);
        let answer = opened(&failed, &maker);
        maker.clock = clock_since(1_100);
        maker.save(&[failed]);
        maker.clock = clock_since(taken_up);
        let answered = process(&Bench::default(), &maker, Side::Outside, answer).is_some();
        assert_eq!(answered, lives, "at {taken_up} s");
    }
}

/// States that no instance has taken were written for ever, as young as on the first day.
#[test]
fn saved_mappings_that_nobody_takes_grow_older_and_end() {
    let (before, bench) = (maker(Saved::new()), Bench::default());
    let answer = opened(&bench, &before);
    let bytes = before.save(&[bench]);
    let mut between = maker(saved::decode(&bytes).expect("it was made here"));
    between.clock = clock_since(200);
    let bytes = between.save(&[]);
    let kept = saved::decode(&bytes).expect("it was made here");
    assert_eq!(kept.len(), 1);
    let mut after = maker(kept);
    after.clock = clock_since(150);
    assert!(process(&Bench::default(), &after, Side::Outside, answer).is_none());
    between.clock = clock_since(400);
    assert!(saved::decode(&between.save(&[])).expect("it was made here").is_empty());
}
