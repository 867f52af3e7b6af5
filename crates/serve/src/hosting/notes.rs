//! What happened: the last thousand events, and whoever is told of each.

use crate::api::{Event, Severity};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// Events that are remembered.
const EVENTS_MAX: usize = 1000;

#[derive(Default)]
struct Past {
    events: VecDeque<Event>,
    last: u64,
}

/// Events, and whoever is told of them.
#[derive(Clone)]
pub struct Notes {
    past: Arc<Mutex<Past>>,
    on_event: Arc<dyn Fn(&Event) + Send + Sync>,
}

impl Notes {
    /// No events yet; `on_event` is told of each, on the process's thread.
    pub fn new(on_event: impl Fn(&Event) + Send + Sync + 'static) -> Notes {
        Notes { past: Arc::default(), on_event: Arc::new(on_event) }
    }

    /// Writes down that something happened.
    pub(super) fn note(&self, severity: Severity, subject: impl ToString, text: impl ToString) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let at_ms = now.as_millis() as u64;
        let mut past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        past.last += 1;
        let (subject, text) = (subject.to_string(), text.to_string());
        let event = Event { id: past.last, at_ms, severity, subject, text };
        past.events.push_back(event.clone());
        if past.events.len() > EVENTS_MAX {
            past.events.pop_front();
        }
        drop(past);
        (self.on_event)(&event);
    }

    /// Events from number `from` on.
    pub(super) fn events(&self, from: u64) -> Vec<Event> {
        let past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        past.events.iter().filter(|event| event.id >= from).cloned().collect()
    }
}
