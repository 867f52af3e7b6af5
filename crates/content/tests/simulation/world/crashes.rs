//! Crashes: each block has one of the allowed versions afterwards.

use super::{Asked, World};
use crate::model::{Block, SECTORS, Value, Volume, stamps_of};
use std::collections::BTreeSet;
use thermocline_content::{
    Action, BLOCK, Completed, OpenError, Request, RequestId, Service, Store,
};
use thermocline_ports::faulty::{Faults, Survival};
use thermocline_units::{Bytes, VolumeId};

impl World {
    /// Simulates a loss of power: opens the store again, perhaps with further crashes, and checks
    /// that all expected contents are there.
    pub(crate) fn crash(&mut self, survival: Option<Survival>) {
        self.crash_at = None;
        if self.is_told {
            eprintln!("{:?} crash, {:?}", self.now, self.store());
        }
        let mut disk = self.store.take().expect("there").into_device();
        disk.make_room();
        self.flipped |= !disk.flipped().is_empty();
        // It may fail while it is opened, too; not the last time.
        disk.set_faults(Faults { flip: 0.0, fail: self.faults.fail * 8.0, ..self.faults });
        let calm = Faults { flip: 0.0, fail: 0.0, time_out: 0.0, ..self.faults };
        for round in 0.. {
            let survival = survival.unwrap_or_else(|| Survival::draw(&mut self.rng));
            disk.crash(&mut self.rng, survival);
            let store =
                Store::open(self.now, disk, self.settings.clone()).expect("the settings are right");
            self.store = Some(store);
            let troubled = self.faults.fail > 0.0 && round == 0;
            if troubled || (round < 3 && self.rng.below(4) == 0) {
                for _ in 0..self.rng.below(60) {
                    self.turn();
                }
                disk = self.store.take().expect("there").into_device();
                disk.set_faults(calm);
                continue;
            }
            self.store_mut().device_mut().set_faults(calm);
            break;
        }
        self.run_until(|world| *world.store().service() != Service::Opening);
        if let Service::Refused(error) = self.store().service().clone() {
            assert!(self.flipped, "refused: {error}");
            assert_ne!(error, OpenError::NoStore, "all superblocks are gone");
            self.is_over = true;
            return;
        }
        self.pins.clear();
        self.fetched.clear();
        self.compare();
        let faults = self.faults;
        self.store_mut().device_mut().set_faults(faults);
        self.troubled = faults.fail > 0.0;
    }

    /// Sets the model to the store's state, after checking that this state is allowed.
    fn compare(&mut self) {
        let asked = std::mem::take(&mut self.asked);
        let mut maybe: Vec<Volume> = Vec::new();
        let mut deleted: BTreeSet<VolumeId> = BTreeSet::new();
        for asked in asked.into_values() {
            match asked {
                Asked::Create(volume) | Asked::Clone { volume } => maybe.push(volume),
                Asked::Delete { volume } => {
                    deleted.insert(volume);
                }
                _ => {}
            }
        }
        let there = self.store().volumes();
        for status in &there {
            if let Some(volume) = self.model.volumes.get(&status.id) {
                assert_eq!((&volume.name, volume.size * 512), (&status.name, status.size.0));
                continue;
            }
            let found = maybe.iter().find(|volume| volume.name == status.name);
            let found = found.unwrap_or_else(|| panic!("{} came back", status.name));
            self.model.volumes.insert(status.id, found.clone());
        }
        let ids: BTreeSet<VolumeId> = there.iter().map(|status| status.id).collect();
        self.model.volumes.retain(|id, volume| {
            assert!(ids.contains(id) || deleted.contains(id), "{} is lost", volume.name);
            ids.contains(id)
        });
        self.check("after an opening");
        for id in ids {
            self.compare_volume(id);
        }
    }

    /// Reads a volume, checks that each block has an allowed version, and keeps that one.
    fn compare_volume(&mut self, id: VolumeId) {
        let blocks = self.model.volumes[&id].blocks.len() as u64;
        for first in (0..blocks).step_by(64) {
            let count = 64.min(blocks - first);
            let size = self.model.volumes[&id].size;
            let end = ((first + count) * SECTORS).min(size);
            let length = ((end - first * SECTORS) * 512) as u32;
            let action =
                Action::Read { volume: id, offset: Bytes(first * u64::from(BLOCK)), length };
            let request = Request { id: RequestId(self.next_id), action };
            self.next_id += 1;
            let now = self.now;
            self.store_mut().submit(now, request);
            let mut answers = Vec::new();
            while answers.is_empty() {
                let next = self.store().next_event().expect("a read ends");
                self.now = self.now.max(next);
                let now = self.now;
                self.store_mut().poll(now, &mut answers);
            }
            let data = match answers.remove(0).result {
                Ok(Completed::Read(data)) => data.to_vec(),
                other => {
                    assert!(self.flipped, "a read after an opening: {other:?}");
                    self.is_over = true;
                    return;
                }
            };
            let mut stamps = stamps_of(&data).unwrap_or_else(|| panic!("garbage in {id:?}"));
            stamps.resize((count * SECTORS) as usize, 0);
            let volume = self.model.volumes.get_mut(&id).expect("there");
            for (block, stamps) in (first..).zip(stamps.chunks(8)) {
                let value: Value = stamps.try_into().expect("eight");
                let block_model = &mut volume.blocks[block as usize];
                assert!(
                    block_model.allows(&value),
                    "{id:?} block {block}: {value:?} came back; may be {:?}",
                    block_model.versions
                );
                *block_model = Block::of(value);
            }
        }
    }
}
