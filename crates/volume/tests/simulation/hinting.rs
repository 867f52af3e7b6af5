//! Hints, right, wrong and malformed: they may cost speed and nothing else.

use crate::dice::Dice;
use crate::run::Runner;
use thermocline_policy::hints::store::Hint;
use thermocline_policy::hints::{Facts, Level, Life, Usage, Wishes};
use thermocline_units::{Bytes, Nanos, VolumeId};

/// No volume of a run is larger than this.
const LARGEST: u64 = 12 << 20;

impl Runner<'_> {
    /// Says anything of anything.
    pub(crate) fn hint(&mut self, volume: u8, seed: u32) {
        let mut dice = Dice::seeded(u64::from(seed));
        let (now, size) = (self.world.now, LARGEST);
        let volume = VolumeId(u32::from(volume));
        self.placing = true; // Their moves are a placement's.
        for _ in 0..dice.between(1..=8) {
            let facts = Facts {
                metadata: dice.chance(0.2),
                file_size: dice.chance(0.5).then(|| Bytes(dice.magnitude(1..=1 << 40))),
                usage: dice.one_of(&Usage::ALL),
                life: dice.one_of(&Life::ALL),
                ..Facts::default()
            };
            let background_ms = dice.chance(0.3).then(|| dice.magnitude(1..=20_000) as u32);
            let wishes = Wishes { pin: dice.chance(0.1), demote: dice.chance(0.1), background_ms };
            let start = dice.between(0..=size);
            let range = (start, start.saturating_add(dice.magnitude(1..=2 * size)) - 1);
            let level = dice.one_of(&[Level::System, Level::Volume, Level::File, Level::Range]);
            let source = dice.one_of(&["a", "b", "c", ""]);
            let until = dice.chance(0.3).then(|| Nanos(now.0 + dice.magnitude(1..=1 << 30)));
            let volume = (level != Level::System).then_some(volume);
            let hint = Hint { source, level, volume, range, facts: &facts, wishes, until };
            // Whether it makes sense is the group's to judge.
            let _ = self.world.group_mut().hint(now, &hint);
        }
        if dice.chance(0.5) {
            let start = dice.between(0..=size);
            let due = dice.chance(0.5).then(|| Nanos(dice.magnitude(1..=1 << 40)));
            let _ = self.world.group_mut().prefetch(now, volume, (start, size), due);
        }
        if dice.chance(0.2) {
            self.world.group_mut().forget_hints("a");
        }
    }
}
