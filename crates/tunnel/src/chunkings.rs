//! Chunkings of the choices that a controller has.

use thermocline_chunking::{Chunking, Engine, Method};
use thermocline_policy::tunnel::Choice;
use thermocline_ports::accelerator::Fingerprint;
use thermocline_units::Bytes;

/// The chunking of a choice. Content is cut by the method that is fastest on this processor; the
/// other end need not know which.
pub(crate) fn chunking(choice: Choice) -> Chunking {
    let sized = |method, bytes: u32| {
        Chunking::new(method, Bytes(bytes.into())).expect("choices are powers of two in range")
    };
    match choice {
        Choice::None => Chunking::NONE,
        Choice::Fixed(size) => sized(Method::Fixed, size.bytes()),
        Choice::Content(size) if Engine::fastest() != Engine::Scalar => {
            sized(Method::Rabin16, size.bytes())
        }
        Choice::Content(size) => sized(Method::Gear, size.bytes()),
    }
}

/// The chunking of a choice where content is cut by this fingerprint, whoever cuts it; `None`: by
/// the fastest one here.
pub(crate) fn chunking_by(fingerprint: Option<Fingerprint>, choice: Choice) -> Chunking {
    let (Choice::Content(size), Some(fingerprint)) = (choice, fingerprint) else {
        return chunking(choice);
    };
    let method = match fingerprint {
        Fingerprint::RabinSource => Method::RabinSource,
        Fingerprint::Rabin16 => Method::Rabin16,
    };
    Chunking::new(method, Bytes(size.bytes().into())).expect("choices are powers of two in range")
}
