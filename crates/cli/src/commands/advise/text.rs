//! Advice for people: a table of trials, the devices of each, and sentences.

use super::{Found, Report};
use crate::table;
use comfy_table::Table;
use std::fmt::Write;
use thermocline_charts::format::{bytes, count, plain, seconds, share};
use thermocline_sim::advise::{Answer, Figures, Ratio, Verdict};
use thermocline_units::text::counted;

/// A forecast that differs from what was measured by more than this factor is far off.
const FAR_OFF: f64 = 2.0;

/// The advice as text.
pub(super) fn text(report: &Report) -> String {
    let mut out = String::new();
    write(report, &mut out).expect("a String takes every text");
    out
}

fn write(report: &Report, out: &mut impl Write) -> std::fmt::Result {
    let advice = &report.advice;
    writeln!(
        out,
        "{} in {}, {} touched; each trial run {} on modelled devices",
        counted(advice.requests, "request"),
        seconds(advice.span_s),
        bytes(advice.touched_bytes as f64),
        counted(advice.seeds, "time"),
    )?;
    let now = &advice.answers[0];
    writeln!(out, "as it is: {}, policy {}", parts(now), now.policy)?;
    writeln!(out, "\n{}\n", trials(&advice.answers))?;
    for sentence in sentences(report) {
        writeln!(out, "{sentence}")?;
    }
    if let Some(found) = &report.cheapest {
        writeln!(out, "\nDevices by price, for a 99th percentile of {}", seconds(found.p99_s))?;
        writeln!(out, "{}\n{}", sets(found), cheapest(found))?;
    }
    Ok(())
}

/// The pools of a trial, fastest first.
pub(super) fn parts(answer: &Answer) -> String {
    let part = |part: &thermocline_sim::advise::Part| {
        let cache = part.cache_bytes.map_or(String::new(), |cache| {
            format!(" behind a block cache of {}", bytes(cache as f64))
        });
        format!("{} on {}{cache}", bytes(part.size_bytes as f64), part.profile)
    };
    answer.pools.iter().map(part).collect::<Vec<_>>().join(", ")
}

/// A change as a signed share, `−34 %`; from three times on as a factor, `× 3.4`.
pub(super) fn change(ratio: f64) -> String {
    if !ratio.is_finite() {
        return "–".to_string();
    }
    if ratio >= 3.0 {
        return format!("× {}", plain(ratio));
    }
    let sign = if ratio < 1.0 { "−" } else { "+" };
    format!("{sign}{}", share((ratio - 1.0).abs()))
}

fn money(cost: Option<f64>) -> String {
    match cost {
        None => "–".to_string(),
        Some(cost) if cost > 0.0 && cost < 0.01 => "< 0.01".to_string(),
        Some(cost) => format!("{cost:.2}"),
    }
}

fn wear(figures: &Figures) -> String {
    figures.writes_a_day.map_or("–".to_string(), plain)
}

pub(super) fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Now => "",
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::Same => "no difference",
        Verdict::Unclear => "unclear",
        Verdict::Impossible => "impossible",
    }
}

fn trials(answers: &[Answer]) -> Table {
    let mut table = table::plain([
        "trial",
        "mean",
        "change",
        "p99",
        "change",
        "drive writes\na day",
        "cost\na month",
        "verdict",
    ]);
    for answer in answers {
        let cells = match &answer.figures {
            None => [const { String::new() }; 6],
            Some(figures) => [
                seconds(figures.mean_s.mean),
                changed(answer, figures.mean_ratio.mean),
                seconds(figures.p99_s.mean),
                changed(answer, figures.p99_ratio.mean),
                wear(figures),
                money(figures.month_cost),
            ],
        };
        let verdict = word(answer.verdict).to_string();
        table.add_row(std::iter::once(answer.what.clone()).chain(cells).chain([verdict]));
    }
    table::align_numbers(&mut table);
    table
}

/// Sets of devices by price, and which of them keeps the bound.
fn sets(found: &Found) -> Table {
    let heads = ["devices", "mean", "p99", "drive writes\na day", "cost\na month", "keeps it"];
    let mut table = table::plain(heads);
    for (index, set) in found.sets.iter().enumerate() {
        let kept = found.kept && index + 1 == found.sets.len();
        let cells = match &set.figures {
            None => [const { String::new() }; 4],
            Some(figures) => [
                seconds(figures.mean_s.mean),
                seconds(figures.p99_s.mean),
                wear(figures),
                money(figures.month_cost),
            ],
        };
        let word = if kept { "yes" } else { "no" }.to_string();
        table.add_row(std::iter::once(set.what.clone()).chain(cells).chain([word]));
    }
    table::align_numbers(&mut table);
    table
}

fn changed(answer: &Answer, ratio: f64) -> String {
    if answer.verdict == Verdict::Now { String::new() } else { change(ratio) }
}

