//! A live link: packets between two TUN devices take the time that a `LinkProfile` says.
//!
//! The code is that of the laboratory's link, losses and the end of the queue included.

use crate::tun;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io::{self, Read, Write};
use thermocline_ports::model::{LinkProfile, ModelLink};
use thermocline_ports::{Link, Packet, Payload};
use thermocline_units::Nanos;

/// Bytes of a packet, at most.
const PACKET_BYTES_MAX: usize = 64 << 10;
/// Packets of one direction in a row.
const IN_A_ROW: usize = 64;
/// Longest time between two looks at whether to go on.
const GLANCE: Nanos = Nanos::from_micros(100_000);

/// Packets that a direction carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Carried {
    /// Packets that went in.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets that found the queue full, or a device that did not take them.
    pub dropped: u64,
    /// Packets that were lost behind the queue.
    pub lost: u64,
    /// Packets that came out.
    pub delivered: u64,
}

/// A live link between two TUN devices.
pub struct Shaper {
    devices: [File; 2],
    /// Links: packets into the first device come out of the second, and the other way round.
    links: [ModelLink; 2],
    /// Packets of each link that came out, and that the device behind it did not take.
    handed_out: [(u64, u64); 2],
    buffer: Vec<u8>,
    arrived: Vec<Packet>,
}

impl Shaper {
    /// A link by `profile`, in both directions, between the TUN devices of these names, which are
    /// made if they are not there. `seed` decides jitter and losses.
    ///
    /// # Errors
    /// The system refuses the devices: it takes CAP_NET_ADMIN, and `/dev/net/tun`.
    pub fn new(names: [&str; 2], profile: LinkProfile, seed: u64) -> io::Result<Shaper> {
        Ok(Shaper {
            devices: [tun::open(names[0])?, tun::open(names[1])?],
            links: [ModelLink::new(profile, seed), ModelLink::new(profile, seed ^ u64::MAX)],
            handed_out: [(0, 0); 2],
            buffer: vec![0; PACKET_BYTES_MAX],
            arrived: Vec::new(),
        })
    }

    /// Packets from the first device to the second, and from the second to the first.
    pub fn carried(&self) -> [Carried; 2] {
        [0, 1].map(|from| {
            let counts = self.links[from].counts();
            let (delivered, not_taken) = self.handed_out[from];
            Carried {
                packets: counts.packets,
                bytes: counts.bytes,
                dropped: counts.dropped + not_taken,
                lost: counts.lost,
                delivered,
            }
        })
    }

    /// Carries packets as long as `goes_on` says, by this clock.
    ///
    /// # Errors
    /// A device fails.
    pub fn run(
        &mut self,
        clock: impl Fn() -> Nanos,
        mut goes_on: impl FnMut() -> bool,
    ) -> io::Result<()> {
        while goes_on() {
            for from in [0, 1] {
                self.take_in(from, clock())?;
            }
            for from in [0, 1] {
                self.hand_out(from, clock())?;
            }
            self.wait(clock())?;
        }
        Ok(())
    }

    fn take_in(&mut self, from: usize, now: Nanos) -> io::Result<()> {
        for _ in 0..IN_A_ROW {
            let length = match self.devices[from].read(&mut self.buffer) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            let data = Payload::Bytes(self.buffer[..length].to_vec().into());
            self.links[from].send(now, Packet { tag: 0, data });
        }
        Ok(())
    }

    fn hand_out(&mut self, from: usize, now: Nanos) -> io::Result<()> {
        self.links[from].poll(now, &mut self.arrived);
        for packet in self.arrived.drain(..) {
            let length = packet.data.len() as usize;
            packet.data.copy_to(&mut self.buffer[..length]);
            match self.devices[1 - from].write(&self.buffer[..length]) {
                Ok(_) => self.handed_out[from].0 += 1,
                // The system has no room, or the device is down: packets get lost.
                Err(error) if is_loss(&error) => self.handed_out[from].1 += 1,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits until a packet comes, or one arrives.
    fn wait(&self, now: Nanos) -> io::Result<()> {
        let next = self.links.iter().filter_map(Link::next_event).min();
        let wait = next.map_or(GLANCE, |next| next.saturating_sub(now).min(GLANCE));
        let wait = Timespec { tv_sec: 0, tv_nsec: wait.0 as i64 };
        let mut files = [0, 1].map(|at| PollFd::new(&self.devices[at], PollFlags::IN));
        match poll(&mut files, Some(&wait)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

fn is_loss(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
        || error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
        || error.raw_os_error() == Some(rustix::io::Errno::INVAL.raw_os_error())
}
