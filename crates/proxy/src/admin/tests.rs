//! The history and the figures while configurations change, by seed: no sockets, no threads.

use super::*;
use crate::config::{Backend, Live};
use crate::core::{Current, Renew};
use crate::upstream::Connector;
use std::time::Instant;
use thermocline_balancer::{Decision, Outcome};
use thermocline_policy::registry::PolicySpec;
use thermocline_units::Rng;

/// An admin API before backends that come and go, and requests that are under way.
struct World {
    admin: AdminApi,
    rng: Rng,
    under_way: Vec<SiteId>,
    sent: u64,
}

impl World {
    fn new(seed: u64) -> World {
        let live = live(&["a"]);
        let rule = PolicySpec::parse("least").unwrap().build_rule().unwrap();
        let dispatcher = Dispatcher::new(Nanos(0), live.settings.clone(), rule, seed);
        let connector = Connector::new(&live, None);
        let shared = Shared::new(Current { live, connector }, dispatcher, Instant::now());
        World {
            admin: AdminApi::new(shared, seed),
            rng: Rng::seeded(seed),
            under_way: Vec::new(),
            sent: 0,
        }
    }

    /// Backends come, go, come back and move to other addresses.
    fn configure(&mut self) {
        let mut names = vec!["a", "b", "c", "d"];
        names.retain(|_| self.rng.below(3) > 0);
        let mut live = live(&names);
        for backend in &mut live.backends {
            backend.address = format!("10.0.0.1:{}", 1 + self.rng.below(3));
        }
        let renew = if self.rng.below(4) == 0 { Renew::All } else { Renew::Changed };
        self.admin.shared.configure(&live, renew);
    }

    fn send(&mut self) {
        let placed = self.admin.shared.dispatch(|dispatcher, now| {
            dispatcher.arrived(now);
            dispatcher.place(now, &[])
        });
        if let Decision::At(site) = placed {
            self.under_way.push(site);
            self.sent += 1;
        }
    }

    fn finish(&mut self) {
        if self.under_way.is_empty() {
            return;
        }
        let at = self.rng.below(self.under_way.len() as u64) as usize;
        let site = self.under_way.swap_remove(at);
        let took = Nanos(1_000 + self.rng.below(1 << 30));
        let outcome = match self.rng.below(4) {
            0 => Outcome::ClientFailed,
            1 => Outcome::ServerError,
            _ => Outcome::Served(took),
        };
        self.admin.shared.dispatch(|dispatcher, now| dispatcher.finished(now, site, outcome));
    }
}

fn live(names: &[&str]) -> Live {
    let backend = |name: &&str| Backend { name: name.to_string(), ..Backend::new("10.0.0.1:1") };
    Live::new(names.iter().map(backend).collect())
}

/// A backend that had traffic went and came back under its name within a second: the process died
/// of "counts only grow". The history went by names.
#[test]
fn a_backend_that_comes_back_under_its_name_begins_anew() {
    let mut world = World::new(1);
    world.admin.shared.configure(&live(&["a"]), Renew::Changed);
    for _ in 0..50 {
        world.send();
        world.finish();
    }
    world.admin.end_second();
    world.admin.shared.configure(&live(&["b"]), Renew::Changed);
    world.admin.shared.configure(&live(&["b", "a"]), Renew::Changed);
    world.send();
    world.admin.end_second();
    let seconds = world.admin.history(0);
    let sent = |second: &BalanceSecond| second.backends.iter().map(|b| b.sent).sum::<u64>();
    assert_eq!(seconds.iter().map(sent).collect::<Vec<_>>(), [50, 1]);
}

#[test]
fn configurations_that_change_in_any_order_leave_a_true_history() {
    let (mut came_back, mut sent) = (0, 0);
    for seed in 0..300 {
        let mut world = World::new(seed);
        world.configure();
        let mut left_out = 0;
        for _ in 0..400 {
            match world.rng.below(40) {
                0 => {
                    // What was sent to a backend since the last second is told by the next, unless
                    // the backend has gone by then.
                    world.admin.end_second();
                    let before = world.admin.status().backends;
                    world.configure();
                    came_back += u64::from(before.len() < world.admin.status().backends.len());
                }
                1..=2 => world.admin.end_second(),
                3 => world.admin.note_events(),
                4 => {
                    let before = world.admin.history(0).len();
                    let (_, latencies) = world.admin.figures();
                    assert!(latencies.len() <= 4 && world.admin.history(0).len() == before);
                    left_out += 1;
                }
                5..=25 => world.send(),
                _ => world.finish(),
            }
        }
        world.admin.end_second();
        let told = world.admin.history(0);
        let told = told.iter().flat_map(|second| &second.backends).map(|b| b.sent).sum::<u64>();
        assert_eq!(told, world.sent, "seed {seed}: {left_out} looks at the figures");
        sent += world.sent;
    }
    assert!(came_back > 500 && sent > 10_000, "{came_back} came back, {sent} requests were sent");
}