/// Conclusions from the table, in sentences.
pub(super) fn sentences(report: &Report) -> Vec<String> {
    let answers = &report.advice.answers;
    let now = answers[0].figures.as_ref().and_then(|figures| figures.month_cost);
    let mut better: Vec<(&Answer, &Figures)> = answers
        .iter()
        .filter(|answer| answer.verdict == Verdict::Better)
        .filter_map(|answer| Some((answer, answer.figures.as_ref()?)))
        .collect();
    better.sort_by(|a, b| a.1.mean_ratio.mean.total_cmp(&b.1.mean_ratio.mean));
    let mut said: Vec<String> = better.iter().map(|(answer, f)| gain(answer, f, now)).collect();
    let unclear = answers.iter().filter(|answer| answer.verdict == Verdict::Unclear).count();
    if unclear > 0 {
        let (trials, are) =
            (counted(unclear as u64, "trial"), if unclear == 1 { "is" } else { "are" });
        said.push(format!("{trials} {are} unclear: the runs differ; try more --seeds."));
    }
    if better.is_empty() {
        said.push("Nothing that was tried is better than what there is.".to_string());
    }
    let cheaper = answers.iter().filter(|answer| answer.verdict == Verdict::Same);
    for answer in cheaper {
        let cost = answer.figures.as_ref().and_then(|figures| figures.month_cost);
        if let (Some(cost), Some(now)) = (cost, now)
            && cost < 0.98 * now
        {
            let saved = money(Some(now - cost));
            said.push(format!("{} makes no difference, and saves {saved} a month.", begin(answer)));
        }
    }
    for answer in answers.iter().filter(|answer| answer.verdict == Verdict::Impossible) {
        let problem = answer.problem.as_deref().unwrap_or("no reason is known");
        said.push(format!("{} was not run: {problem}.", begin(answer)));
    }
    said.extend(error_of_forecast(report));
    said.extend(far_off(report));
    if report.prices_assumed {
        said.push(
            "Prices are assumed (docs/guides/advise.md); give your own with --prices.".to_string(),
        );
    }
    said
}

/// The trial's name with a capital.
fn begin(answer: &Answer) -> String {
    let mut letters = answer.what.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}

fn gain(answer: &Answer, figures: &Figures, now: Option<f64>) -> String {
    let Ratio { low, high, .. } = figures.mean_ratio;
    let interval = match high > low {
        true => format!(" (95 %: {} to {})", change(low), change(high)),
        false => String::new(),
    };
    let cost = match (figures.month_cost, now) {
        (Some(cost), Some(now)) if (cost / now - 1.0).abs() < 0.005 => {
            " at the same cost".to_string()
        }
        (Some(cost), Some(now)) => {
            let which = if cost > now { "more" } else { "less" };
            let by = (cost - now).abs();
            format!(" for {} {which} a month ({})", money(Some(by)), change(cost / now))
        }
        _ => String::new(),
    };
    format!(
        "{}: mean {}{interval}, 99th percentile {}{cost}.",
        begin(answer),
        change(figures.mean_ratio.mean),
        change(figures.p99_ratio.mean)
    )
}

/// The forecast beside what the trace says of its own system.
fn error_of_forecast(report: &Report) -> Option<String> {
    let measured = report.advice.measured?;
    let forecast = report.advice.answers[0].figures.as_ref()?;
    Some(format!(
        "The trace's own system took {} in the mean and {} at the 99th percentile ({} requests); \
         the forecast for the pools as they are is {} and {} times that. If these are its pools, \
         the other forecasts may be off by as much.",
        seconds(measured.mean_s),
        seconds(measured.p99_s),
        count(measured.requests),
        plain(forecast.mean_s.mean / measured.mean_s.max(f64::MIN_POSITIVE)),
        plain(forecast.p99_s.mean / measured.p99_s.max(f64::MIN_POSITIVE)),
    ))
}

/// The forecast for a sampled engine is of its own pools: one that is far off says that the model
/// is of something else.
fn far_off(report: &Report) -> Option<String> {
    let measured = report.advice.measured.filter(|_| report.sampled)?;
    let forecast = report.advice.answers[0].figures.as_ref()?;
    let ratio = forecast.mean_s.mean / measured.mean_s.max(f64::MIN_POSITIVE);
    let is_far = !(1.0 / FAR_OFF..=FAR_OFF).contains(&ratio);
    is_far.then(|| {
        let because = match report.from_map {
            true => {
                "The model's chunks begin where the engine's were, so its devices are not what \
                 they were taken for, or the host is busy: give --pools with their profiles \
                 (thermocline calibrate), or sample for longer."
            }
            false => {
                "A sample knows only the chunks that it touched, and the model fills the fastest \
                 pools with these, although the engine's are filled with others. Give --pools as \
                 large as the share of each pool that these chunks have, or sample for longer."
            }
        };
        format!("That is far off: do not decide by this table. {because}")
    })
}

/// The word on the search for the cheapest set.
pub(super) fn cheapest(found: &Found) -> String {
    let bound = seconds(found.p99_s);
    match found.sets.last().filter(|_| found.kept) {
        None => format!("None of the {} sets keeps {bound}.", found.sets.len()),
        Some(set) => {
            let cost = set.figures.as_ref().and_then(|figures| figures.month_cost);
            format!(
                "The cheapest set that keeps {bound}: {} ({}), {} a month.",
                set.what,
                parts(set),
                money(cost)
            )
        }
    }
}
