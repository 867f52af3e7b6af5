//! `thermocline lab tunnel`: files through a tunnel on a modelled link, under several policies.

use crate::error::CliError;
use crate::output;
use crate::table;
use serde_json::json;
use std::fs::File;
use std::path::{Path, PathBuf};
use thermocline_charts::format::{Quantity, count, seconds, share};
use thermocline_ports::model::LinkProfile;
use thermocline_sim::dedup::files_below;
use thermocline_sim::tunnel::{Congestion, Offered, Outcome, Scene, SceneError, plain, play};
use thermocline_tunnel::{Costs, Sharing};
use thermocline_units::{Bytes, Nanos};

const EXAMPLES: &str = "\
Examples:
  thermocline lab tunnel releases/ --rate 100Mbit --delay 20ms
  thermocline lab tunnel old.tar new.tar --policy none,content:size=2KiB,goodput --rate 10Mbit
  thermocline lab tunnel images/ --rate 1Gbit --parallel 8 --json
  thermocline lab tunnel images/ --rate 100Mbit --loss 0.1% --congestion bbr

Each file is a flow. Its class, by which the controllers tell flows apart, is its suffix. Flows
that tcpflow took from a capture are files too (`tcpflow -r FILE.pcap -o flows`); their class is
the server's port.";

/// The longest delay and the longest queue of a link.
const SPAN_MAX: Nanos = Nanos::from_secs(600);

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
    /// Congestion control of the ends' TCP connection: cubic, bbr, or none for a link that loses
    /// nothing and has neither TCP nor TLS.
    #[arg(long, value_name = "WHICH", default_value = "cubic", value_parser = congestion)]
    congestion: Tcp,
    /// Packets that are lost, each by itself, up to 50%.
    #[arg(long, value_name = "PERCENT", default_value = "0%", value_parser = loss)]
    loss: Loss,
    /// Longest time that a packet waits in the link's queue; what would wait longer is dropped.
    #[arg(long, value_name = "TIME", default_value = "50ms")]
    queue: Nanos,
    /// Number that decides which packets are lost. Short transfers differ much by it.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
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
    /// byte of literals compressed, a byte that shadows see. The receiving end relays at the first.
    #[arg(long, value_name = "NS,NS,NS,NS,NS", default_value = "0.3,0.5,150,3,0.5",
          value_parser = costs, allow_hyphen_values = true)]
    costs: Costs,
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

/// The carrier between the ends.
#[derive(Debug, Clone, Copy)]
struct Tcp(Option<Congestion>);

fn congestion(text: &str) -> Result<Tcp, String> {
    match text {
        "cubic" => Ok(Tcp(Some(Congestion::Cubic))),
        "bbr" => Ok(Tcp(Some(Congestion::Bbr))),
        "none" => Ok(Tcp(None)),
        _ => Err("write cubic, bbr or none".to_string()),
    }
}

/// A share of packets, in millionths.
#[derive(Debug, Clone, Copy)]
struct Loss(u32);

fn loss(text: &str) -> Result<Loss, String> {
    let percent = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    match percent {
        Some(percent) if (0.0..=50.0).contains(&percent) => {
            Ok(Loss((percent * 10_000.0).round() as u32))
        }
        _ => Err("write it like 0.1%: up to 50%".to_string()),
    }
}

fn sharing(text: &str) -> Result<Sharing, String> {
    match text {
        "flow" => Ok(Sharing::Flow),
        "class" => Ok(Sharing::Class),
        "all" => Ok(Sharing::All),
        _ => Err("write flow, class or all".to_string()),
    }
}

fn costs(text: &str) -> Result<Costs, String> {
    let number = |text: &str| {
        let number: f64 = text.trim().parse().map_err(|_| format!("`{text}` is no number"))?;
        let is_time = number >= 0.0 && number.is_finite();
        is_time.then_some(number).ok_or_else(|| format!("`{text}` is no time: 0 or more"))
    };
    let numbers: Vec<f64> = text.split(',').map(number).collect::<Result<_, _>>()?;
    let [relay_per_byte, cut_per_byte, per_chunk, compress_per_byte, shadow_per_byte] = numbers[..]
    else {
        return Err(format!("{} numbers, not five; as 0.3,0.5,150,3,0.5", numbers.len()));
    };
    Ok(Costs { relay_per_byte, cut_per_byte, per_chunk, compress_per_byte, shadow_per_byte })
}

