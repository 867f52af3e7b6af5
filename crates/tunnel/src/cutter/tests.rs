//! Whoever cuts which piece, and whenever: the same segments, byte for byte.

#[path = "../../tests/simulation/compute.rs"]
mod compute;

use crate::encoder::{Encoder, Limits};
use crate::shared::Shared;
use compute::compute;
use thermocline_chunking::Chunking;
use thermocline_ports::accelerator::Job;
use thermocline_units::{Bytes, Rng};

/// The sending half of a flow, and a unit.
struct Sender {
    encoder: Encoder,
    shared: Shared,
    wire: Vec<u8>,
    job: Option<Job>,
}

impl Sender {
    fn new(chunking: Chunking) -> Sender {
        let encoder = Encoder::new(Limits::default(), 0, chunking);
        Sender { encoder, shared: Shared::new(Bytes::from_mib(8), 1), wire: Vec::new(), job: None }
    }

    fn send(&mut self) {
        while self.encoder.is_ready() {
            let (parts, _) = self.encoder.next_segment(&mut self.shared).unwrap();
            self.wire.extend(parts.concat());
        }
    }

    /// A unit does something, or this processor does: by what `rng` draws.
    fn work(&mut self, rng: &mut Rng) {
        match (self.job.take(), rng.below(8)) {
            (Some(job), 0) => self.job = Some(job),
            (Some(_), 1) => {
                self.encoder.withdraw();
                self.encoder.cut();
            }
            (Some(job), 2) => self.lie(&job, rng),
            (Some(job), _) => self.encoder.answered(&compute(&job), 8, rng).unwrap(),
            (None, 0..4) => self.encoder.cut(),
            (None, _) => self.job = self.encoder.ask(1 + rng.below(100_000)),
        }
    }

    /// The unit answers something else, which is found: all chunks are checked.
    fn lie(&mut self, job: &Job, rng: &mut Rng) {
        let mut answer = compute(job);
        match rng.below(3) {
            0 => answer.length += 1,
            1 => answer.positions.push(job.data.len() + 1),
            _ => match answer.positions.first_mut() {
                Some(position) => *position += 1,
                None => answer.positions.push(1),
            },
        }
        self.encoder.answered(&answer, 1, rng).unwrap_err();
        assert!(!self.encoder.is_asked(), "a lie is withdrawn");
        self.encoder.cut();
    }

    fn finish(&mut self, rng: &mut Rng) {
        self.encoder.flush();
        while self.encoder.pending() > 0 {
            self.work(rng);
            self.send();
        }
    }
}

/// Content with runs that come again, and bytes of one value.
fn content(rng: &mut Rng) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..100_000).map(|_| rng.next_u64() as u8).collect();
    for _ in 0..4 {
        let from = rng.below(60_000) as usize;
        bytes.extend_from_within(from..from + 30_000);
        bytes.resize(bytes.len() + rng.below(5000) as usize, rng.below(2) as u8);
    }
    bytes
}

#[test]
fn segments_do_not_depend_on_who_cuts_or_when() {
    let chunkings = ["rabin16:256B", "rabin16:64KiB", "rabin-source:512B", "modp"];
    let others = ["fixed:512B", "gear:256B", "rabin16:2KiB", "maxp"];
    let drawn = |rng: &mut Rng, from: &[&str]| -> Chunking {
        from[rng.below(from.len() as u64) as usize].parse().unwrap()
    };
    for seed in 0..150 {
        let mut rng = Rng::seeded(seed);
        let chunking = drawn(&mut rng, &chunkings);
        let mut senders = [Sender::new(chunking), Sender::new(chunking)];
        let data = content(&mut rng);
        let mut rest = &data[..];
        let mut change = None;
        while !rest.is_empty() {
            let magnitude = [300, 30_000, 90_000][rng.below(3) as usize];
            let most = 1 + rng.below(magnitude);
            let (now, later) = rest.split_at(rest.len().min(most as usize));
            rest = later;
            let flushes = rng.below(5) == 0;
            for (who, sender) in senders.iter_mut().enumerate() {
                sender.encoder.push(now);
                if let Some(chunking) = change {
                    sender.encoder.set_chunking(chunking);
                }
                if flushes {
                    sender.encoder.flush();
                }
                if who == 0 {
                    sender.encoder.cut()
                } else {
                    sender.work(&mut rng)
                }
                sender.send();
            }
            // Another way is chosen behind a segment, where nothing else would be told apart.
            change = (rng.below(40) == 0).then(|| {
                if rng.below(2) == 0 {
                    drawn(&mut rng, &chunkings)
                } else {
                    drawn(&mut rng, &others)
                }
            });
        }
        let [here, elsewhere] = &mut senders;
        here.encoder.flush();
        here.encoder.cut();
        here.send();
        elsewhere.finish(&mut rng);
        assert_eq!(here.encoder.pending(), 0, "seed {seed}");
        assert!(here.wire == elsewhere.wire, "seed {seed}: {chunking}");
    }
}

#[test]
fn a_flush_counts_where_it_was_said_though_more_has_come_since() {
    let mut rng = Rng::seeded(1);
    let bytes: Vec<u8> = (0..40_000).map(|_| rng.next_u64() as u8).collect();
    let mut sender = Sender::new("rabin16:2KiB".parse().unwrap());
    sender.encoder.push(&bytes[..30_000]);
    let job = sender.encoder.ask(20_000).unwrap();
    sender.encoder.flush();
    sender.encoder.push(&bytes[30_000..]);
    assert!(!sender.encoder.is_ready(), "nothing is cut");
    sender.encoder.answered(&compute(&job), 1, &mut rng).unwrap();
    assert!(!sender.encoder.is_ready(), "the flush is not reached");
    let job = sender.encoder.ask(20_000).unwrap();
    assert_eq!(job.data.len(), 10_000, "a piece ends at the flush");
    sender.encoder.answered(&compute(&job), 1, &mut rng).unwrap();
    sender.send();
    assert_eq!(sender.encoder.pending(), 10_000, "what came behind the flush waits");
}
