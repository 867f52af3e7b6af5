//! Parts of the platform by themselves.

use crate::nsh::{Header, Next, NshError, decode, encode};
use crate::{
    Answer, CardSettings, FlowKey, FunctionSettings, GroupId, Image, Platform, Refusal, Settings,
    Signature, SlotState, Verdict, Work,
};
use bytes::Bytes;
use thermocline_policy::accel::{FunctionId, NothingComing};
use thermocline_policy::registry::PolicySpec;
use thermocline_units::{Bytes as Size, Nanos};

/// Bytes of RFC 8300, made by hand from its figures 2 and 3: version 0, O and U clear, TTL 63,
/// length 2, MD type 2, next protocol 1, path 0x00002a, index 255.
#[test]
fn a_header_has_the_bytes_of_the_standard() {
    let bytes = encode(Header { path: 42, index: 255 }, Next::Ipv4);
    assert_eq!(bytes, [0x0f, 0xc2, 0x02, 0x01, 0x00, 0x00, 0x2a, 0xff]);
}

#[test]
fn a_header_with_metadata_of_fixed_length_is_read() {
    let mut bytes = vec![0x0f, 0xc6, 0x01, 0x03, 0x00, 0x00, 0x07, 0x01];
    bytes.extend([9; 16]);
    let read = decode(&bytes).unwrap();
    assert_eq!(read, (Header { path: 7, index: 1 }, Next::Ethernet, 24));
}

#[test]
fn a_header_that_is_cut_off_or_contradicts_itself_is_refused_by_its_byte() {
    let good = encode(Header { path: 1, index: 1 }, Next::Ipv6);
    for length in 0..good.len() {
        let error = decode(&good[..length]).unwrap_err();
        assert_eq!(error, NshError::Short { have: length, need: 8 });
    }
    let with = |at: usize, byte: u8| {
        let mut bytes = good;
        bytes[at] = byte;
        decode(&bytes).unwrap_err()
    };
    assert_eq!(with(0, 0x4f), NshError::Version(1));
    assert_eq!(decode(&[0, 0x02, 2, 2, 0, 0, 1, 1]), Err(NshError::Expired));
    assert_eq!(with(1, 0xc1), NshError::Length { words: 1, kind: 2 });
    assert_eq!(with(2, 0x01), NshError::Length { words: 2, kind: 1 });
    assert_eq!(with(1, 0xc3), NshError::Short { have: 8, need: 12 });
    assert_eq!(with(3, 0x77), NshError::Protocol(0x77));
}

#[test]
fn loads_take_the_sources_times() {
    let card = CardSettings::new("card", 3, 8_000);
    let millis = |bytes: u64| card.load_time(Size(bytes)).0 as f64 / 1e6;
    assert_eq!((millis(400_000), millis(800_000), millis(2_400_000)), (3.0, 5.0, 13.0));
}

fn platform() -> (Platform, FunctionId) {
    let spec = PolicySpec::parse("by-cost").unwrap();
    let scheduler = spec.build_scheduler(Box::new(NothingComing)).unwrap();
    let cards = vec![CardSettings::new("card0", 2, 10_000)];
    let mut platform = Platform::new(Nanos(0), Settings::default(), cards, scheduler);
    let settings = FunctionSettings {
        name: "dpi".to_string(),
        stateful: true,
        alters: false,
        processor: None,
    };
    let function = platform.declare(settings).unwrap();
    (platform, function)
}

fn image(function: FunctionId) -> Image {
    Image {
        function,
        version: 1,
        room: 9_000,
        bytes: Size(400_000),
        cost: 5_000.0,
        signature: Signature::Valid,
    }
}

#[test]
fn images_that_are_unsigned_too_large_or_older_are_refused_and_change_nothing() {
    let (mut platform, function) = platform();
    let name = || "dpi".to_string();
    let mut refuse = |image: Image| platform.admit(image).unwrap_err();
    let unsigned = Image { signature: Signature::Missing, ..image(function) };
    assert_eq!(refuse(unsigned), Refusal::Unsigned(name()));
    let forged = Image { signature: Signature::Invalid, ..image(function) };
    assert_eq!(refuse(forged), Refusal::BadSignature(name()));
    let large = Image { room: 10_001, ..image(function) };
    assert_eq!(refuse(large), Refusal::TooLarge { name: name(), room: 10_001, most: 10_000 });
    assert_eq!(refuse(Image { cost: f64::NAN, ..image(function) }), Refusal::Empty(name()));
    let unknown = Image { function: FunctionId(9), ..image(function) };
    assert_eq!(refuse(unknown), Refusal::NoFunction(9));
    platform.admit(image(function)).unwrap();
    let refused = platform.admit(image(function)).unwrap_err();
    assert_eq!(refused, Refusal::NotNewer { name: name(), have: 1, given: 1 });
}

