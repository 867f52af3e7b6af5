//! A process as an accelerator.

use super::format::{self, ANSWER_BYTES, Answered, HELLO_BYTES, POSITION_BYTES};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use thermocline_ports::accelerator::{
    Abilities, Accelerator, AcceleratorError, Answer, Done, Fingerprint, Job,
};
use thermocline_ports::{Payload, Ticket};
use thermocline_units::{Bytes, Nanos};

/// Bytes of a slot beyond buffer and positions, so that a core may read whole beats.
pub(super) const SLACK: u64 = 64;

/// Options for starting a worker.
#[derive(Debug, Clone)]
pub struct ProcessOptions {
    /// The program.
    pub program: PathBuf,
    /// Arguments before the two that every worker gets: the number of slots and bytes of a buffer.
    pub arguments: Vec<OsString>,
    /// Jobs in flight at once; the rest waits here. 1 to 1,024.
    pub slots: u32,
    /// The longest buffer, a multiple of 64 bytes below 16 MiB.
    pub buffer: Bytes,
    /// Longest time until it begins, and until a job is answered.
    pub patience: Duration,
}

impl ProcessOptions {
    /// A program with four slots of 256 KiB and two seconds of patience.
    pub fn new(program: PathBuf) -> ProcessOptions {
        ProcessOptions {
            program,
            arguments: Vec::new(),
            slots: 4,
            buffer: Bytes::from_kib(256),
            patience: Duration::from_secs(2),
        }
    }
}

/// A worker that cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// The options are out of range.
    #[error(
        "a worker has 1 to 1,024 slots, and buffers of a multiple of 64 bytes below 16 MiB; \
         {slots} slots of {buffer} were asked for"
    )]
    Options {
        /// The number asked for.
        slots: u32,
        /// The length asked for.
        buffer: Bytes,
    },
    /// The program does not start, or memory or a socket cannot be had.
    #[error(
        "the worker {} cannot be started: {error}; check the path and its permissions",
        .program.display()
    )]
    Start {
        /// The program.
        program: PathBuf,
        /// The system's error.
        error: std::io::Error,
    },
    /// Its first words are not those of a worker.
    #[error(
        "{} does not speak as a worker does; give the program of a worker of this version",
        .program.display()
    )]
    Hello {
        /// The program.
        program: PathBuf,
    },
}

/// An accelerator in another process.
pub struct Process {
    abilities: Abilities,
    pub(super) child: Child,
    socket: UnixStream,
    memory: File,
    slot_bytes: u64,
    patience: Nanos,
    free: Vec<u32>,
    waiting: VecDeque<(Ticket, Job)>,
    /// Jobs with the worker: slot, bytes, and the time until which it may take.
    given: BTreeMap<Ticket, (u32, u32, Nanos)>,
    /// Answered without the worker.
    early: Vec<Done>,
    received: Vec<u8>,
    failed: Option<&'static str>,
}

impl Process {
    /// Starts a worker and waits until it says what it is.
    ///
    /// # Errors
    /// When it cannot be started, or says something else in the time it has.
    pub fn start(options: &ProcessOptions) -> Result<Process, ProcessError> {
        let ProcessOptions { slots, buffer, .. } = *options;
        let sound = (1..=1024).contains(&slots)
            && (64..1 << 24).contains(&buffer.0)
            && buffer.0.is_multiple_of(64);
        if !sound {
            return Err(ProcessError::Options { slots, buffer });
        }
        let program = options.program.clone();
        let slot_bytes = (1 + POSITION_BYTES as u64) * buffer.0 + SLACK;
        let started = begin(options, u64::from(slots) * slot_bytes);
        let (child, socket, memory) =
            started.map_err(|error| ProcessError::Start { program: program.clone(), error })?;
        let mut process = Process {
            abilities: Abilities { buffer_max: buffer, queue_depth: slots, units: 1, only: None },
            child,
            socket,
            memory,
            slot_bytes,
            patience: Nanos(u64::try_from(options.patience.as_nanos()).unwrap_or(u64::MAX)),
            free: (0..slots).rev().collect(),
            waiting: VecDeque::new(),
            given: BTreeMap::new(),
            early: Vec::new(),
            received: Vec::new(),
            failed: None,
        };
        let Some((only, units)) = process.hello(options.patience) else {
            return Err(ProcessError::Hello { program });
        };
        process.abilities.only = only;
        process.abilities.units = units;
        Ok(process)
    }

