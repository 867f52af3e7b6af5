//! A device of the second tier that hangs at its first read, in virtual time.

#![allow(clippy::unwrap_used)]

use std::collections::VecDeque;
use thermocline_tunnel::{
    Cache, DiskDone, DiskJob, End, FlowEvent, FlowId, Settings, Sharing, Target,
};
use thermocline_units::{Bytes, Nanos, Rng};
use thermocline_wire::Role;

/// Two ends, of which only the second one reads from its device.
struct Scene {
    now: Nanos,
    ends: [End; 2],
    hangs: [bool; 2],
    got: Vec<u8>,
    /// Times that an end said that its device was given up.
    failures: usize,
}

fn end(role: Role, run: u8) -> End {
    let mut settings = Settings::new(role, run.into());
    settings.controller = "content:size=512B".to_string();
    let cache = Cache::new(Bytes::from_kib(64), [run; 16], run.into());
    let cache = cache.with_disk(Bytes::from_mib(1));
    End::new(settings, cache, Box::new(|| Nanos(0)), Nanos(0)).unwrap()
}

impl Scene {
    fn new() -> Scene {
        let ends = [end(Role::Connector, 1), end(Role::Acceptor, 2)];
        let (now, hangs, got) = (Nanos(0), [false; 2], Vec::new());
        let mut scene = Scene { now, ends, hangs, got, failures: 0 };
        scene.carry();
        scene
    }

    /// Carries everything that can be carried now.
    fn carry(&mut self) {
        loop {
            let mut carried = 0;
            for (from, to) in [(0, 1), (1, 0)] {
                let mut out = VecDeque::new();
                carried += self.ends[from].transmit(self.now, &mut out, 1 << 20);
                for bytes in out {
                    self.ends[to].receive(self.now, &bytes).unwrap();
                }
                while let Some(job) = self.ends[from].next_disk_job() {
                    // What comes behind a read is not done either.
                    self.hangs[from] |= matches!(job, DiskJob::Read { .. });
                    if !self.hangs[from] {
                        let done = DiskDone::Written { is_written: true };
                        self.ends[from].disk_done(self.now, done).unwrap();
                    }
                }
            }
            self.hear();
            if carried == 0 {
                return;
            }
        }
    }

    fn hear(&mut self) {
        for end in &mut self.ends {
            while let Some(event) = end.next_event() {
                match event {
                    FlowEvent::Bytes { flow, bytes } => {
                        self.got.extend(&bytes);
                        end.taken(self.now, flow, bytes.len()).unwrap();
                    }
                    FlowEvent::DiskFailed => self.failures += 1,
                    _ => {}
                }
            }
        }
    }

    /// Goes on to the next time at which an end has something to do.
    fn wait(&mut self) {
        let next = self.ends.iter().filter_map(End::next_deadline).min().unwrap();
        self.now = self.now.max(next);
        for end in &mut self.ends {
            end.tick(self.now).unwrap();
        }
        self.hear();
        self.carry();
    }

    fn send(&mut self, mut content: &[u8]) -> FlowId {
        let target = Target { address: "a:1".to_string(), class: 1, sharing: Sharing::All };
        let flow = self.ends[0].open(self.now, &target).unwrap();
        while !content.is_empty() {
            let room = self.ends[0].room(flow);
            let (part, rest) = content.split_at(content.len().min(room));
            self.ends[0].give(self.now, flow, part);
            content = rest;
            self.carry();
        }
        self.ends[0].flush(self.now, flow);
        self.carry();
        flow
    }
}

fn noise(length: usize) -> Vec<u8> {
    let mut rng = Rng::seeded(1);
    (0..length).map(|_| rng.next_u64() as u8).collect()
}

#[test]
fn a_chunk_that_a_hung_device_holds_comes_from_the_other_end() {
    let mut scene = Scene::new();
    let content = noise(300_000);
    scene.send(&content);
    assert!(scene.got == content);
    scene.got.clear();
    let again = &content[..100_000];
    scene.send(again);
    assert!(scene.got.len() < again.len(), "no chunk was asked of the device");
    let patience = Settings::new(Role::Acceptor, 0).disk_patience;
    while scene.got.len() < again.len() {
        scene.wait();
        assert!(scene.now <= patience, "{} of {} bytes", scene.got.len(), again.len());
    }
    assert!(scene.got == again && scene.ends[1].asked().1 > 0);
}

#[test]
fn a_device_that_stays_silent_is_given_up_once() {
    let mut scene = Scene::new();
    let content = noise(300_000);
    scene.send(&content);
    scene.send(&content[..100_000]);
    while scene.now < Nanos::from_secs(120) {
        scene.wait();
    }
    assert_eq!(scene.failures, 1);
    assert!(scene.ends[1].disk_counts().has_failed && !scene.ends[0].disk_counts().has_failed);
}
