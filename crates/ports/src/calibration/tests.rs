//! Modelled devices measured as black boxes: what comes out must do what they do.

use super::{Access, Calibration, Subject, calibrate};
use crate::model::{Medium, ModelDevice, Profile};
use crate::pattern::{self, Outcome, Pattern};
use std::convert::Infallible;
use thermocline_units::{Bytes, Nanos, Rng};

/// A modelled device in virtual time; every load finds it fresh, as a device that has come to rest.
struct Modelled {
    profile: Profile,
    requests: u64,
    seed: u64,
}

impl Subject for Modelled {
    type Error = Infallible;

    fn size(&self) -> Bytes {
        self.profile.size
    }

    fn discard_zeroes(&self) -> bool {
        self.profile.discard_zeroes
    }

    fn run(&mut self, pattern: &Pattern, from: Bytes) -> Result<Outcome, Infallible> {
        self.seed += 1;
        let mut device = ModelDevice::new(&self.profile, self.seed);
        Ok(pattern::run_at(&mut device, pattern, from, self.requests, self.seed))
    }
}

fn calibrated(name: &str, access: Access, requests: u64) -> (Profile, Calibration) {
    let profile = Profile::built_in(name).expect("it is built in");
    let mut subject = Modelled { profile: profile.clone(), requests, seed: 7 };
    let Ok(calibration) = calibrate(&mut subject, access, name, |_, _, _| {});
    (profile, calibration)
}

/// Every load with its error, for messages.
fn told(calibration: &Calibration) -> String {
    let rows = calibration.rows.iter().map(|row| {
        let (measured, modelled) = (row.measured.iops, row.modelled.iops);
        format!("{:45} {measured:12.1} {modelled:12.1} {:+.3}\n", row.name, row.error())
    });
    format!("{:#?}\n{}", calibration.profile.medium, rows.collect::<String>())
}

#[test]
fn servers_behind_a_lane_are_found_again() {
    let (profile, calibration) = calibrated("scm", Access::Destructive, 3_000);
    let (mean, worst) = calibration.errors();
    assert!(mean < 0.02 && worst < 0.06, "mean {mean}, worst {worst}\n{}", told(&calibration));
    let (Medium::Parallel(wanted), Medium::Parallel(found)) =
        (&profile.medium, &calibration.profile.medium)
    else {
        panic!("servers behind a lane")
    };
    assert_eq!(found.servers, wanted.servers);
    let close = |a: u64, b: u64| (a as f64 / b as f64 - 1.0).abs() < 0.06;
    assert!(close(found.read.bytes_per_s, wanted.read.bytes_per_s), "{found:?}");
    assert!(close(found.read_service.0, wanted.read_service.0), "{found:?}");
    assert!(close(found.write_service.0, wanted.write_service.0), "{found:?}");
}

#[test]
fn a_disk_is_recognised_with_its_speed_and_its_seeks() {
    // So many requests a load as a real disk serves in three seconds.
    for (name, rpm) in [("hdd-7200", 7_200), ("hdd-15k", 15_000)] {
        let (profile, calibration) = calibrated(name, Access::ReadOnly, 300);
        let (Medium::Disk(wanted), Medium::Disk(found)) =
            (&profile.medium, &calibration.profile.medium)
        else {
            panic!("{name} has a head")
        };
        assert_eq!(found.rpm, rpm);
        let off = found.seek_stroke.0 as f64 / wanted.seek_stroke.0 as f64 - 1.0;
        assert!(off.abs() < 0.15, "{name}: {found:?}");
        let (mean, worst) = calibration.errors();
        assert!(
            mean < 0.08 && worst < 0.35,
            "{name}: mean {mean}, worst {worst}\n{}",
            told(&calibration)
        );
    }
}

#[test]
fn flash_comes_out_as_servers_that_read_as_fast() {
    for name in ["nvme", "ssd-sata"] {
        let (_, calibration) = calibrated(name, Access::ReadOnly, 3_000);
        let (mean, worst) = calibration.errors();
        assert!(mean < 0.05 && worst < 0.15, "{name}: {mean}, {worst}\n{}", told(&calibration));
        // Small sequential reads meet on one die, which servers behind a lane cannot say.
        assert!(calibration.errors_elsewhere().1 < 2.0, "{}", told(&calibration));
        assert!(calibration.assumed.iter().any(|text| text.contains("writes were not measured")));
        assert_eq!(calibration.weights.writes, None);
    }
}

#[test]
fn weights_say_what_a_request_costs_in_reads() {
    let (_, disk) = calibrated("hdd-7200", Access::Destructive, 300);
    let unit = (disk.weights.sequential_read + disk.weights.random_read) / 2.0;
    assert!((unit - 1.0).abs() < 1e-9, "a read is the unit");
    assert!(disk.weights.random_read > 50.0 * disk.weights.sequential_read);
    let (_, scm) = calibrated("scm", Access::Destructive, 3_000);
    let writes = scm.weights.writes.expect("they were measured");
    assert!((scm.weights.random_read - 1.0).abs() < 0.05, "order does not matter there");
    assert!((1.0..1.4).contains(&writes.write), "2,400 MB/s against 2,000");
}

#[test]
fn any_figures_give_a_profile_that_can_be_written_and_read() {
    /// A device that makes no sense.
    struct Noise(Rng);
    impl Subject for Noise {
        type Error = Infallible;
        fn size(&self) -> Bytes {
            Bytes::from_mib(64)
        }
        fn discard_zeroes(&self) -> bool {
            true
        }
        fn run(&mut self, pattern: &Pattern, _from: Bytes) -> Result<Outcome, Infallible> {
            let scale = 10_u64.pow(self.0.below(9) as u32 + 1);
            let mut latencies: Vec<_> =
                (0..=self.0.below(40)).map(|_| Nanos(1 + self.0.below(scale))).collect();
            latencies.sort_unstable();
            let span = Nanos(1 + self.0.below(scale) * 50);
            let (reads, writes) = match pattern.reads {
                0.0 => (Vec::new(), latencies),
                _ => (latencies, Vec::new()),
            };
            Ok(Outcome { block: pattern.block, span, reads, writes })
        }
    }
    for seed in 0..4 {
        let mut noise = Noise(Rng::seeded(seed));
        let Ok(found) = calibrate(&mut noise, Access::Destructive, "noise", |_, _, _| {});
        let text = found.profile.to_toml();
        let again = Profile::parse(&text, "noise");
        assert!(again.is_ok(), "seed {seed}: {again:?}\n{text}");
    }
}
