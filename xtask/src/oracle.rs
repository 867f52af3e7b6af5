//! `cargo xtask oracle [TRACE [SIZES]]`: our miss counts beside libCacheSim's, to the last request.
//!
//! 1. The trace becomes a stream of unit-size objects in a file that both programs read.
//! 2. `thermocline lab cache --objects` and libCacheSim (through `xtask/oracle/run.py`) replay it,
//!    every policy at every size.
//! 3. The counts are printed side by side. A difference that is not in [`KNOWN`] fails the command.
//!
//! libCacheSim comes from PyPI, in an environment of its own below `target`. It is a separate
//! program: nothing of it is linked or copied.

pub(crate) mod environment;

use crate::{Failure, workspace};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Policies that both programs have, by our names.
const POLICIES: [&str; 10] =
    ["lru", "fifo", "clock", "arc", "sieve", "2q", "s3-fifo", "lirs", "belady", "w-tiny-lfu"];

const SIZES_DEFAULT: &str = "0.1%,1%,5%,10%,20%,40%";

/// A difference that is understood: for which counts it may occur, and why.
struct Known {
    policy: &'static str,
    applies: fn(&Count) -> bool,
    why: &'static str,
}

const KNOWN: &[Known] = &[
    Known {
        policy: "w-tiny-lfu",
        applies: |_| true,
        why: "hashes, sketch sizes and the moment of halving differ between implementations",
    },
    Known {
        policy: "s3-fifo",
        applies: |count| count.size < 20,
        why: "libCacheSim serves nothing from caches of fewer than 20 objects",
    },
    Known {
        policy: "lirs",
        applies: |count| count.size < 200,
        why: "with a queue of one object libCacheSim holds more objects than its capacity",
    },
    Known {
        policy: "lirs",
        // A line lingers only from such a hit to the next miss: hits on it are a rarity.
        applies: |count| {
            count.ours < count.theirs && count.theirs - count.ours <= count.theirs / 1000
        },
        why: "a hit that evicts: libCacheSim drops the object at once, we when its room is needed",
    },
];

/// One policy at one size.
struct Count {
    policy: &'static str,
    size: u64,
    ours: u64,
    theirs: u64,
}

/// Verdict of the two counts.
enum Verdict {
    Equal,
    Known(&'static str),
    Wrong,
}

impl Count {
    fn verdict(&self) -> Verdict {
        if self.ours == self.theirs {
            return Verdict::Equal;
        }
        let known = KNOWN.iter().find(|known| known.policy == self.policy && (known.applies)(self));
        known.map_or(Verdict::Wrong, |known| Verdict::Known(known.why))
    }
}

/// The stream both programs read.
struct Stream {
    path: PathBuf,
    requests: u64,
    distinct: u64,
}

/// The subcommand.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let (trace, sizes) = match arguments {
        [] => (default_trace()?, SIZES_DEFAULT),
        [trace] => (PathBuf::from(trace), SIZES_DEFAULT),
        [trace, sizes] => (PathBuf::from(trace), sizes.as_str()),
        _ => return Err(Failure::Usage("oracle takes a trace and sizes".to_string())),
    };
    let python = environment::python()?;
    let folder = workspace::root().join("target").join("oracle");
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let stream = make_stream(&trace, folder.join("stream.oracleGeneral"))?;
    let sizes = parse_sizes(sizes, stream.distinct)?;
    println!(
        "{}: {} requests, {} objects; misses of both programs at {} sizes",
        trace.display(),
        stream.requests,
        stream.distinct,
        sizes.len()
    );
    let ours = ours(&stream, &sizes)?;
    let theirs = theirs(&python, &stream, &sizes)?;
    report(&compare(&sizes, &ours, &theirs)?)
}

/// The CloudPhysics slice of the shared traces, when it is there.
fn default_trace() -> Result<PathBuf, Failure> {
    let shared = std::env::var_os("THERMOCLINE_SHARED")
        .map_or_else(|| workspace::root().join("../shared"), PathBuf::from);
    let trace = shared.join("traces/cloudphysics_2h.csv.gz");
    if trace.is_file() {
        return Ok(trace);
    }
    Err(Failure::Usage(format!(
        "{} is not there: name a trace, `cargo xtask oracle TRACE`",
        trace.display()
    )))
}

/// Sizes in objects: numbers, or percentages of the distinct objects.
fn parse_sizes(text: &str, distinct: u64) -> Result<Vec<u64>, Failure> {
    let parse = |word: &str| -> Option<u64> {
        let size = match word.strip_suffix('%') {
            Some(share) => (share.parse::<f64>().ok()? / 100.0 * distinct as f64) as u64,
            None => word.parse().ok()?,
        };
        (1..=u64::from(u32::MAX)).contains(&size).then_some(size)
    };
    text.split(',')
        .map(|word| {
            parse(word.trim()).ok_or_else(|| {
                let example = "write objects or percentages, such as 1000,10%";
                Failure::Usage(format!("`{word}` is no size of at least one object; {example}"))
            })
        })
        .collect()
}

