//! Choices and the static policies.

pub(super) mod world;

use super::{Choice, Choices, ChunkSize, Conditions, Controller, Estimate, Sample, Why};
use crate::registry::{PolicySpec, controllers};
use proptest::prelude::*;
use thermocline_units::{Bytes, Nanos};

#[test]
fn every_choice_has_its_own_number() {
    let indices: Vec<_> = Choice::all().map(Choice::index).collect();
    assert_eq!(indices, (0..Choice::COUNT).collect::<Vec<_>>());
    assert_eq!(Choices::CUTTING.iter().count(), Choice::COUNT - 1);
    assert!(!Choices::CUTTING.contains(Choice::None));
    let one = Choices::EMPTY.with(Choice::Content(ChunkSize::MAX));
    assert_eq!(one.iter().collect::<Vec<_>>(), [Choice::Content(ChunkSize::MAX)]);
}

#[test]
fn sizes_are_powers_of_two_from_128_bytes_to_64_kib() {
    for bytes in [0, 1, 64, 127, 129, 3000, 1 << 17, 1 << 63, u64::MAX] {
        assert_eq!(ChunkSize::new(bytes), None, "{bytes}");
    }
    let sizes: Vec<_> = ChunkSize::all().map(ChunkSize::bytes).collect();
    assert_eq!((sizes[0], sizes[9], sizes.len()), (128, 65_536, ChunkSize::COUNT));
    assert_eq!((ChunkSize::MIN.smaller(), ChunkSize::MAX.larger()), (None, None));
    assert_eq!(ChunkSize::MIN.moved(i32::MAX), ChunkSize::MAX);
    assert_eq!(ChunkSize::MAX.moved(-3).bytes(), 8192);
}

#[test]
fn a_static_policy_never_changes_its_mind() {
    let chosen = |text: &str| {
        PolicySpec::parse(text).unwrap().build_controller().unwrap().choose(Nanos(0)).to_string()
    };
    assert_eq!(chosen("none"), "none");
    assert_eq!(chosen("fixed:size=8KiB"), "fixed 8 KiB");
    assert_eq!(chosen("content:size=128"), "content 128 B");
}

#[test]
fn a_size_that_cannot_be_is_refused() {
    for text in ["content:size=3000", "fixed:size=64", "fixed:size=128KiB", "content:size=0"] {
        let error = PolicySpec::parse(text).unwrap().build_controller().err().unwrap();
        let message = error.to_string();
        assert!(message.contains("a power of two from 128 to 64KiB"), "{text}: {message}");
    }
}

#[test]
fn only_controllers_control() {
    let error = PolicySpec::parse("lru").unwrap().build_controller().err().unwrap().to_string();
    assert!(
        error.contains("not a tunnel controller; those are goodput, vnre, content, fixed"),
        "{error}"
    );
    let error = PolicySpec::parse("larc+content").err().unwrap().to_string();
    assert!(error.contains("controls a tunnel"), "{error}");
    for entry in controllers() {
        let spec = PolicySpec::parse(entry.name).unwrap();
        assert!(!spec.is_clairvoyant());
        assert!(spec.build_rule().is_err());
        let mut controller = spec.build_controller().unwrap();
        controller.choose(Nanos(0));
        assert!(!controller.why().to_string().is_empty(), "{}", entry.name);
    }
}

/// Messages that a tunnel may tell a controller, sense or nonsense.
#[derive(Debug, Clone)]
enum Call {
    Choose,
    Observe {
        choice: usize,
        bytes: u64,
        sent: u64,
        chunks: u64,
        processing: u64,
    },
    Conditions {
        link: Option<u64>,
        processor: f64,
    },
    Estimate {
        choice: usize,
        bytes: u64,
        would_save: u64,
        processing: u64,
    },
    /// A thousand segments of the choice in force, which save so many percent.
    Pass {
        saved: u64,
    },
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(u64::MAX), 0..1_000_000_u64, any::<u64>()]
}

fn call() -> impl Strategy<Value = Call> {
    let cores = prop_oneof![
        Just(0.0),
        Just(-1.0),
        Just(f64::NAN),
        Just(f64::INFINITY),
        Just(1e-300),
        0.1..64.0_f64
    ];
    let choice = 0..Choice::COUNT;
    let observed = (choice.clone(), number(), number(), number(), number());
    prop_oneof![
        Just(Call::Choose),
        observed.prop_map(|(choice, bytes, sent, chunks, processing)| Call::Observe {
            choice,
            bytes,
            sent,
            chunks,
            processing
        }),
        (proptest::option::of(number()), cores)
            .prop_map(|(link, processor)| Call::Conditions { link, processor }),
        (choice, number(), number(), number()).prop_map(
            |(choice, bytes, would_save, processing)| Call::Estimate {
                choice,
                bytes,
                would_save,
                processing
            }
        ),
        (0..=100_u64).prop_map(|saved| Call::Pass { saved }),
    ]
}

