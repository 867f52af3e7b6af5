//! Scenario of a run of `lab accel`: tenants, functions, events.

use thermocline_accel::CardSettings;
use thermocline_policy::registry::SpecError;
use thermocline_units::{Bytes, Nanos};

/// A scene that cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum SceneError {
    /// A scheduler is unknown, or has a wrong setting.
    #[error(transparent)]
    Policy(#[from] SpecError),
    /// The scene makes no sense.
    #[error("{0}")]
    Scene(String),
}

/// A function, as it is modelled.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionModel {
    /// Its name.
    pub name: &'static str,
    /// True if it keeps state of flows.
    pub stateful: bool,
    /// True if it alters packets.
    pub alters: bool,
    /// Nanoseconds a packet on a slot, above 0. Its image states this, too.
    pub slot: f64,
    /// Nanoseconds a packet on the processor, above 0.
    pub processor: f64,
    /// Units of logic.
    pub room: u32,
    /// Length of its image.
    pub image: Bytes,
}

/// Units of logic of a little slot.
pub(crate) const LITTLE: u32 = 8_000;
/// Units of logic of a big slot.
pub(crate) const BIG: u32 = 16_000;

/// Loading times of a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// A region by itself: 3 ms for a little image, 5 ms for a big one (OpenANFV's 3 to 5 ms).
    Partial,
    /// Time of a whole card of the source: 13 ms (10 to 15 ms).
    Full,
    /// A whole ECP5-45 image, 1.03 MB, through a serial port of 50 MB/s: 21.6 ms.
    Ecp5,
}

/// Packets of one origin.
#[derive(Debug, Clone, PartialEq)]
pub struct Tenant {
    /// Its chain: functions by number.
    pub chain: Vec<u16>,
    /// Packets a second, above 0.
    pub rate: f64,
    /// Flows, 1 or more.
    pub flows: u32,
}

/// A change of a scene, made when its time has come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Happening {
    /// Nothing.
    Nothing,
    /// Everybody sends so many times as much.
    Demand(f64),
    /// Everybody sends a third, and after 300 ms as much as before.
    FallAndReturn,
    /// The first tenant's chain gets the function of this number behind its first one.
    FunctionAdded(u16),
    /// The slot of the function of this number dies for good.
    SlotDies(u16),
    /// The first card is emptied.
    CardDrained,
    /// The second tenant stops, and the third sends twice as much.
    Exchange,
}

impl Happening {
    /// Its name in tables.
    pub fn name(self) -> String {
        match self {
            Happening::Nothing => "nothing".to_string(),
            Happening::Demand(times) => format!("demand x {times}"),
            Happening::FallAndReturn => "demand falls and returns".to_string(),
            Happening::FunctionAdded(_) => "a function is added".to_string(),
            Happening::SlotDies(_) => "a slot dies".to_string(),
            Happening::CardDrained => "a card is drained".to_string(),
            Happening::Exchange => "a slot is reloaded".to_string(),
        }
    }
}

/// Time after which demand that fell is back.
pub(crate) const BACK_AFTER: Nanos = Nanos(300_000_000);

/// Cards, functions, tenants, and what happens.
#[derive(Debug, Clone)]
pub struct Scene {
    /// Cards.
    pub cards: Vec<CardSettings>,
    /// Functions, by number.
    pub functions: Vec<FunctionModel>,
    /// Tenants.
    pub tenants: Vec<Tenant>,
    /// Popularity of flows: exponent of a power law, 0 (all alike) to 0.9.
    pub skew: f64,
    /// The change.
    pub happening: Happening,
    /// Time of the change; what was before is not counted.
    pub at: Nanos,
    /// Length of the whole.
    pub length: Nanos,
    /// Time of a batch to a slot and back, without the work.
    pub trip: Nanos,
}

impl Scene {
    /// Three functions in one chain on two cards of two little slots and a big one: 60,000 packets
    /// a second of 256 flows. Times of loads and factors over the processor are those of OpenANFV
    /// (Ge 2017 §4.5: 3 to 5 ms a slot; NAT ×10, DPI ×20, Dedup ×8.2), costs are ours.
    pub fn chain(happening: Happening) -> Scene {
        let chain = match happening {
            Happening::FunctionAdded(function) => {
                (0..3).filter(|known| *known != function).collect()
            }
            _ => vec![0, 1, 2],
        };
        Scene {
            cards: vec![
                card("card0", &[LITTLE, LITTLE, BIG]),
                card("card1", &[LITTLE, LITTLE, BIG]),
            ],
            functions: functions(),
            tenants: vec![Tenant { chain, rate: 60_000.0, flows: 256 }],
            skew: 0.5,
            happening,
            at: Nanos(400_000_000),
            length: Nanos(1_200_000_000),
            trip: Nanos(2_000),
        }
    }

