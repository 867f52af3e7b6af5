//! A connection between two processes: bytes arrive in order, with a delay, and not after it broke.

use std::collections::VecDeque;
use thermocline_hostcache::{HostId, Link, LinkError, Message, Protocol};
use thermocline_units::{Digest, Nanos, Rng};
use thermocline_wire::{Config, Role};

/// Bytes under way in one direction, with the time of their arrival.
type Line = VecDeque<(Nanos, Vec<u8>)>;

pub(crate) struct Connection {
    /// The connector's and the acceptor's.
    pub(crate) ends: [Link; 2],
    lines: [Line; 2],
    /// Time before which nothing arrives.
    pub(crate) stalled_until: Nanos,
    pub(crate) told: [bool; 2],
}

impl Connection {
    pub(crate) fn new(protocol: Protocol, hosts: [HostId; 2], now: Nanos) -> Connection {
        let end = |role, host: HostId| {
            let mut config = Config::new(role, [host.0 as u8 + 1; 16]);
            config.ping_after = Nanos::from_secs(1);
            config.silent_after = Nanos::from_secs(3);
            config.hello_within = Nanos::from_secs(3);
            Link::new(config, protocol, host, now).expect("the settings fit")
        };
        Connection {
            ends: [end(Role::Connector, hosts[0]), end(Role::Acceptor, hosts[1])],
            lines: [Line::new(), Line::new()],
            stalled_until: Nanos(0),
            told: [false; 2],
        }
    }

    /// Moves bytes in both directions; returns an error if an end closes the connection.
    pub(crate) fn carry(
        &mut self,
        now: Nanos,
        rng: &mut Rng,
        digest: &Digest,
    ) -> Result<(), LinkError> {
        for side in 0..2 {
            self.ends[side].tick(now)?;
            let mut out = VecDeque::new();
            self.ends[side].transmit(now, &mut out, 1 + rng.below(200_000) as usize);
            for bytes in out {
                digest.fold_bytes(&bytes);
                let last = self.lines[side].back().map_or(Nanos(0), |(at, _)| *at);
                let late = Nanos(now.0 + 1_000_000 + rng.below(20_000_000));
                self.lines[side].push_back((late.max(last), bytes.to_vec()));
            }
        }
        if now < self.stalled_until {
            return Ok(());
        }
        for side in 0..2 {
            while self.lines[side].front().is_some_and(|(at, _)| *at <= now) {
                let (_, bytes) = self.lines[side].pop_front().expect("it is there");
                // Frames come in pieces of any size.
                let half = rng.below(bytes.len() as u64 + 1) as usize;
                self.ends[1 - side].receive(now, &bytes[..half])?;
                self.ends[1 - side].receive(now, &bytes[half..])?;
            }
        }
        Ok(())
    }

    pub(crate) fn next<M: Message>(&mut self, side: usize) -> Result<Option<M>, LinkError> {
        self.ends[side].next_message()
    }

    /// True once when an end may send messages.
    pub(crate) fn is_new(&mut self, side: usize) -> bool {
        let is_new = self.ends[side].peer().is_some() && !self.told[side];
        self.told[side] |= is_new;
        is_new
    }
}
