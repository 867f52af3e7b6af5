//! `thermocline lab tunnel`: files through a tunnel on a modelled link, under several policies.

use crate::commands::dedup::files;
use crate::error::CliError;
use crate::output;
use crate::table;
use serde_json::json;
use std::fs::File;
use std::path::PathBuf;
use thermocline_ports::model::{Lane, LinkProfile};
use thermocline_sim::format::{Quantity, count, seconds, share};
use thermocline_sim::tunnel::{Offered, Outcome, Scene, SceneError, play};
use thermocline_tunnel::{Costs, Sharing};
use thermocline_units::{Bytes, Nanos};

const EXAMPLES: &str = "\
Examples:
  thermocline lab tunnel releases/ --rate 100Mbit --delay 20ms
  thermocline lab tunnel old.tar new.tar --policy none,content:size=2KiB,goodput --rate 10Mbit
  thermocline lab tunnel images/ --rate 1Gbit --parallel 8 --json

Each file is a flow. Its class, by which the controllers tell flows apart, is its suffix.";

/// Options of a scene.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Files, and folders whose files are taken with those below.
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// Controllers, separated by commas (`thermocline policies` lists them).
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "none,goodput")]
    policy: Vec<String>,
    /// Rate of the link each way: kbit, Mbit or Gbit a second.
    #[arg(long, value_name = "RATE", default_value = "100Mbit", value_parser = rate)]
    rate: Rate,
    /// Time from one end to the other.
    #[arg(long, value_name = "TIME", default_value = "20ms")]
    delay: Nanos,
    /// Bytes of chunks that each end keeps.
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    cache: Bytes,
    /// Flows side by side.
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    parallel: usize,
    /// Flows that share chunks: flow (none), class, all.
    #[arg(long, value_name = "WHICH", default_value = "all", value_parser = sharing)]
    share: Sharing,
    /// Processor time of the sending end in nanoseconds: for a byte relayed, a byte cut, a chunk, a
    /// byte of literals compressed, a byte that shadows see.
    #[arg(long, value_name = "NS,NS,NS,NS,NS", value_delimiter = ',', num_args = 5,
          default_values_t = [0.3, 0.5, 150.0, 3.0, 0.5])]
    costs: Vec<f64>,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// A link's rate, as it was written.
#[derive(Debug, Clone)]
struct Rate {
    bytes_per_s: u64,
    text: String,
}

fn rate(text: &str) -> Result<Rate, String> {
    let units = [("kbit", 1e3), ("Mbit", 1e6), ("Gbit", 1e9)];
    let wrong = || "write it like 100Mbit: kbit, Mbit or Gbit, a second".to_string();
    let unit = units.iter().find_map(|(unit, bits)| Some((text.strip_suffix(unit)?, bits)));
    let (number, bits) = unit.ok_or_else(wrong)?;
    let number: f64 = number.trim().parse().map_err(|_| wrong())?;
    let bytes_per_s = number * bits / 8.0;
    if !(125.0..=1.25e12).contains(&bytes_per_s) {
        return Err("give a rate from 1kbit to 10000Gbit".to_string());
    }
    Ok(Rate { bytes_per_s: bytes_per_s as u64, text: text.to_string() })
}

fn sharing(text: &str) -> Result<Sharing, String> {
    match text {
        "flow" => Ok(Sharing::Flow),
        "class" => Ok(Sharing::Class),
        "all" => Ok(Sharing::All),
        _ => Err("write flow, class or all".to_string()),
    }
}

