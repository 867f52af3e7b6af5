//! The learnt state of a policy: any bytes are refused, or taken and written again as they are.

#![no_main]

use libfuzzer_sys::fuzz_target;
use thermocline_policy::placement::Placement;
use thermocline_policy::registry::PolicySpec;
use thermocline_units::ChunkId;

fn auto() -> Box<dyn Placement> {
    PolicySpec::parse("auto").unwrap().build_placement().unwrap()
}

fuzz_target!(|bytes: &[u8]| {
    let exists = |chunk: ChunkId| chunk.volume.0 < 16 && chunk.index < 1 << 20;
    let mut placement = auto();
    if placement.learn_from(bytes, &exists).is_err() {
        return assert_eq!(placement.learnt(), auto().learnt(), "nothing has changed");
    }
    let learnt = placement.learnt().unwrap();
    let mut again = auto();
    again.learn_from(&learnt, &exists).unwrap();
    assert_eq!(again.learnt().unwrap(), learnt);
});
