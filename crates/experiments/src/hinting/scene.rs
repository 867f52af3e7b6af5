//! One run: a volume, files on it, and programs that work on them under some hints.
//!
//! 1. The volume is made; a thick one is mapped by ascending address.
//! 2. The files are made: what is hinted of them is said, and on a thin volume each of their chunks
//!    is written once, so that it is placed as the hints or the fill rule say.
//!    Where several copies are wished, those are asked for.
//! 3. The baseline decides from now on (Ge et al. 2022 §3.7: the 1,000 most accessed chunks to the
//!    fastest pool in each interval), with or without hints, and the volume rests.
//! 4. The programs run to their end, with the file system's own writes beside them.

use crate::config::text_or_none;
use crate::grid::{Measure, Measured};
use serde::Deserialize;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use thermocline_policy::hints::Usage;
use thermocline_policy::placement::Placement;
use thermocline_policy::registry::PolicySpec;
use thermocline_policy::tactics::VolumeTactics;
use thermocline_sim::files::programs::{
    Habits, Quota, Shared, committer, file_server, random_writer, reader, stream_writer, web_server,
};
use thermocline_sim::files::set::{Batch, make};
use thermocline_sim::files::{FileId, Format, Telling, Tree};
use thermocline_sim::machine::{
    MachineError, MachineOptions, PoolPlan, Ran, Session, Step, Task, Worker,
};
use thermocline_units::{Bytes, Nanos, Rng};
use thermocline_volume::Copying;

/// Chunks that the baseline moves up in an interval.
const BASELINE: &str = "baseline:k=1000";
/// Requests that the file system, and the making of files, have under way.
const SYSTEM_DEPTH: u32 = 16;
/// Requests of one thread under way: two halves of an I/O of 1 MiB, or the read-ahead.
const THREAD_DEPTH: u32 = 2;
/// The background task's requests wait so long at most.
const PATIENCE: Nanos = Nanos::from_secs(1);
/// Files of at most so many bytes are deleted and made anew, unless the description says otherwise.
const REPLACED: Bytes = Bytes::from_mib(50);
/// Crews that ask: the programs in front, the file system, the background task.
const FRONT: usize = 0;
const SYSTEM: usize = 1;
const BACKGROUND: usize = 2;

/// Programs that work on the files.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Program {
    /// Threads of a file server on all files.
    FileServer(Server),
    /// Threads of a web server on all files.
    WebServer(Server),
    /// Four loads at once, each on the files of its usage, for so many seconds.
    Streams { threads: u32, seconds: u64 },
    /// All files are read one after the other.
    Copy {},
}

/// A server's threads.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Server {
    threads: u32,
    /// Rounds of all of them together.
    rounds: u64,
    /// Bytes of a file that are read at a time; all of it when left out.
    #[serde(default, deserialize_with = "text_or_none")]
    part: Option<Bytes>,
    /// The largest files that are deleted and made anew.
    #[serde(default, deserialize_with = "text_or_none")]
    replaced: Option<Bytes>,
    /// True if something reads all files beside it.
    #[serde(default)]
    background: bool,
}

/// A run of an experiment with hints.
#[derive(Debug, Clone)]
pub(super) struct Scene {
    pub(super) seed: u64,
    pub(super) size: Bytes,
    pub(super) thick: bool,
    pub(super) tactics: VolumeTactics,
    pub(super) copying: Copying,
    pub(super) pools: Vec<PoolPlan>,
    pub(super) chunk: Bytes,
    pub(super) interval: Nanos,
    pub(super) settle: Nanos,
    pub(super) format: Format,
    pub(super) program: Program,
    pub(super) directories: u32,
    pub(super) files: Vec<Batch>,
    pub(super) telling: Telling,
    /// Number of the largest files that are prefetched.
    pub(super) prefetched: usize,
    pub(super) priority: bool,
    /// On how many pools, from the fastest on, each chunk of a file is.
    pub(super) copies: usize,
}

/// A list of files that several programs share.
type Files = Rc<RefCell<Vec<FileId>>>;

