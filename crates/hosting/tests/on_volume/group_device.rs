//! A volume of a group as a device in virtual time: the words of `thermocline_volume::as_device`,
//! the loop that the live engine has around its group, and disks in memory.

use std::collections::{BTreeMap, VecDeque};
use thermocline_ports::faulty::SimDisk;
use thermocline_ports::{Completion, Device, Geometry, Io, Ticket};
use thermocline_units::{Bytes, Nanos, PoolId, VolumeId};
use thermocline_volume::{
    Action, Group, PoolSpec, Priority, Request, RequestId, Service, Settings, device_result,
};

/// Time for which a background request is held back at most.
const HELD_BACK_MAX: Nanos = Nanos(100_000_000);

/// A way of being wrong, so that the test shows that it looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// A forced write is a plain one.
    ForgetsFua,
    /// A flush is answered and asks nobody.
    ForgetsFlush,
}

/// Requests that reached disks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    /// Writes that are forced.
    pub(crate) forced: u64,
    pub(crate) flushes: u64,
}

pub(crate) struct GroupDevice {
    group: Group,
    disks: Vec<SimDisk>,
    volume: VolumeId,
    size: Bytes,
    fault: Fault,
    /// The latest moment: opening a group takes time.
    now: Nanos,
    /// True if something was asked since it was driven last.
    is_touched: bool,
    next: u64,
    tickets: BTreeMap<u64, Ticket>,
    waiting: VecDeque<Request>,
    done: Vec<Completion>,
    pub(crate) counts: Counts,
    pub(crate) background: u64,
}

impl GroupDevice {
    /// A new group on disks, and a volume of this size.
    pub(crate) fn format(settings: Settings, disks: Vec<SimDisk>, size: Bytes) -> GroupDevice {
        let spec = |(at, disk): (usize, &SimDisk)| PoolSpec {
            name: format!("p{at}"),
            geometry: disk.geometry(),
            zeroed: false,
            reserve_chunks: 0,
        };
        let specs: Vec<PoolSpec> = disks.iter().enumerate().map(spec).collect();
        let group = Group::create(settings, &specs, 1).expect("the pools make a group");
        let mut device = GroupDevice::around(group, disks, size);
        device.open_up(Nanos(0));
        let made = device.group.create_volume(device.now, size);
        device.volume = made.expect("there is room for a volume");
        device
    }

    /// The group that the disks hold, and its first volume.
    pub(crate) fn open(
        now: Nanos,
        settings: Settings,
        disks: Vec<SimDisk>,
        size: Bytes,
    ) -> GroupDevice {
        let geometries: Vec<Option<Geometry>> =
            disks.iter().map(|disk| Some(disk.geometry())).collect();
        let group = Group::open(settings, &geometries);
        let mut device = GroupDevice::around(group, disks, size);
        device.open_up(now);
        device.volume = device.group.volumes().next().expect("it had a volume").id;
        device
    }

    fn around(group: Group, disks: Vec<SimDisk>, size: Bytes) -> GroupDevice {
        GroupDevice {
            group,
            disks,
            volume: VolumeId(0),
            size,
            fault: Fault::None,
            now: Nanos(0),
            is_touched: false,
            next: 0,
            tickets: BTreeMap::new(),
            waiting: VecDeque::new(),
            done: Vec::new(),
            counts: Counts::default(),
            background: 0,
        }
    }

    fn open_up(&mut self, mut now: Nanos) {
        while *self.group.service() == Service::Opening {
            self.drive(now);
            now = self.next_event().map_or(now, |at| at.max(now));
        }
        assert_eq!(*self.group.service(), Service::Ready);
    }

    pub(crate) fn with_fault(self, fault: Fault) -> GroupDevice {
        GroupDevice { fault, ..self }
    }

    pub(crate) fn group_mut(&mut self) -> &mut Group {
        &mut self.group
    }

    pub(crate) fn now(&self) -> Nanos {
        self.now
    }

    pub(crate) fn volume(&self) -> VolumeId {
        self.volume
    }

    pub(crate) fn into_disks(self) -> Vec<SimDisk> {
        self.disks
    }

    /// Moves all that can move now.
    pub(crate) fn drive(&mut self, now: Nanos) {
        let now = now.max(self.now);
        self.now = now;
        let (mut asked, mut done, mut replies) = (Vec::new(), Vec::new(), Vec::new());
        self.is_touched = false;
        loop {
            if self.group.next_tick().is_some_and(|at| at <= now) {
                self.group.tick(now);
            }
            self.group.take_io(&mut asked);
            let mut is_quiet = asked.is_empty();
            for (pool, ticket, io) in asked.drain(..) {
                self.count(&io);
                self.disks[usize::from(pool.0)].submit(now, ticket, io);
            }
            for (at, disk) in self.disks.iter_mut().enumerate() {
                disk.poll(now, &mut done);
                for completion in done.drain(..) {
                    is_quiet = false;
                    self.group.complete(now, PoolId(at as u16), completion);
                }
            }
            self.group.take_replies(&mut replies);
            for reply in replies.drain(..) {
                is_quiet = false;
                let ticket = self.tickets.remove(&reply.id.0).expect("answered once");
                self.done.push(Completion { ticket, result: device_result(reply.result) });
            }
            self.group.take_finished(&mut Vec::new());
            while let Some(request) = self.waiting.pop_front() {
                if let Err(request) = self.group.submit(now, request) {
                    self.waiting.push_front(request);
                    break;
                }
                is_quiet = false;
            }
            if is_quiet {
                return;
            }
        }
    }

    fn count(&mut self, io: &Io) {
        match io {
            Io::Read { .. } => self.counts.reads += 1,
            Io::Write { fua, .. } => {
                self.counts.writes += 1;
                self.counts.forced += u64::from(*fua);
            }
            Io::Flush => self.counts.flushes += 1,
            Io::Discard { .. } | Io::WriteZeroes { .. } => {}
        }
    }
}

impl Device for GroupDevice {
    fn geometry(&self) -> Geometry {
        Geometry { size: self.size, discard_zeroes: false, far: false }
    }

    fn submit(&mut self, now: Nanos, ticket: Ticket, io: Io) {
        if io == Io::Flush && self.fault == Fault::ForgetsFlush {
            let result = device_result(Ok(Vec::new()));
            return self.done.push(Completion { ticket, result });
        }
        let mut action = Action::of_io(io);
        if let (Action::Write { fua, .. }, Fault::ForgetsFua) = (&mut action, self.fault) {
            *fua = false;
        }
        let priority = match ticket.is_background() {
            true => Priority::Background { deadline: Nanos(now.0 + HELD_BACK_MAX.0) },
            false => Priority::Foreground,
        };
        self.background += u64::from(ticket.is_background());
        self.next += 1;
        self.tickets.insert(self.next, ticket);
        let (id, volume) = (RequestId(self.next), self.volume);
        self.waiting.push_back(Request { id, volume, action, priority });
        self.is_touched = true;
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        self.drive(now);
        done.append(&mut self.done);
    }

    fn next_event(&self) -> Option<Nanos> {
        if !self.done.is_empty() || self.is_touched {
            return Some(self.now);
        }
        let disks = self.disks.iter().filter_map(Device::next_event);
        disks.chain(self.group.next_tick()).min()
    }
}
