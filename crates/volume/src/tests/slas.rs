//! SLAs of volumes, and what counts as kept.

use super::{Bench, CHUNK};
use crate::{Action, AdminError, SlaRecord};
use thermocline_policy::placement::{Sla, SlaClass};
use thermocline_units::{Bytes, Nanos, VolumeId};

const V0: VolumeId = VolumeId(0);

fn bench() -> Bench {
    let mut bench = Bench::new(&[4, 8]);
    bench.group.create_volume(Nanos(0), Bytes(10 * CHUNK)).expect("a volume");
    bench
}

fn promised(latency: Nanos) -> Option<Sla> {
    Some(Sla { latency, class: SlaClass::Strict })
}

fn record(bench: &Bench) -> SlaRecord {
    let mut volumes = bench.group.volumes();
    volumes.next().expect("there is one").sla.expect("it has an SLA")
}

#[test]
fn a_request_answered_later_than_promised_is_a_violation_and_a_flush_is_not_judged() {
    // Disks take some microseconds: never within a nanosecond, always within an hour.
    for (latency, violations) in [(Nanos(1), 2), (Nanos::from_secs(3600), 0)] {
        let mut bench = bench();
        bench.write(0, 1, 512);
        bench.group.set_sla(V0, promised(latency)).expect("there is a volume");
        bench.write(0, 2, 512);
        bench.read(0, 512).expect("readable");
        bench.flush();
        let beyond = Action::Read { offset: Bytes(10 * CHUNK), length: 512 };
        bench.ask(beyond).expect_err("it is beyond the end");
        let record = record(&bench);
        assert_eq!((record.answered, record.violations), (2, violations));
        assert_eq!(record.excess.0 > 0, violations > 0);
    }
}

#[test]
fn counts_begin_anew_with_another_promise_only() {
    let mut bench = bench();
    bench.group.set_sla(V0, promised(Nanos(5))).expect("there is a volume");
    bench.write(0, 1, 512);
    bench.group.set_sla(V0, promised(Nanos(5))).expect("there is a volume");
    assert_eq!(record(&bench).answered, 1);
    bench.group.set_sla(V0, promised(Nanos(6))).expect("there is a volume");
    assert_eq!(record(&bench).answered, 0);
    bench.group.set_sla(V0, None).expect("there is a volume");
    assert_eq!(bench.group.volumes().next().expect("it is there").sla, None);
}

#[test]
fn a_volume_made_in_the_place_of_a_deleted_one_is_promised_nothing() {
    let mut bench = bench();
    bench.group.set_sla(V0, promised(Nanos(5))).expect("there is a volume");
    bench.group.delete_volume(Nanos(0), V0).expect("there is a volume");
    let refused = bench.group.set_sla(V0, promised(Nanos(5)));
    assert_eq!(refused, Err(AdminError::NoVolume(V0)));
    bench.pass(Nanos::from_secs(2));
    let size = Bytes(CHUNK);
    let made = bench.group.create_volume(Nanos::from_secs(9), size).expect("there is room");
    assert_eq!(made, V0, "its number is free again");
    let volume = bench.group.volumes().find(|volume| volume.id == made).expect("it was made");
    assert_eq!(volume.sla, None);
}
