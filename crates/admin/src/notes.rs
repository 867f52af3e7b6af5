//! The last thousand events, and the listeners that are told of each.

use crate::api::{Event, Severity};
use crate::past::Events;
use std::sync::{Arc, Mutex, PoisonError};

/// Events, and whoever is told of them.
#[derive(Clone)]
pub struct Notes {
    past: Arc<Mutex<Events>>,
    on_event: Arc<dyn Fn(&Event) + Send + Sync>,
}

impl Notes {
    /// No events yet; `on_event` is told of each, on the process's thread.
    pub fn new(on_event: impl Fn(&Event) + Send + Sync + 'static) -> Notes {
        Notes { past: Arc::default(), on_event: Arc::new(on_event) }
    }

    /// Writes down that something happened.
    pub fn note(&self, severity: Severity, subject: impl ToString, text: impl ToString) {
        let mut past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        let event = past.note(severity, &subject.to_string(), text.to_string()).clone();
        drop(past);
        (self.on_event)(&event);
    }

    /// Events from number `from` on.
    pub fn events(&self, from: u64) -> Vec<Event> {
        self.past.lock().unwrap_or_else(PoisonError::into_inner).from(from)
    }
}