    /// A tenant for each function on one card of three big slots; the slot of the second is loaded
    /// anew for the third.
    pub fn tenants() -> Scene {
        let tenant = |function| Tenant { chain: vec![function], rate: 60_000.0, flows: 85 };
        let tenants = (0..3).map(tenant).collect();
        let cards = vec![card("card0", &[BIG, BIG, BIG])];
        Scene { cards, tenants, ..Scene::chain(Happening::Exchange) }
    }

    /// The same with the loading times of another kind of card.
    #[must_use]
    pub fn with_profile(mut self, profile: Profile) -> Scene {
        let (rate, image) = match profile {
            Profile::Partial => return self,
            Profile::Full => (Bytes(200_000_000), Bytes(2_400_000)),
            Profile::Ecp5 => (Bytes(50_000_000), Bytes(1_030_000)),
        };
        self.cards.iter_mut().for_each(|card| card.port_rate = rate);
        self.functions.iter_mut().for_each(|function| function.image = image);
        self
    }

    /// Checks that it can be played.
    pub(super) fn check(&self) -> Result<(), SceneError> {
        let wrong = |text: &str| Err(SceneError::Scene(text.to_string()));
        if self.cards.iter().any(|card| card.slots.is_empty()) || self.cards.is_empty() {
            return wrong("a scene has cards, and a card has slots");
        }
        let is_right = |rate: f64| rate.is_finite() && rate > 0.0 && rate <= 1e7;
        if self.tenants.is_empty() || !self.tenants.iter().all(|tenant| is_right(tenant.rate)) {
            return wrong("a tenant sends above 0 and at most 10,000,000 packets a second");
        }
        if self.tenants.iter().any(|tenant| tenant.flows == 0 || tenant.chain.is_empty()) {
            return wrong("a tenant has flows and a chain");
        }
        if !(0.0..=0.9).contains(&self.skew) {
            return wrong("the skew is from 0 to 0.9");
        }
        if self.at >= self.length || self.length > Nanos::from_secs(60) {
            return wrong("the change comes before the end, and the end within a minute");
        }
        let numbers = self.functions.len();
        let named = self.tenants.iter().flat_map(|tenant| &tenant.chain);
        if named.into_iter().any(|function| usize::from(*function) >= numbers) {
            return wrong("a chain names a function that is not there");
        }
        match self.happening {
            Happening::Demand(times) if !is_right(times) || times > 100.0 => {
                wrong("demand changes by a factor above 0 and at most 100")
            }
            _ => Ok(()),
        }
    }

    /// The factor on a tenant's demand at a time.
    pub(super) fn factor(&self, tenant: usize, at: Nanos) -> f64 {
        if at < self.at {
            return 1.0;
        }
        match (self.happening, tenant) {
            (Happening::Demand(times), _) => times,
            (Happening::FallAndReturn, _) if at.0 < self.at.0 + BACK_AFTER.0 => 1.0 / 3.0,
            (Happening::Exchange, 1) => 0.0,
            (Happening::Exchange, 2) => 2.0,
            _ => 1.0,
        }
    }

    /// A tenant's chain at a time.
    pub(super) fn chain_at(&self, tenant: usize, at: Nanos) -> Vec<u16> {
        let mut chain = self.tenants[tenant].chain.clone();
        if let (Happening::FunctionAdded(function), 0) = (self.happening, tenant)
            && at >= self.at
        {
            chain.insert(1, function);
        }
        chain
    }
}

fn card(name: &str, rooms: &[u32]) -> CardSettings {
    let mut card = CardSettings::new(name, rooms.len(), LITTLE);
    card.slots.iter_mut().zip(rooms).for_each(|(slot, room)| slot.room = *room);
    card
}

fn functions() -> Vec<FunctionModel> {
    let function = |name, slot: f64, times: f64, room, image| FunctionModel {
        name,
        stateful: true,
        alters: name == "nat",
        slot,
        processor: slot * times,
        room,
        image: Bytes(image),
    };
    vec![
        function("nat", 4_000.0, 10.0, LITTLE, 400_000),
        function("dpi", 6_000.0, 20.0, LITTLE, 400_000),
        function("dedup", 8_000.0, 8.2, BIG, 800_000),
    ]
}
