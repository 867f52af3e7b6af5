//! The switch: tag and in-port to out-port (OpenANFV's ⟨tag, port⟩: out-port).
//!
//! A tag stands for a path, one worker for each function of a chain. Equal paths share a tag; a tag
//! that no flow uses is given again.
//!
//! Invariants: a tag has at least one user; how many users go through a worker is the sum over
//! tags, and is kept for each worker.

use crate::nsh;
use crate::work::{Place, Way};
use std::collections::BTreeMap;
use thermocline_policy::accel::FunctionId;

/// A tag, 1 to 2²⁴ − 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u32);

/// A function of a chain, and the worker that does it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stage {
    pub(crate) function: FunctionId,
    pub(crate) place: Place,
}

#[derive(Debug)]
struct Path {
    stages: Vec<Stage>,
    users: u32,
}

/// Tags and their paths.
#[derive(Debug, Default)]
pub(crate) struct Switch {
    /// Paths by tag − 1.
    paths: Vec<Option<Path>>,
    free: Vec<Tag>,
    by_path: BTreeMap<Vec<Stage>, Tag>,
    /// Users of each worker.
    users: BTreeMap<Place, u32>,
}

impl Switch {
    /// The tag of a path, with a user more; `None` when all tags are taken.
    pub(crate) fn acquire(&mut self, stages: &[Stage]) -> Option<Tag> {
        assert!(!stages.is_empty(), "a path has a worker");
        let tag = match self.by_path.get(stages) {
            Some(&tag) => tag,
            None => self.insert(stages)?,
        };
        let path = self.path_mut(tag);
        path.users += 1;
        for stage in stages {
            *self.users.entry(stage.place).or_default() += 1;
        }
        Some(tag)
    }

    fn insert(&mut self, stages: &[Stage]) -> Option<Tag> {
        let path = Path { stages: stages.to_vec(), users: 0 };
        let tag = match self.free.pop() {
            Some(tag) => tag,
            None if self.paths.len() < nsh::PATH_MAX as usize => {
                self.paths.push(None);
                Tag(self.paths.len() as u32)
            }
            None => return None,
        };
        let place = &mut self.paths[tag.0 as usize - 1];
        assert!(place.is_none(), "a free tag has no path");
        *place = Some(path);
        self.by_path.insert(stages.to_vec(), tag);
        Some(tag)
    }

    /// Takes a user from a tag, and gives the tag free with the last one.
    pub(crate) fn release(&mut self, tag: Tag) {
        let path = self.path_mut(tag);
        assert!(path.users > 0, "a tag in use has users");
        path.users -= 1;
        let is_last = path.users == 0;
        let stages = path.stages.clone();
        for Stage { place, .. } in &stages {
            let users = self.users.get_mut(place).expect("it was counted");
            *users -= 1;
            if *users == 0 {
                self.users.remove(place);
            }
        }
        if is_last {
            self.by_path.remove(&stages);
            self.paths[tag.0 as usize - 1] = None;
            self.free.push(tag);
        }
    }

    fn path_mut(&mut self, tag: Tag) -> &mut Path {
        self.paths[tag.0 as usize - 1].as_mut().expect("only tags in use are looked up")
    }

    /// Stages of a tag, in the chain's order.
    pub(crate) fn path(&self, tag: Tag) -> &[Stage] {
        let path = self.paths[tag.0 as usize - 1].as_ref();
        &path.expect("only tags in use are looked up").stages
    }

    /// The out-port for a packet that comes from `from`, `None` standing for the outside; `None`
    /// when it is through. Packets on their way back meet the functions in the opposite order.
    pub(crate) fn next(&self, tag: Tag, way: Way, from: Option<Place>) -> Option<Stage> {
        let path = self.path(tag);
        let at = from.map(|from| {
            let at = path.iter().position(|stage| stage.place == from);
            at.expect("a packet comes from its path")
        });
        let next = match (way, at) {
            (Way::Forth, None) => Some(0),
            (Way::Forth, Some(at)) => Some(at + 1),
            (Way::Back, at) => at.unwrap_or(path.len()).checked_sub(1),
        };
        path.get(next?).copied()
    }

    /// Functions that are left when a packet goes to `place`, this one included.
    pub(crate) fn left(&self, tag: Tag, way: Way, place: Place) -> u8 {
        let path = self.path(tag);
        let at = path.iter().position(|stage| stage.place == place).expect("it is on the path");
        match way {
            Way::Forth => (path.len() - at) as u8,
            Way::Back => at as u8 + 1,
        }
    }

    /// Users of paths through a worker.
    pub(crate) fn users(&self, place: Place) -> u32 {
        self.users.get(&place).copied().unwrap_or(0)
    }

    /// Tags in use.
    pub(crate) fn tags(&self) -> usize {
        self.by_path.len()
    }
}