fn make_stream(trace: &Path, path: PathBuf) -> Result<Stream, Failure> {
    let trace = std::path::absolute(trace).map_err(|e| format!("{}: {e}", trace.display()))?;
    let mut command = workspace::cargo();
    command.args(["run", "--release", "--quiet", "--package", "thermocline-sim"]);
    command.args(["--example", "object_stream", "--"]).arg(trace).arg(&path);
    let said = output_of(&mut command, "object_stream")?;
    let number = |key: &str| said[key].as_u64().ok_or("object_stream printed no counts");
    if number("discards")? > 0 {
        return Err(Failure::Failed(
            "the trace has discards, which libCacheSim does not know: leave them out with \
             `thermocline trace convert`"
                .to_string(),
        ));
    }
    Ok(Stream { requests: number("requests")?, distinct: number("distinct")?, path })
}

fn ours(stream: &Stream, sizes: &[u64]) -> Result<Value, Failure> {
    let sizes: Vec<_> = sizes.iter().map(|size| format!("{size}lines")).collect();
    let mut command = workspace::cargo();
    command.args(["run", "--release", "--quiet", "--package", "thermocline-cli", "--"]);
    command.args(["lab", "cache"]).arg(&stream.path);
    command.args(["--format", "oracle-general", "--objects", "--json"]);
    command.args(["--policy", &POLICIES.join(","), "--size", &sizes.join(",")]);
    output_of(&mut command, "thermocline lab cache")
}

fn theirs(python: &Path, stream: &Stream, sizes: &[u64]) -> Result<Value, Failure> {
    let sizes: Vec<_> = sizes.iter().map(u64::to_string).collect();
    let mut command = Command::new(python);
    command.arg(workspace::root().join("xtask").join("oracle").join("run.py"));
    command.arg(&stream.path).args([POLICIES.join(","), sizes.join(",")]);
    output_of(&mut command, "libCacheSim")
}

/// Runs `command`, whose messages go to our standard error; the JSON it prints.
fn output_of(command: &mut Command, what: &str) -> Result<Value, Failure> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| format!("{what} does not start: {e}"))?;
    if !output.status.success() {
        return Err(Failure::Failed(format!("{what} ended with {}", output.status)));
    }
    serde_json::from_slice(&output.stdout)
        .map_err(|e| Failure::Failed(format!("{what} printed no JSON: {e}")))
}

fn compare(sizes: &[u64], ours: &Value, theirs: &Value) -> Result<Vec<Count>, Failure> {
    let rows = ours["rows"].as_array().ok_or("thermocline lab cache printed no rows")?;
    let mut counts = Vec::new();
    for policy in POLICIES {
        for (i, size) in sizes.iter().enumerate() {
            let row =
                rows.iter().find(|row| row["policy"] == policy && row["capacity_units"] == *size);
            let ours = row.and_then(|row| row["line_misses"].as_u64());
            let theirs = theirs["misses"][policy][i].as_u64();
            let (Some(ours), Some(theirs)) = (ours, theirs) else {
                return Err(Failure::Failed(format!("no count for {policy} at {size} objects")));
            };
            counts.push(Count { policy, size: *size, ours, theirs });
        }
    }
    Ok(counts)
}

/// Prints every count; fails when one is wrong.
fn report(counts: &[Count]) -> Result<(), Failure> {
    println!("{:<12}{:>10}{:>14}{:>14}  verdict", "policy", "objects", "ours", "libCacheSim");
    let mut wrong = 0;
    for count in counts {
        let verdict = match count.verdict() {
            Verdict::Equal => "equal".to_string(),
            Verdict::Known(why) => format!("{} known: {why}", difference(count)),
            Verdict::Wrong => {
                wrong += 1;
                format!("{} NOT EXPLAINED", difference(count))
            }
        };
        let Count { policy, size, ours, theirs } = count;
        println!("{policy:<12}{size:>10}{ours:>14}{theirs:>14}  {verdict}");
    }
    if wrong > 0 {
        return Err(Failure::Failed(format!(
            "{wrong} of {} counts differ without a known reason",
            counts.len()
        )));
    }
    println!("no difference without a known reason in {} counts", counts.len());
    Ok(())
}

/// Difference by which ours is higher, with its sign.
fn difference(count: &Count) -> String {
    format!("{:+}", count.ours.cast_signed() - count.theirs.cast_signed())
}

#[cfg(test)]
mod tests;
