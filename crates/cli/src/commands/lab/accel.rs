//! `thermocline lab accel`: a chain of network functions on modelled accelerators, under several
//! schedulers, while demand changes, slots die, or a card is drained.

use crate::error::CliError;
use crate::output;
use crate::table;
use serde_json::{Value, json};
use std::fmt::Write;
use thermocline_charts::format::{count, plain, seconds, share};
use thermocline_policy::registry::PolicySpec;
use thermocline_sim::accel::{self, Happening, Profile, Row, Scene};
use thermocline_units::Nanos;
use thermocline_units::text::counted;

const EXAMPLES: &str = "\
Examples:
  thermocline lab accel                                every scene, two schedulers and the best plan
  thermocline lab accel --scene doubles,dies --seeds 10
  thermocline lab accel --policy by-cost:prefetch=no,by-cost --scene triples --rate 80000
  thermocline lab accel --profile ecp5-45 --json

Schedulers are those that `thermocline policies accelerator` lists. The best after the fact, which
knows the demand to come, stands in every table. docs/guides/lab-accel.md explains every figure.";

/// A scene by name, and what happens in it.
const SCENES: [(&str, Happening); 7] = [
    ("doubles", Happening::Demand(2.0)),
    ("triples", Happening::Demand(3.0)),
    ("falls", Happening::FallAndReturn),
    ("added", Happening::FunctionAdded(1)),
    ("dies", Happening::SlotDies(1)),
    ("drained", Happening::CardDrained),
    ("reload", Happening::Exchange),
];

/// Tenant whose function keeps its slots in the scene `reload`; the others give and take one.
const BYSTANDER: usize = 0;
/// Growth of a bystander's p99 that a reload may cause.
const GROWTH_MAX: f64 = 0.05;

/// Options of a run.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Scenes, separated by commas: doubles, triples, falls, added, dies, drained, reload, or all.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "all")]
    scene: Vec<String>,
    /// Schedulers, separated by commas (`thermocline policies accelerator` lists them).
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "by-cost,first-fit")]
    policy: Vec<String>,
    /// Packets a second of each tenant before the change, up to 10,000,000.
    #[arg(long, value_name = "COUNT", default_value_t = 60_000.0)]
    rate: f64,
    /// Popularity of flows: the exponent of a power law, 0 (all alike) to 0.9.
    #[arg(long, value_name = "NUMBER", default_value_t = 0.5)]
    skew: f64,
    /// Loading times: partial (3 to 5 ms), full (13 ms) or ecp5-45 (21.6 ms).
    #[arg(long, value_name = "NAME", default_value = "partial", value_parser = profile)]
    profile: Profile,
    /// Length of a run; the change comes after 400 ms.
    #[arg(long, value_name = "TIME", default_value = "1200ms")]
    length: Nanos,
    /// Number of seeds; figures are means over them.
    #[arg(long, value_name = "COUNT", default_value_t = 5)]
    seeds: u64,
    /// Print JSON instead of tables.
    #[arg(long)]
    json: bool,
}

fn profile(text: &str) -> Result<Profile, String> {
    match text {
        "partial" => Ok(Profile::Partial),
        "full" => Ok(Profile::Full),
        "ecp5-45" => Ok(Profile::Ecp5),
        _ => Err("write partial, full or ecp5-45".to_string()),
    }
}

pub(crate) fn run(args: Args) -> Result<(), CliError> {
    let specs: Result<Vec<PolicySpec>, _> =
        args.policy.iter().map(|text| PolicySpec::parse(text)).collect();
    let specs = specs.map_err(CliError::input)?;
    if !(1..=1000).contains(&args.seeds) {
        return Err(CliError::input("--seeds must be from 1 to 1000"));
    }
    let seeds: Vec<u64> = (1..=args.seeds).collect();
    let mut text = String::new();
    let mut found = Vec::new();
    for (name, happening) in scenes(&args.scene)? {
        let scene = scene(&args, happening);
        let rows = accel::run(&scene, &specs, &seeds).map_err(CliError::input)?;
        if args.json {
            found.push(as_json(name, &rows));
        } else {
            text += &as_table(name, &scene, &rows, args.seeds);
        }
    }
    if args.json {
        text = serde_json::to_string_pretty(&found).map_err(CliError::failed)? + "\n";
    }
    output::print(&text)
}

/// The scenes that the user named, in the order of the list.
fn scenes(names: &[String]) -> Result<Vec<(&'static str, Happening)>, CliError> {
    let is_known =
        |name: &&String| *name == "all" || SCENES.iter().any(|(known, _)| known == *name);
    if let Some(unknown) = names.iter().find(|name| !is_known(name)) {
        let known: Vec<&str> = SCENES.iter().map(|(name, _)| *name).collect();
        let message = format!("--scene {unknown}: scenes are all, {}", known.join(", "));
        return Err(CliError::input(message));
    }
    let is_meant = |name: &str| names.iter().any(|wanted| wanted == "all" || wanted == name);
    Ok(SCENES.into_iter().filter(|(name, _)| is_meant(name)).collect())
}