/// Makes the calls; returns what was chosen and why, in words.
fn answers(text: &str, calls: &[Call]) -> Vec<String> {
    let mut controller = PolicySpec::parse(text).unwrap().build_controller().unwrap();
    let by_index = |index: usize| Choice::all().nth(index).unwrap();
    let mut answers = Vec::new();
    for (step, call) in calls.iter().enumerate() {
        let now = Nanos::from_secs(100 * step as u64);
        match *call {
            Call::Choose => {}
            Call::Observe { choice, bytes, sent, chunks, processing } => {
                let (bytes, sent, processing) = (Bytes(bytes), Bytes(sent), Nanos(processing));
                let choice = by_index(choice);
                controller.observe(now, &Sample { choice, bytes, sent, chunks, processing });
            }
            Call::Conditions { link, processor } => {
                controller.conditions(now, &Conditions { link: link.map(Bytes), processor });
            }
            Call::Estimate { choice, bytes, would_save, processing } => {
                let (bytes, would_save) = (Bytes(bytes), Bytes(would_save));
                let (choice, processing) = (by_index(choice), Nanos(processing));
                let estimate = Estimate { choice, bytes, would_save, processing };
                controller.estimate(now, &estimate);
            }
            Call::Pass { saved } => pass(controller.as_mut(), now, saved),
        }
        let choice = controller.choose(now);
        assert!(controller.wanted().iter().all(|wanted| wanted != Choice::None));
        assert!(choice.size().is_none_or(|size| (128..=65_536).contains(&size.bytes())));
        check(&controller.why());
        answers.push(format!("{choice}: {}", controller.why()));
    }
    answers
}

fn pass(controller: &mut dyn Controller, now: Nanos, saved: u64) {
    const BYTES: u64 = 256 << 10;
    for _ in 0..1000 {
        let choice = controller.choose(now);
        let chunks = choice.size().map_or(0, |size| BYTES / u64::from(size.bytes()));
        let sent = Bytes(BYTES - BYTES * saved / 100);
        let processing = Nanos(BYTES + 600 * chunks);
        controller.observe(now, &Sample { choice, bytes: Bytes(BYTES), sent, chunks, processing });
    }
}

/// No number of a reason is anything but a number.
fn check(why: &Why) {
    let numbers = match *why {
        Why::Best { goodput, re, next_goodput, .. } => vec![goodput, re, next_goodput],
        Why::WarmUp { re } => re.into_iter().collect(),
        Why::TooSlow { throughput, expected } => vec![throughput, expected],
        Why::TooLittle { re, expected } => vec![re, expected],
        Why::NoGain { re } => vec![re],
        Why::AsExpected { throughput, re } => throughput.into_iter().chain([re]).collect(),
        Why::Set | Why::Learning { .. } | Why::Trying { .. } | Why::Relearning { .. } => vec![],
    };
    assert!(numbers.iter().all(|number| number.is_finite()), "{why:?}");
    assert!(!why.to_string().is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn whatever_is_told_answers_are_in_bounds_and_equal_calls_have_equal_answers(
        calls in proptest::collection::vec(call(), 1..60),
    ) {
        for entry in controllers() {
            let answers_once = answers(entry.name, &calls);
            prop_assert_eq!(answers_once, answers(entry.name, &calls));
        }
    }
}

/// A processor that was elsewhere for hours made one byte so dear that what came next was lost in
/// rounding: the mean was 0, and the limit of the next sample below the least cost.
#[test]
fn a_byte_that_took_hours_leaves_a_cost_above_nothing() {
    let observe = |choice, bytes, chunks, processing| Call::Observe {
        choice,
        bytes,
        sent: 0,
        chunks,
        processing,
    };
    let calls = [
        observe(11, 1, 0, 16_384_000_000_001),
        observe(11, u64::MAX, 0, 1),
        observe(12, 39_961_007_460, u64::MAX, 1),
        observe(11, u64::MAX, 0, u64::MAX),
    ];
    for entry in controllers() {
        assert_eq!(answers(entry.name, &calls).len(), calls.len(), "{}", entry.name);
    }
}

#[test]
fn samples_without_bytes_or_time_change_nothing() {
    for entry in controllers() {
        let clean: Vec<Call> = (0..40).map(|step| Call::Pass { saved: 2 * step }).collect();
        let empty = Call::Observe { choice: 5, bytes: 0, sent: 0, chunks: 0, processing: 0 };
        let nothing = Call::Estimate { choice: 5, bytes: 0, would_save: 0, processing: 0 };
        let noisy: Vec<Call> =
            clean.iter().flat_map(|call| [empty.clone(), call.clone(), nothing.clone()]).collect();
        let last = |calls: &[Call]| answers(entry.name, calls).pop().unwrap();
        if entry.name != "vnre" {
            assert_eq!(last(&clean), last(&noisy), "{}", entry.name);
        } else {
            // Its periods are of time, of which the other calls take more.
            assert_eq!(answers(entry.name, &noisy), answers(entry.name, &noisy));
        }
    }
}
