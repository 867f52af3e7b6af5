//! The heat map: how often each chunk was accessed in each of the last N epochs, and its
//! temperature.
//!
//! 1. An access adds one to its chunk's counter of the running epoch; counters saturate at 65 535.
//! 2. At the epoch's end, T = λ · Σ_{j=1..N} M(j) · C(j), where M(j) counts the j-th last epoch
//!    (Tai 2015 §4.2.2.4, eq. 18–19). This is the source's *cumulative* temperature; its *instant*
//!    one is the newest epoch's λ·M(1), a term of the sum (decision 0012).
//! 3. The oldest epoch's counters become the next epoch's.
//!
//! State: 2·N B of counters a chunk (16 B at the source's N = 8) and 12 B of address: 28 B, as in
//! Tai 2015 §4.2.2.3.

use super::chunks::Chunks;
use super::cooling::Cooling;
use super::{ChunkAccess, FLASH, VolumeView};
use crate::registry::{Setting, Settings, SettingsError};
use thermocline_units::ChunkId;

/// Epochs of history at most: 512 B of counters a chunk.
const HISTORY_EPOCHS_MAX: u64 = 256;

pub(super) const HISTORY: Setting = Setting {
    name: "history",
    default: "8",
    unit: "epochs",
    help: "epochs of access counts kept; 1 ranks by the last epoch alone",
};
pub(super) const LAMBDA: Setting = Setting {
    name: "lambda",
    default: "1",
    unit: "weight, or weights by volume as 1/4/1",
    help: "how fast requests heat a chunk; volumes past the end of a list get 1",
};
pub(super) const COOLING: Setting = Setting {
    name: "cooling",
    default: "scaled",
    unit: "scaled, printed or half-life",
    help: "how history fades: eq. 20 stretched to the history, as printed, or exponential",
};
pub(super) const HALF_LIFE: Setting = Setting {
    name: "half-life",
    default: "2",
    unit: "epochs",
    help: "after how long a request counts half, with cooling=half-life",
};

/// Settings of the heat map.
#[derive(Debug, Clone)]
pub(super) struct HeatSettings {
    factors: Vec<f64>,
    lambda: Lambda,
}

#[derive(Debug, Clone)]
enum Lambda {
    Same(f64),
    ByVolume(Vec<f64>),
}

impl HeatSettings {
    pub(super) fn read(settings: &Settings) -> Result<HeatSettings, SettingsError> {
        let history = settings.count("history", 1, HISTORY_EPOCHS_MAX)? as usize;
        let half_life = settings.number("half-life", 0.01, 1e6)?;
        let shapes = [Cooling::Scaled, Cooling::Printed, Cooling::HalfLife(half_life)];
        let cooling = shapes[settings.choice("cooling", &["scaled", "printed", "half-life"])?];
        Ok(HeatSettings { factors: cooling.factors(history), lambda: Lambda::read(settings)? })
    }
}

impl Lambda {
    fn read(settings: &Settings) -> Result<Lambda, SettingsError> {
        let text = settings.text("lambda");
        if !text.contains('/') {
            return Ok(Lambda::Same(settings.number("lambda", 1e-6, 1e6)?));
        }
        settings.numbers("lambda", 1e-6, 1e6).map(Lambda::ByVolume)
    }

    fn of(&self, volume: u32) -> f64 {
        match self {
            Lambda::Same(weight) => *weight,
            Lambda::ByVolume(weights) => weights.get(volume as usize).copied().unwrap_or(1.0),
        }
    }
}

/// Access counts by chunk and epoch.
#[derive(Debug)]
pub(super) struct HeatMap {
    pub(super) chunks: Chunks,
    settings: HeatSettings,
    /// `history` counters a chunk; the running epoch's is at `column`.
    counts: Vec<u16>,
    column: usize,
    /// True for chunks that were on flash when `look` was last called.
    on_flash: Vec<bool>,
}

impl HeatMap {
    pub(super) fn new(settings: HeatSettings) -> HeatMap {
        HeatMap {
            chunks: Chunks::default(),
            settings,
            counts: Vec::new(),
            column: 0,
            on_flash: Vec::new(),
        }
    }

    fn history(&self) -> usize {
        self.settings.factors.len()
    }

    /// The number of `chunk`, with counters of its own.
    #[inline]
    fn number(&mut self, chunk: ChunkId) -> u32 {
        let number = self.chunks.number(chunk);
        if number as usize * self.history() == self.counts.len() {
            self.counts.resize(self.counts.len() + self.history(), 0);
        }
        number
    }

    /// Counts one access; the chunk's number.
    #[inline]
    pub(super) fn record(&mut self, access: &ChunkAccess) -> u32 {
        let number = self.number(access.chunk);
        let at = number as usize * self.history() + self.column;
        self.counts[at] = self.counts[at].saturating_add(1);
        number
    }

    /// Takes note of what is on flash; chunks met there for the first time become cold chunks.
    pub(super) fn look(&mut self, view: &dyn VolumeView) {
        self.on_flash.clear();
        self.on_flash.resize(self.chunks.len() as usize, false);
        view.visit_pool(FLASH, &mut |chunk| {
            let number = self.number(chunk) as usize;
            if number >= self.on_flash.len() {
                self.on_flash.resize(number + 1, false);
            }
            self.on_flash[number] = true;
        });
    }

    /// True if `chunk` was on flash at the last `look`.
    #[inline]
    pub(super) fn is_on_flash(&self, number: u32) -> bool {
        self.on_flash[number as usize]
    }

    /// Accesses of `chunk` in the running epoch.
    #[inline]
    pub(super) fn last(&self, number: u32) -> u16 {
        self.counts[number as usize * self.history() + self.column]
    }

    /// The temperature at the end of the running epoch, ≥ 0. O(history).
    #[inline]
    pub(super) fn temperature(&self, number: u32) -> f64 {
        let history = self.history();
        let counts = &self.counts[number as usize * history..][..history];
        let (until, older) = counts.split_at(self.column + 1);
        let newest_first = until.iter().rev().chain(older.iter().rev());
        let heat: f64 =
            newest_first.zip(&self.settings.factors).map(|(m, c)| f64::from(*m) * c).sum();
        heat * self.settings.lambda.of(self.chunks.id(number).volume.0)
    }

    /// Starts the next epoch in the oldest one's counters.
    pub(super) fn advance(&mut self) {
        let history = self.history();
        self.column = (self.column + 1) % history;
        self.counts.iter_mut().skip(self.column).step_by(history).for_each(|count| *count = 0);
    }

    pub(super) fn bytes(&self) -> u64 {
        self.chunks.bytes() + self.counts.capacity() as u64 * 2 + self.on_flash.capacity() as u64
    }
}