pub(crate) fn run(args: Args) -> Result<(), CliError> {
    let scene = scene(&args)?;
    let files = files_below(&args.paths).map_err(CliError::input)?;
    let mut outcomes = Vec::new();
    for policy in &args.policy {
        let scene = Scene { controller: policy.clone(), ..scene.clone() };
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
    // Several connections at once would share the link, which the laboratory does not play.
    let alone = scene.tcp.filter(|_| args.parallel == 1);
    let sizes = files.iter().map(|(_, bytes)| *bytes);
    let plain = alone.map(|congestion| plain(scene.link, congestion, sizes, scene.seed));
    let text =
        if args.json { as_json(&outcomes, plain)? } else { as_table(&args, &outcomes, plain) };
    output::print(&text)
}

/// The scene without its controller.
fn scene(args: &Args) -> Result<Scene, CliError> {
    if args.cache.0 == 0 || args.cache.0 >= 1 << 40 || !(1..=1000).contains(&args.parallel) {
        let message = "--cache must be above 0 and below 1 TiB, --parallel from 1 to 1000";
        return Err(CliError::input(message));
    }
    if args.delay > SPAN_MAX || args.queue > SPAN_MAX {
        return Err(CliError::input(format!("--delay and --queue must be at most {SPAN_MAX}")));
    }
    if args.congestion.0.is_none() && args.loss.0 > 0 {
        let message = "--loss needs a --congestion: without TCP nobody sends again what is lost";
        return Err(CliError::input(message));
    }
    Ok(Scene {
        link: LinkProfile {
            queue: Some(args.queue),
            lost_per_million: args.loss.0,
            ..LinkProfile::new(args.rate.bytes_per_s, args.delay)
        },
        tcp: args.congestion.0,
        cache: args.cache,
        controller: String::new(),
        sharing: args.share,
        costs: args.costs,
        parallel: args.parallel,
        seed: args.seed,
    })
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

/// The port of the server, if a file is named as tcpflow names one direction of a connection,
/// `ADDRESS.PORT-ADDRESS.PORT` behind whatever the user wants there: the lower of both ports,
/// because clients get high ones.
fn recorded_port(path: &Path) -> Option<u16> {
    let name = path.file_name()?.to_str()?;
    let (from, to) = name.rsplit_once('-')?;
    let port = |end: &str| {
        let (address, port) = end.rsplit_once('.')?;
        let is_address = address.ends_with(|last: char| last.is_ascii_hexdigit());
        let is_port = port.len() == 5 && port.bytes().all(|byte| byte.is_ascii_digit());
        port.parse::<u16>().ok().filter(|_| is_address && is_port)
    };
    Some(port(from)?.min(port(to)?))
}

/// A number for each file's suffix, and the suffixes by number. Recorded connections are told apart
/// by their server's port.
fn classes(files: &[(PathBuf, u64)]) -> (Vec<u16>, Vec<String>) {
    let mut suffixes: Vec<String> = Vec::new();
    let classes = files.iter().map(|(path, _)| {
        let suffix = || path.extension().map_or(String::new(), |s| s.to_string_lossy().into());
        let suffix = recorded_port(path).map_or_else(suffix, |port| format!("port {port}"));
        let known = suffixes.iter().position(|known| *known == suffix).unwrap_or_else(|| {
            suffixes.push(suffix);
            suffixes.len() - 1
        });
        known.min(usize::from(u16::MAX)) as u16
    });
    (classes.collect(), suffixes)
}

type Played = (String, Outcome, Vec<String>);

fn as_table(args: &Args, outcomes: &[Played], plain: Option<Nanos>) -> String {
    let mut heading = vec!["policy", "time", "goodput", "on the link", "saved"];
    heading.extend(["processor", "chunks"]);
    heading.extend(plain.map(|_| "plain TCP takes"));
    let mut out = table::plain(heading);
    let mut reasons = String::new();
    for (policy, played, suffixes) in outcomes {
        let totals = played.totals();
        let carried = played.carried.0 as f64 / played.bytes.0.max(1) as f64;
        let mut row = vec![
            policy.clone(),
            seconds(played.took.as_secs_f64()),
            format!("{}/s", Quantity::Bytes.show(played.goodput())),
            share(carried),
            share(totals.saved as f64 / totals.bytes.max(1) as f64),
            seconds(played.spent.as_secs_f64()),
            count(totals.chunks),
        ];
        let took = played.took.as_secs_f64().max(1e-9);
        row.extend(plain.map(|plain| format!("{:.2} ×", plain.as_secs_f64() / took)));
        out.add_row(row);
        for class in &played.classes {
            let suffix = suffixes.get(usize::from(class.class)).map_or("", String::as_str);
            let suffix = if suffix.is_empty() { "without suffix" } else { suffix };
            reasons += &format!("{policy}, {suffix}: {} ({})\n", class.choice, class.why);
        }
    }
    table::align_numbers(&mut out);
    let bytes = outcomes.first().map_or(Bytes(0), |(_, played, _)| played.bytes);
    let link = format!("{bytes} over {} a second, {} each way", args.rate.text, args.delay);
    let plain = plain.map(|plain| format!("; plain TCP takes {}", seconds(plain.as_secs_f64())));
    format!("{link}{}\n{out}\n{reasons}", plain.unwrap_or_default())
}

fn as_json(outcomes: &[Played], plain: Option<Nanos>) -> Result<String, CliError> {
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
                "plain_tcp_s": plain.map(Nanos::as_secs_f64),
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

#[cfg(test)]
mod tests;
