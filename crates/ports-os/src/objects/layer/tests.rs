//! Layers against a plain vector of sectors.

use super::*;
use thermocline_units::Rng;

const LENGTH: u32 = 4096 * 5 + 1536;

fn sectors(rng: &mut Rng) -> Range<u32> {
    let count = LENGTH / SECTOR;
    let first = rng.below(u64::from(count)) as u32;
    let last = first + 1 + rng.below(u64::from(count - first)) as u32;
    first * SECTOR..last * SECTOR
}

/// Contents of a whole extent as read through a layer, over 0xee.
fn read(layer: &Layer) -> Vec<u8> {
    let whole = 0..LENGTH;
    let mut out = vec![0; LENGTH as usize];
    let mut missing = missing_in(&whole);
    layer.fill(&whole, &mut out, &mut missing);
    fill_from(&vec![0xee; LENGTH as usize], 0, &whole, &mut out, &missing);
    out
}

#[test]
fn a_layer_shows_what_was_written_last_and_the_rest_from_below() {
    for seed in 0..200 {
        let mut rng = Rng::seeded(seed);
        let (mut layer, mut model) = (Layer::default(), vec![0xee; LENGTH as usize]);
        for step in 1..12u8 {
            if rng.below(9) == 0 {
                layer.drop_all();
                model.fill(0);
                continue;
            }
            let range = sectors(&mut rng);
            let data = Payload::from(vec![step; range.len()]);
            layer.write(range.start, &data);
            model[range.start as usize..range.end as usize].fill(step);
            assert!(read(&layer) == model, "seed {seed} step {step}");
        }
        let is_whole = !model.contains(&0xee);
        assert_eq!(layer.covers(LENGTH), is_whole, "seed {seed}");
        let range = sectors(&mut rng);
        let mut missing = missing_in(&range);
        let mut out = vec![0; range.len()];
        layer.fill(&range, &mut out, &mut missing);
        if let Some(blocks) = span_of(&missing, blocks_of(&range).start) {
            let from = (blocks.start * BLOCK) as usize;
            let below = vec![0xee; (blocks.end * BLOCK).min(LENGTH) as usize - from];
            fill_from(&below, blocks.start, &range, &mut out, &missing);
        }
        assert!(out == model[range.start as usize..range.end as usize], "seed {seed}: {range:?}");
    }
}

#[test]
fn a_layer_over_another_shows_its_own_sectors_first() {
    for seed in 0..200 {
        let mut rng = Rng::seeded(seed);
        let (mut below, mut above) = (Layer::default(), Layer::default());
        let mut model = vec![0xee; LENGTH as usize];
        for step in 1..9u8 {
            let layer = if step < 5 { &mut below } else { &mut above };
            if rng.below(6) == 0 {
                layer.drop_all();
                model.fill(0);
                continue;
            }
            let range = sectors(&mut rng);
            layer.write(range.start, &Payload::from(vec![step; range.len()]));
            model[range.start as usize..range.end as usize].fill(step);
        }
        assert!(read(&above.over(below)) == model, "seed {seed}");
    }
}

#[test]
fn nothing_is_missing_where_nothing_is_asked() {
    assert_eq!(span_of(&[0, 0], 3), None);
    assert_eq!(span_of(&[0, 1, 0, 2, 0], 3), Some(4..7));
    let range = 512..1024;
    assert_eq!(missing_in(&range), [2], "the second of eight sectors");
}