pub(crate) fn run(args: Args) -> Result<(), CliError> {
    if args.cache.0 == 0 || args.cache.0 >= 1 << 40 || !(1..=1000).contains(&args.parallel) {
        let message = "--cache must be above 0 and below 1 TiB, --parallel from 1 to 1000";
        return Err(CliError::input(message));
    }
    let [relay, cut, chunk, compress, shadow] = args.costs[..] else {
        return Err(CliError::input("--costs takes five numbers"));
    };
    let costs = Costs {
        relay_per_byte: relay,
        cut_per_byte: cut,
        per_chunk: chunk,
        compress_per_byte: compress,
        shadow_per_byte: shadow,
    };
    let files = files::below_all(&args.paths)?;
    let lane = Lane { bytes_per_s: args.rate.bytes_per_s, command: Nanos(0) };
    let mut outcomes = Vec::new();
    for policy in &args.policy {
        let scene = Scene {
            link: LinkProfile { latency: args.delay, jitter: Nanos(0), lane },
            cache: args.cache,
            controller: policy.clone(),
            sharing: args.share,
            costs,
            parallel: args.parallel,
            seed: 0,
        };
        let (classes, suffixes) = classes(&files);
        let flows = files.iter().zip(classes).map(|((path, _), class)| Offered {
            name: path.display().to_string(),
            class,
            bytes: Box::new(LateFile { path: path.clone(), file: None }),
        });
        let played = play(&scene, flows).map_err(|error| match error {
            SceneError::Settings(_) => CliError::input(error),
            SceneError::Read { .. } => CliError::failed(error),
        })?;
        outcomes.push((policy.clone(), played, suffixes));
    }
    let text = if args.json { as_json(&outcomes)? } else { as_table(&args, &outcomes) };
    output::print(&text)
}

/// A file that is opened when its flow begins.
struct LateFile {
    path: PathBuf,
    file: Option<File>,
}

impl std::io::Read for LateFile {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        if self.file.is_none() {
            self.file = Some(File::open(&self.path)?);
        }
        self.file.as_mut().expect("it was opened").read(into)
    }
}

/// A number for each file's suffix, and the suffixes by number.
fn classes(files: &[(PathBuf, u64)]) -> (Vec<u16>, Vec<String>) {
    let mut suffixes: Vec<String> = Vec::new();
    let classes = files.iter().map(|(path, _)| {
        let suffix = path.extension().map_or(String::new(), |s| s.to_string_lossy().into_owned());
        let known = suffixes.iter().position(|known| *known == suffix).unwrap_or_else(|| {
            suffixes.push(suffix);
            suffixes.len() - 1
        });
        known.min(usize::from(u16::MAX)) as u16
    });
    (classes.collect(), suffixes)
}

type Played = (String, Outcome, Vec<String>);

fn as_table(args: &Args, outcomes: &[Played]) -> String {
    let heading = ["policy", "time", "goodput", "on the link", "saved", "processor", "chunks"];
    let mut out = table::plain(heading);
    let mut reasons = String::new();
    for (policy, played, suffixes) in outcomes {
        let totals = played.totals();
        let carried = played.carried.0 as f64 / played.bytes.0.max(1) as f64;
        out.add_row([
            policy.clone(),
            seconds(played.took.as_secs_f64()),
            format!("{}/s", Quantity::Bytes.show(played.goodput())),
            share(carried),
            share(totals.saved as f64 / totals.bytes.max(1) as f64),
            seconds(played.spent.as_secs_f64()),
            count(totals.chunks),
        ]);
        for class in &played.classes {
            let suffix = suffixes.get(usize::from(class.class)).map_or("", String::as_str);
            let suffix = if suffix.is_empty() { "without suffix" } else { suffix };
            reasons += &format!("{policy}, {suffix}: {} ({})\n", class.choice, class.why);
        }
    }
    table::align_numbers(&mut out);
    let bytes = outcomes.first().map_or(Bytes(0), |(_, played, _)| played.bytes);
    format!("{bytes} over {} a second, {} each way\n{out}\n{reasons}", args.rate.text, args.delay)
}

fn as_json(outcomes: &[Played]) -> Result<String, CliError> {
    let rows: Vec<_> = outcomes
        .iter()
        .map(|(policy, played, suffixes)| {
            let classes: Vec<_> = played
                .classes
                .iter()
                .map(|class| {
                    json!({
                        "suffix": suffixes.get(usize::from(class.class)),
                        "bytes": class.sent.bytes,
                        "sent_bytes": class.sent.sent,
                        "saved_bytes": class.sent.saved,
                        "chunks": class.sent.chunks,
                        "choice": class.choice.to_string(),
                        "why": class.why.to_string(),
                    })
                })
                .collect();
            json!({
                "policy": policy,
                "took_s": played.took.as_secs_f64(),
                "processor_s": played.spent.as_secs_f64(),
                "bytes": played.bytes.0,
                "carried_bytes": played.carried.0,
                "goodput_bytes_per_s": played.goodput(),
                "classes": classes,
            })
        })
        .collect();
    Ok(serde_json::to_string_pretty(&rows).map_err(CliError::failed)? + "\n")
}