fn scene(args: &Args, happening: Happening) -> Scene {
    let mut scene = match happening {
        Happening::Exchange => Scene::tenants(),
        happening => Scene::chain(happening),
    };
    scene.tenants.iter_mut().for_each(|tenant| tenant.rate = args.rate);
    (scene.skew, scene.length) = (args.skew, args.length);
    scene.with_profile(args.profile)
}

/// Growth of the p99 of tenants while a slot was loaded, the largest of all seeds.
fn growth(row: &Row, is_meant: impl Fn(usize) -> bool + Copy) -> Option<f64> {
    row.outcomes.iter().filter_map(|outcome| outcome.growth(is_meant)).reduce(f64::max)
}

fn as_table(name: &str, scene: &Scene, rows: &[Row], seeds: u64) -> String {
    let heading = [
        "scheduler",
        "carried\npackets/s",
        "p50",
        "p99",
        "late\n> 1 ms",
        "lost",
        "carried all\nafter",
        "loads",
        "flows\nmoved",
        "states\nlost",
    ];
    let mut out = table::plain(heading);
    for row in rows {
        let latencies = row.latencies();
        let mean = |of: fn(&accel::Outcome) -> u64| plain(row.mean(|outcome| of(outcome) as f64));
        out.add_row(vec![
            row.policy.clone(),
            count(row.mean(|outcome| outcome.carried as f64 / outcome.seconds) as u64),
            seconds(latencies.quantile(0.5).as_secs_f64()),
            seconds(latencies.quantile(0.99).as_secs_f64()),
            mean(|outcome| outcome.late),
            mean(|outcome| outcome.lost),
            row.settled_s().map_or("never".to_string(), seconds),
            mean(|outcome| outcome.loads),
            mean(|outcome| outcome.moved),
            mean(|outcome| outcome.states_lost),
        ]);
    }
    table::align_numbers(&mut out);
    let happening = scene.happening.name();
    let seeds = counted(seeds, "seed");
    let mut text = format!("{name}: {happening} after {}, {seeds}\n\n{out}\n", scene.at);
    for row in rows.iter().filter(|_| scene.tenants.len() > 1) {
        if let Some(line) = isolation(row) {
            writeln!(text, "{line}").expect("a String takes every text");
        }
    }
    let overtaken: u64 = rows.iter().flat_map(|row| &row.outcomes).map(|o| o.overtaken).sum();
    if overtaken > 0 {
        writeln!(text, "WRONG: {overtaken} packets left after a later one of their flow")
            .expect("a String takes every text");
    }
    text + "\n"
}

/// The effect of a reload on others, as a line.
fn isolation(row: &Row) -> Option<String> {
    let others = growth(row, |tenant| tenant == BYSTANDER)?;
    let own = growth(row, |tenant| tenant != BYSTANDER);
    let verdict = if others <= GROWTH_MAX { "within" } else { "MORE THAN" };
    let own = own.map_or("–".to_string(), share);
    Some(format!(
        "{}: while a slot was loaded the p99 of flows on other slots grew by {}, {verdict} 5 %; that \
         of the functions which gave or got the slot by {own}",
        row.policy,
        share(others)
    ))
}

fn as_json(name: &str, rows: &[Row]) -> Value {
    let row = |row: &Row| {
        let latencies = row.latencies();
        json!({
            "scheduler": row.policy,
            "carried_per_s": row.mean(|o| o.carried as f64 / o.seconds),
            "offered_per_s": row.mean(|o| o.offered as f64 / o.seconds),
            "p50_s": latencies.quantile(0.5).as_secs_f64(),
            "p99_s": latencies.quantile(0.99).as_secs_f64(),
            "late": row.mean(|o| o.late as f64),
            "lost": row.mean(|o| o.lost as f64),
            "overtaken": row.mean(|o| o.overtaken as f64),
            "settled_s": row.settled_s(),
            "loads": row.mean(|o| o.loads as f64),
            "moved": row.mean(|o| o.moved as f64),
            "states_lost": row.mean(|o| o.states_lost as f64),
            "p99_growth_of_other_slots": growth(row, |tenant| tenant == BYSTANDER),
            "p99_growth_of_own_function": growth(row, |tenant| tenant != BYSTANDER),
        })
    };
    json!({ "scene": name, "rows": rows.iter().map(row).collect::<Vec<_>>() })
}
