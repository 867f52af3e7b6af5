//! A lane against a plain list, over enough arrivals to lap the ring and to run out of positions
//! often.

use super::super::arrivals::Arrivals;
use super::{Lane, make_room};
use std::collections::VecDeque;
use thermocline_units::{LineId, Rng};

const UNIVERSE: u32 = 300;
const LIVE: u32 = 100;

/// Oldest first: line, whether marked. The first `ghosts` are ghosts.
#[derive(Default)]
struct Model {
    entries: VecDeque<(LineId, bool)>,
    ghosts: usize,
}

impl Model {
    fn place(&self, line: LineId) -> Option<usize> {
        self.entries.iter().position(|(other, _)| *other == line)
    }
}

fn compare(lane: &Lane, index: &[u32], model: &Model) {
    let resident = model.entries.len() - model.ghosts;
    assert_eq!((lane.resident() as usize, lane.ghosts() as usize), (resident, model.ghosts));
    if resident > 0 {
        assert_eq!(lane.oldest().1, model.entries[model.ghosts].0);
    }
    for line in 0..UNIVERSE {
        let position = index[line as usize];
        let place = model.place(LineId(line));
        assert_eq!(lane.remembers(position), place.is_some(), "line {line}");
        assert_eq!(lane.holds(position), place.is_some_and(|p| p >= model.ghosts), "line {line}");
        if let Some(place) = place {
            assert_eq!(lane.is_marked(position), model.entries[place].1, "line {line}");
            let newest = place + 1 == model.entries.len();
            assert!(newest || !lane.is_last_arrival(position), "line {line}");
        }
    }
}

/// One random change to both.
fn change(rng: &mut Rng, lane: &mut Lane, index: &mut [u32], model: &mut Model) {
    let line = LineId(rng.below(UNIVERSE.into()) as u32);
    let position = index[line.index()];
    match (rng.below(8), model.place(line)) {
        (0, _) if lane.resident() > 0 => {
            lane.demote();
            model.ghosts += 1;
        }
        (1, _) if lane.ghosts() > 0 => {
            lane.forget();
            model.entries.pop_front();
            model.ghosts -= 1;
        }
        (2, _) if lane.ghosts() == 0 && lane.resident() > 0 => {
            assert_eq!(Some(lane.evict()), model.entries.pop_front().map(|(line, _)| line));
        }
        (3, Some(place)) => {
            lane.mark(position);
            model.entries[place].1 = true;
        }
        (4, Some(place)) => {
            lane.remove(position);
            index[line.index()] = 0;
            model.entries.remove(place);
            model.ghosts -= usize::from(place < model.ghosts);
        }
        (5.., place) if place.is_some() || model.entries.len() < LIVE as usize => {
            if let Some(place) = place {
                lane.remove(position);
                model.entries.remove(place);
                model.ghosts -= usize::from(place < model.ghosts);
            }
            if lane.needs_room() {
                make_room(lane, index);
            }
            lane.push(line, index);
            model.entries.push_back((line, false));
        }
        _ => {}
    }
}

#[test]
fn a_lane_is_a_list_with_a_boundary() {
    for (seed, slack) in [(1, 1.25), (2, 2.0), (3, 5.0)] {
        let mut rng = Rng::seeded(seed);
        let mut lane = Lane::new(Arrivals::new(LIVE, slack).with_marks(), 0);
        let mut index = vec![0; UNIVERSE as usize];
        let mut model = Model::default();
        for step in 0..60_000 {
            change(&mut rng, &mut lane, &mut index, &mut model);
            if step % 37 == 0 {
                compare(&lane, &index, &model);
            }
        }
    }
}

#[test]
fn positions_never_run_out() {
    let mut lane = Lane::new(Arrivals::new(LIVE, 2.0), 0);
    let mut index = vec![0; UNIVERSE as usize];
    for step in 0..100_000 {
        if lane.resident() == LIVE {
            lane.evict();
        }
        if lane.needs_room() {
            make_room(&mut lane, &mut index);
        }
        lane.push(LineId(step % UNIVERSE), &mut index);
        assert!(index[(step % UNIVERSE) as usize] < 6 * 512, "a position above the limit of tests");
    }
}
