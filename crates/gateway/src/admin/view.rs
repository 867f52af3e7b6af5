//! Views of a running end of a tunnel: now, its last five minutes, its events.

use super::api::{ClassSecond, TunnelSecond};
use crate::{Status, View};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use thermocline_admin::api::{Event, Severity};
use thermocline_admin::past::{Events, Seconds};

const SECOND: Duration = Duration::from_secs(1);

/// Bytes of a class on a link, and what was sent for them.
type Counts = (u64, u64);

/// The side of an end that people look at.
pub struct AdminApi {
    view: Mutex<Option<View>>,
    past: Mutex<Past>,
}

struct Past {
    seconds: Seconds<TunnelSecond>,
    events: Events,
    ends: Instant,
    /// Totals at the last second's end: of classes by link's key and number, and of links.
    classes: BTreeMap<(String, u16), Counts>,
    received: BTreeMap<String, u64>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Default for AdminApi {
    fn default() -> AdminApi {
        AdminApi::new()
    }
}

impl AdminApi {
    /// One without an end: it takes events until [`AdminApi::look_at`] gives it one.
    pub fn new() -> AdminApi {
        let past = Past {
            seconds: Seconds::default(),
            events: Events::default(),
            ends: Instant::now() + SECOND,
            classes: BTreeMap::new(),
            received: BTreeMap::new(),
        };
        AdminApi { view: Mutex::new(None), past: Mutex::new(past) }
    }

    /// Looks at this end from now on.
    pub fn look_at(&self, view: View) {
        *locked(&self.view) = Some(view);
    }

    /// Everything at a glance; `None` before there is an end.
    pub fn status(&self) -> Option<Status> {
        locked(&self.view).as_ref().map(View::status)
    }

    /// The last five minutes from second `from` on.
    pub fn history(&self, from: u64) -> Vec<TunnelSecond> {
        locked(&self.past).seconds.from(from)
    }

    /// The last thousand events from number `from` on.
    pub fn events(&self, from: u64) -> Vec<Event> {
        locked(&self.past).events.from(from)
    }

    /// Writes down that something happened; the event as it is told.
    pub fn note(&self, severity: Severity, subject: &str, text: String) -> Event {
        locked(&self.past).events.note(severity, subject, text).clone()
    }

    /// Ends seconds of the history that are over. Call it a few times a second.
    pub fn tick(&self, now: Instant) {
        let Some(status) = self.status() else { return };
        let mut past = locked(&self.past);
        if now >= past.ends {
            // Seconds in which nobody looked are one longer second.
            past.ends = now + SECOND;
            past.end_second(&status);
        }
    }
}

impl Past {
    fn end_second(&mut self, status: &Status) {
        let mut classes: BTreeMap<u16, ClassSecond> = BTreeMap::new();
        let mut received = 0;
        let earlier = (std::mem::take(&mut self.classes), std::mem::take(&mut self.received));
        // A link that is down for a moment keeps its counts of classes.
        (self.classes, self.received) = (earlier.0.clone(), earlier.1.clone());
        for link in &status.links {
            let before = earlier.1.get(&link.key).copied().unwrap_or(0);
            // A new connection counts its bytes anew.
            let fresh = link.received_bytes.checked_sub(before).unwrap_or(link.received_bytes);
            received += fresh;
            self.received.insert(link.key.clone(), link.received_bytes);
            for class in &link.classes {
                let key = (link.key.clone(), class.class);
                let (bytes, sent) = earlier.0.get(&key).copied().unwrap_or((0, 0));
                let since = |now: u64, before: u64| now.checked_sub(before).unwrap_or(now);
                let second = classes.entry(class.class).or_insert_with(|| ClassSecond {
                    class: class.class,
                    bytes: 0,
                    sent: 0,
                    choice: class.choice.clone(),
                });
                second.bytes += since(class.bytes, bytes);
                second.sent += since(class.sent, sent);
                self.classes.insert(key, (class.bytes, class.sent));
            }
        }
        let classes: Vec<ClassSecond> =
            classes.into_values().filter(|class| class.bytes > 0).collect();
        self.seconds.end(TunnelSecond {
            number: self.seconds.number(),
            bytes: classes.iter().map(|class| class.bytes).sum(),
            sent: classes.iter().map(|class| class.sent).sum(),
            received,
            clients: status.clients,
            links: status.links.iter().filter(|link| link.is_up).count(),
            classes,
        });
    }
}