impl Scene {
    /// Runs it.
    ///
    /// # Errors
    /// When the volume or the machine cannot do it.
    pub(super) fn run(&self) -> Result<Measured, MachineError> {
        let options = MachineOptions {
            chunk: self.chunk,
            epoch: self.interval,
            tactics: self.tactics.clone(),
            copying: self.copying,
            seed: self.seed,
            ..MachineOptions::default()
        };
        let mut session = Session::new(&self.pools, &options, self.size, self.thick, None)?;
        let tree = Tree::new(self.format, self.size, self.directories, self.telling);
        let tree: Shared = Rc::new(RefCell::new(tree));
        let made = self.make_files(&mut session, &tree)?;
        self.replicate(&mut session, &tree, &made)?;
        session.place(BASELINE, baseline());
        session.rest(self.settle);
        let start = session.now();
        let before = session.copied_bytes();
        let ran = session.run(self.workers(&tree, &made, start))?;
        Ok(measured(&ran, before))
    }

    /// Makes the files; lists of them, one a batch.
    fn make_files(
        &self,
        session: &mut Session,
        tree: &Shared,
    ) -> Result<Vec<Vec<FileId>>, MachineError> {
        let mut steps = Vec::new();
        tree.borrow().introduce(&mut steps);
        let mut rng = Rng::seeded(self.seed);
        let made =
            make(&mut tree.borrow_mut(), &self.files, self.directories, &mut rng, &mut steps)
                .map_err(|error| MachineError::Options(error.to_string()))?;
        if !self.thick {
            let tree = tree.borrow();
            let places = made.iter().flatten().flat_map(|&file| tree.places(file));
            let chunk = self.chunk.0;
            for place in tree.metadata().into_iter().chain(places) {
                let first = place.start / chunk * chunk;
                let starts = (first..place.end).step_by(chunk as usize);
                steps.extend(starts.map(|at| Step::Write(at.max(place.start), 4096)));
            }
        }
        let mut steps = steps.into_iter();
        let task: Task<'_> = Box::new(move |_| steps.next());
        session.run(vec![worker(task, SYSTEM_DEPTH, SYSTEM)])?;
        Ok(made)
    }

    /// Asks for the further copies of the files' chunks, each on a pool of its own.
    fn replicate(
        &self,
        session: &mut Session,
        tree: &Shared,
        made: &[Vec<FileId>],
    ) -> Result<(), MachineError> {
        let tree = tree.borrow();
        let places = made.iter().flatten().flat_map(|&file| tree.places(file));
        let chunk = self.chunk.0;
        let chunks: BTreeSet<u32> = places
            .flat_map(|place| place.start / chunk..place.end.div_ceil(chunk))
            .map(|index| index as u32)
            .collect();
        for pool in 1..self.copies {
            session.replicate(chunks.iter().copied(), pool)?;
        }
        Ok(())
    }

