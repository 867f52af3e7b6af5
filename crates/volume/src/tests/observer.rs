//! Events that an observer is told, and their order.

use super::{Bench, CHUNK};
use crate::{Action, Decision, Observer, Request, RequestError, RequestId, Settings};
use std::sync::{Arc, Mutex};
use thermocline_policy::placement::{ChunkAccess, PoolChange, PoolLoad, Route};
use thermocline_policy::registry::PolicySpec;
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId};

/// Writes down what it hears, in words.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    fn note(&self, text: String) {
        self.0.lock().expect("nobody panics with it").push(text);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().expect("nobody panics with it"))
    }
}

impl Observer for Notes {
    fn asked(&mut self, _: Nanos, request: &Request) {
        let what = match request.action {
            Action::Read { offset, length } => format!("read {}+{length}", offset.0),
            Action::Write { offset, .. } => format!("write {}", offset.0),
            Action::Flush => "flush".to_string(),
            _ => "other".to_string(),
        };
        self.note(format!("asked {what}"));
    }

    fn answered(&mut self, _: Nanos, _: RequestId, done: bool) {
        self.note(format!("answered {done}"));
    }

    fn placed(&mut self, _: Nanos, name: &str) {
        self.note(format!("placed {name:?}"));
    }

    fn pools_changed(&mut self, _: Nanos, change: PoolChange) {
        self.note(format!("{change:?}"));
    }

    fn accessed(&mut self, access: &ChunkAccess) {
        self.note(format!("{} {} {}", access.chunk, access.bytes.0, access.write));
    }

    fn routed(&mut self, _: Nanos, _: &[PoolLoad], _: Route) {}

    fn decided(&mut self, decision: &Decision<'_>) {
        let home = decision.view.pool_of(ChunkId::default());
        self.note(format!("decided {:?} {:?}", decision.moves, home));
    }
}

fn bench() -> (Bench, Notes) {
    let settings = Settings { epoch: Nanos::from_secs(10), ..Bench::settings() };
    let mut bench = Bench::with_settings(&[4, 8], 0, settings);
    bench.group.create_volume(Nanos(0), Bytes(10 * CHUNK)).expect("a volume");
    let notes = Notes::default();
    assert!(bench.group.set_observer(Some(Box::new(notes.clone()))).is_none());
    (bench, notes)
}

#[test]
fn a_request_is_told_before_its_parts_and_its_answer_after_them() {
    let (mut bench, notes) = bench();
    bench.read(CHUNK - 512, 1024).expect("readable");
    bench.write(0, 1, 512);
    bench.flush();
    let heard = [
        "asked read 65024+1024",
        "v0:0 512 false",
        "v0:1 512 false",
        "answered true",
        "asked write 0",
        "v0:0 512 true",
        "answered true",
        "asked flush",
        "answered true",
    ];
    assert_eq!(notes.take(), heard);
}

#[test]
fn a_request_that_is_not_taken_is_not_told_as_asked() {
    let (mut bench, notes) = bench();
    let beyond = Action::Read { offset: Bytes(10 * CHUNK), length: 512 };
    assert_eq!(bench.ask(beyond), Err(RequestError::BadRange));
    assert_eq!(notes.take(), ["answered false"]);
}

#[test]
fn decisions_are_told_with_what_was_seen_under_the_name_of_who_decided() {
    let (mut bench, notes) = bench();
    let spec = PolicySpec::parse("baseline:k=2").expect("it is in the registry");
    let placement = spec.build_placement().expect("2 is a count");
    bench.group.set_named_placement(&spec.spelled_out(), placement);
    assert_eq!(bench.group.placement_name(), "baseline:k=2");
    bench.write(0, 1, 512);
    bench.pass(Nanos::from_secs(11));
    let decided = format!("decided [] {:?}", PoolId(0));
    let heard = ["placed \"baseline:k=2\"", "asked write 0", "v0:0 512 true", "answered true"];
    assert_eq!(notes.take(), heard.iter().chain([&&*decided]).copied().collect::<Vec<_>>());
    bench.group.set_placement(None);
    assert_eq!(notes.take(), ["placed \"\""]);
    assert!(bench.group.set_observer(None).is_some(), "whoever listened is given back");
    bench.flush();
    assert_eq!(notes.take(), [""; 0]);
}
