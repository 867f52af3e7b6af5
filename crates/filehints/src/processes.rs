//! Processes, as `/proc` tells of them: names, parents, and how urgent they are.
//!
//! A process that is gone and was not asked about while it lived is nobody's.

use super::ioprio;
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

/// Numbers of processes are used again; what is remembered of one is asked anew after so long.
const REMEMBERED: Duration = Duration::from_secs(1);
/// Processes remembered at most.
const REMEMBERED_MAX: usize = 4096;
/// Generations that are looked back; a longer chain is not a descendant.
const GENERATIONS_MAX: usize = 64;
/// From this nice value on a process is in the background.
const NICE_BACKGROUND: i32 = 10;
/// `SCHED_IDLE` of `linux/sched.h`.
const POLICY_IDLE: i32 = 5;

/// Facts about a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its name, as `ps` shows it: at most 15 bytes.
    pub name: String,
    /// Process that started it, or took it over.
    pub parent: i32,
    nice: i32,
    policy: i32,
}

impl Process {
    /// Asks; `None`: it is gone.
    fn find(process: i32) -> Option<Process> {
        Process::parse(&std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
    }

    /// `/proc/PID/stat`: number, name in parentheses (which may hold blanks and parentheses),
    /// state, parent, …; nice is field 19, the policy field 41 (proc_pid_stat(5)).
    fn parse(stat: &str) -> Option<Process> {
        let (start, end) = (stat.find('(')?, stat.rfind(')')?);
        let rest: Vec<&str> = stat.get(end + 1..)?.split_whitespace().collect();
        // The state is field 3.
        let number = |field: usize| rest.get(field - 3)?.parse::<i32>().ok();
        let name = stat.get(start + 1..end)?.to_string();
        Some(Process { name, parent: number(4)?, nice: number(19)?, policy: number(41)? })
    }
}

/// Processes, as `/proc` tells of them.
#[derive(Debug, Default)]
pub struct Processes {
    known: HashMap<i32, (Instant, Option<Process>)>,
    /// Those that said of themselves that they do I/O only when nobody else does.
    idle: HashSet<i32>,
}

impl Processes {
    /// Facts about a process; `None`: it is gone.
    pub fn get(&mut self, now: Instant, process: i32) -> Option<Process> {
        if let Some((when, known)) = self.known.get(&process)
            && now.saturating_duration_since(*when) < REMEMBERED
        {
            return known.clone();
        }
        if self.known.len() >= REMEMBERED_MAX {
            self.known.clear();
        }
        let found = Process::find(process);
        // Gone, but seen before: whoever it was, it still is.
        let found = found.or_else(|| self.known.get(&process).and_then(|(_, old)| old.clone()));
        self.known.insert(process, (now, found.clone()));
        found
    }

    /// True if `process` was started, at whatever distance, by `ancestor`.
    pub fn is_below(&mut self, now: Instant, process: i32, ancestor: i32) -> bool {
        let mut at = process;
        for _ in 0..GENERATIONS_MAX {
            match self.get(now, at).map(|found| found.parent) {
                Some(parent) if parent == ancestor => return true,
                Some(parent) if parent > 1 => at = parent,
                _ => return false,
            }
        }
        false
    }

    /// True if nobody waits for what a process does: idle I/O class, idle scheduling, or nice 10
    /// and above.
    pub fn is_background(&mut self, now: Instant, process: i32) -> bool {
        let found = self.get(now, process);
        found.is_some_and(|found| found.nice >= NICE_BACKGROUND || found.policy == POLICY_IDLE)
            || ioprio::is_idle(process)
            || self.has_said_idle(now, process)
    }

    /// Takes note of the class of I/O priority that a process took.
    pub fn note_idle(&mut self, process: i32, is_idle: bool) {
        if !is_idle {
            self.idle.remove(&process);
        } else if self.idle.len() < REMEMBERED_MAX {
            self.idle.insert(process);
        }
    }

    /// True if a process, or one that it descends from, said that it does I/O only when nobody else
    /// does: who is started takes the class over.
    pub fn has_said_idle(&mut self, now: Instant, process: i32) -> bool {
        let mut at = process;
        for _ in 0..GENERATIONS_MAX {
            if self.idle.is_empty() || self.idle.contains(&at) {
                return !self.idle.is_empty();
            }
            match self.get(now, at).map(|found| found.parent) {
                Some(parent) if parent > 1 => at = parent,
                _ => return false,
            }
        }
        false
    }
}

#[cfg(test)]
mod tests;