    fn workers(&self, tree: &Shared, made: &[Vec<FileId>], start: Nanos) -> Vec<Worker<'static>> {
        let all: Files = Rc::new(RefCell::new(made.iter().flatten().copied().collect()));
        let mut workers = match &self.program {
            Program::FileServer(server) => {
                let quota = Quota::rounds(server.rounds);
                self.file_server(tree, &all, self.habits(server), server.threads, quota)
            }
            Program::WebServer(server) => {
                let quota = Quota::rounds(server.rounds);
                self.web_server(tree, &all, self.habits(server), server.threads, quota)
            }
            Program::Streams { threads, seconds } => {
                let end = Quota::Until(Nanos(start.0 + Nanos::from_secs(*seconds).0));
                self.streams(tree, made, *threads, end)
            }
            Program::Copy {} => vec![worker(reader(tree, &all, false), THREAD_DEPTH, FRONT)],
        };
        workers.push(Worker { counts: false, ..worker(committer(tree), SYSTEM_DEPTH, SYSTEM) });
        if let Program::FileServer(server) | Program::WebServer(server) = &self.program
            && server.background
        {
            let patience = self.priority.then_some(PATIENCE);
            let task = reader(tree, &all, true);
            let synced = worker(task, THREAD_DEPTH, BACKGROUND);
            workers.push(Worker { counts: false, patience, ..synced });
        }
        if self.prefetched > 0 {
            workers.push(worker(self.prefetch(tree, &all), 1, SYSTEM));
        }
        workers
    }

    fn habits(&self, server: &Server) -> Habits {
        Habits {
            replaced: server.replaced.unwrap_or(REPLACED).0,
            part: server.part.map_or(u64::MAX, |part| part.0),
            directories: self.directories,
        }
    }

    fn file_server(
        &self,
        tree: &Shared,
        files: &Files,
        habits: Habits,
        threads: u32,
        quota: Quota,
    ) -> Vec<Worker<'static>> {
        let thread = |thread: u32| {
            let task = file_server(tree, files, habits, self.seed_of(thread), quota.clone());
            worker(task, THREAD_DEPTH, FRONT)
        };
        (0..threads).map(thread).collect()
    }

    fn web_server(
        &self,
        tree: &Shared,
        files: &Files,
        habits: Habits,
        threads: u32,
        quota: Quota,
    ) -> Vec<Worker<'static>> {
        // The log is empty, and of the web server's stream.
        let log = tree.borrow_mut().create(0, 0, Usage::Unknown, &mut Vec::new());
        let log = log.expect("one block is free");
        let thread = |thread: u32| {
            let task = web_server(tree, files, habits, log, self.seed_of(thread), quota.clone());
            worker(task, THREAD_DEPTH, FRONT)
        };
        (0..threads).map(thread).collect()
    }

    fn streams(
        &self,
        tree: &Shared,
        made: &[Vec<FileId>],
        threads: u32,
        end: Quota,
    ) -> Vec<Worker<'static>> {
        let (replaced, part) = (REPLACED.0, u64::MAX);
        let habits = Habits { replaced, part, directories: self.directories };
        let mut workers = Vec::new();
        for (batch, files) in self.files.iter().zip(made) {
            let shared: Files = Rc::new(RefCell::new(files.clone()));
            let seed = self.seed_of(1000 + workers.len() as u32);
            workers.extend(match batch.usage {
                Usage::ReadIntensive => {
                    self.web_server(tree, &shared, habits, threads, end.clone())
                }
                Usage::RandomWrite => {
                    let task = random_writer(tree, files[0], seed, end.clone());
                    vec![worker(task, 1, FRONT)]
                }
                Usage::SequentialWrite => {
                    let task = stream_writer(tree, files.clone(), end.clone());
                    vec![worker(task, THREAD_DEPTH, FRONT)]
                }
                _ => self.file_server(tree, &shared, habits, threads, end.clone()),
            });
        }
        workers
    }

    /// A thread's seed.
    fn seed_of(&self, thread: u32) -> u64 {
        self.seed << 16 ^ u64::from(thread)
    }

    /// Wishes the largest files near, one after the other.
    fn prefetch(&self, tree: &Shared, files: &Files) -> Task<'static> {
        let (tree, mut files) = (tree.borrow(), files.borrow().clone());
        files.sort_by_key(|&file| std::cmp::Reverse(tree.size(file)));
        files.truncate(self.prefetched);
        let places = files.iter().flat_map(|&file| tree.places(file));
        let wishes: Vec<Step> = places.map(|at| Step::Prefetch((at.start, at.end))).collect();
        let mut wishes = wishes.into_iter();
        Box::new(move |_| wishes.next())
    }
}

fn worker(task: Task<'_>, depth: u32, crew: usize) -> Worker<'_> {
    Worker { task, depth, crew, patience: None, counts: true }
}

fn baseline() -> Box<dyn Placement> {
    let spec = PolicySpec::parse(BASELINE).expect("it is in the registry");
    spec.build_placement().expect("it is a placement, and its settings are right")
}

/// Figures of a run before which so many bytes were copied between pools.
fn measured(ran: &Ran, before: u64) -> Measured {
    let asked = &ran.crews[FRONT..=SYSTEM];
    let requests: u64 = asked.iter().map(|tally| tally.requests()).sum();
    let latency: f64 = asked.iter().map(|tally| tally.mean_s() * tally.requests() as f64).sum();
    let took = ran.took.as_secs_f64().max(1e-9);
    let slowest = ran.pools.last().expect("a machine has pools");
    let moved: u64 = ran.pools.iter().map(|pool| pool.copied_in_bytes).sum();
    Measured::from([
        (Measure::Latency, latency / requests.max(1) as f64),
        (Measure::FrontLatency, ran.crews[FRONT].mean_s()),
        (Measure::Throughput, ran.crews[FRONT].bytes as f64 / took),
        (Measure::Elapsed, took),
        (Measure::Moved, moved as f64),
        (Measure::MovedBefore, before as f64),
        (Measure::MovedInAll, (before + moved) as f64),
        (Measure::SlowestRead, (slowest.read_bytes + slowest.copied_out_bytes) as f64),
    ])
}
