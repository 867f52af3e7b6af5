//! Functions and their images: what may be loaded, and what it needs.
//!
//! Invariant: every image in the catalogue is signed, fits a slot, and states what it needs. The
//! newest version of a function is the one that is loaded.

use crate::error::Refusal;
use thermocline_policy::accel::FunctionId;
use thermocline_units::Bytes;

/// A network function.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionSettings {
    /// Its name, which no other has.
    pub name: String,
    /// True if it keeps state of flows, which must go with a flow that moves.
    pub stateful: bool,
    /// True if it may replace packets. The verdicts of others cannot.
    pub alters: bool,
    /// Nanoseconds that a packet takes on the processor, above 0; `None`: it does not run there.
    pub processor: Option<f64>,
}

/// The finding of whoever checked an image's signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signature {
    /// A signature by a trusted key, over these bytes.
    Valid,
    /// There is none.
    Missing,
    /// Not over these bytes, or by another key.
    Invalid,
}

/// An image of a function for slots.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Image {
    /// Its function.
    pub function: FunctionId,
    /// Version, the higher the newer.
    pub version: u32,
    /// Units of logic (LUTs) that its region must have, above 0.
    pub room: u32,
    /// Length of the configuration, above 0.
    pub bytes: Bytes,
    /// Nanoseconds that a packet takes on a slot, as its maker states, above 0.
    pub cost: f64,
    /// The finding about its signature.
    pub signature: Signature,
}

/// Functions by number, with the newest image of each.
#[derive(Debug, Default)]
pub(crate) struct Catalogue {
    functions: Vec<FunctionSettings>,
    images: Vec<Option<Image>>,
}

impl Catalogue {
    pub(crate) fn declare(&mut self, settings: FunctionSettings) -> Result<FunctionId, Refusal> {
        if self.functions.iter().any(|known| known.name == settings.name) {
            return Err(Refusal::KnownFunction(settings.name));
        }
        if settings.processor.is_some_and(|cost| !(cost > 0.0 && cost.is_finite())) {
            return Err(Refusal::Empty(settings.name));
        }
        let id = FunctionId(self.functions.len() as u16);
        self.functions.push(settings);
        self.images.push(None);
        assert_eq!(self.functions.len(), self.images.len(), "a place for an image each");
        Ok(id)
    }

    /// Takes an image for slots of which the largest has `most` units.
    pub(crate) fn admit(&mut self, image: Image, most: u32) -> Result<(), Refusal> {
        let function = self.functions.get(image.function.index());
        let name = function.ok_or(Refusal::NoFunction(image.function.0))?.name.clone();
        match image.signature {
            Signature::Valid => {}
            Signature::Missing => return Err(Refusal::Unsigned(name)),
            Signature::Invalid => return Err(Refusal::BadSignature(name)),
        }
        if image.room == 0 || image.bytes.0 == 0 || !(image.cost > 0.0 && image.cost.is_finite()) {
            return Err(Refusal::Empty(name));
        }
        if image.room > most {
            return Err(Refusal::TooLarge { name, room: image.room, most });
        }
        let place = &mut self.images[image.function.index()];
        if let Some(have) = place.map(|have| have.version).filter(|have| *have >= image.version) {
            return Err(Refusal::NotNewer { name, have, given: image.version });
        }
        *place = Some(image);
        assert!(self.image(image.function).is_some(), "it is there now");
        Ok(())
    }

    pub(crate) fn functions(&self) -> &[FunctionSettings] {
        &self.functions
    }

    pub(crate) fn function(&self, id: FunctionId) -> &FunctionSettings {
        &self.functions[id.index()]
    }

    pub(crate) fn has(&self, id: FunctionId) -> bool {
        id.index() < self.functions.len()
    }

    pub(crate) fn image(&self, id: FunctionId) -> Option<&Image> {
        self.images.get(id.index()).and_then(Option::as_ref)
    }
}
