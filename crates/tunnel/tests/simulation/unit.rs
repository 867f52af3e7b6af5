//! A unit that cuts for an end, and what goes wrong with it.

use crate::compute::compute;
use thermocline_ports::accelerator::{Accelerator, Fingerprint};
use thermocline_ports::faulty::{AcceleratorFaults, FaultyAccelerator};
use thermocline_ports::model::{AcceleratorProfile, ModelAccelerator};
use thermocline_tunnel::{End, OffloadSettings, UnitFault};
use thermocline_units::situations::met;
use thermocline_units::{Bytes, Nanos, Rng};

/// A unit, its twin of many faults.
pub(crate) struct Unit {
    accelerator: FaultyAccelerator<ModelAccelerator>,
    profile: AcceleratorProfile,
    faults: AcceleratorFaults,
    /// True while the end takes it to work.
    is_up: bool,
    /// True if it may be taken away in the midst of its work.
    is_wanted_elsewhere: bool,
}

fn profile(rng: &mut Rng) -> AcceleratorProfile {
    AcceleratorProfile {
        source: "drawn",
        clock: 100e6,
        bytes_per_cycle: 8.0,
        cycles_a_job: 60.0,
        cycles_a_position: 0.0,
        transfer: (100.0, 0.1),
        hand_back: (100.0, 0.1),
        overlaps: rng.below(2) == 0,
        buffer_max: Bytes([700, 64 << 10][rng.below(2) as usize]),
        queue_depth: 1 + rng.below(4) as u32,
        units: 1 + rng.below(2) as u32,
        only: [None, Some(Fingerprint::RabinSource)][rng.below(2) as usize],
    }
}

fn faults(rng: &mut Rng) -> AcceleratorFaults {
    let mut faults = AcceleratorFaults::NONE;
    let share = [0.02, 0.3][rng.below(2) as usize];
    match rng.below(8) {
        0 => faults.wrong = share,
        1 => faults.missing = share,
        2 => faults.length = share,
        3 => faults.lose = share,
        4 => faults.fail = share,
        5 => (faults.hang, faults.die) = (share, share),
        6 => (faults.late, faults.late_by) = (share, Nanos::from_micros(400_000)),
        _ => {}
    }
    faults
}

impl Unit {
    pub(crate) fn drawn(rng: &mut Rng) -> Unit {
        let (profile, faults) = (profile(rng), faults(rng));
        let is_wanted_elsewhere = rng.below(4) == 0;
        let accelerator = begun(rng, profile, faults);
        Unit { accelerator, profile, faults, is_up: true, is_wanted_elsewhere }
    }

    /// The settings of an end that has it.
    pub(crate) fn settings(&self, rng: &mut Rng) -> OffloadSettings {
        OffloadSettings {
            least: Bytes([1, 300, 16 << 10][rng.below(3) as usize]),
            patience: Nanos::from_micros(300_000),
            check_one_in: [1, 8][rng.below(2) as usize],
            ..OffloadSettings::new(self.accelerator.abilities())
        }
    }

    /// Takes the end's jobs, and hands it what is done by now.
    pub(crate) fn work(&mut self, rng: &mut Rng, now: Nanos, end: &mut End) {
        while let Some((ticket, job)) = end.next_cut_job() {
            assert!(self.is_up, "a unit that failed gets nothing");
            self.accelerator.submit(now, ticket, job);
        }
        let mut done = Vec::new();
        self.accelerator.poll(now, &mut done);
        done.into_iter().for_each(|done| end.cut_done(now, done));
        end.tick(now).expect("the other end is not silent for long");
        while let Some(fault) = end.next_unit_fault() {
            self.judge(fault);
            self.is_up = false;
        }
        match rng.below(60) {
            0 if self.is_up && self.is_wanted_elsewhere => {
                met("a unit was taken away");
                end.unit_failed(now);
                self.is_up = false;
            }
            1..6 if !self.is_up => {
                if rng.below(2) == 0 {
                    // As the process that is started anew; otherwise what the old one still says
                    // comes, too.
                    self.accelerator = begun(rng, self.profile, self.faults);
                }
                end.unit_is_back();
                self.is_up = true;
            }
            _ => {}
        }
    }

    /// A unit is said to have failed only if it did something wrong.
    fn judge(&self, fault: UnitFault) {
        let misdeeds = self.accelerator.misdeeds();
        let is_guilty = match fault {
            UnitFault::Late => misdeeds.lost + misdeeds.late > 0,
            UnitFault::Lied(_) => misdeeds.lies > 0,
            UnitFault::Failed(_) => misdeeds.failed > 0,
        };
        assert!(is_guilty, "{fault}, but it only did {misdeeds:?}");
    }
}

fn begun(
    rng: &mut Rng,
    profile: AcceleratorProfile,
    faults: AcceleratorFaults,
) -> FaultyAccelerator<ModelAccelerator> {
    let model = ModelAccelerator::new(profile, Box::new(compute));
    FaultyAccelerator::new(model, rng.next_u64(), faults)
}
