//! Accepts connections, lets them wait for room, or turns them away: [`Admission`] and [`Budget`]
//! decide, and the engine does what they say.

use super::Engine;
use super::admission::{Refusal, TurnedAway};
use super::clients::Connection;
use crate::api::{Clients, Listener};
use crate::stream::Stream;
use std::io;
use thermocline_admin::api::Severity;
use thermocline_nbd::{Security, Session};
use thermocline_units::Nanos;
use thermocline_units::text::counted;

#[cfg(doc)]
use super::{Admission, Budget};

/// Connections of one listener accepted in a row: those of the others come in turn.
const ACCEPTED_IN_A_ROW_MAX: usize = 64;
/// Time without accepting when the system has no room for a connection.
const DEAF: Nanos = Nanos::from_secs(1);

impl Engine {
    /// Accepts connections that wait, and cuts off handshakes that take too long; true if anything
    /// was done.
    pub(super) fn accept(&mut self) -> bool {
        let now = self.now();
        let mut moved = false;
        while let Some(client) = self.admission.overdue(now) {
            self.let_go(client);
            moved = true;
        }
        if !std::mem::take(&mut self.to_accept) || now < self.deaf_until {
            return moved;
        }
        for at in 0..self.listeners.len() {
            for _ in 0..ACCEPTED_IN_A_ROW_MAX {
                match self.listeners[at].accept() {
                    Ok(None) => break,
                    Ok(Some((stream, security))) => self.let_in(now, at, stream, security),
                    Err(error) => {
                        self.cannot_accept(now, at, &error);
                        break;
                    }
                }
                moved = true;
            }
        }
        moved
    }

    fn let_in(&mut self, now: Nanos, listener: usize, stream: Stream, security: Security) {
        self.accepted += 1;
        let connection = Connection::new(stream, Session::new(security));
        self.connections.insert(self.accepted, connection);
        if let Some(oldest) = self.admission.arrived(self.accepted, listener, now) {
            self.let_go(oldest);
        }
    }

    /// The system has no room for another connection, though the limits allow one.
    fn cannot_accept(&mut self, now: Nanos, listener: usize, error: &io::Error) {
        let text = format!(
            "{}: a connection cannot be accepted: {error}; raise the limit of open files, or lower \
             `connections` and `handshakes` under [nbd]",
            self.listeners[listener].name()
        );
        self.event(Severity::Warning, "client", text);
        self.deaf_until = Nanos(now.0 + DEAF.0);
        // Who has just come gets a moment for its handshake.
        if let Some(oldest) = self.admission.oldest_gives_way(now.saturating_sub(DEAF)) {
            self.let_go(oldest);
        }
    }

    /// Takes note of what a handshake has come to.
    pub(super) fn note_handshake(&mut self, client: u64) {
        let connection = self.connections.get_mut(&client).expect("it is connected");
        if connection.session.take_refused() {
            self.admission.turn_away(client, Refusal::Full);
        }
        if connection.note_attached() {
            self.admission.attached(client);
            self.event(Severity::Info, "client", format!("client {client} came in"));
        }
    }

    /// Closes a connection, whatever was to be sent.
    pub(super) fn let_go(&mut self, client: u64) {
        let Some(mut connection) = self.connections.remove(&client) else { return };
        let session = &mut connection.session;
        session.hang_up();
        self.budget.leave(client, session.granted(), session.held());
        if self.admission.left(client) {
            self.event(Severity::Info, "client", format!("client {client} left"));
        }
        let now = self.now();
        self.give_up_refused(now, |of, _| of == client);
    }

    /// True if the next request of a connection waited for memory and has it now.
    pub(super) fn finds_room(&mut self, client: u64, now: Nanos) -> bool {
        let session = &mut self.connections.get_mut(&client).expect("it is connected").session;
        let lacks = session.lacks();
        let granted = lacks > 0 && self.budget.ask(client, lacks, now);
        if granted {
            session.grant(lacks);
        }
        granted
    }

    /// Gives memory that has become free to those who wait for it; true if anybody got some.
    pub(super) fn grant_room(&mut self) -> bool {
        let mut any = false;
        while let Some((client, bytes)) = self.budget.next() {
            any = true;
            let connection = self.connections.get_mut(&client).expect("who left waits no more");
            connection.session.grant(bytes);
            self.start_requests(client);
            let connection = self.connections.get_mut(&client).expect("it is connected");
            self.budget.release(connection.session.surplus());
        }
        any
    }

    /// Once a second: cuts off clients that hold memory, do not move it, and keep others waiting.
    pub(super) fn end_stalls(&mut self, now: Nanos) {
        let stall = self.limits.stall;
        let ended = |since: Nanos| now.saturating_sub(since) >= stall;
        let mut holders: Vec<(Nanos, u64)> = Vec::new();
        for (&client, connection) in &mut self.connections {
            let since = connection.owes_since(now).filter(|&since| ended(since));
            if let Some(since) = since.filter(|_| connection.session.granted() > 0) {
                holders.push((since, client));
            }
        }
        holders.sort_unstable();
        for (_, client) in holders {
            if !self.budget.waits_since().is_some_and(ended) {
                return;
            }
            self.admission.turn_away(client, Refusal::Stalled);
            self.let_go(client);
            self.grant_room();
        }
    }

    /// Clients and the memory that they share, for the API.
    pub(super) fn clients(&self) -> Clients {
        let turned_away = |listener: &super::admission::Listener| {
            let count = |why: Refusal| (why.label().to_string(), listener.turned_away(why));
            Refusal::ALL.map(count).into_iter().collect()
        };
        let listeners = self.admission.listeners().iter().map(|listener| Listener {
            name: listener.name.clone(),
            attached: u64::from(listener.attached),
            half_open: listener.half_open() as u64,
            turned_away: turned_away(listener),
        });
        Clients {
            listeners: listeners.collect(),
            buffer_bytes: self.budget.used().0,
            buffer_limit_bytes: self.budget.limit().0,
            waiting: self.budget.waiting() as u64,
        }
    }

    /// Once a second: tells who was turned away meanwhile.
    pub(super) fn tell_turned_away(&mut self) {
        for TurnedAway { listener, why, count } in self.admission.news() {
            let (severity, what) = match why {
                Refusal::Full => (
                    Severity::Warning,
                    "refused: all connections are in use; `connections` under [nbd] allows more",
                ),
                Refusal::GaveWay => {
                    (Severity::Warning, "closed before the end of the handshake: newer ones came")
                }
                Refusal::Late => (Severity::Info, "closed: the handshake was not finished in time"),
                Refusal::Stalled => (
                    Severity::Warning,
                    "closed: they held request buffers that others waited for, and did not move them",
                ),
            };
            self.event(
                severity,
                "client",
                format!("{listener}: {} {what}", counted(count, "connection")),
            );
        }
    }
}