#[test]
fn a_chain_with_unknown_or_repeated_functions_is_refused() {
    let (mut platform, function) = platform();
    let mut refuse =
        |chain: &[FunctionId]| platform.set_chain(Nanos(0), GroupId(1), chain).unwrap_err();
    assert_eq!(refuse(&[FunctionId(5)]), Refusal::NoFunction(5));
    assert_eq!(refuse(&[function, function]), Refusal::Chain { most: 8 });
}

/// The life of a slot from demand to the first packet that goes through it.
#[test]
fn demand_loads_a_slot_and_its_packets_go_there() {
    let (mut platform, function) = platform();
    platform.admit(image(function)).unwrap();
    platform.set_chain(Nanos(0), GroupId(1), &[function]).unwrap();
    let packet = || Bytes::from_static(b"packet");
    platform.offer(Nanos(1), GroupId(1), FlowKey(1), packet());
    assert_eq!(platform.counters().dropped_unserved, 1, "nothing runs yet");
    let now = platform.next_tick();
    platform.tick(now);
    let Some(Work::Load { ticket, slot, .. }) = platform.next_work() else { panic!("no load") };
    assert_eq!(platform.status().slots[slot.index()].state, SlotState::Loading);
    platform.complete(now, ticket, Answer::Loaded);
    assert_eq!(platform.status().cards[0].running, 1);
    platform.offer(now, GroupId(1), FlowKey(1), packet());
    let work: Vec<Work> = std::iter::from_fn(|| platform.next_work()).collect();
    let process = |work: &Work| matches!(work, Work::Process { .. }).then(|| work.ticket());
    let ticket = work.iter().find_map(process).expect("a batch");
    platform.complete(now, ticket, Answer::Processed(vec![Verdict::Alert(7)]));
    assert_eq!(platform.next_packet().unwrap().bytes, packet());
    assert_eq!((platform.counters().passed, platform.counters().alerts), (1, 1));
    platform.check();
}

/// A function that runs on the processor, at a stated microsecond a packet.
fn nat(platform: &mut Platform) -> FunctionId {
    let settings = FunctionSettings {
        name: "nat".to_string(),
        stateful: true,
        alters: true,
        processor: Some(1_000.0),
    };
    platform.declare(settings).unwrap()
}

/// True if a slot was loaded in the second in which 10,000 packets come that take the processor so
/// long each.
fn is_loaded_by(took: u64) -> bool {
    let spec = PolicySpec::parse("by-cost:from=0.2").unwrap();
    let scheduler = spec.build_scheduler(Box::new(NothingComing)).unwrap();
    let cards = vec![CardSettings::new("card0", 1, 10_000)];
    let mut platform = Platform::new(Nanos(0), Settings::default(), cards, scheduler);
    let function = nat(&mut platform);
    platform.admit(image(function)).unwrap();
    platform.set_chain(Nanos(0), GroupId(1), &[function]).unwrap();
    for packet in 0..10_000 {
        let now = Nanos(packet * 100_000);
        if now >= platform.next_tick() {
            platform.tick(now);
        }
        platform.offer(now, GroupId(1), FlowKey(1), Bytes::from_static(b"packet"));
        while let Some(work) = platform.next_work() {
            let Work::Process { ticket, .. } = work else { return true };
            let answer = Answer::Processed(vec![Verdict::Pass]);
            platform.complete_after(Nanos(now.0 + took), ticket, answer, Nanos(took));
        }
        while platform.next_packet().is_some() {}
    }
    false
}

/// The scheduler was told the stated cost: 27 µs a packet counted as one, and a processor that was
/// busy with them seemed idle.
#[test]
fn a_slot_is_loaded_by_what_packets_really_cost_the_processor() {
    assert!(!is_loaded_by(1_000), "a hundredth of the processor");
    assert!(is_loaded_by(27_000), "more than a quarter of it");
}

/// On a busy machine a slot's thread waited for its turn, and 25 µs a packet seemed to be 3 ms.
#[test]
fn the_cost_of_a_packet_is_what_a_worker_measures_if_it_does() {
    let (mut platform, _) = platform();
    let function = nat(&mut platform);
    platform.set_chain(Nanos(0), GroupId(1), &[function]).unwrap();
    let mut worked = |began: u64, ended: u64, worked: u64| {
        platform.offer(Nanos(began), GroupId(1), FlowKey(1), Bytes::from_static(b"packet"));
        let ticket = platform.next_work().expect("a batch").ticket();
        let answer = Answer::Processed(vec![Verdict::Pass]);
        platform.complete_after(Nanos(ended), ticket, answer, Nanos(worked));
        platform.status().functions[function.index()].processor_cost
    };
    assert_eq!(worked(1_000, 3_000_000, 500), Some(500.0));
    // No worker works on a batch for longer than it has it: 500 + (1,300 - 500) / 8.
    assert_eq!(worked(4_000_000, 4_001_300, 9_000_000), Some(600.0));
}