    /// The reason that the unit failed; `None` while it works.
    pub fn failed(&self) -> Option<&'static str> {
        self.failed
    }

    /// The process's number, for whoever watches or ends it.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// A socket that is readable when the worker has said something, for whoever waits for several
    /// things. Only [`Process`] reads it.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn readiness(&self) -> std::io::Result<UnixStream> {
        self.socket.try_clone()
    }

    /// Waits until the worker says something, `patience` at most.
    pub fn wait(&mut self, patience: Duration) {
        if self.early.is_empty() && self.failed.is_none() {
            let timeout = patience.try_into().ok();
            // A wait that was cut short is a short wait.
            let _ = poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], timeout.as_ref());
        }
    }

    fn hello(&mut self, patience: Duration) -> Option<(Option<Fingerprint>, u32)> {
        let mut bytes = [0; HELLO_BYTES];
        self.socket.set_nonblocking(false).ok()?;
        self.socket.set_read_timeout(Some(patience.max(Duration::from_millis(1)))).ok()?;
        self.socket.read_exact(&mut bytes).ok()?;
        self.socket.set_nonblocking(true).ok()?;
        format::hello(&bytes)
    }

    /// Hands waiting jobs over while there are slots.
    fn hand_over(&mut self, now: Nanos) {
        while self.failed.is_none() && !self.free.is_empty() {
            let Some((ticket, job)) = self.waiting.pop_front() else { return };
            let slot = self.free.pop().expect("there was one");
            let at = u64::from(slot) * self.slot_bytes;
            let message = format::order(ticket, slot, &job);
            let until = Nanos(now.0.saturating_add(self.patience.0));
            self.given.insert(ticket, (slot, job.data.len(), until));
            // All messages in flight together are far smaller than a socket's buffer.
            let sent = match &job.data {
                Payload::Bytes(bytes) => self.memory.write_all_at(bytes, at),
                zeroes @ Payload::Zeroes(_) => self.memory.write_all_at(&zeroes.to_vec(), at),
            };
            if sent.and_then(|()| self.socket.write_all(&message)).is_err() {
                self.fail("it no longer listens", AcceleratorError::Gone);
            }
        }
    }

    fn receive(&mut self, done: &mut Vec<Done>) {
        let mut buffer = [0; 64 * ANSWER_BYTES];
        while self.failed.is_none() {
            match self.socket.read(&mut buffer) {
                Ok(0) => return self.fail("it ended", AcceleratorError::Gone),
                Ok(count) => self.received.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => return self.fail("it cannot be heard", AcceleratorError::Gone),
            }
            while self.failed.is_none()
                && let Some(message) = self.received.first_chunk::<ANSWER_BYTES>()
            {
                let answered = format::answer(message);
                self.received.drain(..ANSWER_BYTES);
                self.answered(answered, done);
            }
        }
    }

    fn answered(&mut self, answered: Answered, done: &mut Vec<Done>) {
        let Answered { ticket, status, count, length, early, cycles } = answered;
        let Some(&(slot, bytes, _)) = self.given.get(&ticket) else {
            return self.fail("it answered what nobody asked", AcceleratorError::Failed);
        };
        let result = match status {
            0 if count <= bytes => match self.positions(slot, count) {
                Ok(positions) => Ok(Answer { positions, length, early, cycles }),
                Err(_) => return self.fail("its memory is gone", AcceleratorError::Gone),
            },
            0 => return self.fail("it cuts more than there is", AcceleratorError::Failed),
            1 => Err(AcceleratorError::Refused),
            _ => Err(AcceleratorError::Failed),
        };
        self.given.remove(&ticket);
        self.free.push(slot);
        done.push(Done { ticket, result });
    }

    fn positions(&self, slot: u32, count: u32) -> std::io::Result<Vec<u32>> {
        let at = u64::from(slot) * self.slot_bytes + self.abilities.buffer_max.0 + SLACK;
        let mut bytes = vec![0; count as usize * POSITION_BYTES];
        self.memory.read_exact_at(&mut bytes, at)?;
        Ok(format::positions(&bytes))
    }

    /// Ends the unit: what it had ends with `how`, what waited and what comes with `Gone`.
    fn fail(&mut self, why: &'static str, how: AcceleratorError) {
        self.failed = Some(why);
        // It may have ended by itself.
        let _ = self.child.kill();
        let given = std::mem::take(&mut self.given).into_keys();
        self.early.extend(given.map(|ticket| Done { ticket, result: Err(how) }));
        let waiting = self.waiting.drain(..);
        let gone = Err(AcceleratorError::Gone);
        self.early.extend(waiting.map(|(ticket, _)| Done { ticket, result: gone.clone() }));
    }
}

/// Starts the program between a socket and memory.
fn begin(options: &ProcessOptions, memory: u64) -> std::io::Result<(Child, UnixStream, File)> {
    let shared: OwnedFd = memfd_create(c"thermocline-worker", MemfdFlags::CLOEXEC)?;
    let shared = File::from(shared);
    shared.set_len(memory)?;
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    let child = Command::new(&options.program)
        .args(&options.arguments)
        .arg(options.slots.to_string())
        .arg(options.buffer.0.to_string())
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::from(shared.try_clone()?))
        // Ctrl-C in a terminal is for this process, which ends its workers itself.
        .process_group(0)
        .spawn()?;
    Ok((child, ours, shared))
}

impl Accelerator for Process {
    fn abilities(&self) -> Abilities {
        self.abilities
    }

    fn submit(&mut self, now: Nanos, ticket: Ticket, job: Job) {
        if !self.abilities.include(&job) {
            let result = Err(AcceleratorError::Refused);
            return self.early.push(Done { ticket, result });
        }
        if self.failed.is_some() {
            let result = Err(AcceleratorError::Gone);
            return self.early.push(Done { ticket, result });
        }
        self.waiting.push_back((ticket, job));
        self.hand_over(now);
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Done>) {
        self.receive(done);
        if self.given.values().any(|&(.., until)| until <= now) {
            self.fail("it did not answer in time", AcceleratorError::TimedOut);
        }
        self.hand_over(now);
        done.append(&mut self.early);
    }

    fn next_event(&self) -> Option<Nanos> {
        None
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself; either way nobody waits for it later.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
